"""Work on a GPU that holds only so much: nothing is left out, everything is done once, and every wait ends."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import ResourceError
from dcurate.core.backoff import Backoff
from dcurate.core.gpu_memory import WAITS_S, free_gpu_memory, in_parts
from tests.gpu_errors import OUT_OF_MEMORY


@given(room=st.integers(1, 20), count=st.integers(0, 50), number=st.integers(0, len(OUT_OF_MEMORY) - 1))
def test_items_are_done_once_and_in_order_however_little_memory_there_is(room: int, count: int, number: int) -> None:
    freed: list[int] = []

    def work(items: list[int]) -> list[int]:
        if len(items) > room:
            raise OUT_OF_MEMORY[number]
        return items

    parts = in_parts(work, list(range(count)), free=lambda: freed.append(1))
    assert [item for part in parts for item in part] == list(range(count))
    assert len(freed) <= count.bit_length()


def test_memory_that_another_process_gives_back_is_waited_for() -> None:
    failures = iter(OUT_OF_MEMORY[:3])

    def work(items: list[int]) -> list[int]:
        for error in failures:
            raise error
        return items

    assert in_parts(work, [7], waits=[0.0, 0.0]) == [[7]]


def test_one_item_that_is_too_much_is_a_want_of_resources_after_waits_that_end(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setattr("gc.collect", lambda: 0)  # takes a while in the process of all tests

    def work(items: list[int]) -> None:
        raise OUT_OF_MEMORY[0]

    with pytest.raises(
        ResourceError, match=r"one row: the memory of the GPU does not suffice \(CudaAPIError: \[2\].* end other"
    ):
        in_parts(work, [1, 2, 3])
    assert waited == [0.0, *WAITS_S]
    assert 25 <= sum(WAITS_S) <= 30


def test_a_model_waits_for_the_memory_of_one_row_too() -> None:
    failures = iter(OUT_OF_MEMORY[:2])

    def model(items: list[int]) -> list[int]:
        for error in failures:
            raise error
        return items

    assert Backoff("waits", waits=[0.0]).run(model, [1]) == [[1]]


def test_other_errors_pass_at_once() -> None:
    calls: list[int] = []

    def work(items: list[int]) -> None:
        calls.append(len(items))
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        in_parts(work, [1, 2, 3])
    assert calls == [3]


def test_each_library_that_is_loaded_frees_what_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[object] = []
    pool = SimpleNamespace(free_all_blocks=lambda: freed.append("cupy"))
    manager = SimpleNamespace(spill_to_device_limit=lambda **limit: freed.append(limit["device_limit"]))
    context = SimpleNamespace(deallocations=SimpleNamespace(clear=lambda: freed.append("numba")))
    libraries: dict[str, Any] = {
        "cupy": {"is_available": lambda: True, "get_default_memory_pool": lambda: pool}
        | {"get_default_pinned_memory_pool": lambda: pool},
        "torch": {"cuda": SimpleNamespace(is_initialized=lambda: True, empty_cache=lambda: freed.append("torch"))},
        "numba.cuda": {"is_available": lambda: True, "config": SimpleNamespace(ENABLE_CUDASIM=0)}
        | {"current_context": lambda: context},
        "cudf.core.buffer.spill_manager": {"get_global_manager": lambda: manager},
    }
    for name, library in libraries.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**library))
    free_gpu_memory()
    assert sorted(map(str, freed)) == ["0", "cupy", "cupy", "numba", "torch"]


def test_freeing_is_harmless_without_a_gpu() -> None:
    free_gpu_memory()
