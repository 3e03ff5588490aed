"""Semantic deduplication of embeddings in one call, under NeMo Curator's name."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Literal

from dcurate.compat.nemo.dedup_stages.files import (
    FileType,
    check_found,
    groups_of_files,
    joined,
    make_folder,
    storage_of,
)
from dcurate.compat.nemo.dedup_stages.kmeans import (
    Init,
    KMeansEmbeddingOutputDtype,
    KMeansStage,
    check_fraction,
    validate_embedding_output_dtype,
)
from dcurate.compat.nemo.dedup_stages.pairwise import (
    IdentifyDuplicatesStage,
    PairwiseComputeDtype,
    PairwiseStage,
    RankingStrategy,
    check_compute_dtype,
    validate_pairwise_batch_size,
)
from dcurate.compat.nemo.dedup_stages.workflow import cluster
from dcurate.compat.nemo.pipeline import Pipeline, WorkflowBase, WorkflowRunResult
from dcurate.compat.nemo.tasks import EmptyTask

_log = logging.getLogger("dcurate.compat.nemo")
_METRICS, _KEEP = ("cosine", "l2"), ("hard", "easy", "random")


@dataclass(eq=False, repr=False)
class SemanticDeduplicationWorkflow(WorkflowBase):
    """Cluster embeddings, compare those of each cluster, and write the ids of those to remove.

    Args:
        input_path, input_filetype, input_file_extensions, read_kwargs: location, type and reader settings of the
            embeddings.
        output_path: for ``duplicates``, with `eps`.
        cache_path: for ``kmeans_results`` and ``pairwise_results``; `output_path` by default.
        n_clusters, id_field, embedding_field, metadata_fields, max_iter, tol, random_state, init,
            max_samples_per_batch, fit_data_fraction: the same settings as in `KMeansStage`.
        distance_metric, which_to_keep, ranking_strategy, pairwise_batch_size, verbose: settings of the comparison, as
            in `PairwiseStage`.
        kmeans_embedding_output_dtype: ``embedding_output_dtype`` of `KMeansStage`.
        pairwise_compute_dtype: ``compute_dtype`` of `PairwiseStage`. Both are single precision by default, and not half
            as in NeMo Curator, which saves memory of GPUs by it.
        eps, _duplicates_num_row_groups_hint: settings of the identification, as in `IdentifyDuplicatesStage`; without
            `eps` nothing is a duplicate.
        cache_kwargs, write_kwargs: for the Parquet files in the two places.
        clear_output: delete what is in both places.
        embedding_dim, n_init, oversampling_factor: settings of NeMo Curator; without effect here.

    Raises:
        ValueError: a setting is out of range.
    """

    input_path: str | list[str]
    output_path: str
    n_clusters: int
    cache_path: str | None = None
    id_field: str = "id"
    embedding_field: str = "embeddings"
    metadata_fields: list[str] | None = None
    input_filetype: FileType = "parquet"
    input_file_extensions: list[str] | None = None
    max_iter: int = 300
    tol: float = 1e-4
    random_state: int = 42
    init: Init = "k-means||"
    n_init: int | Literal["auto"] = 1
    oversampling_factor: float = 2.0
    max_samples_per_batch: int = 1 << 15
    fit_data_fraction: float | None = None
    distance_metric: Literal["cosine", "l2"] = "cosine"
    which_to_keep: Literal["hard", "easy", "random"] = "hard"
    ranking_strategy: RankingStrategy | None = None
    pairwise_batch_size: int = 1024
    eps: float | None = None
    _duplicates_num_row_groups_hint: int | None = None
    read_kwargs: Any = None
    cache_kwargs: Any = None
    write_kwargs: Any = None
    clear_output: bool = True
    verbose: bool = True
    pairwise_compute_dtype: PairwiseComputeDtype = "auto"
    kmeans_embedding_output_dtype: KMeansEmbeddingOutputDtype = "float32"
    embedding_dim: int | None = None

    def __post_init__(self) -> None:
        check_fraction(self.fit_data_fraction)
        validate_embedding_output_dtype(self.kmeans_embedding_output_dtype)
        check_compute_dtype(self.pairwise_compute_dtype, self.kmeans_embedding_output_dtype)
        validate_pairwise_batch_size(self.pairwise_batch_size)
        if self.ranking_strategy is None:
            if self.distance_metric not in _METRICS:
                raise ValueError(f"Invalid distance_metric: {self.distance_metric}. Must be 'cosine' or 'l2'")
            if self.which_to_keep not in _KEEP:
                raise ValueError(f"Invalid which_to_keep: {self.which_to_keep}. Must be 'hard', 'easy', or 'random'")
        self.cache_path = self.cache_path or self.output_path
        self.kmeans_output_path = joined(self.cache_path, "kmeans_results")
        self.pairwise_output_path = joined(self.cache_path, "pairwise_results")
        self.duplicates_output_path = joined(self.output_path, "duplicates")
        self.read_kwargs = dict(self.read_kwargs or {})
        self.write_kwargs = dict(self.write_kwargs or {})
        self.cache_kwargs = dict(self.cache_kwargs or self.write_kwargs)

    def _setup_directories(self) -> None:
        if self.clear_output:
            storage = storage_of(self.write_kwargs)
            paths = [self.output_path, self.kmeans_output_path, self.pairwise_output_path]
            for path in [*paths, *([] if self.eps is None else [self.duplicates_output_path])]:
                make_folder(path, storage)

    def _kmeans_pipeline(self) -> Pipeline:
        same = (
            *("id_field", "embedding_field", "input_path", "metadata_fields", "embedding_dim", "input_filetype"),
            *("input_file_extensions", "verbose", "max_iter", "tol", "random_state", "init", "n_init", "n_clusters"),
            *("oversampling_factor", "max_samples_per_batch", "fit_data_fraction", "read_kwargs"),
        )
        settings: dict[str, Any] = {name: getattr(self, name) for name in same}
        stage = KMeansStage(
            output_path=self.kmeans_output_path,
            write_kwargs=self.cache_kwargs,
            embedding_output_dtype=self.kmeans_embedding_output_dtype,
            **settings,
        )
        return Pipeline("semantic_dedup_kmeans", stages=[stage])

    def _pairwise_pipeline(self) -> Pipeline:
        compare = PairwiseStage(
            id_field=self.id_field,
            embedding_field=self.embedding_field,
            input_path=self.kmeans_output_path,
            output_path=self.pairwise_output_path,
            ranking_strategy=self.ranking_strategy,
            embedding_dim=self.embedding_dim,
            pairwise_batch_size=self.pairwise_batch_size,
            compute_dtype=self.pairwise_compute_dtype,
            verbose=self.verbose,
            which_to_keep=self.which_to_keep,
            sim_metric=self.distance_metric,
            random_seed=self.random_state,
            read_kwargs=self.cache_kwargs,
            write_kwargs=self.cache_kwargs,
        )
        pipeline = Pipeline("semantic_dedup_pairwise", stages=[compare])
        if self.eps is not None:
            pipeline.add_stage(
                IdentifyDuplicatesStage(
                    output_path=self.duplicates_output_path,
                    eps=self.eps,
                    _num_row_groups_hint=self._duplicates_num_row_groups_hint,
                    verbose=self.verbose,
                    read_kwargs=self.cache_kwargs,
                    write_kwargs=self.write_kwargs,
                )
            )
        return pipeline

    def run(self, kmeans_executor: Any = None, pairwise_executor: Any = None) -> WorkflowRunResult:
        """Find the duplicates.

        Args:
            kmeans_executor: for the clustering.
            pairwise_executor: for the comparison.

        Raises:
            ValueError: there is nothing to read.
        """
        files = groups_of_files(
            self.input_path, self.input_filetype, self.input_file_extensions, self.read_kwargs
        ).process(EmptyTask())
        check_found(files, self.input_path, self.input_filetype)
        result = WorkflowRunResult("semantic_deduplication")
        begin = time.perf_counter()
        self._setup_directories()
        with cluster() as runner:
            runner.run(self._kmeans_pipeline(), result, "kmeans", executor=kmeans_executor)
            outputs = runner.run(self._pairwise_pipeline(), result, "pairwise", executor=pairwise_executor)
        removed = sum(task._metadata.get("num_removed", 0) for task in outputs)
        result.extend_metadata({"total_time": time.perf_counter() - begin, "num_duplicates": removed})
        return result
