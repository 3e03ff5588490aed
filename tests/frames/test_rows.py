from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DataError
from dcurate.frames.excerpts import excerpts
from dcurate.frames.rows import row_keys
from dcurate.rows.lines import LINE, with_lines

scalars = st.none() | st.booleans() | st.integers(-5, 5)
rows_ = st.lists(
    st.fixed_dictionaries(
        {"id": st.text(max_size=3)},
        optional={
            "n": st.none() | st.integers(-5, 5),
            "s": st.none() | st.fixed_dictionaries({}, optional={"x": st.none() | st.integers(0, 3), "y": st.text()}),
            "l": st.none() | st.lists(st.none() | st.floats(0, 4) | st.just(1e300), max_size=3),
        },
    ),
    min_size=1,
    max_size=8,
)


def keys(rows: list[dict[str, Any]], seed: int = 0, fields: list[str] | None = None) -> list[tuple[int, ...]]:
    columns = {
        name: pa.array([row.get(name) for row in rows]) for name in dict.fromkeys(k for row in rows for k in row)
    }
    return [tuple(key) for key in row_keys(pa.table(columns), fields, seed).tolist()]


@settings(deadline=None)
@given(rows_, st.randoms())
def test_a_row_has_the_same_key_with_any_other_rows(rows: list[dict[str, Any]], draw: Any) -> None:
    together = keys(rows)
    assert together == [keys([row])[0] for row in rows]
    order = list(range(len(rows)))
    draw.shuffle(order)
    assert keys([dict(reversed(rows[at].items())) for at in order]) == [together[at] for at in order]


def told(value: Any) -> Any:
    """A row without nulls, for comparing."""
    if isinstance(value, dict):
        return {name: told(inner) for name, inner in value.items() if inner is not None}
    return value


@settings(deadline=None)
@given(rows_)
def test_rows_have_the_same_key_if_and_only_if_they_are_equal(rows: list[dict[str, Any]]) -> None:
    found = keys(rows)
    for one, first in zip(found, rows, strict=True):
        for other, second in zip(found, rows, strict=True):
            assert (one == other) == (told(first) == told(second))


def test_other_seeds_and_other_fields_give_other_keys() -> None:
    rows = [{"id": "a", "n": 1}, {"id": "a", "n": 2}]
    assert len({*keys(rows), *keys(rows, seed=1), *keys(rows, seed=-1)}) == 6
    assert len(set(keys(rows, fields=["id"]))) == 1
    with pytest.raises(DataError, match="no column 'x'; the rows have 'id', 'n'"):
        keys(rows, fields=["x"])


odd = (
    scalars
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
    | st.integers(-(2**63), 2**63 - 1)
    | st.lists(st.none() | st.integers(-5, 5), max_size=2)
)


@settings(deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(["n", "", "\u00e9", 'a"']), odd), min_size=1, max_size=8),
    st.integers(0, 7),
    st.booleans(),
)
def test_a_row_has_the_same_key_from_its_line_as_from_its_values(
    rows: list[dict[str, Any]], plain: int, ascii_only: bool
) -> None:
    rows = [{"id": "x", **row} for row in rows] + [{"text": f"{number}\n", "id": number} for number in range(plain)]
    lines = [json.dumps(row, ensure_ascii=ascii_only).encode() + b"\n" for row in rows]
    table = with_lines(pa.table({"": pa.nulls(len(rows))}), pa.array(lines, pa.large_binary()), []).select([LINE])
    assert row_keys(table, None, 3).tolist() == [list(keys([row], 3)[0]) for row in rows]


def test_an_excerpt_shows_the_text_of_a_row_that_is_in_its_line_alone() -> None:
    lines = pa.array([b'{"id": "x", "body": "some words"}\n'], pa.large_binary())
    rows = with_lines(pa.table({"n": [1]}), lines, ["n"])
    assert excerpts(rows, 1, "body") == [{"id": "x", "excerpt": "some words"}]
