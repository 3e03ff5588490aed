"""Rows as JSON Lines: a row that was read from a line is written from it, with what stages changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import isnan
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError
from dcurate.frames.lines import LINE, is_as_read, lines_of, read_columns, with_new_lines, without_lines
from dcurate.io import json_text
from dcurate.io.json_parse import DEEPEST
from dcurate.kernels.json_rows import (
    ABSENT,
    ESCAPED_TEXT,
    LEAVE,
    NULL,
    REMOVE,
    TEXT,
    WRITE,
    Edits,
    Rows,
    decode,
    edit,
    encode,
    scan,
)

#: Bytes of the lines that are edited at a time.
_CHUNK = 2**23
#: Bytes of unchanged lines that are written at a time: the file system takes many small pieces sooner than a large one.
_PIECE = 2**20
#: Numbers of fewer characters are parsed exactly by orjson.
_EXACT = 15

Default = Callable[[Any], Any]


class _Change(NamedTuple):
    """The new values of a column.

    Args:
        name: name of the column.
        actions: what to do with it in each row: `LEAVE`, `WRITE`, or `REMOVE`.
        bounds: where each new value begins in `values`.
        values: new values as JSON text.
    """

    name: str
    actions: npt.NDArray[np.uint8]
    bounds: npt.NDArray[np.int64]
    values: npt.NDArray[np.uint8]


def pieces(table: pa.Table, default: Default | None = None) -> Iterator[bytes | memoryview]:
    """Yield the rows as the content of a file.

    Args:
        table: the rows, with the lines that they were read from or without.
        default: returns what is written for a value for which JSON has no form; see `json_text.lines`.

    Raises:
        DataError: a text is not valid UTF-8.
    """
    if LINE not in table.column_names:
        yield from map(json_text.joined, json_text.lines(table, default))
        return
    for part in _parts(table):
        if part.column(LINE).null_count:
            yield json_text.joined(_mixed(part, default))
        elif _is_unchanged(part):
            data = _lines(part)[1]
            yield from (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))
        else:
            yield _edited(part, default)[1].data


def lines(table: pa.Table, default: Default | None = None) -> Iterator[list[bytes]]:
    """Yield the rows, each without a newline at its end; arguments and errors are those of `pieces`."""
    if LINE not in table.column_names:
        yield from json_text.lines(table, default)
        return
    for part in _parts(table):
        yield _mixed(part, default)


def with_values(table: pa.Table, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    r"""Return the table with lines that hold these values, which its columns of the same names may hold in part only.

    The columns count as read from the lines. A value that a line has already is left as it is written there; None is
    that of a line without the key, too.

    Args:
        table: the rows; each has a line.
        columns: a Python value for each row.

    Examples:
        >>> from dcurate.frames.lines import with_lines
        >>> texts = pa.table({"a": ["1", "2"]})
        >>> table = with_lines(texts, pa.array([b'{"a": 1}\n', b'{ }\n'], pa.large_binary()), ["a"])
        >>> list(map(bytes, pieces(with_values(table, {"a": [1, [2, "b"]]}))))
        [b'{"a": 1}\n{"a":[2,"b"] }\n']
    """
    _, data = _lines(table)
    rows = scan(data, list(columns), DEEPEST)
    assert rows.valid.all(), "a reader keeps lines that are JSON objects"
    changes = []
    for key, (name, values) in enumerate(columns.items()):
        source = _Source(data, rows, key)
        texts = [_text(value) for value in values]
        empty = (source.kinds == ABSENT) | (source.kinds == NULL)
        same = [
            text == (b"null" if nothing else _text(parsed(source.content(row))))
            for row, (text, nothing) in enumerate(zip(texts, empty, strict=True))
        ]
        kept = [b"" if is_same else text for text, is_same in zip(texts, same, strict=True)]
        content = np.frombuffer(b"".join(kept), np.uint8)
        changes.append(
            _Change(name, np.where(same, LEAVE, WRITE).astype(np.uint8), np.cumsum([0, *map(len, kept)]), content)
        )
    bounds, content = _with_changes(data, rows, changes)
    lines = pa.Array.from_buffers(
        pa.large_binary(), table.num_rows, [None, pa.py_buffer(bounds.astype(np.int64)), pa.py_buffer(content)]
    )
    return with_new_lines(table, lines, list(columns))


def text(value: Any) -> str:
    """A Python value as JSON."""
    return _text(value).decode()


def parsed(content: memoryview) -> Any:
    """The Python value of a JSON value; a number of more than 64 bits is a float."""
    try:
        return orjson.loads(content)
    except ValueError:  # for texts with half of a surrogate pair
        return json.loads(bytes(content))


def _text(value: Any) -> bytes:
    try:
        return orjson.dumps(value, json_text.anything, orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    except TypeError:  # for whole numbers of more than 64 bits, and texts with half of a surrogate pair
        return json.dumps(value, default=str).encode()


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """Cut a table into slices of about `_CHUNK` bytes, unless none of its lines has to be edited."""
    if _is_unchanged(table) and not table.column(LINE).null_count:
        yield table
        return
    rows = max(1, table.num_rows * _CHUNK // max(1, table.nbytes))
    yield from (table.slice(start, rows) for start in range(0, table.num_rows, rows))


def _is_unchanged(table: pa.Table) -> bool:
    read = read_columns(table)
    return set(read) <= {*table.column_names} and all(
        name in read and is_as_read(field) for field in table.schema if (name := field.name) != LINE
    )


def _mixed(table: pa.Table, default: Default | None) -> list[bytes]:
    """The rows, some of which may have no line."""
    has_line = table.column(LINE).is_valid().to_numpy()
    edited = iter(_edited_rows(table.filter(pa.array(has_line)), default))
    fresh = (row for rows in json_text.lines(without_lines(table.filter(pa.array(~has_line))), default) for row in rows)
    return [next(edited) if is_edited else next(fresh) for is_edited in has_line]


def _edited_rows(table: pa.Table, default: Default | None) -> list[bytes]:
    bounds, data = _edited(table, default)
    content = data.tobytes()
    return [content[start : stop - 1] for start, stop in pairwise(bounds.tolist())]


def _lines(table: pa.Table) -> tuple[npt.NDArray[np.int64], memoryview]:
    row_lines = lines_of(table)
    assert row_lines is not None, "all rows have lines here"
    return row_lines


def _edited(table: pa.Table, default: Default | None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The bounds and bytes of the rows, with newlines, and with the changes that stages made."""
    _, data = _lines(table)
    read, fields = read_columns(table), {field.name: field for field in table.schema if field.name != LINE}
    names = [name for name in fields if name not in read or not is_as_read(fields[name])]
    names += [name for name in read if name not in fields]
    rows = scan(data, names, DEEPEST)
    assert rows.valid.all(), "a reader keeps lines that are JSON objects"
    changes = [_change(table, name, name in read, _Source(data, rows, key), default) for key, name in enumerate(names)]
    return _with_changes(data, rows, changes)


