import io

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
    assert [answer.value for answer in asked(sandbox, {"do": "progress", "times": 5})][-1] == {"n": 2}


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
