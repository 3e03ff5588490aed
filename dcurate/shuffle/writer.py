"""Writers of files of chunks: the rows of a batch as they come, or in the order of their keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, BinaryIO, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.core.batch import BatchKey, FilePart
from dcurate.frames.columns import numbers, rows_at
from dcurate.io.sink import FileWriter
from dcurate.rows import left_in_lines
from dcurate.shuffle.chunks import SUFFIX, write_chunks
from dcurate.shuffle.keys import range_of

_MOST_CHUNKS = 8192
_LEAST_BYTES = 2**16


def slices_by_key(
    ordered: pa.Table, keys: npt.NDArray[np.uint64], most_chunks: int, least_bytes: int
) -> Iterator[pa.Table]:
    """Cut rows in the order of their keys into one slice for each of 2^n key ranges of equal length.

    Args:
        ordered: the rows.
        keys: key of each row.
        most_chunks: slices at most.
        least_bytes: minimum bytes of a slice on average, unless there is only one.
    """
    ranges = min(most_chunks, 2 ** int(math.log2(max(1, ordered.nbytes // least_bytes))))
    bounds = np.searchsorted(range_of(keys, ranges), np.arange(ranges + 1))
    return (ordered.slice(start, stop - start) for start, stop in pairwise(bounds.tolist()))


def write_by_key(file: BinaryIO, table: pa.Table, by: str, **notes: npt.NDArray[Any]) -> None:
    """Write rows sorted by a key column (stably), cut into chunks by ranges of keys.

    Args:
        by: the column of keys: uint64.
        notes: further arrays to keep in the file's index.
    """
    keys = numbers(table, by)
    order = np.argsort(keys, kind="stable")
    ordered, keys = rows_at(table, order), keys[order]
    write_chunks(file, slices_by_key(ordered, keys, _MOST_CHUNKS, _LEAST_BYTES), True, **notes)


@dataclass
class ChunkWriter(FileWriter):
    """A sink of files of chunks; subclasses say which files they make of a batch.

    Args:
        durable: whether files are synced to disk, see `Directory.writing`; what waits between two rounds is not.
    """

    durable: bool = False
    writes_documents: ClassVar[bool] = False
    #: Columns that later rounds use, if that is known: others stay in the lines of the rows.
    _used_later: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)

    def used_later(self, columns: Sequence[str]) -> None:
        """Note which columns later rounds use."""
        self._used_later = tuple(columns)

    def to_spill(self, table: pa.Table) -> pa.Table:
        """Return the rows without the columns that later rounds can do without."""
        return table if self._used_later is None else left_in_lines(table, self._used_later)

    def ranges(self, table: pa.Table, key: BatchKey, by: str, place: str = "", **notes: npt.NDArray[Any]) -> FilePart:
        """Write rows in the order of a column of keys, see `write_by_key`; the file is named after the batch's key.

        Args:
            place: folder and beginning of the name of the file.
        """
        with self.new_file(key, place) as (path, file):
            write_by_key(file, table, by, **notes)
            return FilePart(path, size=file.tell())

    def chunks(
        self, tables: Iterable[pa.Table], key: BatchKey, place: str, packed: bool = True, **notes: npt.NDArray[Any]
    ) -> FilePart:
        """Write tables as they come, each a chunk; see `write_chunks`."""
        with self.new_file(key, place) as (path, file):
            write_chunks(file, tables, packed, **notes)
            return FilePart(path, size=file.tell())

    @contextmanager
    def new_file(self, key: BatchKey, place: str, suffix: str = SUFFIX) -> Iterator[tuple[str, BinaryIO]]:
        """Open a file that is named after the batch's key; gives its address and the file."""
        name = place + self._name(key, suffix, 0)
        directory = self.directory
        with directory.writing(name, durable=self.durable) as file:
            yield directory.path(name), file


@dataclass
class ShuffleWriter(ChunkWriter):
    """Writes each batch in the order of a column of keys, so that `ShuffleReader` finds ranges of them.

    Args:
        by: the column of keys: uint64, and best spread over all of its values.
    """

    by: str = "key"
    name: str = "range_writer"

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], [self.by]

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        yield self.ranges(table, key, self.by, folder)
