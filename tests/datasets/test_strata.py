"""A sample by strata has exact sizes, and depends on the rows and the seed alone."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from dask.distributed import LocalCluster
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate import DaskExecutor, DataError, InlineExecutor, JsonlReader, ParquetReader, Pipeline, PipelineError
from dcurate.datasets import SampleStrata
from dcurate.datasets.strata import allocated
from dcurate.datasets.stratum_names import strata_of
from dcurate.frames.rows import row_keys
from dcurate.run import Executor
from tests.stages import DieOnce

pytestmark = pytest.mark.cluster

Row = dict[str, Any]


def write(folder: Path, rows: list[Row], files: int) -> str:
    folder.mkdir(parents=True)
    for number in range(files):
        lines = [json.dumps(row) + "\n" for row in rows[number::files]]
        (folder / f"{number:02}.jsonl").write_text("".join(lines))
    return str(folder)


def sampled(reader: Any, stage: SampleStrata, executor: Executor | None = None) -> list[Row]:
    result = Pipeline("sample", stages=[reader, stage]).run(executor or InlineExecutor(), observers=[])
    return [row for batch in result for row in batch.to_arrow().to_pylist()]  # type: ignore[attr-defined]


def corpus(count: int) -> list[Row]:
    """Rows of three languages, one of them rare, with texts of all lengths and scores, some null."""
    languages = ["en"] * 20 + ["de"] * 5 + ["is"] + [None]
    return [
        {
            "id": str(number),
            "language": languages[number % len(languages)],
            "text": "x" * (number * 7 % 400),
            "score": None if number % 11 == 0 else number % 50 / 10,
        }
        for number in range(count)
    ]


STAGE: dict[str, Any] = {"by": ["language"], "bands": {"text": [100, 300], "score": [2.0]}}


def stratum_of(row: Row) -> str:
    """The name of the stratum of a row, by the rule in words."""
    length = len(row["text"])
    band = "below 100" if length < 100 else "from 300" if length >= 300 else "[100, 300)"
    score = "null" if row["score"] is None else "below 2" if row["score"] < 2 else "from 2"
    return f"language={json.dumps(row['language'])}, text={band}, score={score}"


@pytest.mark.parametrize("allocation", ["equal", "proportional"])
@pytest.mark.parametrize("n", [1, 60, 999])
def test_a_sample_has_of_each_stratum_the_rows_with_the_smallest_keys_in_exact_numbers(
    tmp_path: Path, allocation: str, n: int
) -> None:
    rows = corpus(1000)
    drawn = sampled(
        JsonlReader(write(tmp_path / "in", rows, 7)), SampleStrata(n, **STAGE, allocation=allocation, seed=5)
    )
    names = sorted({stratum_of(row) for row in rows})
    members = [[row for row in rows if stratum_of(row) == name] for name in names]
    wanted = allocated([len(stratum) for stratum in members], n, allocation)
    assert len(drawn) == n
    for name, stratum, count in zip(names, members, wanted, strict=True):
        keys = row_keys(pa.Table.from_pylist(stratum), None, 5)
        order = np.lexsort((keys[:, 1], keys[:, 0]))[:count]
        own = [row for row in drawn if row["stratum"] == name]
        assert sorted(row["id"] for row in own) == sorted(stratum[place]["id"] for place in order)
        assert all(row["sampling_weight"] == len(stratum) / count for row in own)


def test_a_sample_is_the_same_for_any_files_batches_and_workers(cluster: LocalCluster, tmp_path: Path) -> None:
    rows = corpus(600)
    one, many = write(tmp_path / "one", rows, 1), write(tmp_path / "many", rows[::-1], 9)
    first = sampled(JsonlReader(one), SampleStrata(77, **STAGE))
    for reader in (JsonlReader(many), JsonlReader(one, blocksize=2000)):
        for parts in (None, 1, 5):
            assert sampled(reader, SampleStrata(77, **STAGE, npartitions=parts)) == first
    assert sampled(JsonlReader(many), SampleStrata(77, **STAGE), DaskExecutor(cluster=cluster)) == first
    assert sampled(JsonlReader(one), SampleStrata(77, **STAGE, seed=1)) != first
    pa.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet", row_group_size=50)
    assert sampled(ParquetReader(str(tmp_path / "rows.parquet")), SampleStrata(77, **STAGE)) == first


def test_a_sample_through_the_death_of_a_worker_is_the_same(cluster: LocalCluster, tmp_path: Path) -> None:
    source = write(tmp_path / "in", corpus(300), 6)
    expected = sampled(JsonlReader(source), SampleStrata(50, **STAGE))
    stages: list[Any] = [JsonlReader(source), DieOnce(str(tmp_path), "x" * 7), SampleStrata(50, **STAGE)]
    result = Pipeline("sample", stages=stages).run(DaskExecutor(cluster=cluster), observers=[])
    assert (tmp_path / "died").exists()
    assert [row for batch in result for row in batch.to_arrow().to_pylist()] == expected  # type: ignore[attr-defined]


def test_what_is_not_drawn_is_counted(tmp_path: Path) -> None:
    stages = [JsonlReader(write(tmp_path / "in", corpus(100), 3)), SampleStrata(30, ["language"])]
    stats = Pipeline("sample", stages=stages).run(InlineExecutor(), observers=[]).report.stages[1]
    assert (stats.rows_in, stats.rows_out, stats.dropped) == (100, 30, {"not_sampled": 70})


def test_equal_rows_are_drawn_in_the_number_asked_for(tmp_path: Path) -> None:
    rows = [{"text": "same", "kind": "a"}] * 20 + [{"text": "other", "kind": "b"}] * 5
    drawn = sampled(JsonlReader(write(tmp_path / "in", rows, 4)), SampleStrata(9, ["kind"], npartitions=2))
    assert Counter(row["kind"] for row in drawn) == {"a": 5, "b": 4}


def test_a_column_that_some_files_lack_is_null_there(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1, "kind": 1}\n{"n": 2, "kind": 1}\n')
    (tmp_path / "b.jsonl").write_text('{"n": 3}\n{"n": 4, "kind": null}\n{"n": 5, "kind": 1}\n')
    drawn = sampled(JsonlReader(str(tmp_path)), SampleStrata(9, ["kind"]))
    assert Counter(row["stratum"] for row in drawn) == {"kind=1": 3, "kind=null": 2}


@example([1, 1], 1, "equal")
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.integers(1, 300),
    st.sampled_from(["equal", "proportional"]),
)
def test_an_allocation_is_exact_and_as_even_as_the_strata_allow(rows: list[int], n: int, allocation: str) -> None:
    counts = allocated(rows, n, allocation)
    assert sum(counts) == min(n, sum(rows))
    assert all(0 <= count <= of for count, of in zip(counts, rows, strict=True))
    if allocation == "equal":
        short = [count for count, of in zip(counts, rows, strict=True) if count < of]
        assert not short or max(counts) - min(short) <= 1  # no row could move to a stratum that has fewer
    elif n < sum(rows):
        assert all(abs(count - n * of / sum(rows)) < 1 for count, of in zip(counts, rows, strict=True))


def test_values_that_look_alike_are_different_strata() -> None:
    codes, labels = strata_of(pa.table({"a": ["1", "null", None], "b": [1, 1, 1]}), ["a", "b"], {})
    assert sorted(labels[code] for code in codes) == ['a="1", b=1', 'a="null", b=1', "a=null, b=1"]


@pytest.mark.parametrize(
    ("column", "by", "bands", "sentence"),
    [
        ([str(number) for number in range(5000)], ["c"], {}, "5,000 strata of c, and there may be 4,096; leave out"),
        ([1.5], ["c"], {}, "column 'c' holds 1.5, which is not text, a whole number or a flag; give bands="),
        ([True], [], {"c": (1,)}, "column 'c' holds True, and bands are of numbers or texts; give it in by="),
        ([[1]], ["c"], {}, "column 'c' holds [1], which is not text"),
    ],
)
def test_columns_that_make_no_strata_are_refused(column: list[Any], by: list[str], bands: Any, sentence: str) -> None:
    with pytest.raises(DataError) as error:
        strata_of(pa.table({"c": column}), by, bands)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n": 0, "by": ["a"]}, "n=0 must be a whole number of at least 1"),
        ({"n": 5}, "must name the columns of the strata"),
        ({"n": 5, "by": "language"}, "must name the columns of the strata"),
        ({"n": 5, "by": ["a"], "bands": {"a": [1]}}, "'a' is in by= and in bands="),
        ({"n": 5, "bands": {"a": [2, 1]}}, r"bands['a']=[2, 1] must be ascending numbers"),
        ({"n": 5, "bands": {"a": []}}, "must be ascending numbers"),
        ({"n": 5, "by": ["a"], "allocation": "even"}, "unknown allocation 'even'"),
    ],
)
def test_wrong_settings_are_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PipelineError) as error:
        SampleStrata(**arguments)
    assert sentence in str(error.value)
