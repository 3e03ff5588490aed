"""`filter=`: an SQL condition or an expression decides which rows are input, and what need not be read."""

from __future__ import annotations

import datetime
import io
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate import DataError, PipelineError
from dcurate.io.parquet_bounds import group_bounds
from dcurate.io.row_filter import Bounds, RowFilter

UTC = datetime.UTC
_TEXTS = st.text(st.sampled_from("ab%_\\'é\n\U0001f600"), max_size=3)
_WHOLE = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])
_FLOATS = st.sampled_from([-1.5, -0.0, 0.0, 0.1, 1.0, 2.5, float("inf"), -float("inf")])
_DAYS = st.dates(datetime.date(2026, 11, 27), datetime.date(2026, 11, 30))
_MOMENTS = st.datetimes(datetime.datetime(1969, 12, 31, 23), datetime.datetime(1970, 1, 1, 2))
_DECIMALS = st.decimals(-3, 3, places=2)

#: Columns by name: their type, their values, and literals that they are compared with.
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], st.SearchStrategy[str]]] = {
    "whole": (pa.int64(), _WHOLE, st.sampled_from(["0", "-1.5", "2", "1e0", "-3", "9223372036854775807"])),
    "tiny": (pa.uint8(), st.integers(0, 255), st.sampled_from(["0", "-1", "255", "256", "7.5"])),
    "score": (pa.float64(), _FLOATS, st.sampled_from(["0", "0.1", "-1.5", "2.5"])),
    "text": (pa.string(), _TEXTS, _TEXTS.map(lambda text: "'" + text.replace("'", "''") + "'")),
    "day": (pa.date32(), _DAYS, _DAYS.map(lambda day: f"'{day}'")),
    "moment": (pa.timestamp("us"), _MOMENTS, _MOMENTS.map(lambda moment: f"TIMESTAMP '{moment}'")),
    "price": (pa.decimal128(5, 2), _DECIMALS, st.sampled_from(["0", "1.25", "-0.005", "1000", "2.50"])),
    "good": (pa.bool_(), st.booleans(), st.sampled_from(["TRUE", "FALSE"])),
}
_SIGNS = st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="])


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 8))
    columns = {
        name: pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
        for name, (kind, values, _) in COLUMNS.items()
    }
    return pa.table(columns)


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(list(COLUMNS)))
    literals = COLUMNS[name][2]
    form = draw(st.sampled_from(["compare", "mirrored", "null", "in", "between", "like", "itself", "flag"]))
    if form == "flag" or (form == "like" and name != "text"):
        return "good"
    if form == "null":
        return f'"{name}" IS {draw(st.sampled_from(["", "NOT "]))}NULL'
    negation = draw(st.sampled_from(["", "NOT "]))
    if form == "in":
        values = draw(st.lists(st.just("NULL") | literals, min_size=1, max_size=3))
        return f"{name} {negation}IN ({', '.join(values)})"
    if form == "between":
        return f"{name} {negation}BETWEEN {draw(literals)} AND {draw(literals)}"
    if form == "like":
        like = draw(st.sampled_from(["LIKE", "ILIKE"]))
        return f"text {negation}{like} {draw(literals)} ESCAPE '!'"
    other = name if form == "itself" else draw(literals | st.just("NULL"))
    sides = (other, name) if form == "mirrored" else (name, other)
    return f"{sides[0]} {draw(_SIGNS)} {sides[1]}"


conditions = st.recursive(
    comparisons() | st.sampled_from(["TRUE", "NULL", "1 = 1"]),
    lambda inner: st.one_of(
        inner.map(lambda part: f"NOT ({part})"),
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: "({} {} {})".format(*parts)),
    ),
    max_leaves=6,
)


def _by_duckdb(table: pa.Table, condition: str) -> list[int]:
    numbered = table.append_column("n", pa.array(range(table.num_rows), pa.int64()))
    with duckdb.connect() as connection:
        connection.register("rows", numbered)
        return [n for (n,) in connection.execute(f"SELECT n FROM rows WHERE {condition} ORDER BY n").fetchall()]


def _matching(table: pa.Table, condition: Any) -> list[int]:
    numbered = table.append_column("n", pa.array(range(table.num_rows), pa.int64()))
    return RowFilter(condition, "filter").matching(numbered)["n"].to_pylist()


