"""The clustering of semantic deduplication, under NeMo Curator's names."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.compat.nemo.dedup_stages.files import (
    FileType,
    check_settings,
    groups_of_files,
    joined,
    reader_of,
    write_parquet,
)
from dcurate.compat.nemo.dedup_stages.shuffle import PartStage
from dcurate.compat.nemo.stages import CompositeStage, ProcessingStage
from dcurate.compat.nemo.tasks import DocumentBatch, EmptyTask, FileGroupTask, Task
from dcurate.core.stage import BarrierStage, Stage
from dcurate.dedup.semantic.assign import AssignClusters
from dcurate.dedup.semantic.clusters import CENTROID, COSINE, STRAIGHT
from dcurate.dedup.semantic.fit import fit
from dcurate.dedup.semantic.ranking import Ranking
from dcurate.dedup.semantic.search import Centroids, SemanticSearch
from dcurate.dedup.semantic.spill import VECTOR, EmbeddingWriter, VectorReader, Vectors
from dcurate.dedup.semantic.stage import SemanticDuplicates
from dcurate.frames.columns import numbers, only, rows_at, with_column
from dcurate.frames.vectors import vectors_in, with_vectors
from dcurate.fs.stores import Directory
from dcurate.shuffle.spill import SpilledRows

Init: TypeAlias = Literal["k-means||", "random"] | npt.NDArray[Any]
KMeansEmbeddingOutputDtype: TypeAlias = Literal["float16", "float32"]

_BLOCKSIZE = 2**27


def check_fraction(fraction: float | None, name: str = "fit_data_fraction") -> None:
    """Check the share of the data that k-means is fitted to.

    Raises:
        ValueError: it is out of range.
    """
    if fraction is not None and not 0.0 < fraction <= 1.0:
        raise ValueError(f"{name} must be in (0, 1], got {fraction}; pass None to fit to 256 rows for each cluster")


def validate_embedding_output_dtype(embedding_output_dtype: object) -> None:
    """Check the type in which embeddings are stored.

    Raises:
        ValueError: the type is not known.
    """
    if embedding_output_dtype not in ("float16", "float32"):
        raise ValueError(f"embedding_output_dtype must be 'float16' or 'float32', got {embedding_output_dtype!r}")


@dataclass(eq=False, repr=False)
class KMeansReadFitWriteStage(ProcessingStage[FileGroupTask, EmptyTask]):
    """Cluster the embeddings of all tasks; write the rows of each cluster to a folder of its own.

    Args: as of `KMeansStage`.
    """

    name = "KMeansStage"
    is_resumable = False

    id_field: str
    embedding_field: str
    output_path: str
    filetype: FileType
    n_clusters: int
    metadata_fields: list[str] | None = None
    verbose: bool = False
    max_iter: int = 300
    tol: float = 1e-4
    random_state: int = 42
    init: Init = "k-means||"
    n_init: int | Literal["auto"] = 1
    oversampling_factor: float = 2.0
    max_samples_per_batch: int = 1 << 15
    fit_data_fraction: float | None = None
    cache_path: str | None = None
    read_kwargs: Any = None
    write_kwargs: Any = None
    embedding_output_dtype: KMeansEmbeddingOutputDtype = "float32"
    embedding_dim: int | None = None

    def __post_init__(self) -> None:
        check_fraction(self.fit_data_fraction)
        validate_embedding_output_dtype(self.embedding_output_dtype)
        check_settings(self.read_kwargs, ["columns", "assign_id"])
        check_settings(self.write_kwargs, ["partition_file_name", "partition_cols", "index"])
        self.metadata_fields = self.metadata_fields or []
        self.read_kwargs = dict(self.read_kwargs or {})
        self.write_kwargs = dict(self.write_kwargs or {})
        self.input_storage_options = self.read_kwargs.pop("storage_options", None)
        self.output_storage_options = self.write_kwargs.pop("storage_options", None)

    @property
    def columns(self) -> list[str]:
        """The columns that are read and written, besides embeddings."""
        return list(dict.fromkeys([self.id_field, *(self.metadata_fields or ())]))

    def process(self, task: FileGroupTask) -> EmptyTask:
        raise NotImplementedError("KMeansReadFitWriteStage does not support single-task processing")

    def engine_form(self, before: list[Any], is_last: bool) -> BarrierStage[Any]:
        """Return the stage that the engine runs."""
        return ClusterEmbeddings(self, self.name)


@dataclass
class ClusterEmbeddings(BarrierStage[Any]):
    """`KMeansReadFitWriteStage` for the engine.

    Args:
        stage: with the settings.
    """

    stage: KMeansReadFitWriteStage
    name: str

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self.stage).items() if name not in ("init", "_custom_metrics")}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        writer = EmbeddingWriter(
            url,
            mode="overwrite",
            storage_options=dict(options),
            embedding_field=self.stage.embedding_field,
            with_rows=False,
            columns=self.stage.columns,
            name=f"{self.name}_to_disk",
        )
        return [_ReadEmbeddings(self.stage, f"{self.name}_rows"), writer]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        stage, spilled = self.stage, SpilledRows.written(Directory(url, options), splits)
        vectors = Vectors.written(spilled, stage.embedding_field)
        if not len(vectors):
            return [VectorReader(vectors, 1, name=f"{self.name}_vectors")]
        init = stage.init if isinstance(stage.init, str) else "random"
        settings = SemanticDuplicates(
            n_clusters=stage.n_clusters,
            seed=stage.random_state,
            max_iter=stage.max_iter,
            tol=stage.tol,
            init=init,
            max_samples_per_batch=stage.max_samples_per_batch,
            fit_data_fraction=stage.fit_data_fraction,
        )
        kmeans = settings.kmeans_for(len(vectors))
        if not isinstance(stage.init, str):
            kmeans = replace(kmeans, clusters=len(stage.init), first=np.asarray(stage.init, np.float32))
        search = SemanticSearch(
            name=self.name,
            spilled=spilled,
            vectors=vectors,
            kmeans=kmeans,
            ranking=Ranking(),
            eps=None,
            block=settings.pairwise_batch_size,
            blocksize=_BLOCKSIZE,
            action="identify",
            report_path=None,
            resources=self.resources,
        )
        return fit(search, self._assigned)

    def _assigned(self, search: SemanticSearch, centroids: Centroids) -> list[Stage]:
        """Save the centroids, and return the stages that write each row to its cluster."""
        if self.stage.cache_path is not None:
            buffer = io.BytesIO()
            np.save(buffer, centroids.read())
            Directory(self.stage.cache_path).write("kmeans_centroids.npy", buffer.getvalue(), ".")
        return [
            VectorReader(search.vectors, search.rows, name=f"{self.name}_vectors"),
            AssignClusters(centroids, search.ranking, name=f"{self.name}_assign"),
            _WriteClusters(self.stage, self.name),
        ]


class _ReadEmbeddings(PartStage):
    """Reads the files of tasks."""

    stage: KMeansReadFitWriteStage

    def _process(self, task: Task[Any]) -> Any:
        stage = self.stage
        reader = reader_of(
            stage.filetype,
            fields=[*stage.columns, stage.embedding_field],
            read_kwargs={**stage.read_kwargs, "storage_options": stage.input_storage_options or {}},
        )
        reader.setup()
        return DocumentBatch(dataset_name=task.dataset_name, data=reader.process(task).to_arrow())


class _WriteClusters(PartStage):
    """Writes the rows of a batch to the folders of their clusters."""

    stage: KMeansReadFitWriteStage

    def _process(self, task: Task[Any]) -> Any:
        assert isinstance(task, DocumentBatch)
        stage, table = self.stage, task.to_arrow()
        vectors = vectors_in(table, VECTOR).astype(stage.embedding_output_dtype)
        written = with_vectors(only(table, stage.columns), stage.embedding_field, vectors)
        for name in (STRAIGHT, COSINE):
            written = with_column(written, name, numbers(table, name))
        index = written.column_names.index(stage.embedding_field)
        lists = written.column(index).cast(pa.list_(pa.from_numpy_dtype(vectors.dtype)))
        written = written.set_column(index, stage.embedding_field, lists)
        clusters = numbers(table, CENTROID)
        order = np.argsort(clusters, kind="stable")
        numbered, starts = np.unique(clusters[order], return_index=True)
        settings = {**stage.write_kwargs, "storage_options": stage.output_storage_options}
        for cluster, rows in zip(numbered.tolist(), np.split(order, starts[1:]), strict=True):
            path = joined(stage.output_path, f"centroid={cluster}", f"{task.task_id}_0.parquet")
            write_parquet(rows_at(written, rows), path, settings)
        return EmptyTask(dataset_name="kmeans_group_0")


@dataclass
class KMeansStage(CompositeStage[EmptyTask, EmptyTask]):
    """Cluster embeddings in files; write the rows of each cluster to ``centroid=0`` and so on.

    Args:
        n_clusters: clusters; fewer if there are fewer embeddings.
        id_field, embedding_field: columns.
        input_path, input_filetype, input_file_extensions, read_kwargs: location, type and reader settings of the
            embeddings.
        output_path: path of the folders; embeddings in them have length one, and ``l2_dist_to_cent`` and
            ``cosine_dist_to_cent`` beside them.
        metadata_fields: further columns to keep.
        write_kwargs: for the Parquet files.
        max_iter, tol, random_state, max_samples_per_batch: settings of k-means, as in `dcurate.SemanticDuplicates`.
        init: ``"k-means||"``, ``"random"`` or the centroids to begin with.
        fit_data_fraction: the share that k-means is fitted to; by default 256 embeddings for each cluster.
        cache_path: a folder for the centroids, ``kmeans_centroids.npy``.
        embedding_output_dtype: ``"float32"`` or ``"float16"``, the type in which embeddings are written; NeMo Curator
            writes the bits of half floats as integers, which cuDF can read.
        verbose, embedding_dim, n_init, oversampling_factor: settings of NeMo Curator; without effect here.

    Raises:
        ValueError: `fit_data_fraction` or `embedding_output_dtype` is out of range.
    """

    n_clusters: int
    id_field: str
    embedding_field: str
    input_path: str | list[str]
    output_path: str
    metadata_fields: list[str] | None = None
    verbose: bool = False
    input_filetype: FileType = "parquet"
    input_file_extensions: list[str] | None = None
    read_kwargs: dict[str, Any] | None = None
    write_kwargs: dict[str, Any] | None = None
    max_iter: int = 300
    tol: float = 1e-4
    random_state: int = 42
    init: Init = "k-means||"
    n_init: int | Literal["auto"] = 1
    oversampling_factor: float = 2.0
    max_samples_per_batch: int = 1 << 15
    fit_data_fraction: float | None = None
    cache_path: str | None = None
    embedding_output_dtype: KMeansEmbeddingOutputDtype = "float32"
    embedding_dim: int | None = None

    def __post_init__(self) -> None:
        check_fraction(self.fit_data_fraction)
        validate_embedding_output_dtype(self.embedding_output_dtype)

    def decompose(self) -> list[Any]:
        same = (
            *("id_field", "embedding_field", "output_path", "n_clusters", "metadata_fields", "verbose"),
            *("embedding_dim", "max_iter", "tol", "random_state", "init", "n_init", "oversampling_factor"),
            *("max_samples_per_batch", "fit_data_fraction", "read_kwargs", "write_kwargs", "cache_path"),
            "embedding_output_dtype",
        )
        files = groups_of_files(
            self.input_path, self.input_filetype, self.input_file_extensions, self.read_kwargs, files_per_partition=1
        )
        settings = {name: getattr(self, name) for name in same}
        return [files, KMeansReadFitWriteStage(filetype=self.input_filetype, **settings)]
