"""The stages of fuzzy deduplication under NeMo Curator's names."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.compat.nemo.dedup_stages.exact import write_ids
from dcurate.compat.nemo.dedup_stages.files import (
    BUCKET,
    DUPLICATE_GROUP,
    SIGNATURE,
    FileType,
    joined,
    make_folder,
    read_parquet,
    reader_of,
    storage_of,
    with_reader,
    write_parquet,
)
from dcurate.compat.nemo.dedup_stages.shuffle import KEY, ShuffleStage
from dcurate.compat.nemo.earlier import earlier_names
from dcurate.compat.nemo.stages import ProcessingStage
from dcurate.compat.nemo.tasks import DocumentBatch, FileGroupTask, Task
from dcurate.compat.nemo.text import with_normalized
from dcurate.dedup.bands import Bands
from dcurate.dedup.minhash import MinHash
from dcurate.dedup.removal import CURATOR_DEDUP_ID_STR
from dcurate.dedup.semantic.sample import lots
from dcurate.dedup.shingles import Shingles
from dcurate.frames.columns import (
    column_of,
    lists_of,
    numbers,
    only,
    rows_at,
    table_of,
    with_column,
    with_lists,
    with_values,
)
from dcurate.frames.hashes import rows_with_values
from dcurate.frames.text import text_column
from dcurate.groups.components import components, forest

_BAND = "_dcurate_band"
_log = logging.getLogger("dcurate.compat.nemo")


@dataclass(eq=False, repr=False)
class MinHashStage(ProcessingStage[Any, FileGroupTask]):
    """Write a signature of each document; bit for bit those of NeMo Curator with 32-bit hashes.

    Args:
        output_path: signatures go to ``MinHashStage`` below it, a file for each task.
        text_field: the column of texts.
        minhash_field: the column of signatures that is written.
        char_ngrams: characters to a shingle.
        num_hashes: numbers to a signature.
        seed: another seed gives other signatures.
        use_64bit_hash: signatures are of 32-bit hashes also if this is True.
        normalize_text: normalization of texts, as in `ExactDuplicateIdentification`.
        read_format: format of files; tasks of documents that have ids in ``_curator_dedup_id`` need none.
        read_kwargs: for files.
        write_kwargs: for the Parquet files.
        pool: pool of GPU memory; without effect here.
    """

    output_path: str
    text_field: str = "text"
    minhash_field: str = SIGNATURE
    char_ngrams: int = 24
    num_hashes: int = 260
    seed: int = 42
    use_64bit_hash: bool = False
    normalize_text: bool = False
    read_format: FileType | None = None
    read_kwargs: Any = None
    write_kwargs: Any = None
    pool: bool = True

    def __post_init__(self) -> None:
        self.name = type(self).__name__
        self.read_kwargs = self.read_kwargs or {}
        self.write_kwargs = self.write_kwargs or {}
        if self.use_64bit_hash:
            _log.warning("MinHashStage: signatures are of 32-bit hashes; use_64bit_hash=True changes nothing")
        self._minhash = MinHash(Shingles(self.char_ngrams, "characters", self.seed), self.num_hashes, "cudf")
        self.output_path = joined(self.output_path, self.name)
        make_folder(self.output_path, storage_of(self.write_kwargs))

    def inputs(self) -> dict[type[Task[Any]], tuple[list[str], list[str]]]:
        return {
            FileGroupTask: (["data"], []),
            DocumentBatch: (["data"], [CURATOR_DEDUP_ID_STR, self.text_field]),
        }

    def outputs(self) -> tuple[list[str], list[str]]:
        return ["data"], []

    def reader(self) -> Any:
        """The stage that reads the files of tasks.

        Raises:
            ValueError: their format is not given.
        """
        if self.read_format not in ("jsonl", "parquet"):
            raise ValueError(
                f"read_format must be 'jsonl' or 'parquet' to process a FileGroupTask; got {self.read_format!r}"
            )
        return reader_of(self.read_format, fields=[self.text_field], read_kwargs=self.read_kwargs, _generate_ids=True)

    def engine_form(self, before: list[Any], is_last: bool) -> None:
        """Have files read by a stage before, unless documents come."""
        if self.read_format is not None:
            with_reader(self, before)

    def process(self, task: FileGroupTask | DocumentBatch) -> FileGroupTask:
        """Write the signatures of the documents of a task.

        Raises:
            ValueError: the task is of files, and their format is not given.
            RuntimeError: the task is of files, and there is no id generator.
        """
        table = texts = self._read(task)
        if self.normalize_text:
            with self._time_metric("normalize_text_time"):
                texts = with_normalized(table, self.text_field)
        with self._time_metric("minhash_compute_time"):
            signatures = self._minhash.signatures(text_column(texts, self.text_field))
        rows = rows_with_values(table, [self.text_field])  # null texts are duplicates of nothing, and have no signature
        bounds = np.arange(len(rows) + 1, dtype=np.int64) * self.num_hashes
        ids = rows_at(only(table, [CURATOR_DEDUP_ID_STR]), rows)
        signed = with_lists(ids, self.minhash_field, bounds, signatures[rows].reshape(-1))
        path = joined(self.output_path, f"{task.task_id}.parquet")
        with self._time_metric("minhash_write_time"):
            write_parquet(signed, path, self.write_kwargs)
        about = {
            "minhash_field": self.minhash_field,
            "num_hashes": self.num_hashes,
            "storage_options": self.write_kwargs.get("storage_options"),
        }
        return FileGroupTask(
            dataset_name=f"{task.dataset_name}_minhash",
            data=[path],
            _metadata={**task._metadata, **about},
            _stage_perf=task._stage_perf,
        )

    def _read(self, task: FileGroupTask | DocumentBatch) -> pa.Table:
        if isinstance(task, DocumentBatch):
            with self._time_metric("minhash_document_batch_to_cudf_time"):  # NeMo Curator's name
                return only(task.to_arrow(), [CURATOR_DEDUP_ID_STR, self.text_field])
        reader = self.reader()
        try:
            reader.setup()
        except (RuntimeError, ValueError) as error:
            raise RuntimeError(
                "IdGenerator actor is required for FileGroupTask input but was not found. Call "
                "create_id_generator_actor() before, or pass a DocumentBatch that has the column _curator_dedup_id."
            ) from error
        with self._time_metric("minhash_file_read_time"):
            return reader.process(task).to_arrow()


@dataclass(eq=False, repr=False)
class LSHStage(ShuffleStage):
    """Write which documents have the same bucket: all numbers of a band of their signatures are equal.

    Args:
        num_bands: number of bands in a signature.
        minhashes_per_band: numbers of a band.
        id_field: the column of ids.
        minhash_field: the column of signatures.
        output_path: buckets go to ``LSHStage/band_0-band_5`` and so on below it.
        read_kwargs, write_kwargs: for Parquet files.
        bands_per_iteration: bands whose buckets go to one folder; all are shuffled at once.
        total_nparts: files in a folder at most; by default as the size of the input demands.
        rmm_pool_size, spill_memory_limit, enable_statistics, use_async_memory: settings of GPU memory; without effect
            here.

    Raises:
        ValueError: `bands_per_iteration` is out of range.
    """

    name = "LSHStage"

    num_bands: int
    minhashes_per_band: int
    id_field: str = CURATOR_DEDUP_ID_STR
    minhash_field: str = SIGNATURE
    output_path: str = "./"
    read_kwargs: Any = None
    write_kwargs: Any = None
    rmm_pool_size: Any = "auto"
    spill_memory_limit: Any = "auto"
    enable_statistics: bool = False
    bands_per_iteration: int = 5
    total_nparts: int | None = None
    use_async_memory: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.bands_per_iteration <= self.num_bands:
            raise ValueError(
                f"Invalid bands_per_iteration: {self.bands_per_iteration}, must be in range [1, {self.num_bands}]"
            )
        self.read_kwargs = self.read_kwargs or {}
        self.write_kwargs = self.write_kwargs or {}
        self.output_paths = [
            joined(self.output_path, self.name, f"band_{first}-band_{last}")
            for first, last in self.get_band_iterations()
        ]
        make_folder(joined(self.output_path, self.name), storage_of(self.write_kwargs))
        for path in self.output_paths:
            make_folder(path, storage_of(self.write_kwargs))

    def get_band_iterations(self) -> Iterator[tuple[int, int]]:
        """The first band of each folder, and the end of its last."""
        for first in range(0, self.num_bands, self.bands_per_iteration):
            yield first, min(first + self.bands_per_iteration, self.num_bands)

    def keyed_rows(self, task: FileGroupTask) -> pa.Table:
        table = read_parquet(task.data, [self.id_field, self.minhash_field], storage_of(self.read_kwargs))
        table = rows_at(table, rows_with_values(table, [self.minhash_field]))
        bands = self.num_bands
        width = -1 if table.num_rows else bands * self.minhashes_per_band
        signatures = lists_of(table, self.minhash_field)[1].reshape(table.num_rows, width).astype(np.uint32)
        keys = Bands(bands, self.minhashes_per_band).keys(np.ascontiguousarray(signatures))
        rows = rows_at(only(table, [self.id_field]), np.repeat(np.arange(table.num_rows), bands))
        rows = with_column(rows, KEY, keys.reshape(-1))
        return with_column(rows, _BAND, np.tile(np.arange(bands, dtype=np.uint16), table.num_rows))

    def write_part(self, part: int, rows: pa.Table) -> list[FileGroupTask]:
        ids, keys, bands = (numbers(rows, name) for name in (self.id_field, KEY, _BAND))
        order = np.lexsort((ids, keys, bands))
        ids, keys, bands = ids[order], keys[order], bands[order]
        starts = np.flatnonzero(np.concatenate([[True], (np.diff(keys) != 0) | (np.diff(bands) != 0)]))
        sizes = np.diff(np.append(starts, len(ids)))
        made = []
        for path, (first, last) in zip(self.output_paths, self.get_band_iterations(), strict=True):
            chosen = (sizes > 1) & (bands[starts] >= first) & (bands[starts] < last)
            if chosen.any():
                in_bucket = np.repeat(chosen, sizes)
                names = [f"b{bands[at] - first}_{keys[at]:016x}" for at in starts[chosen].tolist()]
                table = table_of({BUCKET: names})
                bounds = np.append(0, np.cumsum(sizes[chosen]))
                table = with_lists(table, self.id_field, bounds, ids[in_bucket])
                file = joined(path, f"part.{part}.parquet")
                write_parquet(table, file, self.write_kwargs)
                about = {"partition_index": part, "num_docs": len(names), "output_columns": [self.id_field, BUCKET]}
                made.append(FileGroupTask(dataset_name=self.name, data=[file], _metadata=about))
        return made


@earlier_names(doc_id_field="document_id_field")
class BucketsToEdgesStage(ProcessingStage[FileGroupTask, FileGroupTask]):
    """Write an edge between each document of a bucket and the next one.

    Args:
        output_path: edges go to ``BucketsToEdgesStage`` below it, a file for each task.
        document_id_field: the column of lists of ids.
        read_kwargs, write_kwargs: for Parquet files; ``storage_options`` alone.
    """

    name = "BucketsToEdgesStage"

    def __init__(
        self,
        output_path: str,
        document_id_field: str = CURATOR_DEDUP_ID_STR,
        read_kwargs: dict[str, Any] | None = None,
        write_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.document_id_field = document_id_field
        for kwargs in (read_kwargs, write_kwargs):
            ignored = {*(kwargs or {})} - {"storage_options"}
            if ignored:
                _log.warning("%s will be ignored as this stage only supports 'storage_options'.", ignored)
        self.read_storage_options = (read_kwargs or {}).get("storage_options")
        self.write_storage_options = (write_kwargs or {}).get("storage_options")
        self.output_path = joined(output_path, self.name)
        make_folder(self.output_path, self.write_storage_options)

    def process(self, task: FileGroupTask) -> FileGroupTask:
        name = self.document_id_field
        column = column_of(read_parquet(task.data, [name], self.read_storage_options or {}), name)
        if not len(column):  # without lists, their type is not known
            column = pa.array([], pa.list_(pa.int64()))
        ids, bounds = pa.table({"id": column.flatten()}), np.cumsum(pc.list_value_length(column).to_numpy())
        inner = np.ones(max(0, ids.num_rows - 1), np.bool_)
        ends = bounds[:-1] - 1
        inner[ends[(ends >= 0) & (ends < len(inner))]] = False
        starts = np.flatnonzero(inner)
        edges = rows_at(ids, starts).rename_columns([f"{name}_x"])
        edges = with_values(edges, f"{name}_y", rows_at(ids, starts + 1), "id")
        path = joined(self.output_path, f"{task.task_id}.parquet")
        write_parquet(edges, path, {"storage_options": self.write_storage_options})
        return FileGroupTask(
            dataset_name=f"{task.dataset_name}_edges",
            data=[path],
            _metadata={**task._metadata, "storage_options": self.write_storage_options},
            _stage_perf=task._stage_perf,
        )


class ConnectedComponentsStage(ShuffleStage):
    """Write the group of each document that has an edge: all documents that are connected are one group.

    Args:
        output_path: groups go to ``ConnectedComponentsStage`` below it.
        source_field, destination_field: the columns of the two ends of edges.
        read_kwargs, write_kwargs: for Parquet files.
    """

    name = "ConnectedComponentsStage"
    total_nparts = 1

    def __init__(
        self,
        output_path: str,
        source_field: str | None = None,
        destination_field: str | None = None,
        read_kwargs: dict[str, Any] | None = None,
        write_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.source_field = source_field or f"{CURATOR_DEDUP_ID_STR}_x"
        self.destination_field = destination_field or f"{CURATOR_DEDUP_ID_STR}_y"
        self.read_kwargs = read_kwargs or {}
        self.write_kwargs = write_kwargs or {}
        self.output_path = joined(output_path, self.name)
        make_folder(self.output_path, storage_of(write_kwargs))

    def keyed_rows(self, task: FileGroupTask) -> pa.Table:
        ends = [self.source_field, self.destination_field]
        table = read_parquet(task.data, ends, storage_of(self.read_kwargs))
        few = forest(*(numbers(table, name).astype(np.int64) for name in ends))
        rows = table_of({self.source_field: few.left, self.destination_field: few.right})
        return with_column(rows, KEY, np.zeros(rows.num_rows, np.uint64))

    def write_part(self, part: int, rows: pa.Table) -> list[FileGroupTask]:
        members, groups = components(numbers(rows, self.source_field), numbers(rows, self.destination_field))
        path = joined(self.output_path, f"part.{part}.parquet")
        write_parquet(table_of({CURATOR_DEDUP_ID_STR: members, DUPLICATE_GROUP: groups}), path, self.write_kwargs)
        about = {"storage_options": self.write_kwargs.get("storage_options"), "num_vertices": len(members)}
        return [FileGroupTask(dataset_name=self.name, data=[path], _metadata=about)]


class IdentifyFuzzyDuplicatesStage(ShuffleStage):
    """Write the ids of all documents of each group but the one with the smallest id: ``IdentifyDuplicatesStage``.

    Args:
        duplicate_group_field: the column of groups.
        document_id_field: the column of ids.
        total_nparts: files of ids at most; by default as the size of the input demands.
        output_path: the ids go to ``FuzzyDuplicateIds`` below it.
        read_kwargs, write_kwargs: for Parquet files.
        rmm_pool_size, spill_memory_limit, enable_statistics: settings of GPU memory; without effect here.
    """

    name = "IdentifyDuplicates"

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        duplicate_group_field: str = DUPLICATE_GROUP,
        document_id_field: str = CURATOR_DEDUP_ID_STR,
        total_nparts: int | None = None,
        output_path: str = "./",
        read_kwargs: dict[str, Any] | None = None,
        write_kwargs: dict[str, Any] | None = None,
        rmm_pool_size: Any = "auto",
        spill_memory_limit: Any = "auto",
        enable_statistics: bool = False,
    ) -> None:
        self.duplicate_group_field = duplicate_group_field
        self.document_id_field = document_id_field
        self.total_nparts = total_nparts
        self.read_kwargs = read_kwargs or {}
        self.write_kwargs = write_kwargs or {}
        self.output_path = joined(output_path, "FuzzyDuplicateIds")
        make_folder(self.output_path, storage_of(write_kwargs))

    def keyed_rows(self, task: FileGroupTask) -> pa.Table:
        columns = [self.document_id_field, self.duplicate_group_field]
        table = read_parquet(task.data, columns, storage_of(self.read_kwargs))
        return with_column(table, KEY, lots(numbers(table, self.duplicate_group_field).astype(np.int64), 0))

    def write_part(self, part: int, rows: pa.Table) -> list[FileGroupTask]:
        ids, groups = numbers(rows, self.document_id_field), numbers(rows, self.duplicate_group_field)
        order = np.lexsort((ids, groups))
        again = np.diff(groups[order]) == 0
        removal = table_of({self.document_id_field: np.sort(ids[order[1:][again]])})
        return [write_ids(self, part, removal, groups=len(order) - int(again.sum()))]
