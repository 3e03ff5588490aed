"""Frames of other libraries as input: a stand-in, and Polars and DuckDB where these are installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from dcurate import DataError, DocumentBatch, InlineExecutor, Pipeline, PipelineError, ScoreFilter
from dcurate.frames import batches
from dcurate.text import AddId, WordCountFilter

TABLE = pa.table({"text": ["one two", "three"], "n": [1, 2]})


class Streams:
    """A frame of a library that dcurate does not know."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def _from_arrow(library: str, table: pa.Table) -> Any:
    return importlib.import_module(library).from_arrow(table)


MAKERS: list[Callable[[pa.Table], Any]] = [
    lambda table: table,
    lambda table: table.to_pandas(),
    lambda table: table.to_reader(),
    lambda table: table.to_batches()[0],
    ds.dataset,
    lambda table: ds.dataset(table).scanner(),
    Streams,
]
#: Polars and DuckDB are large, so the tests do not install them; where they are, they are tried, too.
MAKERS += [
    partial(_from_arrow, library) for library in ("polars", "duckdb") if importlib.util.find_spec(library) is not None
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("form", ["alone", "in a list", "in a batch"])
def test_a_pipeline_begins_with_rows_of_any_library(make: Any, form: str) -> None:
    frame = make(TABLE)
    given = {"alone": lambda: frame, "in a list": lambda: [frame], "in a batch": lambda: [DocumentBatch(data=frame)]}
    pipeline = Pipeline("p", stages=[ScoreFilter(WordCountFilter(min_words=2)), AddId("id")])
    batch: Any
    [batch] = pipeline.run(InlineExecutor(), initial_tasks=given[form](), observers=[])
    assert batch.to_arrow().drop_columns(["id"]).to_pylist() == [{"text": "one two", "n": 1}]


def test_dictionaries_and_views_become_plain_values() -> None:
    words = pa.array(["a", "b", "a"]).cast(pa.string_view())
    table = pa.table({"view": words, "lists": pa.array([["x"], [], None], pa.list_(pa.string_view()))})
    table = table.append_column("code", pa.array(["a", "b", "a"]).dictionary_encode())
    data = DocumentBatch(data=Streams(table)).data
    assert data.schema.types == [pa.string(), pa.list_(pa.string()), pa.string()]
    assert data.to_pylist() == table.to_pylist()


def test_categories_as_polars_has_them_become_text() -> None:
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.uint32()), pa.array(["a", "b"], pa.string_view()))
    frame = Streams(pa.table({"text": codes}))
    assert DocumentBatch(data=frame).to_arrow().to_pydict() == {"text": ["a", "b", None]}


def test_a_large_frame_is_cut_into_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_BYTES", 100)
    for frame in (pa.table({"n": range(100)}), pd.DataFrame({"n": range(100)})):
        made = batches.batches_of(frame)
        assert len(made) == 8
        assert [row for batch in made for row in batch.to_arrow()["n"].to_pylist()] == list(range(100))
    keys = [batch.key for batch in Pipeline("p", stages=[AddId("id")]).run(InlineExecutor(), initial_tasks=TABLE)]
    assert [str(key) for key in keys] == ["batch-00000"]
    assert [batch.num_items for batch in batches.batches_of(TABLE.slice(0, 0))] == [0]


@pytest.mark.parametrize("given", [[1, 2], "text", {"text": ["a"]}, 3, [None]])
def test_what_is_no_frame_is_refused(given: Any) -> None:
    with pytest.raises(PipelineError, match="initial_tasks must be a frame or a list of batches"):
        Pipeline("p", stages=[AddId("id")]).run(InlineExecutor(), initial_tasks=given)


@pytest.mark.parametrize("given", [pa.array([1]), pd.Series([1]), [1]])
def test_a_column_is_no_batch(given: Any) -> None:
    with pytest.raises(DataError, match="a batch holds an Arrow table or a pandas, Polars or cuDF frame, not "):
        DocumentBatch(data=given)
