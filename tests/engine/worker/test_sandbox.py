"""Batches that kill the process they are in: real processes, really killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import psutil
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcurate import Batch, BatchKey, DocumentBatch, JsonlReader, JsonlWriter, ProcessingStage, RunError, StageError
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.operator_task import OperatorSpec, TaskResult, run_operator
from dcurate.engine.worker.sandbox import SandboxedProcess, Settings, run_sandboxed
from dcurate.engine.worker.slots import Slot
from dcurate.io.rejections import DirectoryRejections
from tests.conftest import ROOT
from tests.engine.worker.failing import Clip, FullDisk, Limited, Mark, Plays, Poisoned, Raises, Sets, batch, texts_of
from tests.stages import Append

pytestmark = pytest.mark.program


def payload(*stages: ProcessingStage[Any, Any], ignore: bool = True, sink: Any = None) -> bytes:
    return pickled(OperatorSpec("test", stages, sink, ignore_failures=ignore))


def sandboxed(
    *stages: ProcessingStage[Any, Any], inputs: list[Any], ignore: bool = True, sink: Any = None
) -> TaskResult:
    return run_sandboxed(payload(*stages, ignore=ignore, sink=sink), uuid.uuid4().hex, inputs)


def made(result: TaskResult) -> list[list[tuple[str, list[str]]]]:
    return [[(str(one.key), texts_of(one)) for one in each] for each in result.outputs]  # type: ignore[arg-type]


def quarantined(folder: Path) -> list[dict[str, str]]:
    return [orjson.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_bytes().splitlines()]


def test_a_call_that_does_no_harm_is_as_in_any_process() -> None:
    stages = (Poisoned("list"), Append("."))
    inputs = [batch("a", "b"), batch("c", split="b.jsonl")]
    expected = run_operator(OperatorSpec("test", stages), inputs)
    result = sandboxed(*stages, inputs=inputs)
    assert made(result) == made(expected)
    assert result.sizes == expected.sizes
    timeless = {"seconds": 0, "cpu_s": 0}
    assert [[stats.to_dict() | timeless for stats in batches] for batches in result.stats] == [
        [stats.to_dict() | timeless for stats in batches] for batches in expected.stats
    ]


def test_exactly_the_rows_that_kill_are_lost_and_each_says_how(tmp_path: Path) -> None:
    texts = [f"good {row}" for row in range(16)]
    texts[2], texts[3], texts[8], texts[15], texts[11] = "segfault", "exit", "abort", "sys.exit", "poison"
    sink = DirectoryRejections(None, str(tmp_path))
    result = sandboxed(Append(""), Poisoned(), Append("."), inputs=[batch(*texts)], sink=sink)
    assert made(result) == [[("a.jsonl", [f"{text}!." for text in texts if text.startswith("good")])]]
    deaths = {"died: SIGSEGV": 1, "died: exit 3": 1, "died: SIGABRT": 1, "SystemExit": 1, "ValueError": 1}
    assert result.stats[0][1].faulty == deaths
    assert (result.stats[0][1].rows_in, result.stats[0][1].rows_out) == (16, 11)
    rows = quarantined(tmp_path)
    assert [row["text"] for row in rows] == ["segfault", "exit", "abort", "poison", "sys.exit"]
    assert [row["_dcurate_error"] for row in rows][:2] == ["killed by SIGSEGV", "ended its process with exit code 3"]
    assert "Segmentation fault" in rows[0]["_dcurate_traceback"]
    assert "in process" in rows[0]["_dcurate_traceback"]


@given(
    kinds=st.lists(st.lists(st.sampled_from(["good", "dull", "exit"]), min_size=1, max_size=4), min_size=1, max_size=2),
    form=st.sampled_from(["some", "list"]),
    batch_size=st.integers(1, 2),
)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_outcome_is_that_of_the_batches_without_the_rows_that_kill(
    kinds: list[list[str]], form: str, batch_size: int
) -> None:
    named = [[f"{kind} {row}" for row, kind in enumerate(each)] for each in kinds]
    inputs = [batch(*texts, split=str(number)) for number, texts in enumerate(named)]
    without = [
        batch(*(text for text in texts if "exit" not in text), split=str(number)) for number, texts in enumerate(named)
    ]
    stages = (Poisoned(form).with_(batch_size=batch_size), Append("."))
    result = sandboxed(*stages, inputs=inputs)
    expected = run_operator(OperatorSpec("test", stages), without)
    assert made(result) == made(expected)
    killed = [sum("exit" in text for text in texts) for texts in named]
    assert [each[0].faulty for each in result.stats] == [{"died: exit 3": n} if n else {} for n in killed]


@pytest.mark.parametrize("mischief", ["sleep", "lock"])
def test_a_row_that_hangs_is_lost_even_if_it_holds_the_interpreter_s_lock(mischief: str, tmp_path: Path) -> None:
    sink = DirectoryRejections(None, str(tmp_path))
    stage = Poisoned().with_(timeout_s=2.0)
    result = sandboxed(stage, inputs=[batch("a", mischief)], sink=sink)
    assert made(result) == [[("a.jsonl", ["a!"])]]
    assert result.stats[0][0].faulty == {"timeout": 1}
    (row,) = quarantined(tmp_path)
    assert row["_dcurate_error"] == "ran longer than timeout_s=2"
    assert "failing.py" in row["_dcurate_traceback"]


def test_with_a_gpu_memory_is_not_limited_since_cuda_reserves_more_than_it_uses() -> None:
    settings = Settings(gpus=(0,), memory_limit=8 << 30)
    result = run_sandboxed(payload(Limited()), uuid.uuid4().hex, [batch("a")], settings)
    assert made(result) == [[("a.jsonl", ["-1"])]]


def test_memory_that_runs_away_is_an_error_of_the_stage() -> None:
    memory = Settings(memory_limit=8 << 30)
    result = run_sandboxed(payload(Poisoned()), uuid.uuid4().hex, [batch("a", "memory", "b")], memory)
    assert made(result) == [[("a.jsonl", ["a!", "b!"])]]
    assert result.stats[0][0].faulty == {"MemoryError": 1}


class Widens(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Gives rows that fit into memory once, and not a second time, as they are sent."""

    name = "widens"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        zeros = np.zeros(5 << 27)  # memory that is not touched takes none
        column = pa.Array.from_buffers(pa.float64(), len(zeros), [None, pa.py_buffer(zeros)])
        return task.with_data(pa.table({"zero": column}))


