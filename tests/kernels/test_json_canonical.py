"""The canonical form of a row is what orjson writes of its values, with the keys in order."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate.kernels.json_canonical import canonical

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text(
    '"\\/\n\t\x00\x1f\x7f\u2028a', max_size=8
)
plain = texts | st.integers(-(2**63), 2**64 - 1) | st.booleans() | st.none()
values = plain | st.floats(allow_nan=False, allow_infinity=False) | st.lists(plain, max_size=2) | st.just({"a": None})
objects = st.dictionaries(texts, values, max_size=5)


def written(rows: list[str]) -> list[bytes]:
    lines = [row.encode() + b"\n" for row in rows]
    offsets, out = canonical(b"".join(lines), np.cumsum([0, *map(len, lines)]))
    return [out[start:stop].tobytes() for start, stop in pairwise(offsets.tolist())]


def expected(row: dict[str, Any]) -> bytes:
    return orjson.dumps({name: value for name, value in row.items() if value is not None}, option=orjson.OPT_SORT_KEYS)


@settings(deadline=None)
@given(st.lists(objects, max_size=5), st.sampled_from([None, (",", ":"), (" ,\t", "\r: ")]), st.booleans())
@example([{"b": 1, "a": "x\n", "": True, "ab": None, "a\u00e9": -7}], None, False)
def test_a_row_that_is_written_is_what_orjson_writes(
    rows: list[dict[str, Any]], separators: tuple[str, str] | None, ascii_only: bool
) -> None:
    lines = [json.dumps(row, separators=separators, ensure_ascii=ascii_only) for row in rows]
    for row, line, found in zip(rows, lines, written(lines), strict=True):
        assert found in (b"", expected(row)), line


@settings(deadline=None)
@given(st.lists(st.dictionaries(texts, texts | st.integers(-(10**16), 10**17) | st.booleans() | st.none(), max_size=5)))
def test_rows_of_texts_and_whole_numbers_as_orjson_writes_them_are_written(rows: list[dict[str, Any]]) -> None:
    found = written([orjson.dumps(row).decode() for row in rows])
    for row, one in zip(rows, found, strict=True):
        named = any(b"\\" in orjson.dumps(name) for name in row)
        coded = any(b"\\u" in orjson.dumps(value).replace(b"\\\\", b"") for value in row.values())
        assert one == (b"" if named or coded else expected(row))


@pytest.mark.parametrize(
    "row",
    [
        '{"a": 1, "a": null}',
        '{"a": 1, "a": 1}',
        '{"\\u0061": 1}',
        '{"a": "\\u0062"}',
        '{"a": "\\/"}',
        '{"a": -0}',
        '{"a": 1.0}',
        '{"a": 1e2}',
        '{"a": 1234567890123456789}',
        '{"a": []}',
        '{"a": {"b": 1}}',
        "[1]",
        "",
        "{" + ", ".join(f'"{number}": 1' for number in range(65)) + "}",
    ],
)
def test_a_row_that_may_be_equal_to_one_written_otherwise_is_left_out(row: str) -> None:
    assert written([row, '{"b": 1}']) == [b"", b'{"b":1}']
