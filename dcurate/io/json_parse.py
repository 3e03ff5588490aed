"""JSON Lines to Arrow: all at once where the data is clean, line by line where it is not."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from dcurate.frames.columns import floats_in
from dcurate.frames.schema import ColumnTypes, unified, without, without_null
from dcurate.kernels.nesting import line_ends

#: A line whose values are nested deeper is a bad one; the row itself is the first level. Arrow passes no more than 63
#: levels on between processes, and reads a Parquet file back with no more than 49 lists within one another.
DEEPEST = 40

#: Returns the number of line ends, or -1, as `line_ends` does.
LineEnds = Callable[[bytes, int], int]

_OBJECT = re.compile(rb"\s*\{")
_NULL_LINE = re.compile(rb"(?m)^[ \t\r]*null[ \t\r]*$")
#: Floats hold all whole numbers up to here.
_EXACT = 2**53
_ROUNDED = "whole numbers beyond 2**53, read as floats, of column "
_MANY_DIGITS = re.compile(rb"[0-9]{16}")
_BEYOND_INT64 = float(2**63)
#: Columns of large floats that are tried as whole numbers one by one.
_FEW = 4
_SCALARS: dict[type, pa.DataType] = {str: pa.string(), bool: pa.bool_(), float: pa.float64(), type(None): pa.null()}
#: Digits of the longest whole number of 64 bits, with a sign.
_LONGEST_INTEGER = 20
_NOT_FINITE = (b"NaN", b"Infinity")
_UNSEEN: Any = object()
#: Lines with which JSON begins that is spread over several, and what to do about it.
_OPENED = (b"{", b"[", b"[{")
_ONE_A_LINE = "a document goes on a line of its own, as jq -c '.[]' writes those of a list"
_JSON_NAMES = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}


class BadLine(NamedTuple):
    """A line that is not a row: its number from 0, its first byte in the data, the error, and the line itself.

    ``column`` is the one whose value does not fit, None where the line as a whole is at fault; ``kind`` is what a
    report counts it as then.
    """

    number: int
    offset: int
    error: str
    raw: bytes
    column: str | None = None
    kind: str = "malformed line"


class _BadRowError(ValueError):
    def __init__(self, problem: str, column: str | None = None) -> None:
        super().__init__(problem)
        self.problem, self.column = problem, column


@dataclass(frozen=True)
class Wanted:
    """The expected types and columns of rows.

    Args:
        shape: types known before, from the heads of the input's files.
        fixed: those among them that a person declared; they hold for any data.
        fields: the only columns wanted, or None for all.
    """

    shape: ColumnTypes
    fixed: dict[str, pa.DataType]
    fields: tuple[str, ...] | None = None

    def known(self) -> pa.Schema:
        """Columns whose types are known through and through."""
        return without_null(self.shape.schema(self.fields))

    def only(self) -> bool:
        """Whether all else may be skipped while parsing."""
        return self.fields is not None and len(self.known()) == len(self.fields)


def parse_clean(data: bytes, wanted: Wanted, count: LineEnds = line_ends) -> pa.Table | None:
    """The rows of clean JSON Lines; None if a line is no JSON object, not UTF-8, too deep, or types clash.

    The quick way: one pass in C++, and UTF-8 is checked. Texts that look like dates stay text.

    Args:
        count: returns the number of line ends, or -1, as `line_ends` does.
    """
    ends = count(data, DEEPEST)
    # Before Arrow sees it: it ends the process at some 20,000 levels, on one line or on many, and if null comes first.
    if ends < 0 or not _OBJECT.match(data):
        return None
    known = wanted.known()
    behavior = "ignore" if wanted.only() else "infer"
    table = _read(data, known, behavior)
    if table is None and len(known):
        known, behavior = pa.schema([pa.field(name, type_) for name, type_ in wanted.fixed.items()]), "infer"
        table = _read(data, known, behavior)
    if table is None:
        return None
    plain = _replain(table, known)
    if not plain.equals(table.schema):
        exact = _read(data, _overrides(known, plain), behavior)
        in_part = _in_part(data, table, plain) if exact is None else None
        table = exact if in_part is None else _read(data, _overrides(known, in_part), behavior)
    if table is None or not _is_whole(data, ends, table):
        return None
    return table if max(map(_farthest, table.columns), default=0.0) < math.inf else None  # what JSON writes is finite


def _read(data: bytes, schema: pa.Schema, behavior: str) -> pa.Table | None:
    options = pj.ReadOptions(use_threads=False, block_size=len(data) + 64)
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=behavior)
    try:
        table = pj.read_json(pa.BufferReader(data), read_options=options, parse_options=parsing)
        table.validate(full=True)
        "".join(table.column_names).encode()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeError, OverflowError):
        return None
    return table


def _overrides(known: pa.Schema, plain: pa.Schema) -> pa.Schema:
    names = set(known.names)
    return without_null(pa.schema([*known, *(column for column in plain if column.name not in names)]))


def _in_part(data: bytes, table: pa.Table, plain: pa.Schema) -> pa.Schema | None:
    """A schema in which a large float is a whole number where the column holds nothing else.

    Each such column takes a pass over the data: None if they are many, where it is cheaper to go line by line.
    """
    pairs = list(zip(plain, table.schema, strict=True))
    guessed = {column.name for column, before in pairs if column.type == pa.uint64() != before.type}
    if len(guessed) > _FEW:
        return None
    stay = {name for name in guessed if _read(data, pa.schema([plain.field(name)]), "ignore") is None}
    return pa.schema([before if column.name in stay else column for column, before in pairs])


def _replain(table: pa.Table, known: pa.Schema) -> pa.Schema:
    """Return the schema without guesses: dates in texts, and floats that are large whole numbers."""
    columns = []
    names = set(known.names)
    for column, values in zip(table.schema, table.columns, strict=True):
        type_ = column.type
        if column.name not in names:
            type_ = without(type_, "temporal")
            if pa.types.is_floating(type_) and _is_large(values):
                type_ = pa.uint64()
        columns.append(pa.field(column.name, type_))
    return pa.schema(columns)


def _is_large(column: pa.ChunkedArray) -> bool:
    largest = pc.max(column).as_py()
    return largest is not None and largest >= _BEYOND_INT64


def rounded_in(column: str) -> str:
    """Return the name under which a report counts the `rounded` numbers of a column."""
    return f"{_ROUNDED}{column!r}"


def rounded_as(table: pa.Table, schema: pa.Schema) -> Counter[str]:
    """Count the whole numbers beyond 2**53 of a table that become floats as columns of a schema, as `rounded_in` names.

    Examples:
        >>> rounded_as(pa.table({"n": [2**53 + 1]}), pa.schema({"n": pa.float64()})).total()
        1
    """
    counts = Counter[str]()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in schema.names and column.type != schema.field(name).type:
            wanted = schema.field(name).type
            counts[rounded_in(name)] += sum(_beyond(chunk, wanted) for chunk in column.chunks)
    return +counts


def _beyond(values: pa.Array, wanted: pa.DataType) -> int:
    kind, is_ = values.type, pa.types
    if is_.is_floating(wanted) and kind in (pa.int64(), pa.uint64()):
        ends = [pc.greater(values, pa.scalar(_EXACT, kind))]
        ends += [pc.less(values, -_EXACT)] if kind == pa.int64() else []
        return sum(int(pc.sum(end).as_py() or 0) for end in ends)
    if is_.is_struct(kind) and is_.is_struct(wanted):
        inner = dict(zip((child.name for child in kind), values.flatten(), strict=True))
        return sum(_beyond(inner[child.name], child.type) for child in wanted if child.name in inner)
    if is_.is_map(kind) and is_.is_map(wanted):
        return _beyond(values.keys, wanted.key_type) + _beyond(values.items, wanted.item_type)
    lists = is_.is_list(kind) or is_.is_large_list(kind)
    return _beyond(values.flatten(), wanted.value_type) if lists and is_.is_nested(wanted) else 0


def remarks_on_rounded(found: Mapping[str, int]) -> list[str]:
    """Return sentences for the report about `rounded` numbers.

    Examples:
        >>> print(*remarks_on_rounded({rounded_in("id"): 1200}))
        whole numbers beyond 2**53 became floats, which may cost digits: 1,200 in 'id'; keep them as text with \
