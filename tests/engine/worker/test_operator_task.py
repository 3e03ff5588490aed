import os
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dcurate import BatchKey, DocumentBatch, ProcessingStage, ResourceError, ScoreFilter, StageError
from dcurate.core.ledger import RejectionSink
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.operator_task import OperatorSpec, TaskResult, run_operator
from dcurate.engine.worker.slots import Slot, SlotPool, opened
from dcurate.events import StageStats
from dcurate.text import LongWordFilter, WordCountFilter
from tests.engine.worker.failing import Sets
from tests.stages import Append, Diary, FailOn, KeepEvery, OneByOne


def batch(*texts: str, split: str = "a.jsonl") -> DocumentBatch:
    return DocumentBatch(key=BatchKey(split), data=pa.table({"text": list(texts)}))


def run(
    *stages: ProcessingStage[Any, Any], inputs: list[DocumentBatch], sink: RejectionSink | None = None
) -> TaskResult:
    return run_operator(OperatorSpec("test", stages, sink), inputs)


def texts(result: TaskResult) -> list[list[list[str]]]:
    return [[one.to_arrow()["text"].to_pylist() for one in made] for made in result.outputs]  # type: ignore[attr-defined]


def test_results_stay_with_the_input_that_they_come_from() -> None:
    result = run(Append("!"), OneByOne(), inputs=[batch("x", "y"), batch("z", split="b.jsonl")])
    assert texts(result) == [[["x!"], ["y!"]], [["z!"]]]
    assert [[str(one.key) for one in made] for made in result.outputs] == [["a.jsonl/0", "a.jsonl/1"], ["b.jsonl/0"]]


def test_a_batch_without_rows_goes_no_further() -> None:
    assert texts(run(KeepEvery(2), FailOn("odd"), inputs=[batch("odd")])) == [[]]


def test_rows_that_vanish_are_counted_under_the_stage() -> None:
    (stats,) = run(KeepEvery(2), inputs=[batch("ab", "abc", "x")]).stats[0]
    assert (stats.rows_in, stats.rows_out, stats.dropped) == (3, 1, {"keep_every": 2})


@dataclass
class Short(ProcessingStage[DocumentBatch, DocumentBatch]):
    def process(self, task: DocumentBatch) -> DocumentBatch:
        lengths = np.array([len(text) for text in task.to_arrow()["text"].to_pylist()])
        return task.keep(lengths < 3, self.name, "too long")


@dataclass
class Kept:
    rows: list[tuple[str, str, list[str]]]

    def keep(self, key: BatchKey, operator: str, rejections: list[Any]) -> str:
        self.rows += [(str(key), one.reason, one.data["text"].to_pylist()) for one in rejections]
        return ""


def test_rejected_rows_are_counted_and_kept_with_their_reason() -> None:
    sink = Kept([])
    result = run(Short(), inputs=[batch("ab", "abc", "x", "long")], sink=sink)
    assert texts(result) == [[["ab", "x"]]]
    assert result.stats[0][0].dropped == {"too long": 2}
    assert sink.rows == [("a.jsonl", "too long", ["abc", "long"])]


def test_of_merged_filters_none_ends_with_fewer_bytes_than_nothing() -> None:
    stage = ScoreFilter(WordCountFilter(2)).fuse_with(ScoreFilter(LongWordFilter(1)))
    assert stage is not None
    few, many = run(stage, inputs=[batch("one", "two words", "three of them")]).stats[0]
    assert (few.rows_out, many.rows_out) == (2, 0)
    assert few.bytes_out == many.bytes_in > 0
    assert many.bytes_out == 0
    all_gone = run(stage, inputs=[batch("one", "two")]).stats[0]
    assert [(one.rows_out, one.bytes_out) for one in all_gone] == [(0, 0), (0, 0)]


