"""Expressions of SQL over rows, by DuckDB: what runs in a child process, and how rows go there and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.core.extras import needed
from dcurate.errors import DataError, listed, nearest
from dcurate.rows import visible

#: The extra that installs DuckDB.
EXTRA = "sql"
#: Settings of a connection that reads no file, loads no extension and starts no thread of its own.
SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "temp_directory": "",
    "threads": "1",
}
#: The name under which rows are known to DuckDB.
_ROWS = "_dcurate_rows"
#: Prefix of the columns of values.
_VALUE = "_dcurate_value_"
#: Rows and bytes of the rows that are evaluated at a time.
_MOST_ROWS, _MOST_BYTES = 8192, 2**24
#: Rows of a part whose error is looked up one by one; the others get the kind of error alone.
_EXPLAINED = 100
_LONGEST = 300
_READ = pa.ipc.IpcReadOptions(use_threads=False)


class RowFault(NamedTuple):
    """Why an expression cannot be evaluated for a row.

    Args:
        expression: number of the expression.
        kind: kind of the error, in the words of DuckDB, such as ``"Conversion Error"``.
        detail: what DuckDB says.
    """

    expression: int
    kind: str
    detail: str


class UnsuitableError(DataError):
    """Raised where an expression does not suit the columns.

    Attributes:
        expression: number of the expression.
    """

    def __init__(self, expression: int, detail: str) -> None:
        super().__init__(detail)
        self.expression = expression


class Evaluated(NamedTuple):
    """What expressions give for rows.

    Args:
        values: a column for each expression, with a value for each row that has no fault, in order.
        faults: the faults of the others, by the number of the row.
    """

    values: pa.Table
    faults: dict[int, RowFault]


def selected(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return these columns of rows, for `evaluated`.

    Raises:
        DataError: a column is missing, or two have names that differ in case alone.
    """
    for name in columns:
        if name not in table.column_names:
            raise DataError(f"the rows have no column {name!r}{nearest(name, visible(table.column_names))}")
    lower = [name.lower() for name in columns]
    alike = [name for name in columns if lower.count(name.lower()) > 1]
    if alike:
        raise DataError(f"columns {listed(alike)} differ in case alone, which SQL does not see; rename one")
    return table.select(columns) if columns else pa.table({"": pa.nulls(table.num_rows)})