@given(tables(), conditions)
@example(pa.table({"whole": [1, None]}), "whole NOT IN (2, NULL)")
@example(pa.table({"whole": [1, None]}), "NOT (whole = 2 AND NULL)")
def test_a_condition_keeps_the_rows_that_duckdb_keeps(table: pa.Table, condition: str) -> None:
    assert _matching(table, condition) == _by_duckdb(table, condition)


#: Types of columns in files, with those in which they are read, and values.
STORED = [
    *[(kind, kind, st.integers(0, 100)) for kind in (pa.int8(), pa.uint16(), pa.uint64(), pa.int64())],
    (pa.int32(), pa.float64(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), pa.float64(), st.integers(2**53 - 2, 2**53 + 2)),
    *[(kind, pa.float64(), _FLOATS | st.just(float("nan"))) for kind in (pa.float32(), pa.float64())],
    (pa.string(), pa.large_string(), _TEXTS),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), _TEXTS),
    (pa.int64(), pa.string(), st.integers(0, 100)),
    (pa.date32(), pa.date32(), _DAYS),
    *[(pa.timestamp(unit), pa.timestamp("ns"), st.integers(-3000, 3000)) for unit in ("s", "ms", "us", "ns")],
    (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"), st.integers(-3000, 3000)),
    (pa.decimal128(5, 2), pa.decimal128(5, 2), _DECIMALS),
    (pa.decimal128(25, 2), pa.decimal128(25, 2), _DECIMALS),
    (pa.bool_(), pa.bool_(), st.booleans()),
]


@st.composite
def stored_columns(draw: st.DrawFn) -> tuple[pa.ChunkedArray, pa.Table, pa.Scalar]:
    """A column in a file, the same as it is read, and a value of it."""
    kind, wanted, values = draw(st.sampled_from(STORED))
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    content = draw(st.lists(st.none() | values, min_size=1, max_size=12))
    column = pa.array(content, plain)
    read = column.cast(wanted, safe=False)
    limit = draw(st.sampled_from(list(read)))
    return pa.table({"x": column.cast(kind)}), pa.table({"x": read}), limit


@given(stored_columns(), _SIGNS, st.booleans(), st.integers(1, 4))
def test_no_row_group_is_left_out_that_holds_a_row_that_matches(
    stored: tuple[pa.Table, pa.Table, pa.Scalar], sign: str, inverted: bool, size: int
) -> None:
    table, read, limit = stored
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=size)
    about = pq.ParquetFile(file).metadata
    bounds = group_bounds(about, range(about.num_row_groups), {"x": "x"})
    column = pc.field("x")
    by_sign = {"=": column == limit, "!=": column != limit, "<>": column != limit, "<": column < limit}
    expression = by_sign.get(sign) if sign in by_sign else {"<=": column <= limit, ">": column > limit}.get(sign)
    expression = column >= limit if expression is None else expression
    given_conditions: list[Any] = [~expression if inverted else expression, column.is_null(), column.is_valid()]
    if limit.is_valid and not pa.types.is_boolean(limit.type):
        literal = limit.cast(pa.string()).as_py()
        is_number = (
            pa.types.is_integer(limit.type) or pa.types.is_floating(limit.type) or pa.types.is_decimal(limit.type)
        )
        if literal not in ("nan", "inf", "-inf"):
            text = literal if is_number else "'" + str(literal).replace("'", "''") + "'"
            given_conditions.append(f"{'NOT ' if inverted else ''}x {sign} {text}")
    for condition in given_conditions:
        row_filter = RowFilter(condition, "filter")
        for group, may_match in enumerate(row_filter.may_match(bounds, read.schema)):
            rows = read.slice(group * size, size)
            assert may_match or not row_filter.matching(rows).num_rows, condition


def test_bounds_leave_out_what_cannot_match() -> None:
    bounds = [{"x": Bounds(pa.scalar(low), pa.scalar(low + 9))} for low in (0, 10, 20)]
    schema = pa.schema({"x": pa.int64()})

    assert RowFilter("x = 12", "filter").may_match(bounds, schema) == [False, True, False]
    assert RowFilter("x BETWEEN 5 AND 10", "filter").may_match(bounds, schema) == [True, True, False]
    assert RowFilter(pc.field("x").isin([25]), "filter").may_match(bounds, schema) == [False, False, True]


