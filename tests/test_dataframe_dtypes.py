"""`apply` against Dask's own result: the same rows picked by pandas, over all dtypes and kinds of index."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dcurate
from dcurate import DataError, DocumentBatch, Modify, PipelineError, Score, ScoreFilter, apply, processing_stage
from dcurate.text import AddId, Annotate, DocumentSplitter, NewlineNormalizer, NonAlphaNumericFilter, WordCountFilter
from tests.stages import OneByOne

TEXTS = ["one two", "one", None, "one two three", "", "four five"]
NEVER = float("nan")
D, T = decimal.Decimal, datetime.datetime(2020, 1, 2, 3, 4, 5, 6)


def numbers(dtype: str) -> list[Any]:
    return [None, 1, 2, None, 3, 0] if dtype[0].isupper() or "pyarrow" in dtype else [1, 2, 3, 4, 5, 0]


def mixed(*values: Any) -> pd.Series[Any]:
    return pd.Series([*values], dtype=object)


ARROW: dict[str, pa.Array] = {
    "null": pa.nulls(6),
    "bool": pa.array([True, None, False, None, True, False]),
    "string": pa.array(TEXTS),
    "large_string": pa.array(TEXTS, pa.large_string()),
    "binary": pa.array([b"\xff", None, b"", b"a", b"b", None]),
    "large_binary": pa.array([b"\xff", None, b"", b"a", b"b", None], pa.large_binary()),
    "fixed_binary": pa.array([b"ab", None, b"cd", b"ef", b"gh", b"ij"], pa.binary(2)),
    "decimal128": pa.array([D("1.10"), None, D("2.00"), None, D("3"), D(4)], pa.decimal128(12, 4)),
    "decimal256": pa.array([D("1.10"), None, D("2.00"), None, D("3"), D(4)], pa.decimal256(50, 4)),
    "date32": pa.array([T.date(), None, T.date(), None, T.date(), T.date()], pa.date32()),
    "date64": pa.array([T.date(), None, T.date(), None, T.date(), T.date()], pa.date64()),
    "time32": pa.array([1, None, 3, 4, 5, 6], pa.time32("s")),
    "time64": pa.array([1, None, 3, 4, 5, 6], pa.time64("ns")),
    "timestamp": pa.array([T, None, T, None, T, T], pa.timestamp("us")),
    "timestamp_far": pa.array([datetime.datetime(1, 1, 1), None, T, None, T, T], pa.timestamp("s")),
    "timestamp_tz": pa.array([T, None, T, None, T, T], pa.timestamp("ms", "Europe/Berlin")),
    "duration": pa.array([1, None, 2, 3, 4, 5], pa.duration("ms")),
    "dictionary": pa.array(["a", None, "b", "a", "c", "b"]).dictionary_encode(),
    "dictionary_of_numbers": pa.array([7, None, 8, 7, 9, 8]).dictionary_encode(),
    "list": pa.array([[1], None, [], [None, 2], [3], [4]], pa.list_(pa.int32())),
    "large_list": pa.array([["a"], None, [], [None, "b"], ["c"], ["d"]], pa.large_list(pa.string())),
    "fixed_list": pa.array([[1, 2], None, [3, None], [5, 6], [7, 8], [9, 9]], pa.list_(pa.int8(), 2)),
    "struct": pa.array([{"a": 1, "b": None}, None, {"a": None, "b": "x"}, None, {"a": 3, "b": "y"}, {"a": 4}]),
    "map": pa.array([[("a", 1)], None, [], [("b", None)], [], []], pa.map_(pa.string(), pa.int64())),
    "nested": pa.array([[{"a": [1.5]}], None, [], [{"a": None}], [None], [{"a": [NEVER]}]]),
    "nan": pa.array([NEVER, None, -0.0, 0.0, 1.5, NEVER]),
    "half": pa.array([np.float16(1.5), None, np.float16(2), None, np.float16(3), np.float16(4)], pa.float16()),
    **{
        str(kind): pa.array([1, None, 2, None, 3, 0], kind)
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.float32())
    },
    "int64": pa.array([2**63 - 1, None, -(2**63), None, 3, 0]),
    "uint64": pa.array([2**64 - 1, None, 2**53 + 1, None, 3, 0], pa.uint64()),
}
#: What Parquet holds, and pandas reads of it.
IN_PARQUET = {
    **{name: content for name, content in ARROW.items() if name not in ("date64", "duration")},
    "time64": pa.array([1, None, 3, 4, 5, 6], pa.time64("us")),
    "nested": pa.array([[{"a": [1.5]}], None, [], [{"a": None}], [None], [{"a": []}]]),
}

PANDAS: dict[str, Any] = {
    **{
        dtype: pd.Series(numbers(dtype), dtype=dtype)
        for dtype in (
            *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64"),
            *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64"),
            *("complex64", "complex128"),
        )
    },
    "bool": pd.Series([True, False] * 3),
    "boolean": pd.Series([True, None, False] * 2, dtype="boolean"),
    "big Int64": pd.Series([2**63 - 1, None, 1, 2, 3, 4], dtype="Int64"),
    "float with NaN": pd.Series([1.5, None, -0.0, 0.0, np.inf, 3]),
    "str": pd.Series(TEXTS, dtype="str"),
    "string[python]": pd.Series(TEXTS, dtype="string[python]"),
    "string[pyarrow]": pd.Series(TEXTS, dtype="string[pyarrow]"),
    "objects that are texts": mixed(*TEXTS),
    "category": pd.Series(pd.Categorical(["a", None, "b", "a", "b", "a"], categories=["b", "a", "unused"])),
    "ordered": pd.Series(pd.Categorical([1, None, 2, 1, 2, 1], categories=[2, 1, 0], ordered=True)),
    "category of intervals": pd.cut(pd.Series([1, 2, 3, 4, 5, 6]), 2),
    "category of mixed": pd.Series(pd.Categorical([1, "a", None, "a", 1, 1])),
    "datetime[s]": pd.Series(pd.to_datetime(["2020-01-01", "nat"] * 3)).astype("datetime64[s]"),
    "datetime[ns]": pd.Series(pd.to_datetime(["2020-01-01", "nat"] * 3)).astype("datetime64[ns]"),
    "datetime tz": pd.Series(pd.date_range("2020-03-28", periods=6, tz="Europe/Berlin")),
    "datetime utc": pd.Series(pd.date_range("2020-03-28", periods=6, tz="UTC")),
    "timedelta": pd.Series(pd.to_timedelta([1, None, 2, 3, 4, 5], unit="s")),
    "period": pd.Series(pd.period_range("2020", periods=6, freq="M")),
    "interval": pd.Series(pd.interval_range(0, 6, closed="left")),
    "sparse": pd.Series(pd.arrays.SparseArray([0, 0, 1, 0, 2, 0])),
    "sparse floats": pd.Series(pd.arrays.SparseArray([np.nan, 1.0, np.nan, 2.0, 3.0, np.nan])),
    "bools with None": mixed(True, None, False, None, True, False),
    "whole numbers and fractions": mixed(1, 2.5, None, 3, 4, 5),
    "mixed": mixed(1, "a", None, 2.5, b"x", (1, 2)),
    "huge": mixed(2**70, None, 1, 2, 3, 4),
    "decimals": mixed(D("1.10"), None, D(2), D(3), D(4), D(5)),
    "dates": mixed(T.date(), None, T.date(), T.date(), T.date(), T.date()),
    "lists": mixed([1], None, ["a"], [], [[2]], []),
    "sets": mixed({1}, None, {2}, {1}, set(), {3}),
    "dicts": mixed({"a": 1}, None, {}, {"b": "x"}, {"a": [1]}, {}),
    "arrays": mixed(np.zeros(2), None, np.ones(1), np.zeros(0), np.ones(1), np.ones(1)),
    "lone surrogates": mixed("\ud800", None, "a", "b", "c", "d"),
    **{
        f"{name}[pyarrow]": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([content])))
        for name, content in ARROW.items()
    },
}

INDEXES: dict[str, pd.Index] = {
    "range": pd.RangeIndex(6),
    "range from 10 by -2": pd.RangeIndex(10, -2, -2, name="back"),
    "named": pd.Index([3, 1, 4, 1, 5, 9], name="key"),
    "unsorted": pd.Index([3, 1, 4, 1, 5, 9]),
    "texts": pd.Index(list("fedcba"), name="key"),
    "nullable": pd.Index([1, 2, None, 4, 5, 6], dtype="Int64", name="key"),
    "floats": pd.Index([0.5, np.nan, 1, 2, 3, 4]),
    "dates": pd.date_range("2020", periods=6, tz="UTC", name="when"),
    "categories": pd.CategoricalIndex(list("abcabc"), name="kind"),
    "arrow": pd.Index(pd.Series(map(D, range(6)), dtype=pd.ArrowDtype(pa.decimal128(5, 2)))),
    "several": pd.MultiIndex.from_product([["a", "b"], [1, 2, 3]], names=["one", "two"]),
}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}):
        yield


@processing_stage(name="by_pandas")
def by_pandas(batch: DocumentBatch) -> DocumentBatch:
    rows = batch.to_pandas()
    return batch.with_data(rows[rows["text"].str.count(" ").fillna(0) > 0])


@processing_stage(name="copied")
def copied(batch: DocumentBatch) -> DocumentBatch:
    return batch.with_data(batch.to_pandas())


FILTERS: dict[str, list[Any]] = {
    "arrow": [ScoreFilter(WordCountFilter(min_words=2))],
    "pandas": [by_pandas],
    "arrow, then pandas": [ScoreFilter(WordCountFilter(min_words=2)), copied],
    "pandas, then arrow": [copied, ScoreFilter(WordCountFilter(min_words=2))],
}


def cut(frame: pd.DataFrame, bounds: list[int], meta: pd.DataFrame | None = None) -> dd.DataFrame:
    edges = [0, *sorted(bounds), len(frame)]
    pieces = [frame.iloc[start:stop] for start, stop in pairwise(edges)]
    return dd.from_map(lambda piece: piece, pieces, meta=frame.iloc[:0] if meta is None else meta)


def partitions(ddf: dd.DataFrame) -> list[pd.DataFrame]:
    return [part.compute() for part in ddf.to_delayed()]


def picked(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of at least two words."""
    return frame[frame["text"].str.count(" ").fillna(0).astype("int64") > 0]


