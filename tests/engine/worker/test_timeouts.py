"""Calls that take too long end their process."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from dcurate.engine.worker import timeouts
from dcurate.engine.worker.slots import forget_host_setup
from dcurate.engine.worker.timeouts import WATCHDOG, Watchdog, host_folder, take_hangs
from tests.conftest import ROOT

pytestmark = pytest.mark.program


@pytest.fixture
def run() -> Iterator[str]:
    run = uuid.uuid4().hex
    yield run
    forget_host_setup(run)
    assert not host_folder(run).exists()


def code_of(body: str, *arguments: str) -> int:
    command = [sys.executable, "-c", textwrap.dedent(body), *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=240, check=False).returncode


SLOT = """
import sys
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.operator_task import OperatorSpec
from dcurate.engine.worker.slots import Slot
from tests.engine.worker.failing import Poisoned, batch

run, restarts, *texts = sys.argv[1:]
payload = pickled(OperatorSpec("test", (Poisoned().with_(timeout_s=2),)))
slot = Slot(run, payload, "worker", restarts=restarts == "yes")
slot.open()
for number, text in enumerate(texts):
    slot.work([batch(text, split=f"split-{number}")])
"""


@pytest.mark.parametrize("mischief", ["sleep", "lock"])
def test_a_call_that_takes_too_long_ends_its_process_and_leaves_word_where_it_hung(mischief: str, run: str) -> None:
    assert code_of(SLOT, run, "yes", "good", mischief, "good") == 1
    (hang,) = take_hangs(run)
    assert hang.doing == "stage 'poisoned' failed on batch 'split-1': ran longer than timeout_s=2"
    assert "failing.py" in hang.trace
    assert take_hangs(run) == []


def test_calls_that_end_in_time_leave_no_word(run: str) -> None:
    assert code_of(SLOT, run, "yes", *["good"] * 50) == 0
    assert take_hangs(run) == []


THREADS = """
import sys, threading, time
from dcurate.engine.worker.timeouts import WATCHDOG

def call(seconds, takes, doing):
    with WATCHDOG.limit(sys.argv[1], seconds, doing):
        time.sleep(takes)

with WATCHDOG.limit(sys.argv[1], 600, "long"):
    calls = [(500, 0.2, "a"), (400, 0.1, "b"), (1.5, 100, "late"), (300, 0.3, "c")]
    threads = [threading.Thread(target=call, args=one) for one in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_of_calls_in_several_threads_the_one_that_is_late_counts(run: str) -> None:
    assert code_of(THREADS, run) == 1
    assert [hang.doing for hang in take_hangs(run)] == ["late"]


def test_a_process_that_still_runs_is_not_reported(run: str) -> None:
    with WATCHDOG.limit(run, 600, "mine"):
        assert take_hangs(run) == []
        assert len(list(host_folder(run).iterdir())) == 1


def test_a_deadline_that_was_met_is_off_the_clock(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock: list[float | None] = []
    monkeypatch.setattr(timeouts, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda seconds, **_: clock.append(seconds))
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: clock.append(None))
    watchdog = Watchdog()
    with watchdog.limit(run, 600, "long"), watchdog.limit(run, 2, "short"):
        pass
    with watchdog.limit(run, 2, "last"):
        pass
    watchdog.forget(run)
    assert clock == [600, 2, 600, None, 2, None]
    assert take_hangs(run) == []
