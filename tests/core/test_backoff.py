"""Out of memory, on GPUs that hold a given number of items."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.core.backoff import GROW_AFTER, REMEMBER, Backoff
from dcurate.core.gpu_errors import is_out_of_memory

names: Iterator[str] = map("gpu-{}".format, itertools.count())


class OutOfMemoryError(RuntimeError):
    """As PyTorch's is called."""


@dataclass
class Gpu:
    """Holds ``room`` items; writes down how many it was given."""

    room: int
    error: Exception = field(default_factory=OutOfMemoryError)
    given: list[int] = field(default_factory=list)

    def __call__(self, items: list[int]) -> list[int]:
        self.given.append(len(items))
        if len(items) > self.room:
            raise self.error
        return [2 * item for item in items]


@given(room=st.integers(1, 40), runs=st.lists(st.tuples(st.integers(0, 100), st.integers(1, 50)), max_size=8))
def test_every_item_is_processed_once_and_in_order_however_little_memory_there_is(
    room: int, runs: list[tuple[int, int]]
) -> None:
    gpu, backoff = Gpu(room), Backoff(next(names))
    for count, size in runs:
        answers = backoff.run(gpu, list(range(count)), size)
        assert [value for answer in answers for value in answer] == [2 * item for item in range(count)]
        assert all(len(answer) <= size for answer in answers)


@given(room=st.integers(1, 60), calls=st.integers(1, REMEMBER - 1))
def test_a_size_that_failed_is_not_tried_again_for_a_while(room: int, calls: int) -> None:
    gpu, backoff = Gpu(room), Backoff(next(names))
    for _ in range(calls):
        backoff.run(gpu, list(range(64)), 64)
        if len(gpu.given) >= REMEMBER:
            break
    failed = [size for size in gpu.given[:REMEMBER] if size > room]
    assert sorted(failed, reverse=True) == failed
    assert len(set(failed)) == len(failed)


def test_the_size_that_works_is_known_to_all_who_use_the_gpu() -> None:
    name, gpu, other = next(names), Gpu(10), Gpu(10)
    Backoff(name).run(gpu, list(range(16)))
    Backoff(name).run(other, list(range(16)))
    assert gpu.given == [16, 8, 8]
    assert other.given == [8, 8]


def test_the_size_grows_back_step_by_step_once_the_failure_is_long_ago() -> None:
    gpu, backoff = Gpu(3), Backoff(next(names))
    backoff.run(gpu, list(range(16)), 16)
    gpu.room, gpu.given = 100, []
    while len(gpu.given) < REMEMBER + 2 * GROW_AFTER + 1:
        backoff.run(gpu, list(range(16)), 16)
    sizes = [size for size, _ in itertools.groupby(gpu.given)]
    assert sizes == [2, 4, 8, 16]
    assert gpu.given.count(4) == GROW_AFTER


def test_what_is_held_is_freed_between_a_failure_and_the_next_call() -> None:
    said: list[str] = []

    def model(items: list[int]) -> None:
        said.append(f"call {len(items)}")
        if len(items) > 1:
            raise MemoryError

    Backoff(next(names), free=lambda: said.append("free")).run(model, [1, 2])
    assert said == ["call 2", "free", "call 1", "call 1"]


def test_one_item_that_is_too_much_alone_is_an_error() -> None:
    with pytest.raises(OutOfMemoryError):
        Backoff(next(names)).run(Gpu(0), [1, 2, 3])


def test_other_errors_pass_at_once() -> None:
    gpu = Gpu(0, RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes"):
        Backoff(next(names)).run(gpu, [1, 2, 3])
    assert gpu.given == [3]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("std::bad_alloc: out_of_memory: RMM failure"),
        OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cudaErrorMemoryAllocation: out of memory"),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
)
def test_the_libraries_ways_to_say_it_are_known(error: Exception) -> None:
    assert is_out_of_memory(error)


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="size=0 must be at least 1"):
        Backoff(next(names)).run(len, [1], 0)