def same(made: dd.DataFrame, expected: dd.DataFrame) -> None:
    """Partition by partition, and what Dask knows of them beforehand."""
    frames = [(made._meta, expected._meta), *zip(partitions(made), partitions(expected), strict=True)]
    for one, other in frames:
        assert list(map(str, one.dtypes)) == list(map(str, other.dtypes))
        objects = [name for name, dtype in other.dtypes.items() if pd.api.types.is_object_dtype(dtype)]
        if not len(other):  # the categories of no rows: Dask puts its meta for a partition without rows
            objects += [name for name, dtype in other.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)]
        pd.testing.assert_frame_equal(one.drop(columns=objects), other.drop(columns=objects), check_exact=True)
        for name in objects:
            assert list(map(repr, one[name])) == list(map(repr, other[name]))


@pytest.mark.parametrize("stages", FILTERS.values(), ids=list(FILTERS))
def test_a_filter_leaves_every_dtype_as_it_came(stages: Any) -> None:
    frame = pd.DataFrame({"text": pd.Series(TEXTS, dtype="str"), **PANDAS})
    ddf = cut(frame, [2, 2, 4])
    same(apply(stages, ddf), ddf.map_partitions(picked, meta=ddf._meta))


@pytest.mark.parametrize("index", INDEXES.values(), ids=list(INDEXES))
@pytest.mark.parametrize("stages", FILTERS.values(), ids=list(FILTERS))
def test_rows_keep_their_index(stages: Any, index: pd.Index) -> None:
    frame = pd.DataFrame({"text": pd.array(TEXTS, "str"), "n": range(6)}, index=index)
    ddf = cut(frame, [1, 1, 4])
    same(apply(stages, ddf), ddf.map_partitions(picked, meta=ddf._meta))