@dataclass
class CountX(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Counts texts with an x; drops the others; makes a list of batches if it is to."""

    apart: bool = False

    def process(self, task: DocumentBatch) -> DocumentBatch | list[DocumentBatch]:
        one = task.keep(np.array(["x" in text for text in task.to_arrow()["text"].to_pylist()]), self.name, "no x")
        made = replace(one, found={"x": one.num_items} if one.num_items else {})
        return [made, made] if self.apart else made


def test_what_stages_find_is_added_up_and_does_not_go_on_to_the_next() -> None:
    result = run(CountX(), KeepEvery(1), inputs=[batch("x", "ax", "b"), batch("b", split="b.jsonl")])
    assert [[stats.found for stats in each] for each in result.stats] == [[{"x": 2}, {}], [{}, {}]]
    assert run(CountX(apart=True), inputs=[batch("x", "ax")]).stats[0][0].found == {"x": 4}
    total = StageStats("count_x")
    for each in result.stats:
        total.add(StageStats.from_dict(each[0].to_dict()))
    assert (total.found, total.dropped) == ({"x": 2}, {"no x": 2})


def test_a_stage_s_own_error_is_one_sentence_with_stage_batch_and_line() -> None:
    with pytest.raises(StageError) as caught:
        run(FailOn("7"), inputs=[batch("7")])
    assert str(caught.value).startswith(
        "stage 'fail_on' failed on batch 'a.jsonl': ValueError: cannot take 7 (" + str(Path(__file__).parents[2])
    )
    assert "Traceback" in caught.value.__notes__[0]


@dataclass
class Answers(ProcessingStage[DocumentBatch, DocumentBatch]):
    answer: Any = None

    def process_batch(self, tasks: list[DocumentBatch]) -> Any:
        return self.answer

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ([], "was given 1 batches and process_batch answered 0; answer one result per batch"),
        (None, "was given 1 batches and process_batch answered a NoneType"),
        (["text"], "answered a str; answer a batch, such as task.with_data"),
    ],
)
def test_an_answer_that_is_none_is_refused(answer: Any, sentence: str) -> None:
    with pytest.raises(StageError, match=sentence):
        run(Answers(answer), inputs=[batch("x")])


def test_the_caller_s_batch_is_not_changed() -> None:
    mine = batch("x")
    run(Append(), OneByOne(), inputs=[mine])
    assert (mine.to_arrow()["text"].to_pylist(), str(mine.key)) == (["x"], "a.jsonl")


def notes(folder: Path) -> list[str]:
    return sorted(path.name.split("-")[0] for path in folder.iterdir())


def run_of(folder: Path) -> str:
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{os.getpid()}{folder}").hex


def diary(folder: Path, *more: ProcessingStage[Any, Any]) -> bytes:
    return pickled(OperatorSpec("test", (Diary(str(folder)), *more)))


@contextmanager
def pool(payload: bytes, folder: Path, slots: int) -> Iterator[SlotPool]:
    pool = SlotPool(run_of(folder), payload)
    try:
        for number in range(slots):
            pool.add(f"worker/{number}")
        yield pool
    finally:
        assert pool.close() == []


def test_every_slot_is_set_up_and_torn_down_once_and_the_host_once(tmp_path: Path) -> None:
    with pool(diary(tmp_path), tmp_path, 3) as slots, pool(diary(tmp_path), tmp_path, 1):
        slots.work([batch("x")])
    assert notes(tmp_path) == ["node"] + ["setup"] * 4 + ["teardown"] * 4


def test_slots_are_torn_down_after_an_error_too(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="cannot take 7"), pool(diary(tmp_path, FailOn("7")), tmp_path, 2) as slots:
        slots.work([batch("7")])
    assert notes(tmp_path) == ["node", "setup", "setup", "teardown", "teardown"]


@dataclass
class NoModel(ProcessingStage[DocumentBatch, DocumentBatch]):
    def setup(self) -> None:  # type: ignore[override]
        raise FileNotFoundError("model.bin")

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def test_a_set_up_that_fails_is_named_and_what_was_set_up_is_torn_down(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="stage 'no_model': setup.* failed: FileNotFoundError: model.bin"):
        Slot(run_of(tmp_path), diary(tmp_path, NoModel()), "worker").open()
    assert notes(tmp_path) == ["node", "setup", "teardown"]


@pytest.mark.parametrize("hook", ["setup", "node"])
def test_a_set_up_is_tried_as_often_as_asked(hook: str, tmp_path: Path) -> None:
    stage = Sets(str(tmp_path), times=2, hook=hook)
    with opened(sets(tmp_path, stage.with_(num_setup_attempts=3))) as slot:
        assert texts(slot.work([batch("x")])) == [[["x"]]]
    tried = ["setup", "teardown"] * 2 if hook == "setup" else ["node"] * 2
    assert sorted(stage.notes()) == sorted(["node", *tried, "setup", "teardown"])


def test_between_two_attempts_what_was_set_up_is_torn_down(tmp_path: Path) -> None:
    stage = Sets(str(tmp_path), times=1)
    with opened(sets(tmp_path, stage.with_(num_setup_attempts=2))):
        pass
    assert stage.notes() == ["node", "setup", "teardown", "setup", "teardown"]


def test_a_set_up_that_fails_too_often_says_how_often_it_was_tried(tmp_path: Path) -> None:
    stage = Sets(str(tmp_path), times=3)
    with pytest.raises(StageError) as caught:
        sets(tmp_path, stage.with_(num_setup_attempts=3)).open()
    assert str(caught.value).startswith("stage 'sets': setup() failed: OSError: connection lost")
    assert str(caught.value).endswith("; tried 3 times)")
    assert stage.notes() == ["node"] + ["setup", "teardown"] * 3


def test_what_the_machine_lacks_is_not_asked_for_twice(tmp_path: Path) -> None:
    stage = Sets(str(tmp_path), permanent=True)
    with pytest.raises(ResourceError, match="no such card"):
        sets(tmp_path, stage.with_(num_setup_attempts=3)).open()
    assert stage.notes().count("setup") == 1


def sets(folder: Path, stage: ProcessingStage[Any, Any]) -> Slot:
    return Slot(uuid.uuid4().hex, pickled(OperatorSpec("test", (stage,))), "worker")


def test_a_slot_is_removed_when_its_task_ends_and_the_tasks_that_wait_run_in_another(tmp_path: Path) -> None:
    stage = Diary(str(tmp_path))
    with ThreadPoolExecutor(8) as threads, pool(pickled(OperatorSpec("test", (stage,))), tmp_path, 1) as slots:
        tasks = [threads.submit(slots.work, [batch(str(number))]) for number in range(5)]
        removed = threads.submit(slots.remove)
        assert removed.result(60) == []
        assert notes(tmp_path).count("teardown") == 1
        slots.add("worker/1")
        assert [texts(task.result(60)) for task in tasks] == [[[[str(number)]]] for number in range(5)]
        assert slots.count == 1


def test_a_slot_that_was_removed_during_its_task_gets_no_other(tmp_path: Path) -> None:
    go = tmp_path / "go"
    payload = pickled(OperatorSpec("test", (Waits(str(go)),)))
    with ThreadPoolExecutor(8) as threads, pool(payload, tmp_path, 1) as slots:
        task = threads.submit(slots.work, [batch("a")])
        while not (tmp_path / "go-begun").exists():
            assert not task.done()
        assert slots.remove(patience_s=0) == []
        go.touch()
        assert texts(task.result(60)) == [[["a"]]]
        waiting = threads.submit(slots.work, [batch("b")])
        slots.add("worker/1")
        assert texts(waiting.result(60)) == [[["b"]]]
        assert slots.remove(60) == []
        assert slots.count == 0


@dataclass
class Waits(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Ends a call when a file is there."""

    go: str

    def process(self, task: DocumentBatch) -> DocumentBatch:
        Path(f"{self.go}-begun").touch()
        while not Path(self.go).exists():
            time.sleep(0.01)
        return task
