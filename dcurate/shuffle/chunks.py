"""Files of chunks: tables one after another, and an index at the end, so that some of them can be read alone."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from dcurate.core.batch import FilePart
from dcurate.errors import DataError, listed
from dcurate.frames.schema import ColumnTypes, TypeConflict, combined
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store, read_range
from dcurate.fs.stores import Directory
from dcurate.io.json_columns import with_same_texts
from dcurate.rows import columns_listed

Ints = npt.NDArray[np.int64]

SUFFIX = ".chunks"
_PACKED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)  # chunks are small, and slots are many
_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)
_LENGTH = 8
_TAIL = 2**16
#: Files that one process reads at a time.
READERS = 16


@dataclass(frozen=True)
class ChunkIndex:
    """The index at the end of a file of chunks.

    Args:
        bounds: byte at which each chunk begins, and the end of the last.
        rows: rows before each chunk, and all of them.
        sizes: bytes in memory before each chunk, and of all.
        notes: further arrays of the writer, by name.
    """

    bounds: Ints
    rows: Ints
    sizes: Ints
    notes: dict[str, npt.NDArray[Any]]


def write_chunks(file: BinaryIO, tables: Iterable[pa.Table], packed: bool = True, **notes: npt.NDArray[Any]) -> None:
    """Write tables, each as a chunk that can be read alone; one without rows takes no bytes.

    Args:
        packed: whether they are compressed.
        notes: further arrays to keep in the index.
    """
    bounds, rows, sizes = [0], [0], [0]
    for table in tables:
        data = _chunk(table, _PACKED if packed else _PLAIN) if table.num_rows else pa.py_buffer(b"")
        file.write(data)
        bounds.append(bounds[-1] + data.size)
        rows.append(rows[-1] + table.num_rows)
        sizes.append(sizes[-1] + table.nbytes)
    index = {"bounds": np.array(bounds), "rows": np.array(rows), "sizes": np.array(sizes)}
    footer = zlib.compress(_packed({**index, **notes}), 1)
    file.write(footer)
    file.write(len(footer).to_bytes(_LENGTH, "little"))


def _packed(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Arrays as bytes: a line of JSON with their names, types and shapes, then their contents."""
    about = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    return b"".join([orjson.dumps(about), b"\n", *(array.tobytes() for array in arrays.values())])


def _unpacked(data: bytes) -> dict[str, npt.NDArray[Any]]:
    at = data.index(b"\n") + 1
    arrays = {}
    for name, kind, shape in orjson.loads(data[: at - 1]):
        size = math.prod(shape) * np.dtype(kind).itemsize
        array = np.frombuffer(data[at : at + size], kind).reshape(shape).copy()
        arrays[name] = array
        at += size
    return arrays


def read_index(folder: Directory, name: str) -> ChunkIndex:
    """Read the index of a file.

    Raises:
        DataError: the file cannot be read.
    """
    store, path = open_store(folder.path(name), folder.options)
    with storage_errors("read", folder.path(name)):
        size = int(store.size(path))
        tail = read_range(store, path, max(0, size - _TAIL), size)
        length = int.from_bytes(tail[-_LENGTH:], "little") + _LENGTH
        if length > len(tail):
            tail = read_range(store, path, size - length, size)
    try:
        arrays = _unpacked(zlib.decompress(tail[-length:-_LENGTH]))
    except (zlib.error, ValueError, TypeError) as error:
        raise DataError(f"{folder.path(name)!r} is damaged; run again without resume") from error
    return ChunkIndex(arrays.pop("bounds"), arrays.pop("rows"), arrays.pop("sizes"), arrays)


def read_indexes(folder: Directory, names: Sequence[str]) -> Iterator[ChunkIndex]:
    """Read the indexes of several files in order; in parallel where that is not a disk of this host.

    Raises:
        DataError: one of them cannot be read.
    """
    if folder.on_disk:
        yield from (read_index(folder, name) for name in names)
        return
    with ThreadPoolExecutor(READERS) as pool:
        yield from pool.map(lambda name: read_index(folder, name), names)