@pytest.mark.parametrize("index", [INDEXES["named"], INDEXES["several"]], ids=["named", "several"])
def test_rows_made_of_one_row_have_its_index_and_its_values(index: pd.Index) -> None:
    frame = pd.DataFrame({"text": pd.array([text or "" for text in TEXTS], "str"), **PANDAS}, index=index)
    ddf = cut(frame, [1, 1, 4])
    expected = [part.assign(text=part["text"].str.split(" ")).explode("text") for part in partitions(ddf)]
    made = apply(DocumentSplitter(" ", segment_id_field="place"), ddf)
    for one, other in zip(partitions(made), expected, strict=True):
        pd.testing.assert_frame_equal(one.drop(columns="place"), other.astype({"text": "str"}))
    assert made._meta.drop(columns="place").dtypes.equals(frame.dtypes)
    assert len(partitions(apply([OneByOne()], ddf[["text"]], meta=ddf._meta[["text"]]))[1]) == 0


def test_a_changed_column_changes_and_no_other() -> None:
    for name in ("str", "string[python]", "string[pyarrow]", "large_string[pyarrow]"):
        frame = pd.DataFrame({"text": PANDAS[name], **(PANDAS if name == "str" else {})})
        ddf = cut(frame, [2, 2, 4])
        stages = [Modify(lambda text: text and text.upper()), Score(WordCountFilter(), "words")]
        upper = frame.assign(text=frame["text"].str.upper(), words=[2, 1, 0, 3, 0, 2])
        same(apply(stages, ddf), cut(upper, [2, 2, 4]))


