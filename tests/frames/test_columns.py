"""Columns as stages and kernels take them from tables of Arrow."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dcurate import DataError
from dcurate.frames.columns import column_of, nbytes_at, rows_at
from dcurate.frames.text import text_column
from dcurate.rows.lines import with_lines

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


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("order", ["all", "most", "some twice", "shuffled", "none"])
def test_rows_of_large_columns_are_those_that_arrow_takes(kind: pa.DataType, order: str) -> None:
    random = np.random.default_rng(1)
    texts = ["é" * int(size) for size in random.integers(0, 9000, 1500)]
    lines = pa.array([f"{number}\n".encode() * 1500 for number in range(1500)], pa.large_binary())
    table = with_lines(pa.table({"text": pa.array(texts).cast(kind), "n": range(1500)}), lines, ["text"]).slice(3, 1400)
    everything = np.arange(1400)
    rows = {
        "all": everything,
        "most": np.delete(everything, [0, 7, 8, 1000, 1399]),
        "some twice": np.concatenate([everything[5:900], everything[5:900]]),
        "shuffled": random.permutation(1400),
        "none": everything[:0],
    }[order]
    found, wanted = rows_at(table, rows), table.take(pa.array(rows))
    found.validate(full=True)
    assert found.equals(wanted)
    assert found.schema.equals(wanted.schema, check_metadata=True)


@pytest.mark.parametrize("rows", [[], [4, 0], [1, 2, 3]])
@pytest.mark.parametrize("layout", sorted({*LAYOUTS} - {"string view"}))  # of which Arrow takes no rows
def test_the_bytes_of_rows_are_those_of_a_copy_of_them(layout: str, rows: list[int]) -> None:
    filled = pa.array([text or "" for text in TEXTS]).cast(LAYOUTS[layout].type)
    lines = pa.array([text and text.encode() for text in TEXTS], pa.large_binary())
    for texts in (LAYOUTS[layout], filled):
        table = with_lines(pa.table({"text": texts, "n": range(len(TEXTS))}), lines, ["text"])
        assert nbytes_at(table, np.array(rows, np.int64)) == rows_at(table, np.array(rows, np.int64)).nbytes
