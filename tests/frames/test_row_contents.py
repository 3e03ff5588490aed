"""Bytes of rows follow from their values alone."""

import datetime
import decimal
import io
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.frames.row_contents import row_contents, row_hashes, visible_values


def rows_of(table: pa.Table) -> list[bytes]:
    """Each row as bytes."""
    return [
        bytes(content[start:stop])
        for content, ends in row_contents(table)
        for start, stop in pairwise([0, *ends.tolist()])
    ]


_LEAVES = {
    pa.string(): st.text(max_size=4),
    pa.binary(): st.binary(max_size=4),
    pa.int64(): st.integers(-3, 3),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.timestamp("us"): st.datetimes(),
    pa.date32(): st.dates(),
}


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    """A column of five values, plain, within lists, or within structs of lists."""
    kind = draw(st.sampled_from(list(_LEAVES)))
    values = st.none() | _LEAVES[kind]
    for _ in range(draw(st.integers(0, 2))):
        if draw(st.booleans()):
            kind, values = pa.list_(kind), st.none() | st.lists(values, max_size=2)
        else:
            kind, values = pa.struct([("a", kind)]), st.none() | st.fixed_dictionaries({"a": values})
    return pa.array(draw(st.lists(values, min_size=5, max_size=5)), kind)


def written(table: pa.Table) -> pa.Table:
    file = io.BytesIO()
    pq.write_table(table, file)
    return pq.read_table(file)


@given(st.lists(columns(), min_size=1, max_size=3))
def test_rows_have_the_contents_of_what_is_read_back_from_parquet(arrays: list[pa.Array]) -> None:
    table = pa.table(arrays, [f"c{number}" for number in range(len(arrays))])
    contents = rows_of(table)
    assert rows_of(written(table)) == contents
    assert [rows_of(table.slice(row, 1))[0] for row in range(5)] == contents


@given(st.lists(columns(), min_size=1, max_size=3))
def test_rows_have_equal_bytes_only_if_their_values_are_equal(arrays: list[pa.Array]) -> None:
    table = pa.table(arrays, [f"c{number}" for number in range(len(arrays))])
    contents, rows = rows_of(table), list(map(repr, table.to_pylist()))
    for left in range(5):
        for right in range(5):
            assert contents[left] != contents[right] or rows[left] == rows[right]
            # Python shows all kinds of NaN alike
            assert contents[left] == contents[right] or rows[left] != rows[right] or "nan" in rows[left]


@pytest.mark.parametrize(
    ("values", "kind", "right"),
    [
        (["a", None, ""], pa.string(), pa.large_string()),
        (["a", None, ""], pa.string(), pa.string_view()),
        (["a", None, "a"], pa.string(), pa.dictionary(pa.int8(), pa.string())),
        ([b"a", None, b"b"], pa.binary(), pa.binary(1)),
        ([1, None, -1], pa.int8(), pa.int64()),
        ([1, None, 255], pa.uint8(), pa.int64()),
        ([1.5, None, 0.0], pa.float32(), pa.float64()),
        ([[1], None, []], pa.list_(pa.int8()), pa.large_list(pa.int64())),
        ([[1, 2], None, [3, 4]], pa.list_(pa.int8()), pa.list_(pa.int8(), 2)),
        ([datetime.time(1, 2), None, datetime.time(3)], pa.time32("s"), pa.time64("ns")),
        ([datetime.datetime(1960, 1, 2), None, datetime.datetime(2026, 1, 2)], pa.timestamp("s"), pa.timestamp("ns")),
        ([datetime.date(1960, 1, 2), None, datetime.date(2026, 1, 2)], pa.date32(), pa.date64()),
        ([None, None, None], pa.null(), pa.string()),
    ],
)
def test_types_that_hold_equal_values_give_equal_bytes(
    values: list[object], kind: pa.DataType, right: pa.DataType
) -> None:
    left = rows_of(pa.table({"a": pa.array(values, kind)}))
    assert left == rows_of(pa.table({"a": pa.array(values, right)}))


def test_values_of_different_kinds_have_different_contents() -> None:
    values = [1, 1.0, "1", b"1", True, [1], {"a": 1}, decimal.Decimal("1.0"), datetime.date(1970, 1, 2), None, [], ""]
    contents = {rows_of(pa.table({"a": [value]}))[0] for value in values}
    assert len(contents) == len(values)
    border = [pa.table({"a": ["ab"], "b": ["c"]}), pa.table({"a": ["a"], "b": ["bc"]})]
    assert rows_of(border[0]) != rows_of(border[1])


@given(st.lists(st.text(max_size=3), min_size=1, max_size=8), st.data())
def test_hashes_of_some_rows_are_those_of_the_rows_alone(texts: list[str], data: st.DataObject) -> None:
    table = visible_values(pa.table({"text": texts, "_dcurate_error": texts, "n": range(len(texts))}))
    assert table.column_names == ["n", "text"]
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, len(texts) - 1)))), np.int64)
    taken = table.take(pa.array(rows))
    assert row_hashes(table, rows) == row_hashes(taken, np.arange(len(rows)))
    assert len(row_hashes(table, rows)) == 16 * len(rows)