schema={'id': 'string'}
    """
    columns = {kind.removeprefix(_ROUNDED): count for kind, count in found.items() if kind.startswith(_ROUNDED)}
    if not columns:
        return []
    counts = ", ".join(f"{count:,} in {column}" for column, count in columns.items())
    types = ", ".join(f"{column}: 'string'" for column in columns)
    return [
        f"whole numbers beyond 2**53 became floats, which may cost digits: {counts}; keep them as text with "
        f"schema={{{types}}}"
    ]


def rounded(data: bytes, table: pa.Table, bad: Sequence[BadLine]) -> Counter[str]:
    r"""Count the whole numbers beyond 2**53 of each column that were read as floats, which may round them.

    Args:
        data: the lines.
        table: what was read of them.
        bad: those among them that are no rows.

    Examples:
        >>> data = b'{"n": 0.5}\n{"n": 9007199254740993}\n'
        >>> rounded(data, parse_clean(data, Wanted(ColumnTypes(), {})), [])
        Counter({'n': 1})
    """
    counts = Counter[str]()
    columns = zip(table.column_names, table.columns, strict=True)
    floats = {name: column.type for name, column in columns if _farthest(column) >= _EXACT}
    if not floats:
        return counts
    refused = {line.offset for line in bad}
    stop = 0
    for place in _many_digits(data):
        if place < stop:
            continue
        start, stop = data.rfind(b"\n", 0, place) + 1, data.find(b"\n", place) + 1 or len(data)
        if start not in refused:
            row = json.loads(data[start:stop])
            counts.update({name: _large(row.get(name), type_) for name, type_ in floats.items()})
    return +counts


def _many_digits(data: bytes) -> list[int]:
    """A place in each run of 16 digits or more, and few others: it holds four in a row of every fourth byte."""
    digits = np.frombuffer(data, np.uint8)[3::4] - np.uint8(ord("0")) < 10
    runs = np.flatnonzero(digits[:-3] & digits[1:-2] & digits[2:-1] & digits[3:])
    return list((4 * runs + 3).tolist())


def _farthest(column: pa.ChunkedArray) -> float:
    """The largest magnitude of the floats of a column, also of those within its values."""
    ends = [pc.min_max(values).as_py() for chunk in column.chunks for values in floats_in(chunk)]
    return max((abs(end) for pair in ends for end in pair.values() if end is not None), default=0.0)


def _large(value: Any, type_: pa.DataType) -> int:
    """Count the whole numbers beyond 2**53 of a value that become floats as this type."""
    if isinstance(value, dict) and pa.types.is_struct(type_):
        return sum(_large(value.get(child.name), child.type) for child in type_)
    if isinstance(value, list) and pa.types.is_list(type_):
        return sum(_large(inner, type_.value_type) for inner in value)
    return int(isinstance(value, int) and pa.types.is_floating(type_) and abs(value) > _EXACT)


def _is_whole(data: bytes, ends: int, table: pa.Table) -> bool:
    """Whether every line became one row, and none of them is ``null``."""
    lines = ends + (not data.endswith(b"\n"))
    if lines != table.num_rows:
        lines = sum(1 for line in data.split(b"\n") if line.strip())
    could_be_null = table.num_rows and all(column.null_count for column in table.columns)
    return lines == table.num_rows and not (could_be_null and _NULL_LINE.search(data))


def parse_lines(
    data: bytes, wanted: Wanted, origin: str, count: LineEnds = line_ends
) -> tuple[pa.Table, list[BadLine]]:
    """Return the rows of the good lines, and the bad lines with their errors: slower, but exact.

    A line is bad if it is no JSON object, is not UTF-8, or holds a value that does not go with the
    type of its column in the lines and files before.
    """
    types, origins = dict(wanted.shape.types), dict(wanted.shape.origins)
    text = [name for name, type_ in wanted.fixed.items() if pa.types.is_string(type_)]
    rows, bad = [], []
    for number, offset, line in each_line(data):
        try:
            row = row_of(line, count)
            if text and _MANY_DIGITS.search(line):
                row.update(_as_written(line, row, text))
            fresh = _new_types(row, types, origins, wanted)
        except _BadRowError as error:
            bad.append(BadLine(number, offset, error.problem, line, error.column))
            continue
        types.update(fresh)
        origins.update({name: origin for name in fresh if name not in origins})
        rows.append(row)
    names = wanted.fields if wanted.fields is not None else tuple(types)
    arrays = [_array([row.get(name) for row in rows], types.get(name, pa.null())) for name in names]
    table = pa.Table.from_arrays(arrays, names=list(names)) if names else pa.table({})
    return table, bad


def names_in(data: bytes) -> list[str]:
    r"""The names of the values of all lines, in the order in which they come first; Arrow puts declared ones first.

    Examples:
        >>> names_in(b'{"b": 1, "a": 2}\n{"a": 3, "c": 4}\n')
        ['b', 'a', 'c']
    """
    names: dict[str, None] = {}
    for _, _, line in each_line(data):
        with suppress(_BadRowError):
            names.update(dict.fromkeys(row_of(line)))
    return list(names)


def lost_lines(data: bytes, damage: str, breaks_off: bool) -> list[BadLine]:
    """Return the lines of a damaged span as bad lines, and the lost rest if it breaks off."""
    kind = "line of a damaged stream"
    end = data.rfind(b"\n") + 1
    bad = [BadLine(number, offset, damage, line, kind=kind) for number, offset, line in each_line(data[:end])]
    if not breaks_off:
        return bad
    reason = f"{damage}; from here on the file cannot be read"
    return [*bad, BadLine(data.count(b"\n"), end, reason, data[end:], kind=kind)]


def each_line(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the lines that are not blank: number from 0, first byte, and content without a newline."""
    offset = 0
    for number, line in enumerate(data.split(b"\n")):
        if line.strip():
            yield number, offset, line.rstrip(b"\r")
        offset += len(line) + 1


