"""Columns as stages and kernels take them from tables of Arrow."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from dcurate.errors import DataError
from dcurate.frames.columns import column_of
from dcurate.frames.text import text_column

TEXTS = ["one", None, "", "zwei: ä", "a text that is longer than twelve bytes"]
LAYOUTS: dict[str, Any] = {
    "string": pa.array(TEXTS, pa.string()),
    "large string": pa.array(TEXTS, pa.large_string()),
    "string view": pa.array(TEXTS, pa.string_view()),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "a part of another": pa.array(["before", *TEXTS, "behind"]).slice(1, len(TEXTS)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_text_is_text_in_every_layout_that_arrow_has_for_it(layout: str) -> None:
    table = pa.table({"text": LAYOUTS[layout]})
    assert column_of(table, "text", text=True).to_pylist() == TEXTS
    offsets, data = text_column(table, "text")
    read = [data[start:stop].tobytes().decode() for start, stop in pairwise(offsets)]
    assert read == [text or "" for text in TEXTS]


def test_a_column_of_nulls_alone_is_one_of_empty_texts() -> None:
    table = pa.table({"text": pa.nulls(3)})
    assert column_of(table, "text", text=True).to_pylist() == [None, None, None]
    assert text_column(table, "text").offsets.tolist() == [0, 0, 0, 0]


def test_a_column_of_something_else_is_refused() -> None:
    for take in (lambda table: column_of(table, "n", text=True), lambda table: text_column(table, "n")):
        with pytest.raises(DataError, match="column 'n' holds int64, not text; name the column that holds the text"):
            take(pa.table({"n": [1]}))