def test_memory_that_runs_out_between_calls_is_named() -> None:
    with pytest.raises(StageError, match="ran out of the memory that a worker may use; use a smaller blocksize"):
        run_sandboxed(payload(Widens(), ignore=False), uuid.uuid4().hex, [batch("a")], Settings(memory_limit=8 << 30))


def test_of_a_fused_operator_exactly_the_row_that_kills_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [{"text": "segfault" if row == 5 else f"good {row}"} for row in range(8)]
    (tmp_path / "in" / "a.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    reader, writer = JsonlReader(str(tmp_path / "in")), JsonlWriter(str(tmp_path / "out"))
    writer.prepare(resume=False)
    (split,) = reader.splits()
    sink = DirectoryRejections(None, str(tmp_path / "quarantine"))
    result = sandboxed(reader, Poisoned(), writer, inputs=[split], sink=sink)
    (name,) = result.files[0]
    written = [orjson.loads(line)["text"] for line in Path(name).read_bytes().splitlines()]
    assert written == [f"good {row}!" for row in range(8) if row != 5]
    assert [row["text"] for row in quarantined(tmp_path / "quarantine")] == ["segfault"]


def test_a_batch_that_cannot_be_cut_is_lost_whole_and_its_neighbours_are_not() -> None:
    inputs = [Clip(key=BatchKey(text), text=text) for text in ("a", "segfault", "b")]
    result = sandboxed(Plays().with_(batch_size=3), inputs=inputs)
    assert [[str(one.key) for one in each] for each in result.outputs] == [["a"], [], ["b"]]
    assert [each[0].faulty for each in result.stats] == [{}, {"died: SIGSEGV": 5}, {}]


def test_after_many_deaths_the_rest_of_the_batch_is_given_up_and_nothing_is_unaccounted_for(tmp_path: Path) -> None:
    texts = [f"good {row}" if row < 20 else "exit" for row in range(40)]
    sink = DirectoryRejections(None, str(tmp_path))
    spec = payload(Poisoned(), sink=sink)
    result = run_sandboxed(spec, uuid.uuid4().hex, [batch(*texts), batch("c", split="b")], max_deaths=3)
    assert [texts for _, texts in made(result)[0]] == [[f"good {row}!" for row in range(20)]]
    assert made(result)[1] == [("b", ["c!"])]
    assert result.stats[0][0].faulty == {"died: exit 3": 20}
    errors = [row["_dcurate_error"] for row in quarantined(tmp_path)]
    assert len(errors) == 20
    assert errors[-1].endswith("given up with all rows that follow in its batch, after 3 deaths")


# Failures that are not ignored


@pytest.mark.parametrize(
    ("mischief", "how"), [("segfault", "killed by SIGSEGV"), ("exit", "ended its process with exit code 3")]
)
def test_a_death_ends_the_run_with_one_sentence_that_names_stage_batch_and_row(mischief: str, how: str) -> None:
    texts = ["good"] * 8
    texts[5] = mischief
    with pytest.raises(StageError) as caught:
        sandboxed(Poisoned(), inputs=[batch(*texts)], ignore=False)
    sentence = f"stage 'poisoned' failed on batch 'a.jsonl': {how} (row 5 of batch 'a.jsonl', counted from 0)"
    assert str(caught.value) == sentence


def test_a_hang_ends_the_run_with_one_sentence() -> None:
    with pytest.raises(StageError, match="'poisoned' failed on batch 'a.jsonl': ran longer than timeout_s=2"):
        sandboxed(Poisoned().with_(timeout_s=2), inputs=[batch("sleep")], ignore=False)


def test_a_writer_that_dies_ends_the_run_though_failures_are_ignored() -> None:
    with pytest.raises(StageError, match="'full_disk' failed on batch 'a.jsonl': killed by SIGSEGV"):
        sandboxed(FullDisk(OSError()), inputs=[batch("a", "segfault")])


def test_what_a_stage_raises_comes_back_as_it_is() -> None:
    with pytest.raises(StageError, match="'raises' failed on batch 'a.jsonl': ValueError: odd") as caught:
        sandboxed(Raises(ValueError("odd")), inputs=[batch("a")], ignore=False)
    assert "Traceback" in caught.value.__notes__[0]


def test_a_set_up_that_fails_or_dies_is_named(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"stage 'sets': setup\(\) failed: OSError: connection lost"):
        sandboxed(Sets(str(tmp_path)), inputs=[batch("a")])
    with pytest.raises(StageError, match="operator 'test' could not be set up in a process of its own: .* exit code 5"):
        sandboxed(Sets(str(tmp_path), kills=True), inputs=[batch("a")])


# The process


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    (tmp_path / "marks").mkdir()
    return tmp_path / "marks"


def test_one_process_serves_call_after_call_until_one_kills_it(marks: Path) -> None:
    with closing(SandboxedProcess(payload(Mark(str(marks)), Poisoned()), uuid.uuid4().hex)) as one:
        first, second = (texts_of(one.run([batch("a")]).outputs[0][0]) for _ in range(2))  # type: ignore[arg-type]
        assert first == second
    with closing(SandboxedProcess(payload(Poisoned(), Mark(str(marks))), uuid.uuid4().hex)) as one:
        one.run([batch("a")])
        assert made(one.run([batch("exit")])) == [[]]
        third = texts_of(one.run([batch("a")]).outputs[0][0])  # type: ignore[arg-type]
    assert len({path.name for path in marks.iterdir()}) == 3
    assert third != first


def test_a_process_that_died_between_two_calls_is_nobody_s_fault(marks: Path) -> None:
    with closing(SandboxedProcess(payload(Mark(str(marks))), uuid.uuid4().hex)) as one:
        one.run([batch("a")])
        (pid,) = (int(path.name) for path in marks.iterdir())
        psutil.Process(pid).kill()
        assert one.run([batch("a")]).outputs[0][0].num_items == 1


def test_a_process_sets_one_slot_up_but_not_the_host_and_tears_it_down(tmp_path: Path) -> None:
    stage = Sets(str(tmp_path), times=0)
    one = SandboxedProcess(payload(stage), uuid.uuid4().hex)
    one.run([batch("a")])
    assert one.close() == []
    assert stage.notes() == ["setup", "teardown"]


def test_a_tear_down_that_fails_is_told(tmp_path: Path) -> None:
    one = SandboxedProcess(payload(Sets(str(tmp_path), hook="teardown")), uuid.uuid4().hex)
    one.run([batch("a")])
    (failure,) = one.close()
    assert failure.startswith("stage 'sets': teardown() failed: OSError: connection lost")


def test_closing_ends_a_call_under_way_and_blames_no_row_for_it(marks: Path) -> None:
    one = SandboxedProcess(payload(Mark(str(marks)), Poisoned(always="sleep")), uuid.uuid4().hex)
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(one.run, [batch("a")])
        wait_for_any(marks)
        assert one.close() == []
        with pytest.raises(RunError, match="the worker closed while it ran a batch in a process of its own"):
            call.result()


def wait_for_any(folder: Path) -> Path:
    """Wait until there is a file."""
    end = time.monotonic() + 60
    while not (found := list(folder.iterdir())):
        assert time.monotonic() < end, "the stage was not called"
        time.sleep(0.05)
    return found[0]


def test_slots_run_suspects_alone_and_go_on(tmp_path: Path) -> None:
    slot = Slot(uuid.uuid4().hex, payload(Poisoned()), "worker")
    slot.open()
    suspect: list[Batch] = [batch("a", "segfault")]
    assert made(slot.work_sandboxed(suspect)) == [[("a.jsonl", ["a!"])]]
    assert made(slot.work([batch("b")])) == [[("a.jsonl", ["b!"])]]
    assert slot.close() == []


SCRIPT = """
import os, sys
from dataclasses import dataclass
from pathlib import Path
import pyarrow as pa
from dcurate import BatchKey, DocumentBatch, ProcessingStage
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.sandbox import run_sandboxed
from dcurate.engine.worker.operator_task import OperatorSpec
from tests.engine.worker.failing import MISCHIEF

@dataclass
class Own(ProcessingStage):
    folder: str
    def process(self, task):
        Path(self.folder, str(os.getpid())).touch()
        for text in task.to_arrow()["text"].to_pylist():
            if text in MISCHIEF:
                MISCHIEF[text]()
        return task

if __name__ == "__main__":
    rows = DocumentBatch(key=BatchKey("a"), data=pa.table({"text": sys.argv[2:]}))
    program = pickled(OperatorSpec("own", (Own(sys.argv[1]),), ignore_failures=True))
    print(run_sandboxed(program, "script", [rows]).outputs[0][0].to_arrow()["text"].to_pylist())
"""


def started(folder: Path, *texts: str) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(SCRIPT)
    (folder / "pids").mkdir()
    command = [sys.executable, str(folder / "script.py"), str(folder / "pids"), *texts]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_stages_of_a_script_s_own_run_alone_too(tmp_path: Path) -> None:
    with started(tmp_path, "a", "exit", "b") as script:
        assert script.communicate()[0] == "['a', 'b']\n"


def test_a_process_ends_with_the_one_that_started_it_though_it_holds_the_lock(tmp_path: Path) -> None:
    with started(tmp_path, "lock") as script:
        process = psutil.Process(int(wait_for_any(tmp_path / "pids").name))
        time.sleep(0.5)  # it takes the lock right after the mark
        script.kill()
        psutil.wait_procs([process], timeout=60)
        assert not process.is_running()