def test_no_comparison_with_nan_is_true() -> None:
    table = pa.table({"x": [float("nan"), 1.0, None]})

    kept = {text: _matching(table, text) for text in ("x != 2", "NOT x = 2", "x > 0", "x NOT IN (2)", "x IS NOT NULL")}

    assert kept == {"x != 2": [1], "NOT x = 2": [1], "x > 0": [1], "x NOT IN (2)": [1], "x IS NOT NULL": [0, 1]}


def test_a_field_within_a_column_is_named_after_a_dot_unless_a_column_has_that_name() -> None:
    nested = pa.table({"a": [{"b": 1}, {"b": 2}]})

    assert _matching(nested, "a.b = 2") == [1]
    assert _matching(nested.append_column("a.b", pa.array([2, 1])), "a.b = 2") == [0]
    assert _matching(pa.table({"a b": [1, 2]}), '"a b" = 2') == [1]


def test_a_time_without_a_zone_is_in_utc() -> None:
    at = pa.array([0, 3_600_000_000], pa.timestamp("us", "Europe/Berlin"))

    assert _matching(pa.table({"at": at}), "at >= '1970-01-01 01:00:00'") == [1]
    assert _matching(pa.table({"at": at}), "at >= '1970-01-01 01:00:00+01:00'") == [0, 1]


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("a >", "at character 4, the end is where a column or a value should be"),
        ("(a = 1", "the end is where ) should be"),
        ("a = 1; DROP TABLE t", "'; DROP TABLE t' is not SQL that is read here"),
        ("lower(a) = 'x'", "lower is a function"),
        ("a = 1 b", "'b' is where the end, AND or OR should be"),
        ("a IN (b)", "IN takes values, and b is a column"),
        ("a LIKE 'x' ESCAPE '!!'", "must be one character"),
        ("a = 'x", '"\'x" is not SQL'),
        ("a = 1e999", "too large"),
        ("(" * 60 + "a = 1" + ")" * 60, "more than 50 parentheses"),
        ([("a", "=", 1)], "must be an SQL condition"),
        (pc.field(0) == 1, "give columns by their names"),
    ],
)
def test_what_is_no_condition_is_refused_where_it_is_given(condition: Any, problem: str) -> None:
    with pytest.raises(PipelineError) as error:
        RowFilter(condition, "filter")
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("text = 7", "write the value in single quotes"),
        ("whole = 'x'", "compare it with a value of its type"),
        ("day = 'soon'", "write the value as '2026-11-28'"),
        ("missing = 1", "names a column 'missing'"),
        ("whole", "no condition alone"),
        ("'a'", "is not a condition"),
        ("text = whole", "column 'whole', which is int64"),
        ("text.x = 1", "has no field 'x'"),
        ("'a' LIKE 'b'", "LIKE takes a column"),
        ("text LIKE 'a!' ESCAPE '!'", "ends with its escape character"),
        ("1 = 'a'", "values of one kind"),
        (pc.field("whole") + 1, "gives int64"),
        (pc.field("text") == 1, "does not suit the columns"),
    ],
)
def test_a_condition_that_does_not_suit_the_columns_is_refused(condition: Any, problem: str) -> None:
    schema = pa.schema({name: kind for name, (kind, _, _) in COLUMNS.items()})

    with pytest.raises(DataError) as error:
        RowFilter(condition, "filter").check(schema)
    assert problem in str(error.value)


def test_expressions_are_known_by_all_of_their_values() -> None:
    numbers = list(range(10_000))
    one, other = (RowFilter(pc.field("x").isin([*numbers, last]), "filter") for last in (-1, -2))

    assert one.settings != other.settings
    assert one.settings == RowFilter(pc.field("x").isin([*numbers, -1]), "filter").settings
    assert len(one.text) < 300


def test_a_thousand_comparisons_are_one_condition_and_a_list_may_be_longer() -> None:
    compared = " OR ".join(f"x = {number}" for number in range(0, 2_000, 2))
    numbers = ", ".join(map(str, range(0, 200_000, 2)))

    assert _matching(pa.table({"x": [4, 5, 6]}), compared) == [0, 2]
    assert _matching(pa.table({"x": [4, 5, 199_998]}), f"x IN ({numbers})") == [0, 2]
    with pytest.raises(PipelineError, match="more than 1,000 comparisons; list values with IN"):
        RowFilter(f"{compared} OR x = 1", "filter")
