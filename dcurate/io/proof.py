"""The rows of output files for the proof of a run: their digests, kept in short beside the output to find a row by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.core.merkle import merkle_root
from dcurate.errors import DataError
from dcurate.frames.row_digests import columns_about, row_digests
from dcurate.fs.compression import blocks, ending_of
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import META_DIR, Directory
from dcurate.io.files import PARQUET
from dcurate.io.parquet_int96 import ALL_YEARS

#: The folder of the proof among the records of an output.
PROOF = f"{META_DIR}/proof"
#: Bytes of the digest of each row that are kept; of 65,536 changed rows one is not found by them, but by the root.
SHORT = 2
_LINES, _NEWLINE = b"lines", ord("\n")
#: Rows of Parquet that are read at a time.
_ROWS = 65_536


class ProvedRows(NamedTuple):
    """The rows of a file.

    Args:
        digests: SHA-256 of each: of its line, or of its values in Parquet.
        about: what they are of: lines, or the names of the columns.
    """

    digests: list[bytes]
    about: bytes

    @property
    def root(self) -> str:
        """The root of the tree over them."""
        return merkle_root(self.digests, self.about).hex()


class LineDigests:
    r"""SHA-256 of each line of a content that comes in pieces.

    Examples:
        >>> lines = LineDigests()
        >>> for piece in (b"a\nb", b"c\n"):
        ...     lines.add(piece)
        >>> lines.rows().digests == [sha256(line).digest() for line in (b"a", b"bc")]
        True
    """

    def __init__(self) -> None:
        self._digests: list[bytes] = []
        self._begun, self._nbytes = sha256(), 0  # of the line that has not ended

    def add(self, piece: bytes | memoryview) -> None:
        """Add the next piece."""
        content, start = memoryview(piece), 0
        for stop in np.flatnonzero(np.frombuffer(content, np.uint8) == _NEWLINE).tolist():
            self._begun.update(content[start:stop])
            self._digests.append(self._begun.digest())
            self._begun, self._nbytes, start = sha256(), 0, stop + 1
        self._begun.update(content[start:])
        self._nbytes += len(content) - start

    def rows(self) -> ProvedRows:
        """The lines so far; one without a newline at its end counts."""
        if self._nbytes:
            self.add(b"\n")
        return ProvedRows(self._digests, _LINES)


def table_rows(tables: Sequence[pa.Table]) -> ProvedRows:
    """The rows of tables with the same columns."""
    digests = [digest for table in tables for digest in row_digests(table)]
    return ProvedRows(digests, columns_about(tables[0]))


def keep_rows(directory: Directory, name: str, rows: ProvedRows) -> str:
    """Keep the first bytes of the digests of a file of the output; return its root.

    Raises:
        DataError: they cannot be written.
    """
    with directory.writing(_short_name(name), durable=False) as file:
        file.write(b"".join(digest[:SHORT] for digest in rows.digests))
    return rows.root


def kept_rows(directory: Directory, name: str) -> list[bytes] | None:
    """The first bytes of the digest of each row of a file, as they were when it was written; None if they are gone."""
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
                    return table_rows(list(_tables(parquet)))
            except pa.ArrowException as error:
                raise DataError(f"{path!r} is truncated or not a Parquet file ({error})") from error
        lines = LineDigests()
        for block in blocks(file, ending_of(name), path):
            lines.add(block)
        return lines.rows()


def _tables(file: pq.ParquetFile) -> Iterator[pa.Table]:
    yield file.schema_arrow.empty_table()
    yield from (pa.Table.from_batches([batch]) for batch in file.iter_batches(_ROWS))


def _short_name(name: str) -> str:
    return f"{PROOF}/rows/{name}"
