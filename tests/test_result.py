"""The rows of a run as one frame."""

from pathlib import Path
from typing import Any

import dask.dataframe as dd
import pandas as pd
import polars
import pyarrow as pa
import pytest

from dcurate import (
    DataError,
    DocumentBatch,
    FileGroup,
    InlineExecutor,
    JsonlWriter,
    Pipeline,
    PipelineError,
    ProcessingStage,
    RunError,
    RunResult,
    ScoreFilter,
)
from dcurate.text import WordCountFilter
from dcurate.ui.table import report_text

LARGE = 2**60 + 1


def run(*columns: dict[str, list[object]], stage: ProcessingStage | None = None) -> RunResult:
    batches = [DocumentBatch(data=pa.table(one)) for one in columns]
    stages = [stage or ScoreFilter(WordCountFilter(min_words=2))]
    return Pipeline("test", stages=stages).run(InlineExecutor(), initial_tasks=batches)


def test_the_rows_of_all_batches_are_one_frame_and_keep_every_digit() -> None:
    result = run({"text": ["a b", "c"], "id": [LARGE, 1]}, {"text": ["d e"], "id": [None]}, {"text": ["f g"]})
    assert result.to_arrow().to_pylist() == [
        {"text": "a b", "id": LARGE},
        {"text": "d e", "id": None},
        {"text": "f g", "id": None},
    ]
    assert result.to_pandas()["text"].tolist() == ["a b", "d e", "f g"]
    assert result.to_pandas()["id"].tolist() == [LARGE, pd.NA, pd.NA]


def test_a_run_without_a_row_is_an_empty_frame() -> None:
    assert [len(rows) for rows in (run({"text": ["a"]}).to_arrow(), run({"text": ["a"]}).to_pandas())] == [0, 0]


def test_rows_that_were_written_are_where_the_result_says(tmp_path: Path) -> None:
    result = run({"text": ["a b"]}, stage=JsonlWriter(str(tmp_path / "out")))
    with pytest.raises(RunError, match=f"the rows of this run were written; read them from '{tmp_path / 'out'}'"):
        result.to_pandas()


def test_a_result_shows_its_rows_and_where_they_are(tmp_path: Path) -> None:
    stages: list[Any] = [ScoreFilter(WordCountFilter(min_words=2)), JsonlWriter(str(tmp_path / "out"))]
    rows = pd.DataFrame({"text": ["one two", "one"]})
    first = Pipeline("p", stages=stages).run(InlineExecutor(), initial_tasks=rows, observers=[])
    assert repr(first) == f"RunResult('p', run {first.report.run}, 2 rows in, 1 out, in '{tmp_path}/out')"
    again = Pipeline("p", stages=stages).run(InlineExecutor(), initial_tasks=rows, resume=True, observers=[])
    assert repr(again).endswith(f", 2 rows in, 1 out, nothing to do, in '{tmp_path}/out')")
    assert "result  nothing to do: an earlier run has finished all splits" in report_text(again.report)
    assert "nothing to do" not in report_text(first.report)


def test_what_is_no_row_and_types_that_do_not_go_together_are_one_sentence() -> None:
    report = run({"text": ["a b"]}).report
    with pytest.raises(RunError, match="the last stage made FileGroup, which has no rows"):
        RunResult((FileGroup.of(["a"]),), report).to_arrow()
    with pytest.raises(DataError, match="types that do not go together; take batch by batch"):
        run({"text": ["a b"], "n": [1]}, {"text": ["a b"], "n": [["x"]]}).to_arrow()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (5, r"is int; make batches: \[DocumentBatch\(data=frame\)\]"),
        ({"text": ["a b"]}, r"is dict; make a frame of such rows: pandas.DataFrame\(rows\)"),
        ([{"text": "a b"}], "holds dict; make a frame of such rows"),
        ("input.jsonl", r"is str; begin with a reader, such as JsonlReader\(path\)"),
        (polars.LazyFrame({"text": ["a b"]}), r"is LazyFrame; read its rows first: frame.collect\(\)"),
        (dd.from_dict({"text": ["a b"]}, npartitions=1), r"is DataFrame; use dcurate.apply\(stages, ddf\)"),
    ],
)
def test_what_is_no_list_of_batches_says_how_to_make_one(given: Any, said: str) -> None:
    pipeline = Pipeline("test", stages=[ScoreFilter(WordCountFilter())])
    with pytest.raises(PipelineError, match=f"must be a frame or a list of batches, and this {said}"):
        pipeline.run(InlineExecutor(), initial_tasks=given)
