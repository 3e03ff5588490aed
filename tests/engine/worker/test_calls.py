"""Calls of stages that raise."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import (
    Batch,
    BatchKey,
    DataError,
    DocumentBatch,
    FileGroup,
    PipelineError,
    ProcessingStage,
    ResourceError,
    RunError,
    StageError,
)
from dcurate.core.batch import Rejection
from dcurate.engine.worker.operator_task import OperatorSpec, TaskResult, run_operator
from dcurate.io.rejections import DirectoryRejections
from tests.engine.worker.failing import Both, Clip, FullDisk, NeedsRoom, Poisoned, Raises, Unreadable, batch, texts_of
from tests.stages import Append, FailOn


@dataclass
class Kept:
    """Keeps rejections in memory."""

    rejections: list[tuple[str, Rejection]] = field(default_factory=list)

    def keep(self, key: BatchKey, operator: str, rejections: list[Rejection]) -> None:
        self.rejections += [(str(key), rejection) for rejection in rejections]

    def faults(self) -> list[tuple[str, str]]:
        return [(key, text) for key, one in self.rejections if one.fault for text in one.data["text"].to_pylist()]


def run(
    *stages: ProcessingStage[Any, Any], inputs: Sequence[Batch], sink: Any = None, ignore: bool = True
) -> TaskResult:
    return run_operator(OperatorSpec("test", stages, sink, ignore_failures=ignore), inputs)


def made(result: TaskResult) -> list[list[tuple[str, list[str]]]]:
    return [[(str(one.key), texts_of(one)) for one in each] for each in result.outputs]  # type: ignore[arg-type]


rows = st.lists(st.sampled_from(["good", "dull", "poison"]), max_size=12)


@given(
    kinds=st.lists(rows, min_size=1, max_size=4),
    form=st.sampled_from(["batch", "some", "list", "pandas"]),
    batch_size=st.integers(1, 3),
    attempts=st.integers(1, 2),
)
def test_the_outcome_is_that_of_the_batches_without_the_rows_that_fail(
    kinds: list[list[str]], form: str, batch_size: int, attempts: int
) -> None:
    named = [[f"{kind} {row}" for row, kind in enumerate(each)] for each in kinds]
    inputs = [batch(*texts, split=str(number)) for number, texts in enumerate(named) if texts]
    without = [batch(*(text for text in texts_of(one) if "poison" not in text), split=one.key.split) for one in inputs]
    stage = Poisoned(form).with_(batch_size=batch_size, num_run_attempts=attempts)
    kept, all_well = Kept(), Kept()
    result = run(stage, Append("."), inputs=inputs, sink=kept)
    expected = run(stage, Append("."), inputs=without, sink=all_well)
    assert made(result) == made(expected)
    assert kept.faults() == [(one.key.split, text) for one in inputs for text in texts_of(one) if "poison" in text]
    for got, wanted, before in zip(result.stats, expected.stats, inputs, strict=True):
        poison = sum("poison" in text for text in texts_of(before))
        assert got[0].faulty == ({"ValueError": poison} if poison else {})
        assert (got[0].dropped, got[0].rows_in, got[0].rows_out) == (
            wanted[0].dropped,
            before.num_items,
            wanted[0].rows_out,
        )
        assert (got[1].rows_in, got[1].rows_out) == (wanted[1].rows_in, wanted[1].rows_out)


def test_one_row_of_many_costs_few_calls(tmp_path: Path) -> None:
    calls: list[int] = []

    @dataclass
    class Counted(Poisoned):
        def process(self, task: DocumentBatch) -> Any:
            calls.append(task.num_items)
            return super().process(task)

    texts = ["poison" if row == 700 else "good" for row in range(1024)]
    result = run(Counted(), inputs=[batch(*texts)])
    assert result.outputs[0][0].num_items == 1023
    assert len(calls) <= 1 + 2 * 10
    assert sum(calls) <= 3 * 1024


def test_a_row_in_quarantine_says_what_was_raised_and_where(tmp_path: Path) -> None:
    sink = DirectoryRejections(None, str(tmp_path))
    run(Poisoned(), inputs=[batch("a", "poison 1", "b")], sink=sink)
    (file,) = tmp_path.glob("*.jsonl")
    (row,) = map(orjson.loads, file.read_bytes().splitlines())
    assert {name: row[name] for name in ("text", "_dcurate_stage", "_dcurate_reason", "_dcurate_source")} == {
        "text": "poison 1",
        "_dcurate_stage": "poisoned",
        "_dcurate_reason": "ValueError",
        "_dcurate_source": "a.jsonl",
    }
    assert row["_dcurate_error"] == "ValueError: cannot take poison 1"
    assert "failing.py" in row["_dcurate_traceback"]
    assert "Traceback" in row["_dcurate_traceback"]


def test_running_twice_keeps_a_row_in_quarantine_once(tmp_path: Path) -> None:
    sink = DirectoryRejections(None, str(tmp_path))
    for _ in range(2):
        run(Poisoned(), inputs=[batch("a", "poison 1", "b")], sink=sink)
    assert [len(file.read_bytes().splitlines()) for file in tmp_path.glob("*.jsonl")] == [1]


def test_texts_that_are_no_unicode_do_not_keep_a_row_out_of_quarantine(tmp_path: Path) -> None:
    sink = DirectoryRejections(None, str(tmp_path))
    run(Raises(ValueError("\ud800")), inputs=[batch("a")], sink=sink)
    (file,) = tmp_path.glob("*.jsonl")
    assert orjson.loads(file.read_bytes())["_dcurate_error"] == "ValueError: \\ud800"


def test_values_that_arrow_has_no_type_for_are_quarantined_as_they_print() -> None:
    kept = Kept()
    odd = DocumentBatch(key=BatchKey("a"), data=pd.DataFrame({"text": [[1, "x"]]}))
    result = run(Raises(ValueError("no")), inputs=[odd], sink=kept)
    assert kept.faults() == [("a", "[1, 'x']")]
    assert result.stats[0][0].faulty == {"ValueError": 1}


def test_what_works_in_smaller_parts_is_not_lost() -> None:
    result = run(NeedsRoom(3), inputs=[batch(*"abcdefghij")])
    assert made(result) == [[("a.jsonl", list("abcdefghij"))]]
    assert result.stats[0][0].faulty == {}


def test_a_batch_that_cannot_be_cut_is_lost_whole() -> None:
    result = run(Raises(ValueError("no")), inputs=[Clip(key=BatchKey("clip"))])
    (stats,) = result.stats[0]
    assert (stats.rows_in, stats.rows_out, stats.faulty) == (5, 0, {"ValueError": 5})


def test_a_row_is_charged_to_the_stage_that_raises_of_those_merged_into_one() -> None:
    merged = Both(Append("!").with_(name="first"), Poisoned().with_(name="second"))
    first, second = run(merged, inputs=[batch("a", "poison 1")]).stats[0]
    assert (first.rows_out, first.faulty) == (2, {})
    assert (second.rows_in, second.rows_out, second.faulty) == (2, 1, {"ValueError": 1})


# Who decides


@pytest.mark.parametrize(("executor", "own", "ends"), [(False, True, False), (True, False, True), (True, None, False)])
def test_a_stage_s_own_setting_goes_before_the_executor_s(executor: bool, own: bool | None, ends: bool) -> None:
    stage = Poisoned().with_(ignore_failures=own)
    if ends:
        with pytest.raises(StageError, match="cannot take poison"):
            run(stage, inputs=[batch("poison")], ignore=executor)
    else:
        assert made(run(stage, inputs=[batch("poison")], ignore=executor)) == [[]]


@pytest.mark.parametrize("kind", [PipelineError, ResourceError, RunError])
def test_errors_of_the_run_as_a_whole_are_never_ignored(kind: type[Exception]) -> None:
    with pytest.raises(kind, match="no card"):
        run(Raises(kind("no card")).with_(num_run_attempts=3), inputs=[batch("a", "b")])


@pytest.mark.parametrize("error", [DataError("no space left on device"), ValueError("odd")])
def test_what_cannot_be_written_ends_the_run(error: Exception) -> None:
    with pytest.raises((DataError, StageError), match=str(error)):
        run(FullDisk(error).with_(ignore_failures=True), inputs=[batch("a", "b")])


def test_a_split_that_cannot_be_read_ends_the_run() -> None:
    with pytest.raises(DataError, match="malformed"):
        run(Unreadable(DataError("malformed")), inputs=[batch("a")])


def test_a_split_on_which_a_source_s_own_code_raises_is_lost() -> None:
    (stats,) = run(Unreadable(ValueError("odd")), inputs=[FileGroup.of(["a", "b"])]).stats[0]
    assert (stats.rows_in, stats.rows_out, stats.faulty) == (2, 0, {"ValueError": 2})


def test_an_answer_that_is_none_is_refused_though_failures_are_ignored() -> None:
    @dataclass
    class Answers(Append):
        def process_batch(self, tasks: list[DocumentBatch]) -> Any:
            return []

    with pytest.raises(StageError, match="answered 0; answer one result per batch"):
        run(Answers(), inputs=[batch("x")])


# Attempts


def test_a_call_is_tried_as_often_as_asked_before_it_fails(tmp_path: Path) -> None:
    stage = Raises(OSError("lost"), times=2, folder=str(tmp_path)).with_(num_run_attempts=3)
    assert made(run(stage, inputs=[batch("a", "b")], ignore=False)) == [[("a.jsonl", ["a", "b"])]]
    assert len(list(tmp_path.iterdir())) == 3


def test_the_error_says_how_often_it_was_tried(tmp_path: Path) -> None:
    stage = Raises(OSError("lost")).with_(num_run_attempts=3)
    with pytest.raises(StageError) as caught:
        run(stage, inputs=[batch("a")], ignore=False)
    assert str(caught.value).endswith("; row 0 of batch 'a.jsonl', counted from 0; tried 3 times)")


# What is said


@given(poison=st.sets(st.integers(0, 40), min_size=1), count=st.just(41), batch_size=st.integers(1, 3))
def test_the_error_names_the_first_row_that_fails(poison: set[int], count: int, batch_size: int) -> None:
    texts = [f"poison {row}" if row in poison else "good" for row in range(count)]
    inputs = [batch("good", split="fine"), batch(*texts)]
    sentence = (
        "^stage 'poisoned' failed on batch 'a.jsonl': ValueError: cannot take poison [0-9]+ "
        rf"\(.*failing.py, line [0-9]+, in process; row {min(poison)} of batch 'a.jsonl', counted from 0\)$"
    )
    with pytest.raises(StageError) as caught:
        run(Poisoned().with_(batch_size=batch_size), inputs=inputs, ignore=False)
    assert re.match(sentence, str(caught.value))


class Misnamed(ProcessingStage[DocumentBatch, DocumentBatch]):
    name = "misnamed"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(without_column(task.to_pandas()))


def without_column(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns="nope")


def test_the_error_names_the_line_of_the_users_code_and_not_of_the_library_that_it_called() -> None:
    with pytest.raises(StageError, match=r"\(.*test_calls.py, line [0-9]+, in without_column; row 0 of batch"):
        run(Misnamed(), inputs=[batch("a")], ignore=False)


def test_a_failure_of_no_single_row_names_none() -> None:
    with pytest.raises(StageError) as caught:
        run(NeedsRoom(1), inputs=[batch("a", "b", "c")], ignore=False)
    assert re.search(r"failed on batch 'a.jsonl': MemoryError \([^;]*\)$", str(caught.value))


def test_an_error_of_dcurate_s_own_passes_with_the_row_as_a_note() -> None:
    with pytest.raises(DataError) as caught:
        run(Raises(DataError("no column 'text'")), inputs=[batch("a", "b")], ignore=False)
    assert str(caught.value) == "no column 'text'"
    assert caught.value.__notes__ == [
        "stage 'raises' failed on batch 'a.jsonl'; row 0 of batch 'a.jsonl', counted from 0"
    ]


def test_a_stage_that_fails_does_not_keep_its_batches_alive() -> None:
    whole = batch("a", "poison")
    seen = weakref.ref(whole)
    gc.disable()
    try:
        run(FailOn("poison"), inputs=[whole])
        del whole
        assert seen() is None
    finally:
        gc.enable()


def test_tables_of_parts_are_joined_into_one_piece() -> None:
    (left,) = run(Poisoned(), inputs=[batch("a", "poison", "b", "c")]).outputs[0]
    assert isinstance(left, DocumentBatch)
    assert isinstance(left.data, pa.Table)
    assert left.data["text"].num_chunks == 1
