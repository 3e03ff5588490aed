"""Errors of CUDA in one process, with and without a nanny that restarts it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DcurateError, DocumentBatch, ResourceError, Resources, RunError, ScoreFilter, StageError
from dcurate.core.gpu_memory import WAITS_S
from dcurate.engine.serialization import pickled
from dcurate.engine.worker import sandbox
from dcurate.engine.worker.calls import POISONED_EXIT
from dcurate.engine.worker.operator_task import OperatorSpec, run_operator
from dcurate.engine.worker.sandbox import run_sandboxed
from dcurate.engine.worker.slots import MAX_SETUP_ENDS, Slot, forget_host_setup, opened
from dcurate.engine.worker.timeouts import acquire_host_folder, take_hangs
from dcurate.kernels import cuda
from dcurate.text import WordCountFilter
from tests.engine.worker.failing import Broken, FailsLate, Raises, batch, texts_of
from tests.faulty import PoisonsOn
from tests.gpu_errors import OUT_OF_MEMORY, POISON
from tests.gpu_stages import LoadsLate, NeedsGpuMemory, PoisonsSetup
from tests.stages import Append

pytestmark = pytest.mark.program

ENDED_BY_ERROR = 9


@pytest.fixture
def run() -> Iterator[str]:
    """A run whose folder on this host is kept while its processes end."""
    run = uuid.uuid4().hex
    acquire_host_folder(run)
    yield run
    forget_host_setup(run)


def code_of_fork(run: str, spec: OperatorSpec, inputs: list[DocumentBatch]) -> int:
    """The exit code of a process with a nanny that runs batches; it is forked, since it must end."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        slot = Slot(run, pickled(spec), "worker", restarts=True)
        slot.open()
        slot.work(inputs)
        os._exit(0)
    except DcurateError:
        os._exit(ENDED_BY_ERROR)
    finally:
        os._exit(1)


def test_every_library_s_sticky_error_ends_a_process_that_a_nanny_restarts_and_says_why(run: str) -> None:
    for number, error in enumerate(POISON):
        spec = OperatorSpec("test", (PoisonsOn(errors=tuple(POISON)),), ignore_failures=True)
        assert code_of_fork(run, spec, [batch("a"), batch("b", f"c!{number}", split="b.jsonl")]) == POISONED_EXIT
        (hang,) = take_hangs(run)
        assert hang.doing.startswith("stage 'poisons_on' failed on batch 'b.jsonl'")
        assert " ".join(str(error).split()) in " ".join(hang.doing.split())
        assert "faulty.py" in hang.trace


def test_a_gpu_that_is_unusable_at_set_up_ends_a_few_processes_and_then_the_run(run: str) -> None:
    spec = OperatorSpec("test", (PoisonsSetup(),))
    codes = [code_of_fork(run, spec, []) for _ in range(MAX_SETUP_ENDS)]
    assert codes == [POISONED_EXIT] * (MAX_SETUP_ENDS - 1) + [ENDED_BY_ERROR]
    assert all("setup() failed" in hang.doing for hang in take_hangs(run))


@pytest.mark.parametrize("ignore", [True, False])
def test_without_a_nanny_a_sticky_error_ends_the_run_with_one_sentence_and_blames_no_row(ignore: bool) -> None:
    stage = Raises(POISON[0])
    sentence = r"stage 'raises' failed on batch 'a.jsonl': CudaAPIError: \[700\].*cannot use its GPU.*resume=True"
    with pytest.raises(RunError, match=sentence):
        run_operator(OperatorSpec("test", (stage,), ignore_failures=ignore), [batch("a", "b", "c")])


def test_a_sticky_error_is_not_tried_again(tmp_path: Path) -> None:
    stage = Raises(POISON[0], folder=str(tmp_path)).with_(num_run_attempts=3)
    with pytest.raises(RunError):
        run_operator(OperatorSpec("test", (stage,)), [batch("a")])
    assert len(list(tmp_path.iterdir())) == 1


