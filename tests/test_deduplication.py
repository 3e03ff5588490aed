import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    BatchKey,
    DataError,
    DocumentBatch,
    ExactDuplicates,
    FuzzyDuplicates,
    InlineExecutor,
    LocalCluster,
    Pipeline,
    PipelineError,
    deduplicate,
)
from dcurate.dedup import Highest, Preferred, Shingles
from dcurate.deduplication import Method
from dcurate.run import AnyStage

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield


def cut(frame: pd.DataFrame, bounds: list[int]) -> dd.DataFrame:
    """The frame in partitions of these bounds, some of which may be empty."""
    edges = [0, *sorted(bound % (len(frame) + 1) for bound in bounds), len(frame)]
    pieces = [frame.iloc[start:stop] for start, stop in pairwise(edges)]
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_map(lambda piece: piece, pieces, meta=frame.iloc[:0])


rows = st.lists(st.tuples(st.sampled_from(["", "a", "b", "ä", None]), st.integers(0, 3)), max_size=25)
bounds = st.lists(st.integers(0, 30), max_size=4)


@settings(deadline=None, max_examples=6)
@given(rows, bounds)
def test_exact_duplicates_go_as_pandas_drops_them_however_the_frame_is_cut(
    rows: list[tuple[str | None, int]], bounds: list[int]
) -> None:
    frame = pd.DataFrame(rows, columns=["text", "n"]).astype({"text": "string[pyarrow]", "n": "int32"})
    frame.index = pd.Index(np.arange(len(frame)) * 3, name="key")
    made = deduplicate(cut(frame, bounds)).compute()
    pd.testing.assert_frame_equal(made, frame[~frame.text.duplicated() | frame.text.isna()])
    last_of_all = deduplicate(cut(frame, bounds), keep=Highest("n")).compute()
    best = frame.sort_values("n", ascending=False, kind="stable")
    kept = best.index[~best.text.duplicated() | best.text.isna()].sort_values()
    pd.testing.assert_frame_equal(last_of_all, frame.loc[kept])


@pytest.mark.parametrize("ways", [{"on": "text"}, {"on": ["text"]}, {"on": "text", "method": "fuzzy"}], ids=str)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_null_texts_are_no_duplicates_in_any_way(ways: dict[str, Any], kind: pa.DataType) -> None:
    text = "some words that are long enough to have shingles, here again and again"
    texts: Any = pa.array([text, None, "", None, text, "x"], kind)
    frame = pd.DataFrame({"text": pd.Series(texts, dtype=pd.ArrowDtype(kind))})
    made = deduplicate(dd.from_pandas(frame, npartitions=3), **ways).compute(scheduler="sync")
    assert made.index.tolist() == [0, 1, 2, 3, 5]


@settings(deadline=None, max_examples=3)
@given(rows, bounds)
def test_rows_are_compared_by_several_columns_and_by_none_that_is_null(
    rows: list[tuple[str | None, int]], bounds: list[int]
) -> None:
    frame = pd.DataFrame(rows, columns=["url", "n"]).astype({"url": "string[pyarrow]"}).assign(x=range(len(rows)))
    both = deduplicate(cut(frame, bounds), on=["url", "n"]).compute()
    assert both.x.tolist() == frame[~frame.duplicated(["url", "n"])].x.tolist()
    one = deduplicate(cut(frame, bounds), on=["url"]).compute()
    assert one.x.tolist() == frame[~frame.duplicated(["url"]) | frame.url.isna()].x.tolist()


def variants() -> pd.DataFrame:
    """Texts of which some are others with a word or two changed, with scores and sources."""
    draw = random.Random(2)
    rows = []
    for _ in range(40):
        words = [str(draw.randrange(1000)) for _ in range(60)]
        for _ in range(draw.choice([1, 1, 2, 4])):
            if draw.random() < 0.8:
                words[draw.randrange(60)] = "changed"
            rows.append((" ".join(words), draw.random(), draw.choice(["web", "books"])))
    rows += [("", 0.0, "web"), ("", 1.0, "web")]
    draw.shuffle(rows)
    return pd.DataFrame(rows, columns=["text", "score", "source"]).assign(n=range(len(rows)))


def by_pipeline(frame: pd.DataFrame, stage: AnyStage) -> list[int]:
    batches = [
        DocumentBatch(data=frame.iloc[at : at + 30], key=BatchKey(f"b{at:03}")) for at in range(0, len(frame), 30)
    ]
    result = Pipeline("whole", stages=[stage]).run(InlineExecutor(), initial_tasks=batches)
    return [n for made in result for n in made.to_pandas().n]  # type: ignore[attr-defined]


SHINGLES = Shingles(3, "words")