def test_columns_that_stages_add_have_the_same_dtype_in_every_partition() -> None:
    ddf = cut(pd.DataFrame({"text": pd.array(TEXTS, "str")}), [0, 2, 2])
    made = apply([AddId("id"), Annotate([WordCountFilter(min_words=2)])], ddf)
    assert {name: str(dtype) for name, dtype in made.dtypes.items()} == {
        "text": "str",
        "id": "str",
        "word_count": "int64",
        "failed": "list<item: string>[pyarrow]",
        "rules": "str",
    }
    for part in partitions(made):
        pd.testing.assert_frame_equal(part.iloc[:0], made._meta, check_index_type=False)


rows = st.lists(
    st.tuples(
        st.sampled_from(TEXTS),
        st.none() | st.booleans(),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.floats(),
        st.none() | st.sampled_from(["a", "b", "c"]),
        st.none() | st.decimals(-99, 99, places=3),
        st.none() | st.lists(st.none() | st.floats(), max_size=2),
        st.none() | st.integers() | st.text(max_size=2) | st.binary(max_size=2),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=40)
@given(rows, st.lists(st.integers(0, 8), max_size=3), st.sampled_from(list(FILTERS)))
@example([("one two", *[None] * 7), ("one two", *[None] * 6, 2**53 + 1)], [], "arrow, then pandas")
def test_any_rows_leave_as_pandas_picks_them(rows: list[Any], bounds: list[int], stages: str) -> None:
    frame = pd.DataFrame(rows, columns=["text", *"bnfkdlo"], dtype=object).astype(
        {
            "text": "string[pyarrow]",
            "b": "boolean",
            "n": "Int64",
            "f": pd.ArrowDtype(pa.float64()),
            "k": "category",
            "d": pd.ArrowDtype(pa.decimal128(20, 5)),
        }
    )
    frame["l"] = frame["l"].astype(pd.ArrowDtype(pa.list_(pa.float64())))
    frame.index = pd.Index([f"row {number % 3}" for number in range(len(frame))], name="key")
    ddf = cut(frame, [min(bound, len(frame)) for bound in bounds])
    same(apply(FILTERS[stages], ddf), ddf.map_partitions(picked, meta=ddf._meta))


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("parquet")
    for number in range(2):
        table = pa.table({"text": pa.array(TEXTS), **IN_PARQUET}).slice(number * 3, 3)
        pq.write_table(table, folder / f"{number}.parquet")
    return str(folder)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's, as it writes an index
@pytest.mark.parametrize("backend", [None, "numpy_nullable", "pyarrow"])
@pytest.mark.parametrize("convert", [False, True])
def test_what_dask_reads_it_writes_as_if_pandas_had_picked_the_rows(
    parquet: str, backend: Any, convert: bool, tmp_path: Path
) -> None:
    with dask.config.set({"dataframe.convert-string": convert}):
        ddf = dd.read_parquet(parquet, dtype_backend=backend) if backend else dd.read_parquet(parquet)
        expected, made = ddf.map_partitions(picked, meta=ddf._meta), apply(FILTERS["arrow"], ddf)
        same(made, expected)
        inferred = [name for name, dtype in ddf.dtypes.items() if str(dtype) not in ("object", "category")]
        inferred = [name for name in inferred if backend or not name.endswith("int64")]  # floats, that are too large
        written_each = [name for name in ddf.columns if backend == "pyarrow" or name != "map"]  # tuples, to pandas
        for schema, columns in ((None, written_each), ("infer", inferred)):
            for name, each in (("made", made), ("expected", expected)):
                each[columns].to_parquet(tmp_path / f"{schema}" / name, schema=schema)
            for file in sorted((tmp_path / f"{schema}" / "expected").iterdir()):
                written, wanted = (
                    pq.read_table(tmp_path / f"{schema}" / name / file.name) for name in ("made", "expected")
                )
                assert written.schema.equals(wanted.schema, check_metadata=True)
                assert repr(written.to_pylist()) == repr(wanted.to_pylist())  # for a NaN is equal to no other


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's, as it reads several row groups
def test_categories_that_dask_reads_are_written_by_dask(tmp_path: Path) -> None:
    table = pa.table({"text": ["one two", "one", "two one"], "lang": pa.array(["en", "de", "fr"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=1)
    ddf = dd.read_parquet(tmp_path / "in.parquet", split_row_groups=True)
    apply(FILTERS["arrow"], ddf).to_parquet(tmp_path / "out", write_index=False)
    assert pq.read_table(tmp_path / "out")["lang"].to_pylist() == ["en", "fr"]


def test_a_value_that_does_not_fit_its_dtype_is_refused_in_a_sentence() -> None:
    @processing_stage(name="halves")
    def halves(batch: DocumentBatch) -> DocumentBatch:
        return batch.with_data(
            batch.to_pandas().assign(
                n=lambda rows: rows.n.astype(object).where(rows.n > 1, None) if len(rows) else rows.n
            )
        )

    @processing_stage(name="others")
    def others(batch: DocumentBatch) -> DocumentBatch:
        rows = batch.to_pandas()
        return batch.with_data(rows.assign(k=pd.Categorical(["new"] * len(rows)) if len(rows) else rows.k))

    frame = pd.DataFrame({"text": ["a"], "n": [1], "k": pd.Categorical(["old"])})
    for stage, column in ((halves, "n"), (others, "k")):
        with pytest.raises(DataError, match=rf"apply\(\) to partition-00000: column '{column}' holds .* give an empty"):
            apply(stage, cut(frame, [])).compute()


def test_columns_that_a_batch_cannot_tell_apart_are_refused_before_anything_runs() -> None:
    twice = pd.DataFrame([["a", "b"]], columns=["text", "text"])
    with pytest.raises(PipelineError, match="several columns of the frame are called .text.; rename"):
        apply(copied, cut(twice, []))
    with pytest.raises(PipelineError, match="column ._dcurate_row. of the frame.*rename it"):
        apply(copied, cut(pd.DataFrame({"text": ["a"], "_dcurate_row": [1]}), []))


def test_columns_that_are_not_named_by_text_keep_their_names() -> None:
    frame = pd.DataFrame({"text": ["one two", "one"], 0: [1, 2], (1, "a"): [3, 4]})
    frame.columns.name = "names"
    ddf = cut(frame, [])
    same(apply(FILTERS["arrow"], ddf), ddf.map_partitions(picked, meta=ddf._meta))


def test_rows_that_a_stage_makes_afresh_are_numbered_from_0_in_each_partition() -> None:
    @processing_stage(name="lengths")
    def lengths(batch: DocumentBatch) -> DocumentBatch:
        return DocumentBatch(data=pd.DataFrame({"length": batch.to_pandas()["text"].str.len()}))

    frame = pd.DataFrame({"text": ["a", "bb", "ccc"]}, index=pd.Index(["x", "y", "z"], name="key"))
    made = apply(lengths, cut(frame, [2]))
    assert made._meta.index.name is None
    assert [part.index.tolist() for part in partitions(made)] == [[0, 1], [0]]
    with pytest.raises(DataError, match="the index 'key' cannot be kept; make it a column with reset_index"):
        apply(lengths, cut(frame, [2]), meta=made._meta).compute()


def test_a_score_in_floats_beside_a_changed_text_is_a_column_of_floats() -> None:
    frame = pd.DataFrame({"text": ["one two\r\n", "three!"], "n": [1.5, 2.5]})
    ddf = dd.from_pandas(frame, npartitions=2)
    stages = [Modify(NewlineNormalizer()), ScoreFilter(NonAlphaNumericFilter(1.0), score_field="score")]
    found = dcurate.apply(stages, ddf)
    assert found.dtypes["score"] == found.compute().dtypes["score"] == np.float64
    assert found.compute().score.tolist() == [NonAlphaNumericFilter().score_document(text) for text in frame.text]
