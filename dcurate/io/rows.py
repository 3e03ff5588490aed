"""Read single rows of JSON Lines and Parquet files with their places; a file is never held in memory whole."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.errors import DataError
from dcurate.frames.columns import python_rows, python_values
from dcurate.frames.excerpts import id_column
from dcurate.fs.compression import blocks, ending_of
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import Directory
from dcurate.io.files import JSONL, PARQUET
from dcurate.io.parquet_int96 import ALL_YEARS
from dcurate.rows.lines import parsed_line

_ROWS = 1024


class Row(NamedTuple):
    """A row: the file's name in its directory, the number of the row in it from 0, and its values."""

    file: str
    number: int
    values: dict[str, Any]


def is_readable(name: str) -> bool:
    """Whether a file of this name holds rows that can be read here.

    Examples:
        >>> is_readable("a.jsonl.zst"), is_readable("a.parquet"), is_readable("a.html")
        (True, True, False)
    """
    return JSONL.matches(name) or PARQUET.matches(name)


def rows_in(directory: Directory, name: str, mention: bytes = b"") -> Iterator[Row]:
    """The rows of a file, in order.

    Args:
        mention: bytes that a line of JSON must hold to be looked at; Parquet is read as a whole.

    Raises:
        DataError: it cannot be read.
    """
    if PARQUET.matches(name):
        yield from _parquet_rows(directory, name)
        return
    for number, line in numbered_lines(directory, name):
        if mention in line:
            yield Row(name, number, _parsed(line, directory.path(name), number))


def rows_with(directory: Directory, name: str, column: str | None, wanted: Collection[str]) -> Iterator[Row]:
    """The rows of a file whose column holds one of these values, as text; of Parquet only this column is read first.

    Args:
        column: None for the first of those that usually hold ids.

    Raises:
        DataError: it cannot be read.
    """
    if PARQUET.matches(name):
        yield from _parquet_rows_with(directory, name, column, wanted)
        return
    # A backslash may be part of another way to write the value.
    pattern = re.compile(b"|".join([rb"\\", *(re.escape(orjson.dumps(value)[1:-1]) for value in wanted)]))
    for number, line in numbered_lines(directory, name):
        if pattern.search(line):
            values = _parsed(line, directory.path(name), number)
            id_name = column or id_column(list(values))
            if id_name in values and str(values[id_name]) in wanted:
                yield Row(name, number, values)


def numbered_lines(directory: Directory, name: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, each with its number from 0.

    Raises:
        DataError: it cannot be read.
    """
    number, begun = 0, list[bytes]()
    with _stored(directory, name) as file:
        for block in blocks(file, ending_of(name), directory.path(name)):
            *lines, unfinished = block.split(b"\n")
            for end in lines:
                line = b"".join([*begun, end])
                begun.clear()
                if line.strip():
                    yield number, line
                number += 1
            begun.append(unfinished)
    line = b"".join(begun)
    if line.strip():
        yield number, line


def line_bytes(directory: Directory, name: str, number: int) -> tuple[int, int] | None:
    """Return the first byte of a line of a file and one past its last; None of a compressed file, or of Parquet.

    Raises:
        DataError: it cannot be read.
    """
    if PARQUET.matches(name) or ending_of(name):
        return None
    start = line = 0
    with _stored(directory, name) as file:
        while block := file.read(2**20):
            at = 0
            while (end := block.find(b"\n", at)) >= 0:
                stop = file.tell() - len(block) + end + 1
                if line == number:
                    return start, stop
                start, line, at = stop, line + 1, end + 1
        return (start, file.tell()) if line == number and start < file.tell() else None


def _parsed(line: bytes, path: str, number: int) -> dict[str, Any]:
    try:
        values = parsed_line(line)
    except ValueError as error:
        raise DataError(f"{path!r}, row {number}: {error}; is it JSON Lines?") from error
    return values if isinstance(values, dict) else {"value": values}


def _parquet_rows(directory: Directory, name: str) -> Iterator[Row]:
    with open_parquet(directory, name) as file:
        number = 0
        for batch in file.iter_batches(_ROWS):
            for values in python_rows(batch):
                yield Row(name, number, values)
                number += 1


def _parquet_rows_with(directory: Directory, name: str, column: str | None, wanted: Collection[str]) -> Iterator[Row]:
    with open_parquet(directory, name) as file:
        id_name = column or id_column(file.schema_arrow.names)
        if id_name not in file.schema_arrow.names:
            return
        first = 0
        for group in range(file.num_row_groups):
            values = python_values(file.read_row_group(group, columns=[id_name]).column(0))
            hits = [place for place, value in enumerate(values) if str(value) in wanted]
            if hits:
                rows = python_rows(file.read_row_group(group).take(pa.array(hits)))
                yield from (Row(name, first + place, row) for place, row in zip(hits, rows, strict=True))
            first += len(values)


@contextmanager
def open_parquet(directory: Directory, name: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for a ``with`` statement.

    Raises:
        DataError: it cannot be read, here or within the statement.
    """
    with _stored(directory, name) as file:
        try:
            with pq.ParquetFile(file, **ALL_YEARS) as parquet:
                yield parquet
        except pa.ArrowException as error:
            raise DataError(f"{directory.path(name)!r} is truncated or not a Parquet file ({error})") from error


@contextmanager
def _stored(directory: Directory, name: str) -> Iterator[BinaryIO]:
    store, root = open_store(directory.url, directory.options)
    path = directory.path(name)
    with storage_errors("read", path), store.open(f"{root.rstrip('/')}/{name}", "rb") as file:
        yield file
