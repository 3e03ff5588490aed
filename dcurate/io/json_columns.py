"""Read some columns of JSON Lines, and keep the lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from dcurate.frames.schema import TypeConflict
from dcurate.io.json_parse import DEEPEST, BadLine, Wanted, each_line, parse_clean, parse_lines, row_of
from dcurate.kernels.json_rows import ABSENT, ESCAPED_TEXT, NULL, TEXT, Rows, decode, scan
from dcurate.rows.lines import line_type_of, lines_of, with_more_read, without_lines


def parse(
    data: bytes, names: Sequence[str] | None, wanted: Wanted, origin: str
) -> tuple[pa.Table, pa.Array, list[BadLine]]:
    r"""Read columns of lines: a table, the line of each row, and the bad lines.

    A line is bad if it is no JSON object, is not UTF-8, or holds a value in one of the columns that does not go with
    the type of the column. A column that no line has and whose type is not known is left out.

    Args:
        data: whole lines.
        names: the columns; all if None.
        wanted: the known types.
        origin: name of the file.

    Examples:
        >>> from dcurate.frames.schema import ColumnTypes
        >>> data = b'{"text": "one", "n": 1}\n{"n": [], "text": "two"}\n'
        >>> table, lines, bad = parse(data, ["text"], Wanted(ColumnTypes(), {}, None), "a.jsonl")
        >>> table.to_pydict(), lines[1].as_py(), bad
        ({'text': ['one', 'two']}, b'{"n": [], "text": "two"}\n', [])
    """
    data = data if data.endswith(b"\n") else data + b"\n"
    rows = scan(data, names or [], DEEPEST)
    if rows.valid.all():
        lines = _line_array(data, rows)
        table = None
        if _is_utf8(lines):
            table = parse_clean(data, wanted) if names is None else _columns(data, rows, names, wanted)
        if table is not None and table.num_rows == len(lines) and _fits(table.schema, wanted):
            return table, lines, []
    table, bad = parse_lines(data, replace(wanted, fields=None if names is None else tuple(names)), origin)
    if names is not None:
        known = wanted.shape.types
        table = table.select([name for name in names if name in known or not pa.types.is_null(table.field(name).type)])
    return table, pa.array(list(_good_lines(data, rows, {line.offset for line in bad})), pa.large_binary()), bad


def with_same_texts(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """The tables with the columns of text that some of them leave in lines, and others have or have dropped."""
    kinds = {line_type_of(table) for table in tables}
    if len(kinds) < 2:
        return list(tables)
    column_names = [name for table in tables for name in without_lines(table).column_names]
    names = dict.fromkeys([*column_names, *(name for kind in kinds if kind is not None for name in kind.columns)])
    made = []
    for table in tables:
        kind = line_type_of(table)
        missing = [] if kind is None else [name for name in names if name not in {*table.column_names, *kind.columns}]
        made.append(with_texts(table, missing) if missing and table.num_rows else table)
    return made


def with_texts(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The table with columns of text that are in its lines alone."""
    lines = lines_of(table)
    assert lines is not None, "columns are left in lines where all rows have one"
    _, data = lines
    rows = scan(data, names, DEEPEST)
    found_texts = {}
    for key, name in enumerate(names):
        kinds = rows.kinds[:, key]
        texts = (kinds == TEXT) | (kinds == ESCAPED_TEXT)
        found_texts[name] = _texts(data, rows, key, texts) if texts.any() else pa.nulls(len(kinds))
    return with_more_read(table, found_texts)


def _line_array(data: bytes, rows: Rows) -> pa.Array:
    """The lines with their newlines; without a copy if they follow each other."""
    starts, stops = rows.starts, rows.stops + 1
    if len(starts) and starts[0] == 0 and (starts[1:] == stops[:-1]).all():
        offsets = np.append(starts, stops[-1])
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
    bounds = zip(starts.tolist(), stops.tolist(), strict=True)
    return pa.array([data[start:stop] for start, stop in bounds], pa.large_binary())


def _is_utf8(lines: pa.Array) -> bool:
    try:
        lines.view(pa.large_string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _fits(schema: pa.Schema, wanted: Wanted) -> bool:
    try:
        wanted.shape.joined(schema, "")
    except TypeConflict:
        return False
    return True


def _columns(data: bytes, rows: Rows, names: Sequence[str], wanted: Wanted) -> pa.Table | None:
    """The columns of valid lines; None if a value does not go with the type of its column."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    remaining = []
    for key, name in enumerate(names):
        kinds, known = rows.kinds[:, key], wanted.shape.types.get(name, pa.null())
        texts = (kinds == TEXT) | (kinds == ESCAPED_TEXT)
        if not (texts | (kinds == ABSENT) | (kinds == NULL)).all() or not _may_be_text(known):
            remaining.append(name)
        elif texts.any():
            columns[name] = _texts(data, rows, key, texts)
        elif name in wanted.shape.types or (kinds == NULL).any():
            columns[name] = pa.nulls(len(kinds), known)
    if remaining:
        table = parse_clean(data, replace(wanted, fields=tuple(remaining)))
        if table is None:
            return None
        columns |= {name: table.column(name) for name in remaining if name in table.column_names}
    made = {name: columns[name] for name in names if name in columns}
    return pa.table(made) if made else pa.table({"": pa.nulls(len(rows.starts))}).select([])


def _may_be_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_null(kind) or pa.types.is_string(kind))


def _texts(data: bytes | memoryview, rows: Rows, key: int, present: npt.NDArray[np.bool_]) -> pa.Array:
    offsets, letters = decode(data, rows, key)
    mask = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    if offsets[-1] < 2**31:
        parts = [mask, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(letters)]
        return pa.StringArray.from_buffers(len(present), parts[1], parts[2], mask)
    return pa.LargeStringArray.from_buffers(len(present), pa.py_buffer(offsets), pa.py_buffer(letters), mask)


def _good_lines(data: bytes, rows: Rows, refused: set[int]) -> Iterator[bytes]:
    """Yield the lines that are rows; those that only Python takes, with NaN say, as JSON has it."""
    valid = set(rows.starts[rows.valid].tolist())
    for _, offset, line in each_line(data):
        if offset not in refused:
            exact = offset in valid
            yield data[offset : data.find(b"\n", offset) + 1] if exact else orjson.dumps(row_of(line)) + b"\n"