def test_a_gpu_that_fails_on_whatever_it_is_given_ends_the_run_and_blames_no_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "MAX_POISONED", 3)
    spec = OperatorSpec("test", (Append("."), Broken()), ignore_failures=True)
    with pytest.raises(RunError, match=r"each of 3 processes left the GPU unusable.*: RuntimeError: CUDA error: unc"):
        run_sandboxed(pickled(spec), uuid.uuid4().hex, [batch(*"abcdefgh")])


def test_an_error_that_a_gpu_reports_late_is_blamed_on_the_row_that_caused_it() -> None:
    rows = [batch("a", "b!", "c", "d")]
    result = run_sandboxed(pickled(OperatorSpec("test", (FailsLate(),), ignore_failures=True)), uuid.uuid4().hex, rows)
    assert [texts_of(one) for one in result.outputs[0]] == [["a", "c", "d"]]  # type: ignore[arg-type]
    assert result.stats[0][0].faulty == {"died: RuntimeError": 1}
    sentence = r"left the GPU unusable to its process: RuntimeError: CUDA error: unspec.* \(row 1 of batch 'a.jsonl'"
    with pytest.raises(StageError, match=sentence):
        run_sandboxed(pickled(OperatorSpec("test", (FailsLate(),))), uuid.uuid4().hex, rows)


@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=3),
    room=st.integers(1, 5),
    batch_size=st.integers(1, 3),
    number=st.integers(0, len(OUT_OF_MEMORY) - 1),
    ignore=st.booleans(),
)
@settings(max_examples=8, deadline=None)  # each failure collects garbage
def test_every_row_comes_out_in_order_however_little_memory_the_gpu_has(
    sizes: list[int], room: int, batch_size: int, number: int, ignore: bool
) -> None:
    inputs = [batch(*(f"{row}!{number}" for row in range(size)), split=str(size)) for size in sizes]
    stage = NeedsGpuMemory(room).with_(batch_size=batch_size)
    result = run_operator(OperatorSpec("test", (stage,), ignore_failures=ignore), inputs)
    assert [[text for one in each for text in texts_of(one)] for each in result.outputs] == list(map(texts_of, inputs))  # type: ignore[arg-type]
    assert all(
        stats[0].faulty == {} and stats[0].rows_out == size for stats, size in zip(result.stats, sizes, strict=True)
    )


def test_a_row_that_is_too_much_for_the_gpu_ends_the_run_for_want_of_memory_after_waits_that_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setattr("gc.collect", lambda: 0)  # takes a while in the process of all tests
    stage = Raises(OUT_OF_MEMORY[0])
    sentence = r"stage 'raises' failed on batch 'a.jsonl' of 1 rows: the memory of the GPU does not suffice"
    with pytest.raises(ResourceError, match=sentence):
        run_operator(OperatorSpec("test", (stage,), ignore_failures=True), [batch("a", "b", "c")])
    assert waited == [0.0, *WAITS_S]


@pytest.mark.parametrize(
    ("gpu", "sentence"),
    [(0, "the slot was given a GPU, but numba cannot use it"), (1, "a slot was given GPU 1 of its")],
)
def test_kernels_know_the_gpu_of_their_slot(gpu: int, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if cuda.usable():
        return
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    stage = ScoreFilter(WordCountFilter(min_words=1)).with_(resources=Resources(gpus=0.5))
    slot = Slot(uuid.uuid4().hex, pickled(OperatorSpec("test", (stage,))), "worker", (gpu,))
    with pytest.raises(ResourceError, match=sentence), opened(slot):
        slot.work([batch("a")])
    forget_host_setup(slot.run)


def test_a_set_up_that_finds_the_gpu_full_waits_for_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setattr("gc.collect", lambda: 0)  # takes a while in the process of all tests
    run = uuid.uuid4().hex
    slot = Slot(run, pickled(OperatorSpec("test", (LoadsLate(str(tmp_path), 2),))), "worker")
    slot.open()
    assert slot.close() == []
    assert waited == [0.0, WAITS_S[0]]
    full = Slot(run, pickled(OperatorSpec("test", (LoadsLate(str(tmp_path), 99),))), "worker")
    with pytest.raises(ResourceError, match=r"setup\(\) failed: the memory of the GPU does not suffice"):
        full.open()
    forget_host_setup(run)
