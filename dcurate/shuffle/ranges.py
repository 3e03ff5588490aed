"""Read rows that were written in the order of a key, partition by partition over all files.

A partition is a range of keys. `ShuffleWriter` writes files of chunks by key; `ShuffleIndex` reads their indexes on the
driver and plans the partitions; `ShufflePartitions` reads the rows of each partition on the workers.
"""

from __future__ import annotations

import bisect
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.core.batch import Batch, BatchKey, FileGroup, FilePart
from dcurate.core.names import file_safe
from dcurate.core.stage import SourceStage
from dcurate.errors import DataError
from dcurate.frames.columns import numbers, rows_at, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store, read_range
from dcurate.fs.stores import META_DIR, Directory
from dcurate.shuffle.chunks import READERS, ChunkIndex, Ints, read_chunks, read_indexes, stacked
from dcurate.shuffle.keys import KEY_SPACE, equal_edges

#: Column with the number of the file that a row comes from, in the order of the files.
FILE = "_file"

_MANY_PARTITIONS = 1024


class FileIndex(NamedTuple):
    """The fields of a `ChunkIndex` that partitions need, in a third of the memory."""

    bounds: Ints
    rows: int
    nbytes: int
    notes: dict[str, npt.NDArray[Any]]

    @classmethod
    def of(cls, index: ChunkIndex) -> FileIndex:
        """Return the parts of `index` that the driver needs."""
        return cls(index.bounds, int(index.rows[-1]), int(index.sizes[-1]), index.notes)


@dataclass(frozen=True)
class ShuffleIndex:
    """Files that `write_by_key` wrote, and their indexes.

    Args:
        folder: folder of the files.
        names: names of the files, in the order of the source.
        indexes: indexes of the files, in the same order.
    """

    folder: Directory
    names: tuple[str, ...]
    indexes: tuple[FileIndex, ...] = field(repr=False)

    @classmethod
    def of(cls, folder: Directory, names: Sequence[str]) -> ShuffleIndex:
        """Read the indexes of the files with these names.

        Raises:
            DataError: one of them cannot be read.
        """
        return cls(folder, tuple(names), tuple(map(FileIndex.of, read_indexes(folder, names))))

    @classmethod
    def written(cls, folder: Directory, splits: Sequence[tuple[str, Sequence[str]]], place: str = "") -> ShuffleIndex:
        """Read the indexes of all files written for `splits` in a `place` of the folder."""
        return cls.of(folder, file_names(folder, splits, place))

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(index.rows for index in self.indexes)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows in memory."""
        return sum(index.nbytes for index in self.indexes)

    def groups(self, nbytes: int) -> list[tuple[int, tuple[tuple[str, int], ...]]]:
        """Group consecutive files into groups of about `nbytes` of rows in memory.

        A group is the number of its first file, and the name and size of each of its files.
        """
        groups: list[tuple[int, tuple[tuple[str, int], ...]]] = []
        size = 0
        for number, (name, index) in enumerate(zip(self.names, self.indexes, strict=True)):
            file = (name, int(index.bounds[-1]))
            size += index.nbytes
            if not groups or size > nbytes:
                groups.append((number, (file,)))
                size = index.nbytes
            else:
                groups[-1] = (groups[-1][0], (*groups[-1][1], file))
        return groups

    def partitions_for(self, blocksize: int) -> int:
        """Return how many partitions, a power of two, keep each below about `blocksize` bytes.

        Partitions are up to four times as large where there would be more than 1024 of them.
        """
        partitions = int(2 ** max(0, math.ceil(math.log2(max(1, self.nbytes / blocksize)))))
        return max(min(partitions, _MANY_PARTITIONS), partitions // 4)

    def reader(self, partitions: int, by: str, name: str, *, ordered: bool = True) -> ShuffleReader:
        """Return a source that reads all rows in partitions of equal key ranges.

        Args:
            partitions: how many.
            by: the column of keys.
            name: name of the stage; no other reader of the folder may have it.
            ordered: whether rows of a partition are sorted by key; else they come file by file.
        """
        return ShuffleReader(self.partitions(equal_edges(partitions), by, name), ordered, name)

    def partitions(self, edges: Sequence[int], by: str, name: str) -> ShufflePartitions:
        """Plan partitions, and record in the folder which bytes of which file belong to each.

        Args:
            edges: the first key of each partition, and the end of the last, at most `KEY_SPACE`.
            by, name: the column of keys and the name of the stage, as in `reader`.
        """
        spans = self._spans(edges)
        about = json.dumps({"names": self.names, "edges": list(edges)}).encode()
        version = hashlib.blake2b(about + spans.tobytes(), digest_size=8).hexdigest()
        self.folder.write(f"{META_DIR}/{file_safe(name)}.spans", spans.tobytes())
        self.folder.write(f"{META_DIR}/{file_safe(name)}.json", about)
        nbytes = (spans[:, 1] - spans[:, 0]).sum(axis=1).tolist()
        return ShufflePartitions(self.folder.url, dict(self.folder.options), by, name, tuple(nbytes), version)

    def _spans(self, edges: Sequence[int]) -> Ints:
        """Return the start and end of the chunks of each partition in each file, of shape (partitions, 2, files)."""
        spans = np.zeros((len(edges) - 1, 2, len(self.names)), np.int64)
        counts = np.array([len(index.bounds) - 1 for index in self.indexes], np.int64)
        for count in np.unique(counts).tolist():
            first = np.array([edge * count // KEY_SPACE for edge in edges[:-1]])
            last = np.array([-(-edge * count // KEY_SPACE) for edge in edges[1:]])
            for place in np.flatnonzero(counts == count).tolist():
                bounds = self.indexes[place].bounds
                spans[:, 0, place], spans[:, 1, place] = bounds[first], bounds[np.maximum(first, last)]
        return spans


def partition_of(batch: Batch) -> int:
    """Return the partition number of a batch of a `ShuffleReader`: the number at the end of its split's key."""
    assert batch.key is not None
    return int(batch.key.split.rpartition("-")[2])