def row_of(line: bytes, count: LineEnds = line_ends) -> dict[str, Any]:
    """Parse a line.

    Args:
        count: returns the number of line ends, or -1, as `line_ends` does.

    Raises:
        ValueError: it is no JSON object, or nested too deep.
    """
    if line.count(b"[") + line.count(b"{") > DEEPEST and count(line, DEEPEST) < 0:
        raise _BadRowError(f"values within values to a depth of more than {DEEPEST}")
    try:
        value = _loads(line)
    except json.JSONDecodeError as error:
        text = line.strip()
        if text in _OPENED or (text.startswith(b"[") and text.endswith(b",")):
            raise _BadRowError(f"a JSON value over several lines; {_ONE_A_LINE}") from error
        raise _BadRowError(f"not valid JSON ({error.msg} at character {error.colno})") from error
    except (TypeError, ValueError) as error:
        raise _BadRowError(f"not valid JSON ({error})") from error
    if not isinstance(value, dict):
        also = f"; {_ONE_A_LINE}" if isinstance(value, list) else ""
        raise _BadRowError(f"a JSON object was expected, not {_JSON_NAMES.get(type(value), 'a number')}{also}")
    return value


def _as_written(line: bytes, row: dict[str, Any], text: Sequence[str]) -> dict[str, str]:
    """Return non-text values of text columns as text, with every digit of whole numbers."""
    non_text = [name for name in text if not isinstance(row.get(name), str | None)]
    exact = json.loads(line) if non_text else {}
    return {name: json.dumps(exact[name], ensure_ascii=False, separators=(",", ":")) for name in non_text}