@pytest.mark.parametrize(
    "stage",
    [
        FuzzyDuplicates(),
        FuzzyDuplicates(threshold=0.6, shingles=SHINGLES, clustering="star", keep=Highest("score")),
        FuzzyDuplicates(threshold=0.7, verification="estimated", keep=Preferred("source", ["books"])),
        FuzzyDuplicates(threshold=0.7, num_hashes=64, verification="none", keep="longest"),
        ExactDuplicates(keep=Highest("score"), normalize=["case"]),
    ],
)
def test_what_is_left_is_what_a_pipeline_leaves_of_other_batches(stage: Any) -> None:
    frame = variants()
    expected = by_pipeline(frame, stage)
    assert 30 < len(expected) < len(frame)
    assert deduplicate(cut(frame, [20, 20, 50, 90]), method=stage).compute().n.tolist() == expected


def test_it_runs_on_worker_processes_with_their_own_exchange(cluster: LocalCluster, tmp_path: Path) -> None:
    frame = variants()
    dd.from_pandas(frame, npartitions=4).to_parquet(tmp_path / "in", write_index=False)
    source = dd.read_parquet(tmp_path / "in")
    for method, expected in (
        ("exact", by_pipeline(frame, ExactDuplicates())),
        ("fuzzy", by_pipeline(frame, FuzzyDuplicates())),
    ):
        made = cluster.client.compute(deduplicate(source, method=method).optimize()).result()
        assert made.n.tolist() == expected


def test_nothing_runs_before_it_is_asked_for_and_no_partition_waits_in_memory(tmp_path: Path) -> None:
    frame, log = variants(), tmp_path / "log"

    def load(start: int) -> pd.DataFrame:
        with log.open("a") as file:
            file.write(f"{start}\n")
        return frame.iloc[start : start + 40]

    source = dd.from_map(load, range(0, len(frame), 40), meta=frame.iloc[:0])
    for method, times in (("exact", 2), ("fuzzy", 3)):
        made = deduplicate(source, method=method)
        assert not log.exists()
        made.compute()
        assert log.read_text().split().count("0") == times
        log.unlink()
    made = deduplicate(source.persist())
    log.unlink()
    made.compute()
    assert not log.exists()


def test_types_index_and_divisions_stay() -> None:
    frame = variants().astype({"score": "float32", "source": "category"}).set_index("n")
    source = dd.from_pandas(frame, npartitions=3)
    made = deduplicate(source)
    assert made.divisions == source.divisions
    assert made._meta.dtypes.equals(source._meta.dtypes)
    assert made.compute().dtypes.equals(source.compute().dtypes)
    assert made.compute().index.name == "n"


@pytest.mark.parametrize(("first", "second"), [("aab", "ab"), ("aab", "aba"), ("aa", "a")])
def test_a_frame_that_comes_out_otherwise_the_second_time_is_refused(first: str, second: str) -> None:
    calls: list[int] = []

    def load(start: int) -> pd.DataFrame:
        calls.append(start)
        return pd.DataFrame({"text": [*(first if len(calls) == 1 else second)]})

    source = dd.from_map(load, [0], meta=pd.DataFrame({"text": pd.array([], "string[pyarrow]")}))
    with pytest.raises(DataError, match=r"persist\(\) the frame before"):
        deduplicate(source).compute()


@pytest.mark.parametrize(
    ("on", "method", "said"),
    [
        ("text", "fuzy", "no method 'fuzy'; did you mean 'fuzzy'"),
        (["text", "url"], "fuzzy", "in one column of texts, not in 'text', 'url'"),
        ("body", "exact", "reads column 'body'"),
        ("url", ExactDuplicates(), "not on= or keep="),
        ("text", ExactDuplicates(action="flag"), "in a Pipeline only"),
        ("text", FuzzyDuplicates(index_path="seen"), "in a Pipeline only"),
    ],
)
def test_what_cannot_work_is_refused_at_once(on: Any, method: Method, said: str) -> None:
    source = dd.from_pandas(pd.DataFrame({"text": ["a"], "url": ["b"]}), npartitions=1)
    with pytest.raises(PipelineError, match=said):
        deduplicate(source, on, method)


@pytest.mark.parametrize("method", ["exact", "fuzzy"])
def test_columns_that_are_not_compared_may_hold_what_arrow_cannot(method: str) -> None:
    frame = pd.DataFrame(
        {
            "text": ["some words", "other words", "some words"],
            "mixed": pd.Series([1, "a", b"x"], dtype=object),
            "sparse": pd.arrays.SparseArray([0, 0, 1]),
        }
    )
    made = deduplicate(cut(frame, [1]), method=method).compute()
    pd.testing.assert_frame_equal(made, frame.iloc[:2])


def test_what_is_no_dask_dataframe_is_refused_with_the_way_to_make_one() -> None:
    with pytest.raises(PipelineError, match=r"deduplicate\(\) takes a Dask DataFrame, and this is pandas.DataFrame"):
        deduplicate(pd.DataFrame({"text": ["a"]}))
    with pytest.raises(PipelineError, match=r"on= names columns; give the stage as method="):
        deduplicate(cut(pd.DataFrame({"text": ["a"]}), []), FuzzyDuplicates())  # type: ignore[arg-type]
