"""The workflows that find semantic duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

import numpy as np

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.dedup.removal import CURATOR_DEDUP_ID_STR
from dcurate.dedup.semantic.stage import SemanticDuplicates
from dcurate.errors import PipelineError
from dcurate.frames.columns import with_taken
from dcurate.frames.document import DocumentBatch
from dcurate.frames.hashes import rows_with_values
from dcurate.groups.keep import Keep
from dcurate.models.embedders.creator import TextEmbedding
from dcurate.run import AnyStage
from dcurate.workflows.deduplication import Deduplication, DeduplicationWorkflow, WithoutColumn
from dcurate.workflows.files import DocumentFiles, FileType, check_extension, joined, warn_unused


@dataclass
class WithoutEmbeddings(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Take the embedding from each row whose text is null: a null is not a value, and a duplicate of nothing."""

    text_field: str
    embedding_field: str
    name: str = "without_embeddings_of_nulls"

    def inputs(self) -> Spec:
        return ["data"], [self.text_field, self.embedding_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        rows = rows_with_values(table, [self.text_field])
        if len(rows) == table.num_rows:
            return task
        taken = np.ma.masked_array(np.arange(table.num_rows), ~np.isin(np.arange(table.num_rows), rows))
        return task.with_data(with_taken(table, self.embedding_field, self.embedding_field, taken))


@dataclass
class SemanticDeduplicationWorkflow(DeduplicationWorkflow):
    """Find documents with nearly equal embeddings in files, and write the ids of those to remove.

    Args:
        input_path: files, directories or globs with ids and embeddings.
        output_path: a folder, local or a URL, for ids of documents to remove in ``duplicates/``, with the id of the
            most similar one before (``max_id``), how similar the two are (``cosine_sim_score``), and ``centroid``.
        n_clusters: number of clusters of k-means; documents of different clusters are not compared.
        cache_path: the folder for ``pairwise_results/``: of each document its cluster, its distance to the centroid,
            and how similar it is to the most similar one before; ``output_path`` by default.
        id_field: the column of ids.
        embedding_field: the column of embeddings, lists of numbers.
        input_filetype, input_file_extensions, read_kwargs, write_kwargs: settings of input and output, as in
            `ExactDeduplicationWorkflow`.
        max_iter, tol, seed, init, max_samples_per_batch, fit_data_fraction, distance_metric, which_to_keep,
            pairwise_batch_size, eps: settings of the search, as in `SemanticDuplicates`; without ``eps`` nothing is a
            duplicate, and there are only the scores.
        ranking_strategy: instead of ``which_to_keep``, rules such as ``Highest("score")``, or a list of them.
        clear_output: whether what an earlier run wrote is deleted, unless this one resumes it; other files are refused.
        embedding_dim, metadata_fields, n_init, oversampling_factor, cache_kwargs, verbose: settings of NeMo Curator;
            without effect here.

    Raises:
        PipelineError: arguments that do not go together.

    Examples:
        >>> SemanticDeduplicationWorkflow("embeddings", "out", n_clusters=100, eps=0.05).which_to_keep
        'hard'
    """

    input_path: str | list[str]
    output_path: str
    n_clusters: int
    cache_path: str | None = None
    id_field: str = "id"
    embedding_field: str = "embeddings"
    embedding_dim: int | None = None
    metadata_fields: list[str] | None = None
    input_filetype: FileType = "parquet"
    input_file_extensions: list[str] | None = None
    max_iter: int = 300
    tol: float = 1e-4
    seed: int = 42
    init: Literal["k-means||", "random"] = "k-means||"
    n_init: int | Literal["auto"] = 1
    oversampling_factor: float = 2.0
    max_samples_per_batch: int = 2**15
    fit_data_fraction: float | None = None
    distance_metric: Literal["cosine", "l2"] = "cosine"
    which_to_keep: Literal["hard", "easy", "random"] = "hard"
    ranking_strategy: Keep | Sequence[Keep] | None = None
    pairwise_batch_size: int = 1024
    eps: float | None = None
    _duplicates_num_row_groups_hint: int | None = None
    read_kwargs: dict[str, Any] | None = None
    cache_kwargs: dict[str, Any] | None = None
    write_kwargs: dict[str, Any] | None = None
    clear_output: bool = True
    verbose: bool = True

    def __post_init__(self) -> None:
        self._deduplication()
        warn_unused(self, "n_init", "oversampling_factor")

    def _deduplication(self) -> Deduplication:
        return Deduplication(
            name="semantic_deduplication",
            source=DocumentFiles(
                self.input_path,
                self.input_filetype,
                extensions=self.input_file_extensions,
                read_kwargs=self.read_kwargs or {},
            ),
            stage=SemanticDuplicates(
                embedding_field=self.embedding_field,
                n_clusters=self.n_clusters,
                eps=self.eps,
                which_to_keep=self.which_to_keep if self.ranking_strategy is None else self.ranking_strategy,
                distance_metric=self.distance_metric,
                seed=self.seed,
                max_iter=self.max_iter,
                tol=self.tol,
                init=self.init,
                max_samples_per_batch=self.max_samples_per_batch,
                fit_data_fraction=self.fit_data_fraction,
                pairwise_batch_size=self.pairwise_batch_size,
                id_field=self.id_field,
                report_path=joined(self.cache_path or self.output_path, "pairwise_results"),
            ),
            output_path=self.output_path,
            groups="pairwise_results",
            ids="duplicates",
            settings="semantic_id_generator.json",
            removes=False,
            write_kwargs=self.write_kwargs,
            mode="overwrite" if self.clear_output else "error",
            id_column="id",
        )


@dataclass
class TextSemanticDeduplicationWorkflow(DeduplicationWorkflow):
    """Embed documents, find semantic duplicates, and remove all but one of each group, or write their ids.

    Args:
        input_path: files, directories or globs of documents.
        output_path: a folder, local or a URL. With ``perform_removal`` it has the documents that stay in
            ``deduplicated/``; else the ids of documents to remove in ``duplicates/``.
        cache_path: the folder for ``semantic_dedup/``, as that of `SemanticDeduplicationWorkflow` for
            ``pairwise_results/``; ``output_path`` by default.
        perform_removal: see above.
        text_field: the column of texts. A document whose text is null stays, and is a duplicate of nothing.
        embedding_field: the column of embeddings. Documents that have it already need no model; one that is made here
            is not written.
        model: the model that makes the column, an id at the hub of Hugging Face or a folder, as
            `TextEmbedding` takes it; or
        embedder: a stage that makes it, such as an `TextEmbedding` with other settings, or one of your own.
        embedding_max_chars, model_cache_dir, hf_token: settings of the model: ``max_chars``, ``cache_dir`` and
            ``hf_token`` of `TextEmbedding`.
        id_field: the column of ids; by default they are made, and ``semantic_id_generator.json`` says for which files
            they hold.
        n_clusters, distance_metric, which_to_keep, eps, ranking_strategy, pairwise_batch_size, metadata_fields:
            settings of the search, as in `SemanticDeduplicationWorkflow`; so are the arguments that begin with
            ``kmeans_``, without that.
        input_filetype, input_file_extensions, input_files_per_partition, input_blocksize, output_filetype,
            output_file_extension, output_fields, read_kwargs, write_kwargs: settings of input and output, as in
            `TextDuplicatesRemovalWorkflow`.
        clear_output: whether what an earlier run wrote is deleted, as in `SemanticDeduplicationWorkflow`.
        use_id_generator: setting of NeMo Curator; here ids are made where ``id_field`` is not given.
        embedding_pretokenize, embedding_vllm_init_kwargs, embedding_dim, kmeans_n_init, kmeans_oversampling_factor,
            id_generator_state_file, cache_kwargs, verbose: settings of NeMo Curator; without effect here.

    Raises:
        PipelineError: arguments that do not go together, or no embeddings and nothing that makes them.
    """

    input_path: str | list[str]
    output_path: str
    cache_path: str | None = None
    perform_removal: bool = True
    text_field: str = "text"
    embedding_field: str = "embeddings"
    model: str | None = None
    embedding_max_chars: int | None = None
    embedding_pretokenize: bool = False
    embedding_vllm_init_kwargs: dict[str, Any] | None = None
    hf_token: str | None = field(default=None, repr=False)
    model_cache_dir: str | None = None
    n_clusters: int = 100
    id_field: str = CURATOR_DEDUP_ID_STR
    embedding_dim: int | None = None
    metadata_fields: list[str] | None = None
    distance_metric: Literal["cosine", "l2"] = "cosine"
    which_to_keep: Literal["hard", "easy", "random"] = "hard"
    eps: float | None = 0.01
    kmeans_max_iter: int = 300
    kmeans_tol: float = 1e-4
    seed: int = 42
    kmeans_init: Literal["k-means||", "random"] = "k-means||"
    kmeans_n_init: int | Literal["auto"] = 1
    kmeans_oversampling_factor: float = 2.0
    kmeans_max_samples_per_batch: int = 2**15
    kmeans_fit_data_fraction: float | None = None
    ranking_strategy: Keep | Sequence[Keep] | None = None
    pairwise_batch_size: int = 1024
    _duplicates_num_row_groups_hint: int | None = None
    use_id_generator: bool = False
    id_generator_state_file: str | None = None
    input_filetype: FileType = "parquet"
    input_file_extensions: list[str] | None = None
    input_files_per_partition: int | None = None
    input_blocksize: int | str | None = None
    output_filetype: FileType = "parquet"
    output_file_extension: str | None = None
    output_fields: list[str] | None = None
    read_kwargs: dict[str, Any] = field(default_factory=dict)
    cache_kwargs: dict[str, Any] = field(default_factory=dict)
    write_kwargs: dict[str, Any] = field(default_factory=dict)
    verbose: bool = True
    clear_output: bool = True
    _: KW_ONLY
    embedder: AnyStage | None = None

    def __post_init__(self) -> None:
        if self.perform_removal and self.eps is None:
            raise PipelineError("perform_removal=True needs eps, which says what is a duplicate; give both or neither")
        if self.use_id_generator and self.id_field != CURATOR_DEDUP_ID_STR:
            raise PipelineError(f"ids are either made or in column {self.id_field!r}; leave out one of the two")
        if self.embedder is not None and self.model is not None:
            raise PipelineError("embedder= brings a model of its own; leave out model=, or the other one")
        check_extension(self.output_file_extension, self.output_filetype)
        warn_unused(
            self, "embedding_vllm_init_kwargs", "kmeans_n_init", "kmeans_oversampling_factor", "id_generator_state_file"
        )

    def _deduplication(self) -> Deduplication:
        source = self._source()
        embedder = self._embedder()
        has_embeddings = self.embedding_field in (source.reader().columns() or ())
        if embedder is None and not has_embeddings:
            raise PipelineError(
                f"documents have no column {self.embedding_field!r}; give model=, a model that makes it of "
                f"{self.text_field!r} (NeMo Curator's is 'google/embeddinggemma-300m'), or embedder=, a stage that does"
            )
        if self.model is not None and has_embeddings:
            raise PipelineError(
                f"documents have a column {self.embedding_field!r} already; leave out model= to use it, "
                "or give embedding_field= another name"
            )
        return Deduplication(
            name="text_semantic_deduplication",
            source=source,
            stage=SemanticDuplicates(
                embedding_field=self.embedding_field,
                n_clusters=self.n_clusters,
                eps=self.eps,
                which_to_keep=self.which_to_keep if self.ranking_strategy is None else self.ranking_strategy,
                distance_metric=self.distance_metric,
                seed=self.seed,
                max_iter=self.kmeans_max_iter,
                tol=self.kmeans_tol,
                init=self.kmeans_init,
                max_samples_per_batch=self.kmeans_max_samples_per_batch,
                fit_data_fraction=self.kmeans_fit_data_fraction,
                pairwise_batch_size=self.pairwise_batch_size,
                id_field=None if self.id_field == CURATOR_DEDUP_ID_STR else self.id_field,
                text_field=self.text_field,
                report_path=joined(self.cache_path or self.output_path, "semantic_dedup"),
            ),
            output_path=self.output_path,
            groups="semantic_dedup",
            ids="duplicates",
            settings="semantic_id_generator.json",
            removes=self.perform_removal,
            before=[] if embedder is None else [embedder, WithoutEmbeddings(self.text_field, self.embedding_field)],
            after=[] if embedder is None else [WithoutColumn(self.embedding_field)],
            filetype=self.output_filetype,
            fields=self.output_fields,
            write_kwargs=self.write_kwargs,
            mode="overwrite" if self.clear_output else "error",
            id_column="id",
        )

    def _embedder(self) -> AnyStage | None:
        if self.model is None:
            return self.embedder
        return TextEmbedding(
            model=self.model,
            text_field=self.text_field,
            embedding_field=self.embedding_field,
            cache_dir=self.model_cache_dir,
            max_chars=self.embedding_max_chars,
            hf_token=self.hf_token,
        )

    def _source(self) -> DocumentFiles:
        return DocumentFiles(
            self.input_path,
            self.input_filetype,
            self.input_blocksize,
            self.input_files_per_partition,
            self.input_file_extensions,
            self.read_kwargs,
        )