def read_chunks(
    address: str, options: dict[str, Any], start: int, stop: int, columns: Sequence[str] | None = None
) -> list[pa.Table]:
    """Read the tables of all chunks between two bounds of a file.

    Args:
        columns: those to read; all by default.

    Raises:
        DataError: the file cannot be read, or a column is missing.
    """
    store, path = open_store(address, options)
    with storage_errors("read", address):
        data = pa.BufferReader(read_range(store, path, start, stop))
    tables = []
    while data.tell() < stop - start:
        begun = data.tell()
        with pa.ipc.open_stream(data, options=_READ) as stream:
            if columns is None:
                tables.append(stream.read_all())
                continue
            schema = stream.schema
        data.seek(begun)
        with pa.ipc.open_stream(data, options=_only(schema, columns)) as stream:
            tables.append(stream.read_all())
    return tables


def read_rows(folder: Directory, name: str, start: int, stop: int) -> pa.Table:
    """Read the rows of a file from number `start` up to `stop`.

    Raises:
        DataError: the file cannot be read.
    """
    index = read_index(folder, name)
    first = int(np.searchsorted(index.rows, start, "right")) - 1
    last = int(np.searchsorted(index.rows, stop))
    bounds = int(index.bounds[first]), int(index.bounds[last])
    chunks = stacked(read_chunks(folder.path(name), dict(folder.options), *bounds))
    return chunks.slice(start - int(index.rows[first]), stop - start)


def read_parts(
    parts: Iterable[FilePart], options: dict[str, Any], columns: Sequence[str] | None = None
) -> list[pa.Table]:
    """Read the tables of all chunks in parts of files; see `read_chunks`."""
    return [table for part in parts for table in read_chunks(part.path, options, part.start, part.stop or 0, columns)]


def columns_in(parts: Sequence[FilePart], options: dict[str, Any]) -> list[str]:
    """Return the columns of the first chunk of the parts of files."""
    for part in parts:
        store, path = open_store(part.path, options)
        with storage_errors("read", part.path), store.open(path, "rb") as file:
            file.seek(part.start)
            if file.read(8):
                file.seek(part.start)
                with pa.ipc.open_stream(file, options=_READ) as stream:
                    return list(stream.schema.names)
    return []


def _only(schema: pa.Schema, columns: Sequence[str]) -> pa.ipc.IpcReadOptions:
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise DataError(f"no column {listed(missing)}; the rows have {columns_listed(schema.names)}")
    return pa.ipc.IpcReadOptions(use_threads=False, included_fields=[schema.get_field_index(name) for name in columns])


def stacked(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables; a column that is missing in one of them is null there.

    Raises:
        DataError: a column has types that no one type can hold.

    Examples:
        >>> stacked([pa.table({"a": [1]}), pa.table({"b": ["x"]})]).to_pylist()
        [{'a': 1, 'b': None}, {'a': None, 'b': 'x'}]
    """
    tables = with_same_texts(tables)
    shape = ColumnTypes()
    for table in tables:
        try:
            shape = shape.joined(table.schema, "another file")
        except TypeConflict as conflict:
            raise DataError(
                f"column {conflict.column!r} is {conflict.here} in one file and {conflict.before} in another; "
                "say which it is to be with schema= of the reader, or leave it out with fields="
            ) from conflict
    schema = shape.schema()
    return combined(tables or [schema.empty_table()], schema)


def runs(wanted: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield where runs of true values begin and end.

    Examples:
        >>> list(runs(np.array([True, True, False, True])))
        [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _chunk(table: pa.Table, options: pa.ipc.IpcWriteOptions) -> pa.Buffer:
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, table.schema, options=options) as stream:
        stream.write_table(table)
    return buffer.getvalue()
