"""The comparison of the documents of each cluster, and the choice of those to remove, under NeMo Curator's names."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.compat.nemo.dedup_stages.files import (
    check_settings,
    joined,
    read_parquet,
    storage_of,
    write_parquet,
)
from dcurate.compat.nemo.stages import CompositeStage, ProcessingStage, Resources
from dcurate.compat.nemo.tasks import EmptyTask, FileGroupTask
from dcurate.core.batch import BatchKey
from dcurate.dedup.semantic.clusters import COSINE, STRAIGHT
from dcurate.dedup.semantic.similar import MAX_ID, SCORE, most_similar
from dcurate.frames.columns import column_of, numbers, only, rows_at, with_column, with_taken
from dcurate.frames.convert import to_python
from dcurate.frames.vectors import embeddings, one_blas_thread
from dcurate.fs.stores import Directory

_log = logging.getLogger("dcurate.compat.nemo")
_PORTION = 2**16
_PARQUET = {"filetype": "parquet"}
_COMPUTE = ("auto", "float16", "float32")

PairwiseComputeDtype: TypeAlias = Literal["auto", "float16", "float32"]


def validate_pairwise_batch_size(batch_size: object) -> None:
    """Check the number of rows that are compared at a time.

    Raises:
        ValueError: it is not a whole number above zero.
    """
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size <= 0:
        raise ValueError(f"pairwise_batch_size must be a positive integer, got {batch_size!r}")


def check_compute_dtype(compute_dtype: object, stored: str | None = None) -> None:
    """Check the precision in which embeddings are compared.

    Args:
        stored: the precision of what the clustering writes, if it is known.

    Raises:
        ValueError: the precision is not known, or it is above the one that is stored.
    """
    if compute_dtype not in _COMPUTE:
        raise ValueError(f"Unsupported compute_dtype: {compute_dtype!r}. Supported: 'auto', 'float16', 'float32'")
    if stored == "float16" and compute_dtype == "float32":
        raise ValueError(
            "embeddings that are stored as float16 cannot be compared as float32; compare them as 'auto' or 'float16', "
            "or have KMeans store them as float32"
        )


class RankingStrategy:
    """The order of the rows of a cluster: a row is a duplicate if one before it is similar.

    Args:
        metadata_cols: columns to sort by.
        ascending: direction of all columns, or of each.
        strategy: ``"sort"`` or ``"random"``.
        random_seed: for ``"random"``.

    Raises:
        ValueError: `ascending` has another length than `metadata_cols`.

    Examples:
        >>> ranked = RankingStrategy.metadata_based(["score"], ascending=False)
        >>> ranked.rank_cluster(pd.DataFrame({"score": [1, 3, 2]})).score.tolist()
        [3, 2, 1]
    """

    def __init__(
        self,
        metadata_cols: list[str],
        ascending: list[bool] | bool = True,
        strategy: Literal["sort", "random"] = "sort",
        random_seed: int = 42,
    ) -> None:
        if not isinstance(ascending, bool) and len(ascending) != len(metadata_cols):
            raise ValueError(f"Length of ascending ({len(ascending)}) must match metadata_cols ({len(metadata_cols)})")
        self.metadata_cols = metadata_cols
        self.ascending = [ascending] * len(metadata_cols) if isinstance(ascending, bool) else ascending
        self.strategy = strategy
        self.random_seed = random_seed

    def rank_cluster(self, cluster_df: pd.DataFrame) -> pd.DataFrame:
        """The rows of a cluster in order.

        Raises:
            ValueError: a column is missing, or there is no such strategy.
        """
        if self.strategy == "random":
            return cluster_df.sample(frac=1, random_state=self.random_seed, ignore_index=True)
        if self.strategy != "sort":
            raise ValueError(f"Invalid strategy: {self.strategy}. Supported: 'sort', 'random'")
        missing = [name for name in self.metadata_cols if name not in cluster_df.columns]
        if missing:
            raise ValueError(
                f"Required columns {missing} not found in cluster data. Available columns: {list(cluster_df.columns)}"
            )
        return cluster_df.sort_values(self.metadata_cols, ascending=self.ascending, ignore_index=True, kind="stable")

    @classmethod
    def metadata_based(
        cls, metadata_cols: list[str], ascending: list[bool] | bool = True, random_seed: int = 42
    ) -> RankingStrategy:
        """Sort by columns."""
        return cls(metadata_cols, ascending, "sort", random_seed)

    @classmethod
    def random(cls, random_seed: int = 42) -> RankingStrategy:
        """Order at random."""
        return cls([], True, "random", random_seed)


class ClusterWiseFilePartitioningStage(ProcessingStage[EmptyTask, FileGroupTask]):
    """List the files of each cluster that `KMeansStage` wrote.

    Args:
        input_path: path of the folders ``centroid=0`` and so on.
        storage_options: fsspec's.
    """

    name = "pairwise_file_partitioning"
    resources = Resources(cpus=0.5)

    def __init__(self, input_path: str, storage_options: dict[str, Any] | None = None) -> None:
        self.input_path = input_path
        self.storage_options = storage_options

    def inputs(self) -> tuple[list[str], list[str]]:
        return ["data"], []

    def outputs(self) -> tuple[list[str], list[str]]:
        return ["data"], []

    def num_workers(self) -> int | None:
        return 1

    def process(self, task: EmptyTask) -> list[FileGroupTask]:
        """Return a task for each cluster, in the order of their numbers."""
        clusters: dict[int, list[str]] = {}
        folder = Directory(self.input_path, self.storage_options or {})
        for name in sorted(folder.files()):
            first, _, file_name = name.partition("/")
            if first.startswith("centroid=") and file_name.endswith(".parquet"):
                clusters.setdefault(int(first.removeprefix("centroid=")), []).append(folder.path(name))
        if not clusters:
            _log.warning("no centroid directories found in %s", self.input_path)
        dataset = self.input_path.rstrip("/").rpartition("/")[2]
        return [
            FileGroupTask(dataset_name=dataset, data=clusters[number], _metadata={"centroid_id": number, **_PARQUET})
            for number in sorted(clusters)
        ]


@dataclass(eq=False, repr=False)
class PairwiseCosineSimilarityStage(ProcessingStage[FileGroupTask, FileGroupTask]):
    """Write how similar each row of a cluster is to the most similar one before it.

    Args: as of `PairwiseStage`.
    """

    name = "PairwiseCosineSimilarityStage"

    id_field: str
    embedding_field: str
    output_path: str
    ranking_strategy: RankingStrategy
    pairwise_batch_size: int = 1024
    verbose: bool = False
    read_kwargs: Any = None
    write_kwargs: Any = None
    compute_dtype: PairwiseComputeDtype = "float32"
    embedding_dim: int | None = None

    def __post_init__(self) -> None:
        validate_pairwise_batch_size(self.pairwise_batch_size)
        check_compute_dtype(self.compute_dtype)
        check_settings(self.read_kwargs, ["columns", "assign_id"])
        check_settings(self.write_kwargs, ["index"])
        self.read_kwargs = dict(self.read_kwargs or {})
        self.write_kwargs = dict(self.write_kwargs or {})
        self.input_storage_options = self.read_kwargs.pop("storage_options", None)
        self.output_storage_options = self.write_kwargs.pop("storage_options", None)

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Write the similarities of a cluster.

        Raises:
            ValueError: the task is of no cluster, or not of Parquet files; or half floats are to be compared in single
                precision.
        """
        if task._metadata.get("filetype") != "parquet":
            raise ValueError(
                f"PairwiseCosineSimilarityStage only supports parquet files, got {task._metadata.get('filetype')}"
            )
        cluster = task._metadata.get("centroid_id")
        if cluster is None:
            raise ValueError("centroid_id not found in task metadata")
        ranking = self.ranking_strategy
        sort_columns = ranking.metadata_cols if ranking.strategy == "sort" else []
        columns = list(dict.fromkeys([self.id_field, *sort_columns]))
        table, is_half = self._read(task.data, columns)
        made = FileGroupTask(
            dataset_name=task.dataset_name, data=[], _metadata=dict(task._metadata), _stage_perf=task._stage_perf
        )
        if not table.num_rows:
            _log.warning("no data found for cluster %s", cluster)
            return made
        embedded = embeddings(table, self.embedding_field)
        table = rows_at(table, embedded.rows)
        frame = to_python(only(table, columns))
        frame["_place"] = np.arange(len(frame))
        order = ranking.rank_cluster(frame)["_place"].to_numpy()
        half = is_half if self.compute_dtype == "auto" else self.compute_dtype == "float16"
        vectors = _rounded(embedded.vectors[order]) if half else embedded.vectors[order]
        ids = rows_at(only(table, [self.id_field]), order).rename_columns(["id"])
        with one_blas_thread():
            scores, places = most_similar(
                lambda start, stop: vectors[start:stop],
                (0, len(vectors)),
                self.pairwise_batch_size,
                max(1, _PORTION // self.pairwise_batch_size) * self.pairwise_batch_size,
            )
        scores = _rounded(scores) if half else scores
        result = with_column(with_taken(ids, MAX_ID, "id", places), SCORE, scores)
        path = joined(self.output_path, f"cluster_{cluster}.parquet")
        write_parquet(result, path, {**self.write_kwargs, "storage_options": self.output_storage_options})
        if self.verbose:
            _log.debug("cluster %s: %d rows compared", cluster, len(vectors))
        made.data = [path]
        return made

    def _read(self, files: list[str], columns: list[str]) -> tuple[pa.Table, bool]:
        """The rows of files, and whether the embeddings of all are half floats.

        Raises:
            ValueError: embeddings are half floats and to be compared in single precision.
        """
        tables, half = [], []
        for path in files:
            table = read_parquet([path], [*columns, self.embedding_field], self.input_storage_options or {})
            table = _decoded(table, self.embedding_field)
            is_half = pa.types.is_float16(_number_type(table, self.embedding_field))
            check_compute_dtype(self.compute_dtype, "float16" if is_half else None)
            tables.append(table)
            half.append(is_half)
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({}), all(half)


def _rounded(numbers: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Numbers in half precision, for products that are added in single precision as a GPU does."""
    return numbers.astype(np.float16).astype(np.float32)


def _decoded(table: pa.Table, name: str) -> pa.Table:
    """The table with embeddings as half floats where NeMo Curator wrote their bits as integers."""
    if not pa.types.is_uint16(_number_type(table, name)):
        return table
    column = column_of(table, name)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    halves = pa.LargeListArray.from_arrays(pa.array(bounds), column.flatten().view(pa.float16()))
    return table.set_column(table.column_names.index(name), name, halves)


def _number_type(table: pa.Table, name: str) -> pa.DataType:
    """The type of the numbers in a column of lists; null for another column."""
    kind = table.schema.field(name).type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return kind.value_type if is_list else pa.null()


@dataclass
class PairwiseStage(CompositeStage[EmptyTask, FileGroupTask]):
    """Write how similar each row is to the most similar one before it in its cluster.

    Args:
        id_field, embedding_field: columns.
        input_path: what `KMeansStage` wrote.
        output_path: for ``cluster_0.parquet`` and so on: ``id``, ``max_id`` and ``cosine_sim_score``.
        ranking_strategy: the order of rows; or
        which_to_keep: ``"hard"``: the farthest from the centroid first, ``"easy"``: the nearest, ``"random"``.
        sim_metric: distance to the centroid that `which_to_keep` means, ``"cosine"`` or ``"l2"``.
        random_seed: for ``"random"``.
        pairwise_batch_size: rows that are compared with as many others at a time.
        compute_dtype: ``"float32"``; ``"float16"``: embeddings and similarities are rounded to half precision;
            ``"auto"``: as they are stored.
        verbose: whether each cluster is logged, at level DEBUG.
        read_kwargs, write_kwargs: for Parquet files.
        embedding_dim: setting of NeMo Curator; without effect here.

    Raises:
        ValueError: the order or precision is not known.
    """

    id_field: str
    embedding_field: str
    input_path: str
    output_path: str
    ranking_strategy: RankingStrategy | None = None
    pairwise_batch_size: int = 1024
    verbose: bool = False
    read_kwargs: dict[str, Any] | None = None
    write_kwargs: dict[str, Any] | None = None
    which_to_keep: Literal["hard", "easy", "random"] = "hard"
    sim_metric: Literal["cosine", "l2"] = "cosine"
    random_seed: int = 42
    compute_dtype: PairwiseComputeDtype = "float32"
    embedding_dim: int | None = None

    def __post_init__(self) -> None:
        check_compute_dtype(self.compute_dtype)
        if self.ranking_strategy is not None:
            return
        if self.which_to_keep == "random":
            self.ranking_strategy = RankingStrategy.random(self.random_seed)
            return
        if self.sim_metric not in ("cosine", "l2"):
            raise ValueError(f"Invalid similarity metric: {self.sim_metric}. Only 'cosine' and 'l2' are supported.")
        if self.which_to_keep not in ("hard", "easy"):
            raise ValueError(f"Invalid which_to_keep value: {self.which_to_keep}. Supported: 'hard', 'easy', 'random'")
        distance = COSINE if self.sim_metric == "cosine" else STRAIGHT
        self.ranking_strategy = RankingStrategy([distance, self.id_field], self.which_to_keep == "easy")

    def decompose(self) -> list[Any]:
        assert self.ranking_strategy is not None
        same = (
            *("id_field", "embedding_field", "output_path", "ranking_strategy", "pairwise_batch_size"),
            *("verbose", "compute_dtype", "embedding_dim", "read_kwargs", "write_kwargs"),
        )
        files = ClusterWiseFilePartitioningStage(self.input_path, storage_of(self.read_kwargs) or None)
        return [files, PairwiseCosineSimilarityStage(**{name: getattr(self, name) for name in same})]


@dataclass
class IdentifyDuplicatesStage(ProcessingStage[FileGroupTask, FileGroupTask]):
    """Write the ids of rows that are similar enough to one before them.

    Args:
        output_path: for Parquet files with ``id``, in order; one for ten clusters.
        eps: ids are written of rows whose similarity is at least ``1 - eps``.
        read_kwargs, write_kwargs: for Parquet files.
        _num_row_groups_hint: row groups of a file, 10 by default.
        verbose: without effect, as in NeMo Curator.
    """

    output_path: str
    eps: float
    _num_row_groups_hint: int | None = None
    verbose: bool = False
    read_kwargs: dict[str, Any] | None = None
    write_kwargs: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.name = "IdentifyDuplicatesStage"
        self.batch_size = 10
        check_settings(self.read_kwargs, ["filters", "engine"])
        check_settings(self.write_kwargs, ["index", "row_group_size"])
        self.read_kwargs = dict(self.read_kwargs or {})
        self.write_kwargs = dict(self.write_kwargs or {})
        self.input_storage_options = self.read_kwargs.pop("storage_options", None)
        self.output_storage_options = self.write_kwargs.pop("storage_options", None)
        self._num_row_groups_hint = 10 if self._num_row_groups_hint is None else self._num_row_groups_hint

    def process(self, task: FileGroupTask) -> FileGroupTask:
        raise NotImplementedError("IdentifyDuplicatesStage does not support single task processing")

    def process_batch(self, tasks: list[FileGroupTask]) -> list[FileGroupTask]:
        """Write one file of ids for all tasks.

        Raises:
            ValueError: a task has no files.
        """
        for task in tasks:
            if not self.validate_input(task):
                raise ValueError(f"Task {task!s} failed validation for stage {self}")
        files = [path for task in tasks for path in task.data]
        if not files:
            return []
        table = read_parquet(files, ["id", SCORE], self.input_storage_options or {})
        similar = np.flatnonzero(numbers(table, SCORE).astype(np.float64) >= 1.0 - self.eps)
        ids = only(rows_at(table, similar), ["id"]).sort_by("id")
        path = joined(self.output_path, f"{BatchKey(chr(10).join([*files, tasks[0].task_id])).digest}.parquet")
        size = max(1, ids.num_rows // (self._num_row_groups_hint or 1))
        settings = {**(self.write_kwargs or {}), "storage_options": self.output_storage_options}
        write_parquet(ids, path, {**settings, "row_group_size": size})
        first = tasks[0]
        about = {**first._metadata, "num_removed": ids.num_rows}
        return [FileGroupTask(first.dataset_name, [path], _metadata=about, _stage_perf=first._stage_perf)]