def _with_changes(
    data: memoryview, rows: Rows, changes: Sequence[_Change]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The bounds and bytes of rows, with newlines, and with these changes, for whose columns they were scanned."""
    count, names = len(rows.starts), [change.name for change in changes]
    quoted = [orjson.dumps(name) for name in names]
    values, at, bounds = [], 0, np.zeros((len(names), count + 1), np.int64)
    for key, change in enumerate(changes):
        bounds[key] = change.bounds + at
        at += len(change.values)
        values.append(change.values)
    edits = Edits(
        (np.cumsum([0, *map(len, quoted)]), np.frombuffer(b"".join(quoted), np.uint8)),
        np.ascontiguousarray(np.stack([change.actions for change in changes], axis=1))
        if changes
        else np.zeros((count, 0), np.uint8),
        bounds,
        np.concatenate(values) if values else np.zeros(0, np.uint8),
    )
    return edit(data, rows._replace(stops=rows.stops + 1), names, edits, DEEPEST)


class _Source(NamedTuple):
    """The values of a column in the lines."""

    data: memoryview
    rows: Rows
    key: int

    @property
    def kinds(self) -> npt.NDArray[np.uint8]:
        """What each line holds, such as `TEXT`."""
        return self.rows.kinds[:, self.key]

    def content(self, row: int) -> memoryview:
        """The value of a row as it is written."""
        return self.data[self.rows.value_starts[row, self.key] : self.rows.value_stops[row, self.key]]

    def value(self, row: int) -> Any:
        """Parse the value of a row, with all digits of a number."""
        content = self.content(row)
        return orjson.loads(content) if len(content) < _EXACT else json.loads(bytes(content))


def _change(table: pa.Table, name: str, was_read: bool, source: _Source, default: Default | None) -> _Change:
    rows = table.num_rows
    if name not in table.column_names:
        return _Change(name, np.full(rows, REMOVE, np.uint8), np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8))
    column = table.column(name).combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    actions = np.full(rows, WRITE, np.uint8)
    if was_read:
        actions[_same(column, source)] = LEAVE
    return _Change(name, actions, *_as_json(column, actions == WRITE, default))


def _as_json(
    column: pa.Array, wanted: npt.NDArray[np.bool_], default: Default | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The wanted values of a column as JSON text, one after another; nothing for the others."""
    if not wanted.all():
        column = pc.if_else(pa.array(wanted), column, None) if _is_text(column.type) else column
    if _is_text(column.type) and not (column.null_count and wanted[np.asarray(column.is_null())].any()):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise DataError(f"a text is not valid UTF-8 ({error}); fix it before it is written") from error
        bounds, values = encode(*_text_parts(column))
        if wanted.all():
            return bounds, values
    content = [
        orjson.dumps(value, default or json_text.moment, orjson.OPT_PASSTHROUGH_SUBCLASS) if use else b""
        for value, use in zip(json_text.values_of(column, default), wanted, strict=True)
    ]
    joined = np.frombuffer(b"".join(content), np.uint8)
    return np.cumsum([0, *map(len, content)]), joined


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _text_parts(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    large = column.cast(pa.large_string())
    _, offsets, data = large.buffers()
    bounds = np.frombuffer(offsets, np.int64)[large.offset : large.offset + len(large) + 1]
    content = np.frombuffer(data if data is not None else b"", np.uint8)
    return bounds - bounds[0], content[bounds[0] : bounds[-1]]


def _same(column: pa.Array, source: _Source) -> npt.NDArray[np.bool_]:
    """Which values are those of the lines; null is that of a line that has none."""
    kinds = source.kinds
    empty = (kinds == ABSENT) | (kinds == NULL)
    null = np.asarray(column.is_null())
    if not _is_text(column.type):
        values = json_text.values_of(column)
        pairs = enumerate(zip(values, empty, strict=True))
        return np.array(
            [_is_same(value, None if nothing else source.value(int(row))) for row, (value, nothing) in pairs], np.bool_
        )
    texts = (kinds == TEXT) | (kinds == ESCAPED_TEXT)
    offsets, letters = decode(source.data, source.rows, source.key)
    before = pa.LargeStringArray.from_buffers(len(kinds), pa.py_buffer(offsets), pa.py_buffer(letters))
    equal = np.asarray(pc.equal(column.cast(pa.large_string()), before).fill_null(False))
    same: npt.NDArray[np.bool_] = np.where(texts, equal, empty & null)
    for row in np.flatnonzero(~texts & ~empty & ~null).tolist():  # read as JSON text
        same[row] = _is_same(column[row].as_py(), source.value(row))
    return same


def _is_same(value: Any, before: Any) -> bool:
    """Whether a value of a column is what was read from a line: nulls may be absent, numbers of another type."""
    if isinstance(before, dict) and isinstance(value, dict):
        return all(_is_same(value.get(name), before.get(name)) for name in {**value, **before})
    if isinstance(before, list) and isinstance(value, list):
        return len(before) == len(value) and all(map(_is_same, value, before))
    if isinstance(value, str) and not isinstance(before, str):
        return before is not None and _loaded(value) == before
    if value is None and before is None:
        return True
    if value is None or before is None or isinstance(value, bool) != isinstance(before, bool):
        return before is None and isinstance(value, float) and isnan(value)
    if isinstance(value, float) and isinstance(before, int):
        return float(before) == value
    return bool(value == before)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
