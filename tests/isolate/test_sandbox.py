"""Functions in a child process: what kills the child costs one item, and every wait ends."""

import os
import signal
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import StageError
from dcurate.isolate.errors import MediaFault
from dcurate.isolate.sandbox import ChildAnswer, Sandbox

DECODE = "tests.media.wild:decode"
FAULTS = {
    b"segv!": "crashed: SIGSEGV",
    b"exit!": "crashed: exit 3",
    b"swell": "out of memory",
    b"bug!!": "failed: ZeroDivisionError",
    b"error": "encrypted",
}


def test_an_item_that_hangs_is_tried_twice_and_given_up():
    with Sandbox(DECODE, timeout_s=0.2) as sandbox:
        hung, next_one = sandbox.map([b"hang!", b""])
        assert hung == MediaFault("timed out", "it took longer than 2 s")
        assert next_one == ChildAnswer({"n": 0}, [b"", b""])
        assert sandbox.started == 3
        assert sandbox.call(b"hang!", 0.1) == MediaFault("timed out", "it took longer than 0.1 s")


def test_an_item_that_works_too_long_is_given_up():
    with Sandbox(DECODE, timeout_s=0.3) as sandbox:
        assert sandbox.call(b"works") == MediaFault("timed out", "it took longer than 0.3 s of CPU time")


def test_an_item_whose_child_waits_for_the_machine_is_not_given_up():
    with Sandbox(DECODE, timeout_s=0.3) as sandbox:
        assert sandbox.map([b"waits", b""]) == [
            ChildAnswer({"n": 5}, [b"waits", b"w"]),
            ChildAnswer({"n": 0}, [b"", b""]),
        ]


def test_each_item_has_its_answer_or_its_fault_in_order():
    items = [b"one", b"segv!", b"", b"exit!", b"swell", b"bug!!", b"error", b"print", b"x" * 3_000_000]
    with Sandbox(DECODE, {"k": 1}) as sandbox:
        found = sandbox.map(items)
    for item, answer in zip(items, found, strict=True):
        if item in FAULTS:
            assert isinstance(answer, MediaFault)
            assert answer.reason == FAULTS[item]
        else:
            assert answer == ChildAnswer({"n": len(item), "k": 1}, [item, item[:1]])
    assert "Segmentation fault" in found[1].detail


@pytest.fixture(scope="module")
def shared():
    with Sandbox(DECODE, {}, recycle_items=50) as sandbox:
        yield sandbox


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([b"", b"a", b"bug!!", b"error", b"y" * 70_000]), max_size=30))
def test_no_item_is_lost_however_often_the_child_is_replaced(shared, items):
    found = shared.map(items)
    assert [FAULTS.get(item, item) for item in items] == [
        answer.reason if isinstance(answer, MediaFault) else answer.blobs[0] for answer in found
    ]


def test_the_child_is_replaced_when_it_has_grown():
    with Sandbox(DECODE, {}, memory_bytes=2**31) as sandbox:
        assert all(isinstance(answer, ChildAnswer) for answer in sandbox.map([b"a"] * 10 + [b"leak!"] * 24))
        assert sandbox.started > 1


def test_text_that_is_no_unicode_and_numbers_that_are_none_do_not_cost_the_item(shared):
    assert shared.call(b"half!").value == {"n": 5, "text": "?", "nan": None}


def test_the_child_sees_no_secrets(shared, monkeypatch):
    secrets = (
        *("AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_KEY", "RAILS_MASTER_KEY", "OPENAI_KEY", "DATABASE_URL", "DB_PASS"),
        *("GITHUB_PAT", "ANYTHING_ELSE", "PIP_INDEX_URL", "LC_PASSWORD", "DCURATE_TOKEN", "KUBECONFIG"),
    )
    for name in secrets:
        monkeypatch.setenv(name, "s")
    monkeypatch.setenv("DCURATE_PROXY", "https://me:pw@host/")
    monkeypatch.setenv("LC_CTYPE", "C.UTF-8")
    shared.close()
    names = shared.call(b"envir").value["names"]
    assert {"PATH", "LC_CTYPE"} <= set(names)
    assert {*secrets, "DCURATE_PROXY"}.isdisjoint(names)


def test_a_function_that_is_not_there_is_said_once():
    with pytest.raises(StageError, match=r"'tests.media.wild:nothing' could not be loaded .* no attribute 'nothing'"):
        Sandbox("tests.media.wild:nothing").call(b"")


def test_the_child_ends_with_the_process_that_started_it(tmp_path):
    told = tmp_path / "pid"
    pid = os.fork()
    if pid == 0:
        sandbox = Sandbox(DECODE)
        sandbox.call(b"a")
        told.write_text(str(sandbox._child._process.pid))
        os._exit(0)
    os.waitpid(pid, 0)
    child = int(told.read_text())
    end = time.monotonic() + 10
    while os.path.exists(f"/proc/{child}") and not _is_zombie(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{child}") or _is_zombie(child)


def _is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_module_with_threads_is_not_forked_but_started():
    with Sandbox("tests.media.threaded:decode") as sandbox:
        assert sandbox.map([b"a", b"exit!"]) == [ChildAnswer({"threads": 1}, []), MediaFault("crashed: exit 3", "")]
        assert sandbox.started == 2


def test_children_go_on_when_the_template_is_killed():
    with Sandbox(DECODE, {}) as sandbox:
        sandbox.call(b"a")
        os.kill(sandbox._template._process.pid, signal.SIGKILL)
        found = sandbox.map([b"segv!", b"b", b"c"])
        assert isinstance(found[0], MediaFault)
        assert [each.value for each in found[1:]] == [{"n": 1}, {"n": 1}]
