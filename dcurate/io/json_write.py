"""Rows to JSON Lines: a row that was read from a line is written from it, with what stages changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from itertools import pairwise
from math import isnan
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError
from dcurate.frames.columns import python_values
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
from dcurate.rows.lines import LINE, is_as_read, lines_of, read_columns, with_new_lines, without_lines

#: Bytes of the lines that are edited at a time.
_EDITED = 2**23
#: Bytes of unchanged lines that are written at a time: the file system takes many small pieces sooner than a large one.
_PIECE = 2**20
#: Bytes of rows without lines that are written at a time, and rows for each of their columns.
_CHUNK, _COLUMN_CHUNK = 2**20, 2**14
#: Numbers of fewer characters are parsed exactly by orjson.
_EXACT = 15


#: Content of rows as lines, and where rows end in it.
EndedPiece = tuple[bytes | memoryview, npt.NDArray[np.int64]]


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


@dataclass(frozen=True)
class JsonForm:
    r"""The form in which rows are written: all settings of a writer that decide its bytes.

    Args:
        default: returns what is written for a value for which JSON has no form; dates and times are ISO 8601 and
            others are refused if None.

    Examples:
        >>> b"".join(JsonForm().pieces(pa.table({"n": [1, None]})))
        b'{"n":1}\n{"n":null}\n'
    """

    default: Callable[[Any], Any] | None = None

    def pieces(self, table: pa.Table) -> Iterator[bytes | memoryview]:
        """Yield the rows as the content of a file. A piece may end within a line, and within a character.

        Args:
            table: the rows, with the lines that they were read from or without.

        Raises:
            DataError: a text is not valid UTF-8, or a date is not in the years 1 to 9999 and there is no `default`.
        """
        yield from (piece for piece, _ in self.ended_pieces(table))

    def ended_pieces(self, table: pa.Table) -> Iterator[EndedPiece]:
        """Yield `pieces`, and where rows end in each; arguments and errors are the same."""
        if LINE not in table.column_names:
            yield from map(ended, self._fresh(table))
            return
        for part in _parts(table):
            if part.column(LINE).null_count:
                yield ended(self._mixed(part))
            elif _is_unchanged(part):
                bounds, data = _lines(part)
                for start in range(0, len(data), _PIECE):
                    low, high = np.searchsorted(bounds[1:], [start, start + _PIECE], "right")
                    yield data[start : start + _PIECE], bounds[1 + low : 1 + high] - start
            else:
                bounds, edited = self._edited(part)
                yield edited.data, bounds[1:]

    def lines(self, table: pa.Table) -> Iterator[list[bytes]]:
        """Yield the rows, each without a newline at its end; arguments and errors are those of `pieces`."""
        if LINE not in table.column_names:
            yield from self._fresh(table)
            return
        for part in _parts(table):
            yield self._mixed(part)

    def _fresh(self, table: pa.Table) -> Iterator[list[bytes]]:
        """The rows without their lines, a megabyte of them at a time: the memory is used again while it is warm."""
        names = table.column_names
        if not names:
            yield [b"{}"] * table.num_rows
            return
        least = _COLUMN_CHUNK * len(names)  # of many columns a megabyte is few rows, and each column costs a call
        rows = max(1, table.num_rows * max(_CHUNK, least) // max(table.nbytes, 1))
        fallback = self.default or moment
        dumps, options = orjson.dumps, orjson.OPT_PASSTHROUGH_SUBCLASS
        for batch in table.to_batches(rows):
            try:
                columns = [_values_of(column, self.default) for column in batch.columns]
            except (UnicodeDecodeError, pa.ArrowException) as error:
                raise DataError(f"a text is not valid UTF-8 ({error}); fix it before it is written") from error
            yield [dumps(dict(zip(names, row, strict=True)), fallback, options) for row in zip(*columns, strict=True)]

    def _mixed(self, table: pa.Table) -> list[bytes]:
        """The rows, some of which may have no line."""
        has_line = table.column(LINE).is_valid().to_numpy()
        edited = iter(self._edited_rows(table.filter(pa.array(has_line))))
        fresh = (row for rows in self._fresh(without_lines(table.filter(pa.array(~has_line)))) for row in rows)
        return [next(edited) if is_edited else next(fresh) for is_edited in has_line]

    def _edited_rows(self, table: pa.Table) -> list[bytes]:
        bounds, data = self._edited(table)
        content = data.tobytes()
        return [content[start : stop - 1] for start, stop in pairwise(bounds.tolist())]

    def _edited(self, table: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """The bounds and bytes of the rows, with newlines, and with the changes that stages made."""
        _, data = _lines(table)
        read, fields = read_columns(table), {field.name: field for field in table.schema if field.name != LINE}
        names = [name for name in fields if name not in read or not is_as_read(fields[name])]
        names += [name for name in read if name not in fields]
        rows = scan(data, names, DEEPEST)
        assert rows.valid.all(), "a reader keeps lines that are JSON objects"
        changes = [self._change(table, name, name in read, _Source(data, rows, key)) for key, name in enumerate(names)]
        return _with_changes(data, rows, changes)

    def _change(self, table: pa.Table, name: str, was_read: bool, source: _Source) -> _Change:
        rows = table.num_rows
        if name not in table.column_names:
            return _Change(name, np.full(rows, REMOVE, np.uint8), np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8))
        column = table.column(name).combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        actions = np.full(rows, WRITE, np.uint8)
        if was_read:
            actions[_same(column, source)] = LEAVE
        return _Change(name, actions, *self._as_json(column, actions == WRITE))

    def _as_json(
        self, column: pa.Array, wanted: npt.NDArray[np.bool_]
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
            orjson.dumps(value, self.default or moment, orjson.OPT_PASSTHROUGH_SUBCLASS) if use else b""
            for value, use in zip(_values_of(column, self.default), wanted, strict=True)
        ]
        joined = np.frombuffer(b"".join(content), np.uint8)
        return np.cumsum([0, *map(len, content)]), joined


def with_values(table: pa.Table, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    r"""Return the table with lines that hold these values, which its columns of the same names may hold in part only.

    The columns count as read from the lines. A value that a line has already is left as it is written there; None is
    that of a line without the key, too.

    Args:
        table: the rows; each has a line.
        columns: a Python value for each row.

    Examples:
        >>> from dcurate.rows.lines import with_lines
        >>> texts = pa.table({"a": ["1", "2"]})
        >>> table = with_lines(texts, pa.array([b'{"a": 1}\n', b'{ }\n'], pa.large_binary()), ["a"])
        >>> list(map(bytes, JsonForm().pieces(with_values(table, {"a": [1, [2, "b"]]}))))
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
        return orjson.dumps(value, anything, orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    except TypeError:  # for whole numbers of more than 64 bits, and texts with half of a surrogate pair
        return json.dumps(value, default=str).encode()


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """Cut a table into slices of about `_EDITED` bytes, unless none of its lines has to be edited."""
    if _is_unchanged(table) and not table.column(LINE).null_count:
        yield table
        return
    rows = max(1, table.num_rows * _EDITED // max(1, table.nbytes))
    yield from (table.slice(start, rows) for start in range(0, table.num_rows, rows))


def _is_unchanged(table: pa.Table) -> bool:
    read = read_columns(table)
    return set(read) <= {*table.column_names} and all(
        name in read and is_as_read(field) for field in table.schema if (name := field.name) != LINE
    )


def _lines(table: pa.Table) -> tuple[npt.NDArray[np.int64], memoryview]:
    row_lines = lines_of(table)
    assert row_lines is not None, "all rows have lines here"
    return row_lines


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
        values = _values_of(column)
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


def _values_of(column: pa.Array, default: Callable[[Any], Any] | None = None) -> Any:
    """Return the values of a column as Python objects, texts quickly.

    Raises:
        DataError: a date is none of the years 1 to 9999, and there is no `default` for what JSON has no form for.
    """
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.to_numpy(zero_copy_only=False)
    if default is not None:
        return python_values(column)
    try:
        return column.to_pylist()
    except OverflowError as error:
        raise DataError(
            f"a value of {column.type} is outside of the years 1 to 9999, which JSON has no form for; "
            "leave the column out with fields=, turn it into text, or use ParquetWriter"
        ) from error


def moment(value: Any) -> str:
    """Dates and times of kinds that orjson does not know, as ISO 8601."""
    if isinstance(value, date | time):
        return value.isoformat()
    raise TypeError(f"JSON has no form for {type(value).__name__}")


def anything(value: Any) -> str:
    """Any value as text: for rows that are kept for a person to look at."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return moment(value) if isinstance(value, date | time) else str(value)


def ended(rows: list[bytes]) -> EndedPiece:
    """Lines as they are in a file, and where each ends."""
    return joined(rows), np.cumsum([len(row) + 1 for row in rows], dtype=np.int64)


def joined(rows: list[bytes]) -> bytes:
    """Lines as they are in a file."""
    return b"\n".join([*rows, b""])
