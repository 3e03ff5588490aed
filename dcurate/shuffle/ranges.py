"""Rows exchanged by a key: written in chunks by ranges of it, read back range by range over all files."""

from __future__ import annotations

import bisect
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
from dcurate.fs.paths import open_store
from dcurate.fs.stores import META_DIR, Directory
from dcurate.shuffle.chunks import READERS, ChunkIndex, Ints, read_chunks, read_indexes, stacked
from dcurate.shuffle.keys import KEY_SPACE, equal_edges

#: Column that says of which file a row is, as a number in the order of the files.
FILE = "_file"

_MANY_PARTITIONS = 1024


class FileIndex(NamedTuple):
    """What a `ChunkIndex` says that is needed here: of many files it takes a third of the memory."""

    bounds: Ints
    rows: int
    nbytes: int
    notes: dict[str, npt.NDArray[Any]]

    @classmethod
    def of(cls, index: ChunkIndex) -> FileIndex:
        """That of a file."""
        return cls(index.bounds, int(index.rows[-1]), int(index.sizes[-1]), index.notes)


@dataclass(frozen=True)
class RangeFiles:
    """Files that `write_ranges` wrote, with what their indexes say.

    Args:
        folder: in which they lie.
        names: theirs, in the order of the source.
    """

    folder: Directory
    names: tuple[str, ...]
    indexes: tuple[FileIndex, ...] = field(repr=False)

    @classmethod
    def of(cls, folder: Directory, names: Sequence[str]) -> RangeFiles:
        """The files of these names; their indexes are read.

        Raises:
            DataError: one of them cannot be read.
        """
        return cls(folder, tuple(names), tuple(map(FileIndex.of, read_indexes(folder, names))))

    @classmethod
    def written(cls, folder: Directory, splits: Sequence[tuple[str, Sequence[str]]], place: str = "") -> RangeFiles:
        """The files that were written for splits, as an exchange is told them, in a place of the folder."""
        return cls.of(folder, file_names(folder, splits, place))

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(index.rows for index in self.indexes)

    @property
    def nbytes(self) -> int:
        """Of all rows, in memory."""
        return sum(index.nbytes for index in self.indexes)

    def groups(self, nbytes: int) -> list[tuple[int, tuple[tuple[str, int], ...]]]:
        """Files that follow one another in groups of about so many bytes of rows in memory.

        Each group is the number of its first file, and the name of each of its files with the bytes to read of it.
        """
        found: list[tuple[int, tuple[tuple[str, int], ...]]] = []
        held = 0
        for number, (name, index) in enumerate(zip(self.names, self.indexes, strict=True)):
            file = (name, int(index.bounds[-1]))
            held += index.nbytes
            if not found or held > nbytes:
                found.append((number, (file,)))
                held = index.nbytes
            else:
                found[-1] = (found[-1][0], (*found[-1][1], file))
        return found

    def parts_for(self, blocksize: int) -> int:
        """How many ranges there must be, a power of two, for each to hold about so many bytes at most.

        Ranges are up to four times as large where there would be more than 1024 of them.
        """
        parts = int(2 ** max(0, math.ceil(math.log2(max(1, self.nbytes / blocksize)))))
        return max(min(parts, _MANY_PARTITIONS), parts // 4)

    def reader(self, parts: int, by: str, name: str, *, ordered: bool = True) -> RangeReader:
        """The source that reads all rows, one range of keys after the other, in ranges of equal length.

        Args:
            parts: how many.
            by: the column of keys.
            name: of the stage; nothing else that reads ranges of the folder may have it.
            ordered: whether the rows of a range are put in the order of their keys; else they come file by file.
        """
        return RangeReader(self.tables(equal_edges(parts), by, name), ordered, name)

    def tables(self, edges: Sequence[int], by: str, name: str) -> RangeTables:
        """What reads the rows of each range of keys; writes down in the folder where they are.

        Args:
            edges: the first key of each range, and the end of the last, at most `KEY_SPACE`.
            by, name: as for `reader`.
        """
        spans = self._spans(edges)
        about = json.dumps({"names": self.names, "edges": list(edges)}).encode()
        version = hashlib.blake2b(about + spans.tobytes(), digest_size=8).hexdigest()
        self.folder.write(f"{META_DIR}/{file_safe(name)}.spans", spans.tobytes())
        self.folder.write(f"{META_DIR}/{file_safe(name)}.json", about)
        held = (spans[:, 1] - spans[:, 0]).sum(axis=1).tolist()
        return RangeTables(self.folder.url, dict(self.folder.options), by, name, tuple(held), version)

    def _spans(self, edges: Sequence[int]) -> Ints:
        """Where the chunks of each range begin and end in each file, as an array of shape (ranges, 2, files)."""
        spans = np.zeros((len(edges) - 1, 2, len(self.names)), np.int64)
        counts = np.array([len(index.bounds) - 1 for index in self.indexes], np.int64)
        for count in np.unique(counts).tolist():
            first = np.array([edge * count // KEY_SPACE for edge in edges[:-1]])
            last = np.array([-(-edge * count // KEY_SPACE) for edge in edges[1:]])
            for place in np.flatnonzero(counts == count).tolist():
                bounds = self.indexes[place].bounds
                spans[:, 0, place], spans[:, 1, place] = bounds[first], bounds[np.maximum(first, last)]
        return spans


def part_of(batch: Batch) -> int:
    """The number that ends the name of the split of a batch: that of its range if a `RangeReader` made it."""
    assert batch.key is not None
    return int(batch.key.split.rpartition("-")[2])


def file_names(folder: Directory, splits: Sequence[tuple[str, Sequence[str]]], place: str = "") -> list[str]:
    """Names in the folder of all files written for splits in a place of it, in the order of the source."""
    root = len(folder.address.rstrip("/")) + 1
    names = [name for _, paths in splits for name in sorted(path[root:] for path in paths)]
    return [name for name in names if name.startswith(place)]


def base_names(splits: Sequence[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    """Names, without folders, of all files written for splits, in the order of the source."""
    return tuple(path.rpartition("/")[2] for _, paths in splits for path in sorted(paths))


@dataclass
class RangeTables:
    """Reads the rows of ranges of keys out of many files.

    Args:
        url: the folder of the files.
        by: the column of keys.
        name: under which it is written down in the folder where the rows are.
        held: bytes in the files that are read for each range.
        version: changes when the files do.
    """

    url: str
    options: dict[str, Any]
    by: str
    name: str
    held: tuple[int, ...] = field(repr=False)
    version: str
    _names: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    _edges: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_names": [], "_edges": []}

    @property
    def path(self) -> str:
        """The file that says where the rows of each range are."""
        return self._folder.path(f"{META_DIR}/{file_safe(self.name)}.spans")

    def read(self, part: int, *, ordered: bool = True) -> pa.Table:
        """The rows of a range in the order of keys, files and places, with the number of their file as a column.

        Args:
            part: number of the range.
            ordered: else they come in the order of files, keys and places.

        Raises:
            DataError: a file is lost or cannot be read.
        """
        starts, stops = self._span(part)
        files = np.flatnonzero(stops > starts).tolist()
        whole = stacked([self._within(part, *each) for each in self._tables(files, starts, stops)])
        if not whole.num_rows or not ordered or len(files) < 2:
            return whole
        return rows_at(whole, np.argsort(numbers(whole, self.by), kind="stable"))

    def holding(self, key: int) -> int:
        """The number of the range that holds a key."""
        self._look()
        return bisect.bisect_right(self._edges, key) - 1

    @property
    def _folder(self) -> Directory:
        return Directory(self.url, self.options)

    def _look(self) -> None:
        if self._edges:
            return
        listed = self._folder.read(f"{META_DIR}/{file_safe(self.name)}.json")
        if listed is None:
            raise DataError(f"{self.url!r} has lost its list of files {self.name!r}; run again without resume")
        about = json.loads(listed)
        self._names, self._edges = about["names"], about["edges"]

    def _span(self, part: int) -> tuple[Ints, Ints]:
        """Where the chunks of a range begin and end in each file."""
        self._look()
        size = 2 * 8 * len(self._names)
        store, place = open_store(self.path, self.options)
        with storage_errors("read", self.path):
            data: bytes = store.cat_file(place, start=part * size, end=(part + 1) * size)
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

    def _within(self, part: int, file: int, table: pa.Table) -> pa.Table:
        """Of some chunks of a file, those rows that lie in a range."""
        keys = numbers(table, self.by)
        start = int(np.searchsorted(keys, np.uint64(self._edges[part])))
        stop = int(np.searchsorted(keys, np.uint64(self._edges[part + 1] - 1), "right"))
        own = table.slice(start, max(0, stop - start))
        if FILE in own.column_names:
            return own
        return with_column(own, FILE, np.full(own.num_rows, file, np.int32))


@dataclass
class RangeReader(SourceStage[FileGroup, DocumentBatch]):
    """Reads rows of many files range by range of their keys; a range without rows is left out."""

    tables: RangeTables
    ordered: bool = True
    name: str = "range_reader"

    def splits(self) -> Iterator[FileGroup]:
        path, whole = self.tables.path, sum(self.tables.held)
        for part, held in enumerate(self.tables.held):
            if held:
                span = FilePart(path, part, part + 1, whole, self.tables.version, held)
                yield FileGroup(key=BatchKey(f"{self.name}-{part:05}"), parts=(span,))

    def settings(self) -> dict[str, Any]:
        return {"by": self.tables.by, "parts": len(self.tables.held)}

    def process(self, task: FileGroup) -> DocumentBatch:
        return DocumentBatch(data=self.tables.read(task.parts[0].start, ordered=self.ordered), key=task.key)