def _loads(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if not any(word in line for word in _NOT_FINITE):
            raise
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise error from None
        value = json.loads(text, parse_float=_finite, parse_int=_whole)
        orjson.dumps(value)  # refuses lone surrogates, which no text column can hold
        return value


def _whole(text: str) -> int | float:
    """A whole number as orjson reads it: one of more than 64 bits as a float."""
    number = _finite(text)
    return int(text) if len(text) <= _LONGEST_INTEGER and -(2**63) <= int(text) < 2**64 else number


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError("number is infinity when parsed as double")
    return number


def _new_types(
    row: dict[str, Any], types: dict[str, pa.DataType], origins: dict[str, str], wanted: Wanted
) -> dict[str, pa.DataType]:
    """The types of columns that the row brings or changes."""
    fresh = {}
    for name, value in row.items():
        before = types.get(name)
        if before is _SCALARS.get(type(value), _UNSEEN) or (wanted.fields is not None and name not in wanted.fields):
            continue
        if name in wanted.fixed:
            _check_fits(name, value, wanted.fixed[name])
            continue
        here = _type_of(value)
        if here is None:
            raise _BadRowError(f"column {name!r} holds a list of values of several types", name)
        common = here if before is None else unified(before, here)
        if common is None:
            raise _BadRowError(f"column {name!r} is {here} here but {before} in {origins[name]}", name)
        if common != before:
            fresh[name] = common
    return fresh


def _check_fits(name: str, value: Any, type_: pa.DataType) -> None:
    try:
        _array([_as(value, type_)], type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _BadRowError(f"column {name!r} cannot be read as {type_} ({error})", name) from error


def _type_of(value: Any, within: bool = False) -> pa.DataType | None:
    """The Arrow type of a parsed JSON value, None for a list whose values have no common type.

    Args:
        value: value as parsed.
        within: whether it is in a list or an object, where Arrow's reader makes all numbers beyond int64 floats.
    """
    if type(value) in _SCALARS:
        return _SCALARS[type(value)]
    if isinstance(value, int):
        is_unsigned = not within and 0 < value < 2**64
        return pa.int64() if -(2**63) <= value < 2**63 else pa.uint64() if is_unsigned else pa.float64()
    if isinstance(value, dict):
        types = {name: _type_of(inner, within=True) for name, inner in value.items()}
        return None if None in types.values() else pa.struct(list(types.items()))
    inner: pa.DataType | None = pa.null()
    for element in value:
        here = _type_of(element, within=True)
        inner = None if here is None else unified(inner, here)
        if inner is None:
            return None
    return pa.list_(inner)


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if type_ in (pa.null(), pa.bool_(), pa.int64()):
        return pa.array(values, type_)
    if pa.types.is_temporal(type_):
        return pa.array(values, pa.string()).cast(type_)
    try:
        return pa.array([_as(value, type_) for value in values], type_)
    except (OverflowError, pa.ArrowInvalid):
        if type_ != pa.uint64():
            raise
        return _array(values, pa.float64())


def _as(value: Any, type_: pa.DataType) -> Any:
    """The value as Arrow takes it for a type: whole numbers as floats, anything as text where text was declared."""
    if value is None:
        return None
    if pa.types.is_string(type_):
        return value if isinstance(value, str) else orjson.dumps(value).decode()
    if pa.types.is_floating(type_):
        return float(value)
    if pa.types.is_integer(type_) and isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{value} is not a whole number")
    if pa.types.is_struct(type_):
        return {child.name: _as(value.get(child.name), child.type) for child in type_}
    if pa.types.is_list(type_):
        return [_as(inner, type_.value_type) for inner in value]
    return value
