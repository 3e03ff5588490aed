"""The rows of output files for the proof of a run: roots of them, and hashes to find a changed row by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from xxhash import xxh3_64, xxh3_64_digest

from dcurate.core.extras import needed
from dcurate.core.merkle import merkle_root
from dcurate.errors import DataError
from dcurate.frames.row_contents import columns_about, row_contents
from dcurate.fs.compression import blocks, ending_of
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import META_DIR, Directory
from dcurate.io.files import PARQUET
from dcurate.io.parquet_int96 import ALL_YEARS

#: The folder of the proof among the records of an output.
PROOF = f"{META_DIR}/proof"
#: Bytes of the hash of each row that are kept: of 65,536 changed rows one is not found by them, but by the root.
SHORT = 2
_NEWLINE = ord("\n")
#: Bytes with which a block of rows ends: BLAKE3 takes several kilobytes at a time.
_BLOCK = 2**16
#: Rows of Parquet that are read at a time.
_ROWS = 65_536


class ProvedRows(NamedTuple):
    """The rows of a file.

    Args:
        blocks: BLAKE3 of each block of them: lines, or their values in Parquet.
        counts: number of rows up to the end of each block.
        short: the first bytes of XXH3 of each row.
        about: what they are: lines, or rows with columns of these names.
    """

    blocks: list[bytes]
    counts: list[int]
    short: list[bytes]
    about: bytes

    @property
    def root(self) -> str:
        """The root of the tree over the blocks."""
        return merkle_root(self.blocks, self.about).hex()


class RowBlocks:
    r"""Hashes rows that come in pieces of content, wherever the pieces are cut.

    A block ends with the first row with which it has 64 KiB. BLAKE3 of it withstands somebody who looks for other rows
    of equal hash, and is three times as fast as SHA-256. XXH3 of a row only says which row of a block was changed.

    Args:
        about: what the rows are.

    Raises:
        ResourceError: the library of BLAKE3 is not installed.

    Examples:
        >>> rows = RowBlocks(b"lines")
        >>> for piece in (b"a\nb", b"c\n"):
        ...     rows.add_lines(piece)
        >>> proved = rows.rows()
        >>> len(proved.short), len(proved.blocks), proved.counts
        (2, 1, [2])
    """

    def __init__(self, about: bytes) -> None:
        self._blake3: Callable[[], Any] = needed("blake3", "the proof of a run", "proof").blake3
        self._about = about
        self._blocks: list[bytes] = []
        self._counts: list[int] = []
        self._short: list[bytes] = []
        self._block, self._nbytes = self._blake3(), 0
        self._row, self._begun = xxh3_64(), False  # of the row that has not ended

    def add(self, piece: bytes | memoryview, ends: npt.NDArray[np.int64]) -> None:
        """Add the next piece.

        Args:
            piece: content.
            ends: where rows end in it.
        """
        content, start, first = memoryview(piece), 0, len(self._short)
        self._add_short(content, ends.tolist())
        while True:
            place = int(np.searchsorted(ends, max(start + _BLOCK - self._nbytes, start + 1)))
            if place == len(ends):
                break
            stop = int(ends[place])
            self._block.update(content[start:stop])
            self._end_block(first + place + 1)
            start = stop
        self._block.update(content[start:])
        self._nbytes += len(content) - start

    def add_lines(self, piece: bytes | memoryview) -> None:
        """Add the next piece of content whose rows are lines."""
        self.add(piece, np.flatnonzero(np.frombuffer(piece, np.uint8) == _NEWLINE) + 1)

    def rows(self) -> ProvedRows:
        """The rows so far; one that has not ended counts."""
        if self._begun:
            self._short.append(self._row.digest()[:SHORT])
        if self._nbytes or len(self._short) > (self._counts[-1] if self._counts else 0):
            self._end_block(len(self._short))
        return ProvedRows(self._blocks, self._counts, self._short, self._about)

    def _add_short(self, content: memoryview, ends: list[int]) -> None:
        start = 0
        if self._begun and ends:
            self._row.update(content[: ends[0]])
            self._short.append(self._row.digest()[:SHORT])
            self._row, self._begun = xxh3_64(), False
            start, ends = ends[0], ends[1:]
        self._short += [xxh3_64_digest(content[low:high])[:SHORT] for low, high in pairwise([start, *ends])]
        rest = content[ends[-1] if ends else start :]
        if len(rest):
            self._row.update(rest)
            self._begun = True

    def _end_block(self, count: int) -> None:
        self._blocks.append(self._block.digest())
        self._counts.append(count)
        self._block, self._nbytes = self._blake3(), 0


def lines_to_prove() -> RowBlocks:
    """What hashes lines."""
    return RowBlocks(b"lines")


def table_rows(tables: Iterable[pa.Table]) -> ProvedRows:
    """The rows of tables with the same columns, of which there is at least one."""
    blocks: RowBlocks | None = None
    for table in tables:
        blocks = blocks or RowBlocks(columns_about(table))
        for content, ends in row_contents(table):
            blocks.add(content, ends)
    assert blocks is not None, "the columns are those of a table"
    return blocks.rows()


def keep_rows(directory: Directory, name: str, rows: ProvedRows) -> str:
    """Keep the short hashes of the rows of a file of the output; return its root.

    Raises:
        DataError: they cannot be written.
    """
    with replace(directory, run="").writing(_short_name(name), durable=False) as file:
        file.write(b"".join(rows.short))
    return rows.root


def kept_rows(directory: Directory, name: str) -> list[bytes] | None:
    """The short hashes of the rows of a file, as they were when it was written; None if they are gone."""
    data = directory.read(_short_name(name))
    return None if data is None else [data[at : at + SHORT] for at in range(0, len(data), SHORT)]


def read_rows(directory: Directory, name: str) -> ProvedRows:
    """The rows of a file of an output, as it is now.

    Raises:
        DataError: it cannot be read.
    """
    store, root = open_store(directory.url, directory.options)
    path = directory.path(name)
    with storage_errors("read", path), store.open(f"{root.rstrip('/')}/{name}", "rb") as file:
        if PARQUET.matches(name):
            try:
                with pq.ParquetFile(file, **ALL_YEARS) as parquet:
                    return table_rows(_tables(parquet))
            except pa.ArrowException as error:
                raise DataError(f"{path!r} is truncated or not a Parquet file ({error})") from error
        lines = lines_to_prove()
        for piece in blocks(file, ending_of(name), path):
            lines.add_lines(piece)
        return lines.rows()


def _tables(file: pq.ParquetFile) -> Iterator[pa.Table]:
    yield file.schema_arrow.empty_table()
    yield from (pa.Table.from_batches([batch]) for batch in file.iter_batches(_ROWS))


def _short_name(name: str) -> str:
    return f"{PROOF}/rows/{name}"
