"""Compare rows of JSON Lines and Parquet files a piece at a time, and write files again without some of their rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.errors import DataError, listed
from dcurate.frames.columns import python_values
from dcurate.fs.compression import blocks, ending_of, packing
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import Directory
from dcurate.io.files import PARQUET
from dcurate.io.optouts import ComparedColumns
from dcurate.io.parquet_int96 import int96_columns
from dcurate.io.parquet_schema import packed, unpacked, write_options
from dcurate.io.parquet_stream import opened_parquet
from dcurate.io.rejections import DUPLICATE_OF
from dcurate.rows.lines import parsed_line

#: Rows, and bytes of lines, that are compared at a time.
_ROWS, _BYTES = 2048, 2**23


class ComparedRows(NamedTuple):
    """Some rows of a file.

    Args:
        numbers: their numbers in the file, from 0; blank lines count.
        urls, ids, texts: their values; None where the file has no such column.
        copies_of: the documents that they are dropped copies of; None where the file does not say it.
    """

    numbers: list[int]
    urls: list[Any] | None
    ids: list[Any] | None
    texts: list[Any] | None
    copies_of: list[Any] | None = None


def compared_rows(directory: Directory, name: str, compared: ComparedColumns, *, texts: bool) -> Iterator[ComparedRows]:
    """Yield the values that documents are known by, of the rows of a file; a part of the file is held at a time.

    Args:
        texts: whether the texts are read.

    Raises:
        DataError: the file cannot be read.
    """
    if PARQUET.matches(name):
        yield from _of_parquet(directory, name, compared, texts)
        return
    for pieces in _pieces(directory, name):
        rows = [(number, values) for number, line in pieces if (values := _parsed(directory, name, number, line))]
        names = dict.fromkeys(column for _, values in rows for column in values)
        id_name = compared.id_in(list(names))

        def column(wanted: str | None, rows: Sequence[Any] = rows, names: Collection[str] = names) -> list[Any] | None:
            return [values.get(wanted) for _, values in rows] if wanted in names else None

        yield ComparedRows(
            [number for number, _ in rows],
            column(compared.url),
            column(id_name),
            column(compared.text) if texts else None,
            column(DUPLICATE_OF),
        )


def write_without(
    directory: Directory,
    name: str,
    rows: Mapping[int, bytes],
    staged: Directory,
    change: Callable[[pa.Table], pa.Table] = lambda table: table,
) -> int:
    """Write a file of an output again under its name in another directory, without some of its rows.

    Lines of JSON stay as they are, to the byte; Parquet keeps its columns, types, metadata, encodings, compression and
    row groups. A file of which all rows go is written without rows, as the records of the run name it.

    Args:
        rows: their numbers, as `compared_rows` gives them, and of JSON Lines the line in the place of each.
        change: what is done to the rows of Parquet that stay.

    Returns:
        The bytes that were written.

    Raises:
        DataError: the file cannot be read, or not written.
    """
    with staged.writing(name) as file:
        if PARQUET.matches(name):
            _write_parquet(directory, name, rows, file, change)
        else:
            with packing(file, ending_of(name)) as packed_file:
                for pieces in _pieces(directory, name):
                    packed_file.write(b"".join(rows.get(number, line) for number, line in pieces))
        return file.tell()


def lines_at(directory: Directory, name: str, numbers: Collection[int]) -> dict[int, bytes]:
    """Return some lines of a file of JSON Lines, by their numbers, with their line ends.

    Raises:
        DataError: it cannot be read.
    """
    wanted = set(numbers)
    pieces = _pieces(directory, name)
    return {number: line for piece in pieces for number, line in piece if number in wanted}


def _of_parquet(directory: Directory, name: str, compared: ComparedColumns, texts: bool) -> Iterator[ComparedRows]:
    with opened_parquet(directory, name) as file:
        names = file.schema_arrow.names
        id_name = compared.id_in(names)
        wanted = [compared.url, id_name, compared.text if texts else None, DUPLICATE_OF]
        present = [column for column in dict.fromkeys(wanted) if column in names]
        first = 0
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(_ROWS, row_groups=[group], columns=present, use_threads=False):
                numbers = list(range(first, first + batch.num_rows))
                read = {column: python_values(batch.column(column)) for column in present}
                url, doc_id, text, copies = (None if column is None else read.get(column) for column in wanted)
                yield ComparedRows(numbers, url, doc_id, text, copies)
                first += batch.num_rows


def _write_parquet(
    directory: Directory,
    name: str,
    rows: Collection[int],
    file: BinaryIO,
    change: Callable[[pa.Table], pa.Table],
) -> None:
    with opened_parquet(directory, name) as before:
        about = before.metadata
        inexact = int96_columns(about, before.schema_arrow.names)
        if inexact:
            raise DataError(
                f"{directory.path(name)!r} has timestamps of 96 bits in {listed(inexact)}, which cannot be written "
                "again exactly; convert the file first"
            )
        counts = [about.row_group(group).num_rows for group in range(before.num_row_groups)]
        table = unpacked(before.read(use_threads=False), about)
    kept = [number for number in range(table.num_rows) if number not in rows]
    table = change(table.take(pa.array(kept, pa.int64())))
    options = {**_options(about), **write_options(table)}
    content = packed(table)
    place = end = start = 0
    with pq.ParquetWriter(file, content.schema, **options) as writer:
        for count in counts:
            end += count
            while place < len(kept) and kept[place] < end:
                place += 1
            if place > start:
                writer.write_table(content.slice(start, place - start), row_group_size=place - start)
            start = place


def _options(about: pq.FileMetaData) -> dict[str, Any]:
    """Arguments of `pyarrow.parquet.ParquetWriter` with which a file is compressed as it was."""
    options: dict[str, Any] = {}
    if about.num_row_groups:
        group = about.row_group(0)
        chunks = [group.column(place) for place in range(group.num_columns)]
        codecs = {chunk.path_in_schema: _codec(chunk.compression) for chunk in chunks}
        options["compression"] = codecs if len(set(codecs.values())) > 1 else next(iter(codecs.values()), "zstd")
    return options


def _codec(name: str) -> str:
    return "NONE" if name == "UNCOMPRESSED" else name


def _pieces(directory: Directory, name: str) -> Iterator[list[tuple[int, bytes]]]:
    """Lines with their numbers and line ends, some at a time."""
    lines, size = list[tuple[int, bytes]](), 0
    for number, line in enumerate(_lines(directory, name)):
        lines.append((number, line))
        size += len(line)
        if len(lines) >= _ROWS or size >= _BYTES:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines


def _lines(directory: Directory, name: str) -> Iterator[bytes]:
    begun = list[bytes]()
    with _stored(directory, name) as file:
        for block in blocks(file, ending_of(name), directory.path(name)):
            *lines, rest = block.split(b"\n")
            for line in lines:
                yield b"".join([*begun, line, b"\n"])
                begun.clear()
            if rest:
                begun.append(rest)
    if begun:
        yield b"".join(begun)


def _parsed(directory: Directory, name: str, number: int, line: bytes) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        values = parsed_line(line)
    except (ValueError, orjson.JSONDecodeError) as error:
        raise DataError(f"{directory.path(name)!r}, row {number}: {error}; is it JSON Lines?") from error
    return values if isinstance(values, dict) else {"value": values}


@contextmanager
def _stored(directory: Directory, name: str) -> Iterator[BinaryIO]:
    path = directory.path(name)
    store, place = open_store(path, directory.options)
    with storage_errors("read", path), store.open(place, "rb") as file:
        yield file
