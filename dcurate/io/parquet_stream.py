"""Parquet files that are written a few rows at a time, in constant memory, and their notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.errors import DataError
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import Directory
from dcurate.io.parquet_int96 import ALL_YEARS

_ROW_GROUP_BYTES = 2**25


class ParquetStream:
    """Writes tables to an open file; rows are collected until a row group is large enough.

    Args:
        file: open for writing.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._size = 0

    def write(self, table: pa.Table) -> None:
        """Write rows; all tables have the same columns."""
        self._waiting.append(table)
        self._size += table.nbytes
        if self._size >= _ROW_GROUP_BYTES:
            self._flush()

    def close(self, notes: Mapping[str, str]) -> None:
        """Write what waits, and the footer with notes by name."""
        self._flush()
        if self._writer is not None:
            self._writer.add_key_value_metadata(dict(notes))
            self._writer.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting, self._size = [], 0
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, table.schema, compression="zstd")
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))


@contextmanager
def opened_parquet(directory: Directory, name: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file of a directory.

    Raises:
        DataError: it cannot be read.
    """
    store, path = open_store(directory.path(name), directory.options)
    with storage_errors("read", directory.path(name)), store.open(path, "rb") as file:
        try:
            with pq.ParquetFile(file, **ALL_YEARS) as parquet:
                yield parquet
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise DataError(f"{directory.path(name)!r} is truncated or not a Parquet file ({error})") from error


def parquet_notes(directory: Directory, name: str) -> dict[str, str]:
    """Return the notes in the footer of a file.

    Raises:
        DataError: it cannot be read.
    """
    with opened_parquet(directory, name) as file:
        notes = file.metadata.metadata or {}
    return {key.decode(): value.decode() for key, value in notes.items()}


def parquet_lists(directory: Directory, name: str, column: str, start: int, stop: int) -> list[list[int]]:
    """Return the lists in a column from row `start` up to `stop`; only their row groups are read.

    Raises:
        DataError: the file cannot be read.
    """
    with opened_parquet(directory, name) as file:
        counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        bounds = list(accumulate(counts, initial=0))
        groups = [group for group in range(len(counts)) if bounds[group] < stop and bounds[group + 1] > start]
        if not groups:
            return []
        lists = file.read_row_groups(groups, columns=[column]).column(0)
        values: list[list[int]] = lists.slice(start - bounds[groups[0]], stop - start).to_pylist()
        return values


def parquet_rows(
    directory: Directory, name: str, columns: Sequence[str] | None = None, within: tuple[str, int] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield rows of a file, a row group at a time.

    Args:
        within: a column of numbers and one of them: row groups that cannot hold it are not read.

    Raises:
        DataError: the file cannot be read.
    """
    with opened_parquet(directory, name) as file:
        for group in range(file.num_row_groups):
            if within is not None:
                place = file.schema_arrow.names.index(within[0])
                about = file.metadata.row_group(group).column(place).statistics
                following = None
                if group + 1 < file.num_row_groups:
                    following = file.metadata.row_group(group + 1).column(place).statistics
                if about is not None and about.min > within[1]:
                    return
                if following is not None and following.min <= within[1]:
                    continue
            yield from file.read_row_group(group, columns=columns).to_pylist()


def parquet_table(directory: Directory, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return all rows of a file.

    Args:
        columns: those to read; all by default.

    Raises:
        DataError: the file cannot be read.
    """
    with opened_parquet(directory, name) as file:
        return file.read(columns=None if columns is None else list(columns), use_threads=False)
