"""Semantic deduplication of texts in one call, under NeMo Curator's name."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from dcurate.compat.nemo import builtin
from dcurate.compat.nemo.dedup_stages.files import extensions_of, joined, make_folder, storage_of
from dcurate.compat.nemo.dedup_stages.kmeans import (
    KMeansEmbeddingOutputDtype,
    check_fraction,
    validate_embedding_output_dtype,
)
from dcurate.compat.nemo.dedup_stages.pairwise import PairwiseComputeDtype, RankingStrategy, check_compute_dtype
from dcurate.compat.nemo.dedup_stages.removal import TextDuplicatesRemovalWorkflow
from dcurate.compat.nemo.dedup_stages.semantic_workflow import SemanticDeduplicationWorkflow
from dcurate.compat.nemo.dedup_stages.workflow import cluster, ids_generated
from dcurate.compat.nemo.earlier import earlier_names
from dcurate.compat.nemo.ids import write_id_generator_to_disk
from dcurate.compat.nemo.pipeline import Pipeline, WorkflowRunResult
from dcurate.compat.nemo.readers import JsonlReader, ParquetReader
from dcurate.compat.nemo.writers import ParquetWriter
from dcurate.dedup.removal import CURATOR_DEDUP_ID_STR
from dcurate.workflows import semantic as workflow

_log = logging.getLogger("dcurate.compat.nemo")
_READERS: dict[str, Any] = {"jsonl": JsonlReader, "parquet": ParquetReader}


@earlier_names(kmeans_random_state="seed")
@dataclass
class TextSemanticDeduplicationWorkflow(workflow.TextSemanticDeduplicationWorkflow):
    """Embed the documents of files, find those that mean the same, and write the files without them.

    Args:
        input_path, input_filetype, input_file_extensions, input_files_per_partition, input_blocksize, read_kwargs:
            location, type and reader settings of the documents.
        output_path: for ``duplicates``, and ``deduplicated`` with `perform_removal`.
        cache_path: for ``embeddings`` and ``semantic_dedup``; `output_path` by default.
        text_field, embedding_field: columns.
        model_identifier, embedding_max_chars, embedding_max_seq_length, embedding_padding_side, embedding_pooling,
            embedding_model_inference_batch_size, hf_token, model_cache_dir: settings of the model, as in
            `dcurate.models.TextEmbedding`.
        n_clusters, id_field, metadata_fields, distance_metric, which_to_keep, eps, ranking_strategy,
            pairwise_batch_size, pairwise_compute_dtype, verbose, and what begins with ``kmeans_``: as of
            `SemanticDeduplicationWorkflow`.
        use_id_generator: give documents numbers as ids, in ``_curator_dedup_id``.
        output_filetype, output_file_extension, output_fields, write_kwargs: format, columns and writer settings of the
            files that are written.
        cache_kwargs: for the Parquet files in `cache_path`.
        clear_output: delete what is in `output_path`.
        id_generator_state_file: is ``semantic_id_generator.json`` in `output_path`, as in NeMo Curator.
        embedding_pretokenize, embedding_vllm_init_kwargs, embedding_dim, kmeans_n_init, kmeans_oversampling_factor:
            settings of NeMo Curator; without effect here.

    Raises:
        ValueError: settings that do not go together.
    """

    model_identifier: str = "google/embeddinggemma-300m"
    ranking_strategy: RankingStrategy | None = None  # type: ignore[assignment]
    embedding_max_seq_length: int | None = None
    embedding_padding_side: Literal["left", "right"] = "right"
    embedding_pooling: Literal["mean_pooling", "last_token"] = "mean_pooling"
    embedding_model_inference_batch_size: int | None = None
    pairwise_compute_dtype: PairwiseComputeDtype = "auto"
    kmeans_embedding_output_dtype: KMeansEmbeddingOutputDtype = "float32"
    embedder: None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        check_fraction(self.kmeans_fit_data_fraction, "kmeans_fit_data_fraction")
        validate_embedding_output_dtype(self.kmeans_embedding_output_dtype)
        check_compute_dtype(self.pairwise_compute_dtype, self.kmeans_embedding_output_dtype)
        if self.perform_removal and self.eps is None:
            raise ValueError(
                "perform_removal=True but eps=None: eps decides what is a duplicate; set it, or perform_removal=False"
            )
        if self.use_id_generator and self.id_field != CURATOR_DEDUP_ID_STR:
            raise ValueError(
                f"use_id_generator=True, but id_field={self.id_field!r}: ids are made in {CURATOR_DEDUP_ID_STR!r}"
            )
        if not self.use_id_generator and self.id_field == CURATOR_DEDUP_ID_STR:
            _log.warning("documents must have a column %s: use_id_generator=False", CURATOR_DEDUP_ID_STR)
        self.cache_path = self.cache_path or self.output_path
        self.embeddings_path = joined(self.cache_path, "embeddings")
        self.semantic_dedup_path = joined(self.cache_path, "semantic_dedup")
        self.duplicates_path = None if self.eps is None else joined(self.output_path, "duplicates")
        self.deduplicated_output_path = joined(self.output_path, "deduplicated") if self.perform_removal else None
        self.id_generator_state_file = joined(self.output_path, "semantic_id_generator.json")

    def _setup_directories(self) -> None:
        output, cache = storage_of(self.write_kwargs), storage_of(self.cache_kwargs)
        if self.clear_output:
            make_folder(self.output_path, output)
        for path in (self.embeddings_path, self.semantic_dedup_path):
            make_folder(path, cache)
        for folder in filter(None, (self.duplicates_path, self.deduplicated_output_path)):
            make_folder(folder, output)

    def _embedding_pipeline(self) -> Pipeline:
        if self.input_filetype not in _READERS:
            raise NotImplementedError(f"Input filetype {self.input_filetype} not supported yet")
        metadata_columns = self.metadata_fields or []
        reader = _READERS[self.input_filetype](
            file_paths=self.input_path,
            files_per_partition=self.input_files_per_partition,
            blocksize=self.input_blocksize,
            fields=list(
                dict.fromkeys([*([] if self.use_id_generator else [self.id_field]), self.text_field, *metadata_columns])
            ),
            file_extensions=self.input_file_extensions or extensions_of(self.input_filetype),
            _generate_ids=self.use_id_generator,
            read_kwargs=self.read_kwargs,
        )
        settings = {
            "max_seq_length": self.embedding_max_seq_length,
            "model_inference_batch_size": self.embedding_model_inference_batch_size,
        }
        if self.embedding_pooling != "mean_pooling":
            settings |= {"embedding_pooling": self.embedding_pooling, "use_sentence_transformer": False}  # type: ignore[dict-item]
        embedder = builtin.EmbeddingCreatorStage(
            model_identifier=self.model_identifier,
            text_field=self.text_field,
            embedding_field=self.embedding_field,
            max_chars=self.embedding_max_chars,
            padding_side=self.embedding_padding_side,
            cache_dir=self.model_cache_dir,
            hf_token=self.hf_token,
            **{name: value for name, value in settings.items() if value is not None},
        )
        without = workflow.WithoutEmbeddings(self.text_field, self.embedding_field)
        writer = ParquetWriter(
            path=self.embeddings_path,
            fields=list(dict.fromkeys([self.id_field, self.embedding_field, *metadata_columns])),
            write_kwargs=self.cache_kwargs,
        )
        return Pipeline("text_semantic_dedup_embedding", stages=[reader, embedder, without, writer])

    def _search(self) -> SemanticDeduplicationWorkflow:
        same = (
            *("n_clusters", "id_field", "embedding_field", "embedding_dim", "metadata_fields", "distance_metric"),
            *("which_to_keep", "ranking_strategy", "pairwise_batch_size", "eps", "_duplicates_num_row_groups_hint"),
            *("verbose", "pairwise_compute_dtype", "kmeans_embedding_output_dtype"),
        )
        kmeans = (
            *("max_iter", "tol", "random_state", "init", "n_init", "oversampling_factor", "max_samples_per_batch"),
            "fit_data_fraction",
        )
        settings: dict[str, Any] = {name: getattr(self, name) for name in same}
        settings |= {name: getattr(self, f"kmeans_{name}") for name in kmeans}
        return SemanticDeduplicationWorkflow(
            input_path=self.embeddings_path,
            cache_path=self.semantic_dedup_path,
            output_path=self.output_path,
            read_kwargs=self.cache_kwargs,
            cache_kwargs=self.cache_kwargs,
            write_kwargs=self.write_kwargs,
            clear_output=False,
            **settings,
        )

    def _removal(self) -> TextDuplicatesRemovalWorkflow:
        assert self.duplicates_path is not None
        assert self.deduplicated_output_path is not None
        return TextDuplicatesRemovalWorkflow(
            input_path=self.input_path,
            ids_to_remove_path=self.duplicates_path,
            output_path=self.deduplicated_output_path,
            input_filetype=self.input_filetype,
            id_field=self.id_field,
            input_files_per_partition=self.input_files_per_partition,
            input_blocksize=self.input_blocksize,
            input_file_extensions=self.input_file_extensions,
            input_kwargs=self.read_kwargs,
            duplicate_id_field="id",
            duplicate_id_read_kwargs=self.write_kwargs,
            id_generator_path=self.id_generator_state_file if self.use_id_generator else None,
            id_generator_storage_options=storage_of(self.write_kwargs),
            output_filetype=self.output_filetype,
            output_file_extension=self.output_file_extension,
            output_kwargs=self.write_kwargs,
            output_fields=self.output_fields,
            output_mode="ignore",
            drop_id_field=self.use_id_generator and self.output_fields is None,
        )

    def run(  # type: ignore[override]
        self, streaming_executor: Any = None, batch_executor: Any = None
    ) -> WorkflowRunResult:
        """Find the duplicates, and remove them.

        Args:
            streaming_executor: for all pipelines but the clustering; or three: for the embedding, the comparison and
                the removal.
            batch_executor: for the clustering.

        Raises:
            ValueError: there are other than three executors.
        """
        executors = streaming_executor if isinstance(streaming_executor, tuple) else (streaming_executor,) * 3
        if len(executors) != 3:
            raise ValueError(f"Expected 3 executors in tuple, got {len(executors)}")
        self.embedding_executor, self.pairwise_executor, self.removal_executor = executors
        self.kmeans_executor = batch_executor
        result = WorkflowRunResult("text_semantic_deduplication")
        begin = time.perf_counter()
        self._setup_directories()
        with cluster() as runner:
            with ids_generated(self.use_id_generator):
                runner.run(self._embedding_pipeline(), result, "embeddings", executor=self.embedding_executor)
                if self.use_id_generator:
                    assert self.id_generator_state_file is not None
                    write_id_generator_to_disk(self.id_generator_state_file, storage_of(self.write_kwargs))
            embedded = time.perf_counter()
            search_result = self._search().run(self.kmeans_executor, self.pairwise_executor)
            result.pipeline_tasks |= search_result.pipeline_tasks
            identified = time.perf_counter()
            removed = None
            if self.perform_removal:
                removed = self._removal().run(self.removal_executor)
                result.pipeline_tasks |= removed.pipeline_tasks
        end = time.perf_counter()
        result.metadata = {
            "embedding_time": embedded - begin,
            "identification_time": identified - embedded,
            "removal_time": end - identified if self.perform_removal else 0.0,
            "total_time": end - begin,
            **{name: search_result.metadata[name] for name in ("kmeans_time", "pairwise_time", "num_duplicates")},
            "embeddings_path": self.embeddings_path,
            "semantic_dedup_path": self.semantic_dedup_path,
            "final_output_path": self.deduplicated_output_path,
            "id_generator_path": self.id_generator_state_file if self.use_id_generator else None,
        }
        if removed is not None:
            result.add_metadata("num_duplicates_removed", removed.get_metadata("num_duplicates_removed"))
        return result
