import io
import os
import signal
import time

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.isolate.errors import MediaError
from dcurate.isolate.sandbox import ChildDiedError, Sandbox
from dcurate.isolate.served import BLOCK

pytestmark = pytest.mark.program

ANSWER = "tests.isolate.streams:answer"
DATA = bytes(range(256)) * 4096 * 6  # 24 blocks, more than are kept


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(ANSWER, serves_files=True, timeout_s=1.0) as sandbox:
        yield sandbox


def asked(sandbox, request, data=DATA):
    return list(sandbox.stream(io.BytesIO(data), len(data), request))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(DATA) + 10), st.integers(0, 3 * BLOCK)), max_size=6))
def test_a_served_file_reads_as_the_file(sandbox, ranges):
    answers = asked(sandbox, {"do": "read", "ranges": ranges})
    assert [answer.blobs[0] for answer in answers] == [DATA[start : start + size] for start, size in ranges]


def test_answers_that_came_before_a_death_are_kept_and_the_next_file_is_read(sandbox):
    answers = []
    with pytest.raises(ChildDiedError, match="out of memory|crashed"):
        answers += (answer.value for answer in sandbox.stream(io.BytesIO(b"abc"), 3, {"do": "die"}))
    assert answers == [{"n": 1}]
    assert asked(sandbox, {"do": "read", "ranges": [(1, 1)]}, b"abc")[0].blobs == [b"b"]


@pytest.mark.parametrize("request_", [{"do": "spin"}, {"do": "read forever", "size": len(DATA)}])
def test_what_never_ends_is_ended(sandbox, request_):
    with pytest.raises(ChildDiedError, match="timed out"):
        asked(sandbox, request_)


def test_the_limit_of_time_holds_from_one_sign_of_progress_to_the_next(sandbox):
    assert [answer.value for answer in asked(sandbox, {"do": "progress", "times": 5, "cpu_s": 0.3})][-1] == {"n": 2}


def test_an_error_of_the_function_is_the_fault_of_the_file_and_the_child_goes_on(sandbox):
    started = sandbox.started
    with pytest.raises(MediaError, match="failed: ValueError: broken"):
        asked(sandbox, {"do": "fail"})
    assert asked(sandbox, {"do": "read", "ranges": []}) == []
    assert sandbox.started == started


def test_a_caller_that_stops_early_leaves_a_sandbox_that_works(sandbox):
    for answer in sandbox.stream(io.BytesIO(DATA), len(DATA), {"do": "read", "ranges": [(0, 1)] * 5}):
        assert answer.blobs == [b"\0"]
        break
    assert len(asked(sandbox, {"do": "read", "ranges": [(0, 1)] * 5})) == 5


class NeverRead(io.BytesIO):
    """A file of which a read never ends, as that of a file system that does not answer; says that it has begun."""

    def __init__(self, begun):
        super().__init__(DATA)
        self.begun = begun

    def read(self, size=-1):
        os.write(self.begun, b"!")
        time.sleep(600)


def use(sandbox, state, begun):
    """Bring a sandbox to a state, say so, and stay there."""
    source = NeverRead(begun) if state == "waiting for bytes" else io.BytesIO(DATA)
    request = {"do": "spin" if state == "busy" else "read", "ranges": [(0, 1)]}
    for _ in sandbox.stream(source, len(DATA), request):
        os.write(begun, b"!")
    time.sleep(600)


@pytest.mark.parametrize("state", ["idle", "busy", "waiting for bytes"])
def test_all_processes_of_a_sandbox_end_with_the_process_that_is_killed(state):
    reading, begun = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            use(Sandbox(ANSWER, serves_files=True, timeout_s=600.0), state, begun)
        finally:
            os._exit(1)
    os.close(begun)
    try:
        assert os.read(reading, 1) == b"!"
        family = psutil.Process(pid).children(recursive=True)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)
    assert len(family) == 2  # the template, and the child
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize(("timeout_s", "quiet_s"), [(5.0, 0.05), (0.05, 0.005)])
def test_signs_of_progress_come_often_enough_and_not_for_each_step(timeout_s, quiet_s):
    """They hold the limit of time open, however short it is, and wake this process seldom."""
    with Sandbox(ANSWER, serves_files=True, timeout_s=timeout_s) as sandbox:
        asked(sandbox, {"do": "read", "ranges": []})
        began_s = time.monotonic()
        answers = [answer.value for answer in asked(sandbox, {"do": "progress", "times": 500, "cpu_s": 0.0004})]
        took_s = time.monotonic() - began_s
    assert answers[-1] == {"n": 2}
    assert 3 <= len(answers) <= took_s / quiet_s + 2
    assert len(answers) < 500