def file_names(folder: Directory, splits: Sequence[tuple[str, Sequence[str]]], place: str = "") -> list[str]:
    """Return the names of all files written for `splits` in a `place` of the folder, in the order of the source."""
    root = len(folder.address.rstrip("/")) + 1
    names = [name for _, paths in splits for name in sorted(path[root:] for path in paths)]
    return [name for name in names if name.startswith(place)]


def base_names(splits: Sequence[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    """Return the names, without folders, of all files written for `splits`, in the order of the source."""
    return tuple(path.rpartition("/")[2] for _, paths in splits for path in sorted(paths))


@dataclass
class ShufflePartitions:
    """Reads the rows of one partition out of many files.

    Args:
        url: the folder of the files.
        by: the column of keys.
        name: name of the plan in the folder that says where the rows of each partition are.
        partition_bytes: bytes to read for each partition.
        version: changes when the files do.
    """

    url: str
    options: dict[str, Any]
    by: str
    name: str
    partition_bytes: tuple[int, ...] = field(repr=False)
    version: str
    _names: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    _edges: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_names": [], "_edges": []}

    @cached_property
    def path(self) -> str:
        """The file that says where the rows of each partition are."""
        return self._folder.path(f"{META_DIR}/{file_safe(self.name)}.spans")

    def read(self, partition: int, *, ordered: bool = True) -> pa.Table:
        """Read the rows of a partition, sorted by key, file and place, with the column `FILE`.

        Args:
            partition: its number.
            ordered: whether rows are sorted by key first; else by file first.

        Raises:
            DataError: a file is lost or cannot be read.
        """
        if not self.partition_bytes[partition]:
            return pa.table({})
        starts, stops = self._span(partition)
        files = np.flatnonzero(stops > starts).tolist()
        table = stacked([self._within(partition, *pair) for pair in self._tables(files, starts, stops)])
        if not table.num_rows or not ordered or len(files) < 2:
            return table
        return rows_at(table, np.argsort(numbers(table, self.by), kind="stable"))

    def partition_with(self, key: int) -> int:
        """Return the number of the partition that a key belongs to."""
        self._load()
        return bisect.bisect_right(self._edges, key) - 1

    @cached_property
    def _folder(self) -> Directory:
        return Directory(self.url, self.options)

    def _load(self) -> None:
        if self._edges:
            return
        listed = self._folder.read(f"{META_DIR}/{file_safe(self.name)}.json")
        if listed is None:
            raise DataError(f"{self.url!r} has lost its list of files {self.name!r}; run again without resume")
        about = json.loads(listed)
        self._names, self._edges = about["names"], about["edges"]

    def _span(self, partition: int) -> tuple[Ints, Ints]:
        """Return the start and end of the chunks of a partition in each file."""
        self._load()
        size = 2 * 8 * len(self._names)
        store, place = open_store(self.path, self.options)
        with storage_errors("read", self.path):
            data = read_range(store, place, partition * size, (partition + 1) * size)
        spans = np.frombuffer(data, np.int64).reshape(2, len(self._names))
        return spans[0], spans[1]

    def _tables(self, files: Sequence[int], starts: Ints, stops: Ints) -> Iterator[tuple[int, pa.Table]]:
        def read(file: int) -> pa.Table:
            path = self._folder.path(self._names[file])
            return pa.concat_tables(read_chunks(path, self.options, int(starts[file]), int(stops[file])))

        if self._folder.local:
            yield from ((file, read(file)) for file in files)
            return
        with ThreadPoolExecutor(READERS) as pool:
            yield from zip(files, pool.map(read, files), strict=True)

    def _within(self, partition: int, file: int, table: pa.Table) -> pa.Table:
        """Return the rows of chunks of a file that belong to a partition."""
        keys = numbers(table, self.by)
        start = int(np.searchsorted(keys, np.uint64(self._edges[partition])))
        stop = int(np.searchsorted(keys, np.uint64(self._edges[partition + 1] - 1), "right"))
        rows = table.slice(start, max(0, stop - start))
        if FILE in rows.column_names:
            return rows
        return with_column(rows, FILE, np.full(rows.num_rows, file, np.int32))


@dataclass
class ShuffleReader(SourceStage[FileGroup, DocumentBatch]):
    """Reads rows of many files partition by partition; empty partitions are left out."""

    lists_ahead: ClassVar[bool] = True
    partitions: ShufflePartitions
    ordered: bool = True
    name: str = "range_reader"

    def splits(self) -> Iterator[FileGroup]:
        path, total = self.partitions.path, sum(self.partitions.partition_bytes)
        for number, nbytes in enumerate(self.partitions.partition_bytes):
            if nbytes:
                part = FilePart(path, number, number + 1, total, self.partitions.version, nbytes)
                yield FileGroup(key=BatchKey(f"{self.name}-{number:05}"), parts=(part,))

    def settings(self) -> dict[str, Any]:
        return {"by": self.partitions.by, "parts": len(self.partitions.partition_bytes)}

    def process(self, task: FileGroup) -> DocumentBatch:
        return DocumentBatch(data=self.partitions.read(task.parts[0].start, ordered=self.ordered), key=task.key)