def rows_at_a_time(rows: pa.Table) -> int:
    """How many of the rows are evaluated at a time: up to 8,192, and about 16 MiB.

    Examples:
        >>> rows_at_a_time(pa.table({"n": range(10_000)})), rows_at_a_time(pa.table({"t": ["x" * 2**20] * 20}))
        (8192, 15)
    """
    return min(_MOST_ROWS, max(1, _MOST_BYTES * max(1, len(rows)) // max(1, int(rows.nbytes))))


def packed(rows: pa.Table) -> pa.Buffer:
    """Rows as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return sink.getvalue()


def unpacked(answer: Mapping[str, Any], blobs: Sequence[bytes], rows: int) -> Evaluated:
    """What `evaluated` has answered about a number of rows.

    Raises:
        UnsuitableError: an expression does not suit the columns.
        DataError: the answer is none, as hostile data took the child over.
    """
    try:
        if "unsuitable" in answer:
            at, detail = answer["unsuitable"]
            raise UnsuitableError(int(at), str(detail))
        faults = {int(row): RowFault(int(at), str(kind), str(detail)) for row, at, kind, detail in answer["faults"]}
        with pa.ipc.open_stream(blobs[0], options=_READ) as stream:
            values = stream.read_all()
        values.validate(full=True)
    except (KeyError, IndexError, TypeError, ValueError, pa.ArrowException) as error:
        raise DataError(f"DuckDB answered in no form that is known: {error}") from error
    if values.num_rows + len(faults) != rows:
        raise DataError(f"DuckDB answered with {values.num_rows:,} values and {len(faults):,} faults for {rows:,} rows")
    return Evaluated(values, faults)


def together(parts: Sequence[Evaluated]) -> Evaluated:
    """What expressions give for rows, from what they give for parts of these, in order."""
    faults, start = {}, 0
    for part in parts:
        faults.update({start + row: fault for row, fault in part.faults.items()})
        start += part.values.num_rows + len(part.faults)
    filled = [part.values for part in parts if part.values.num_rows] or [parts[0].values]
    return Evaluated(pa.concat_tables(filled), faults)


def failed(rows: pa.Table, fault: RowFault) -> Evaluated:
    """The same fault for all rows."""
    return Evaluated(pa.table({}), dict.fromkeys(range(rows.num_rows), fault))


def put(table: pa.Table, name: str, values: pa.Table, number: int) -> pa.Table:
    """Rows with the values of an expression as a column: in the place of one of that name, of whose type text is.

    Examples:
        >>> rows = pa.table({"a": pa.array(["X"], pa.large_string()), "b": [2]})
        >>> put(rows, "a", pa.table({"0": ["x"]}), 0).schema.field("a").type
        DataType(large_string)
    """
    if not values.num_columns:  # all rows have faults
        values = pa.Table.from_arrays([pa.nulls(0)] * (number + 1), [""] * (number + 1))
    column = values.column(number)
    if name not in table.column_names:
        return table.append_column(name, column)
    kind = table.schema.field(name).type
    if pa.types.is_string(column.type) and (pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        column = column.cast(kind)
    return table.set_column(table.column_names.index(name), name, column)


def truths(values: pa.Table) -> npt.NDArray[np.bool_]:
    """Where the values of a condition are true.

    Raises:
        DataError: they are of another type.
    """
    if not values.num_columns:
        return np.zeros(0, np.bool_)
    column = values.column(0)
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.bool_)
    if not pa.types.is_boolean(column.type):
        raise DataError(f"gives {column.type}, and not true or false; compare it with a value")
    return np.asarray(column.fill_null(False).to_numpy(), np.bool_)


def evaluated(data: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[pa.Buffer]]:
    """Evaluate expressions for rows; the function of the child process.

    Args:
        data: rows as `packed` makes them.
        options: the ``"expressions"``, and the ``"memory_bytes"`` of DuckDB.

    Examples:
        >>> rows = pa.table({"n": ["1", "x"]})
        >>> made = evaluated(packed(rows), {"expressions": ["n::INTEGER + 1"], "memory_bytes": 2**26})
        >>> unpacked(*made, 2).values.to_pylist(), unpacked(*made, 2).faults[1].kind
        ([{'_dcurate_value_0': 2}], 'Conversion Error')
    """
    with pa.ipc.open_stream(data, options=_READ) as stream:
        rows = stream.read_all()
    expressions = options["expressions"]
    connection = _connection(options["memory_bytes"])
    errors = needed("duckdb", "SQL expressions", EXTRA).Error
    try:
        return {"faults": []}, [packed(_values(connection, expressions, rows))]
    except errors:
        pass
    for number, expression in enumerate(expressions):
        try:
            _values(connection, [expression], rows.slice(0, 0))
        except errors as error:
            return {"unsuitable": [number, _message(error)]}, []
    try:
        return _without_failing(connection, expressions, rows)
    except errors as error:  # DuckDB itself is at its limits, and not a value
        raise MemoryError(_message(error)) from error


def _without_failing(
    connection: Any, expressions: Sequence[str], rows: pa.Table
) -> tuple[dict[str, Any], list[pa.Buffer]]:
    """Evaluate expressions for the rows for which none fails."""
    faults: dict[int, int] = {}
    for number, expression in enumerate(expressions):
        for row in _failing(connection, expression, rows):
            faults.setdefault(row, number)
    if not faults:
        raise MemoryError("the values are too large")
    good = np.ones(len(rows), np.bool_)
    good[list(faults)] = False
    values = _values(connection, expressions, rows.filter(pa.array(good)))
    return {"faults": _explained(connection, expressions, rows, faults)}, [packed(values)]


def _explained(
    connection: Any, expressions: Sequence[str], rows: pa.Table, faults: Mapping[int, int]
) -> list[tuple[int, int, str, str]]:
    """The faults with their kinds and messages; the message of another row where there are many."""
    explained, last = [], {}
    for place, (row, number) in enumerate(sorted(faults.items())):
        if place < _EXPLAINED or number not in last:
            last[number] = _message_of(connection, expressions[number], rows.slice(row, 1))
            kind, detail = last[number]
        else:
            kind, detail = last[number][0], ""
        explained.append((row, number, kind, detail))
    return explained


def _message_of(connection: Any, expression: str, row: pa.Table) -> tuple[str, str]:
    try:
        _values(connection, [expression], row)
    except needed("duckdb", "SQL expressions", EXTRA).Error as error:
        kind, _, detail = _message(error).partition(": ")
        return kind, detail
    return "Error", ""


def _failing(connection: Any, expression: str, rows: pa.Table) -> list[int]:
    """The numbers of the rows for which an expression raises an error."""
    answered = _values(connection, [f"TRY((\n{expression}\n) IS NULL) IS NULL"], rows)
    return [int(row) for row in np.flatnonzero(answered.column(0).to_numpy())]


def _values(connection: Any, expressions: Sequence[str], rows: pa.Table) -> pa.Table:
    columns = ", ".join(f'(\n{expression}\n) AS "{_VALUE}{number}"' for number, expression in enumerate(expressions))
    connection.register(_ROWS, rows)
    try:
        return connection.sql(f"SELECT {columns} FROM {_ROWS}").to_arrow_table()
    finally:
        connection.unregister(_ROWS)


@lru_cache(1)
def _connection(memory_bytes: int) -> Any:
    pa.set_cpu_count(1)
    settings = {**SETTINGS, "memory_limit": f"{memory_bytes}B"}
    connection = needed("duckdb", "SQL expressions", EXTRA).connect(config=settings)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET lock_configuration = true")
    return connection


def _message(error: Exception) -> str:
    """The first line of what DuckDB says."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
