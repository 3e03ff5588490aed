"""A queue on disk: what goes in comes out, in order: all values that can be pickled."""

from __future__ import annotations

import os
import tracemalloc
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.core import disk_queue
from dcurate.core.disk_queue import DiskQueue
from dcurate.errors import RunError


class _StaysHere:
    """A value that cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("no")


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(1, 9), st.integers(-9, -1)), max_size=40), st.integers(1, 7))
def test_values_come_out_as_they_went_in(steps: list[int], stays_here: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk_queue, "BLOCK", 4)
        queue, expected, number = DiskQueue[Any](), deque[Any](), 0
        for step in steps:
            for _ in range(step):
                value = _StaysHere() if number % 7 == stays_here else number
                queue.append(value)
                expected.append(value)
                number += 1
            for _ in range(min(-step, len(expected))):
                assert queue.first == expected[0]
                assert queue.popleft() == expected.popleft()
            assert len(queue) == len(expected)
        assert [queue.popleft() for _ in range(len(queue))] == list(expected)
        with pytest.raises(IndexError):
            queue.popleft()


def test_a_long_queue_takes_little_memory_and_its_file_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before, queue = len(os.listdir("/proc/self/fd")), DiskQueue[str]()
    tracemalloc.start()
    for number in range(100_000):
        queue.append(f"{number:0400}")
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 2_000_000  # of 40 MB
    assert not list(tmp_path.iterdir())
    assert all(queue.popleft() == f"{number:0400}" for number in range(100_000))
    del queue
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_full_temporary_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    queue = DiskQueue[int]()
    for number in range(2 * disk_queue.BLOCK - 1):
        queue.append(number)
    with pytest.raises(RunError, match=r"cannot be kept in the temporary folder \(.*No space left.*TMPDIR"):
        queue.append(0)
