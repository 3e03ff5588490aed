from __future__ import annotations

import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from dcurate import PipelineError, ResourceError, Resources, WorkerMetadata
from dcurate.core.gpu_memory import usable_memory
from dcurate.hub import device as devices
from dcurate.hub.shared import Shared
from dcurate.models.packing import batch_limits
from tests.models.stages import Encode

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 1)


def test_auto_is_the_cpu_where_there_is_no_gpu() -> None:
    assert devices.device_of("embed", "auto", WorkerMetadata("w/0")) == torch.device("cpu")


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_gpu_that_is_asked_for_and_not_there_is_refused_at_setup(device: str) -> None:
    why = "sees no GPUs here" if torch.version.cuda else "was built without CUDA"
    with pytest.raises(ResourceError, match=rf"'embed' should run on cuda:0, but torch .* {why}; install"):
        devices.device_of("embed", device)


def test_a_gpu_that_was_given_and_that_torch_cannot_use_is_refused() -> None:
    with pytest.raises(
        ResourceError, match=r"should run on cuda:3, but torch .*; install a Torch .* or pass device='cpu'"
    ):
        devices.device_of("embed", "auto", WorkerMetadata("w/0", (3,)))


@pytest.mark.gpu
def test_auto_is_the_gpu_that_the_slot_was_given() -> None:
    assert devices.device_of("embed", "auto", WorkerMetadata("w/0", (0,))) == torch.device("cuda", 0)


@pytest.mark.parametrize("device", ["gpu", "cuda:one", "", None, 0])
def test_a_device_that_is_none_is_refused(device: object) -> None:
    with pytest.raises(PipelineError, match=r"unknown device .*; give 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps'"):
        devices.check_device("embed", device)  # type: ignore[arg-type]


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ResourceError, match=r"stage 'embed': .*; this needs the 'models' extra: pip install"):
        devices.device_of("embed", "auto")


def test_autocast_means_16_bits_on_a_gpu_and_none_on_a_cpu_unless_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", {CUDA: (9, 0)}.__getitem__)
    assert [devices.precision(cast, CUDA) for cast in devices.AUTOCASTS] == [
        torch.bfloat16,
        None,
        torch.bfloat16,
        torch.float16,
        None,
    ]
    assert [devices.precision(cast, CPU) for cast in (True, False, "bf16", "off")] == [None, None, torch.bfloat16, None]
    assert devices.precision(True, CUDA, "fp16") == torch.float16
    monkeypatch.setattr(torch.cuda, "get_device_capability", {CUDA: (7, 5)}.__getitem__)
    assert devices.precision(True, CUDA) == torch.float16
    assert devices.precision("bf16", CUDA) == torch.bfloat16


def test_autocast_computes_in_that_dtype_within() -> None:
    ones = torch.ones(2, 2)
    with devices.casting(torch.bfloat16, CPU):
        assert (ones @ ones).dtype == torch.bfloat16
    with devices.casting(None, CPU):
        assert (ones @ ones).dtype == torch.float32


@pytest.mark.parametrize("autocast", ["half", "", None, 2])
def test_a_precision_that_is_none_is_refused(autocast: object) -> None:
    with pytest.raises(PipelineError, match=r"must be True, False, 'bf16', 'fp16' or 'off'"):
        devices.check_autocast("embed", autocast)  # type: ignore[arg-type]


def test_threads_of_torch_are_those_of_the_slot_in_its_thread_and_nowhere_else() -> None:
    before = torch.get_num_threads()
    seen = {}
    inside, over = threading.Event(), threading.Event()

    def slot() -> None:
        with devices.threads(3.0):
            seen["slot"] = torch.get_num_threads()
            inside.set()
            over.wait(10)
        seen["after"] = torch.get_num_threads()

    other = threading.Thread(target=slot)
    other.start()
    inside.wait(10)
    with devices.threads(0.5):
        seen["here"] = torch.get_num_threads()
    over.set()
    other.join()
    assert seen["slot"] == 3
    assert seen["here"] == 1
    assert torch.get_num_threads() == before


def test_batches_are_larger_on_a_gpu_and_as_large_as_is_asked_for() -> None:
    assert batch_limits(CUDA, 256).tokens > batch_limits(CPU, 256).tokens
    assert batch_limits(CPU, 7, 100).tokens == 100
    assert batch_limits(CPU, 7, 100).rows == 7


@pytest.mark.parametrize(
    ("hidden", "size", "tokens"), [(0, 4, 1024), (1024, 4, 1024), (384, 4, 1024), (384, 2, 2048), (32, 4, 4096)]
)
def test_a_cpu_is_given_as_many_tokens_at_once_as_its_caches_hold_states_of(
    hidden: int, size: int, tokens: int
) -> None:
    assert batch_limits(CPU, 256, None, hidden, size).tokens == tokens
    assert batch_limits(CPU, 256, 100, hidden, size).tokens == 100


def test_columns_are_aligned_on_a_gpu_alone() -> None:
    assert (devices.aligned(CUDA), devices.aligned(CPU)) == (8, 1)


def test_what_is_shared_is_loaded_once_by_many_who_ask_at_once_and_gone_with_the_last() -> None:
    shared, loaded = Shared(), []
    start = threading.Barrier(8)
    held = []

    def slot() -> None:
        start.wait(10)
        held.append(shared.hold("model", lambda: loaded.append(1) or object()))

    threads = [threading.Thread(target=slot) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loaded) == 1
    assert len({id(thing) for thing in held}) == 1
    assert [shared.release("model") for _ in range(8)] == [False] * 7 + [True]
    assert shared.holders("model") == 0


def test_what_cannot_be_loaded_is_not_held_and_is_tried_again() -> None:
    shared = Shared()
    with pytest.raises(OSError, match="no file"):
        shared.hold("model", _fail)
    assert shared.holders("model") == 0
    assert shared.hold("model", lambda: "there") == "there"


def _fail() -> None:
    raise OSError("no file")


def test_a_model_is_gone_from_memory_when_the_last_slot_lets_go_of_it(encoders: dict[str, Path]) -> None:
    stage = Encode(str(encoders["bert"]))
    stage.setup()
    model = weakref.ref(stage.module)
    assert model() is not None
    stage.teardown()
    assert model() is None


def test_the_processes_of_a_gpu_share_its_memory_as_their_slots_do(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    total = 80 * 10**9
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "native")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=total))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda share, device: limits.append(share))
    quarter, part = Resources(gpus=0.25), usable_memory(total) / total
    slots = [devices.MemoryShare(CUDA, quarter), devices.MemoryShare(CUDA, Resources(gpu_memory_gb=20))]
    assert limits == [0.25 * part, 0.5 * part]
    slots += [devices.MemoryShare(CUDA, quarter), devices.MemoryShare(CUDA, quarter)]
    assert limits[2:] == [0.75 * part, 1.0]
    for slot in [*slots, slots[0]]:
        slot.release()
    assert limits[4:] == [0.75 * part, 0.5 * part, 0.25 * part, 1.0]
    assert part < 1


def test_where_torch_allocates_from_rmm_or_on_a_cpu_its_memory_is_not_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "pluggable")
    for device in (CUDA, CPU):
        devices.MemoryShare(device, Resources(gpus=0.25)).release()
