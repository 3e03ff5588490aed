"""The device of a slot: which one, precision, batch size, and number of threads.

Untested on a GPU: the CUDA parts follow its documentation.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from dcurate.core.extras import needed
from dcurate.core.gpu_memory import usable_memory
from dcurate.core.resources import Resources
from dcurate.core.stage import WorkerMetadata
from dcurate.errors import PipelineError, ResourceError

#: Shares of each GPU's memory that the slots of this process have.
_shares: dict[str, float] = {}
_shares_lock = threading.Lock()

#: What ``autocast=`` may be.
AUTOCASTS = (True, False, "bf16", "fp16", "off")

#: Columns of a batch on a GPU are a multiple of it, as kernels for 16 bits want it; rows less aligned take slower ones.
_ALIGNED = 8


def torch_for(stage: str) -> Any:
    """Torch.

    Raises:
        ResourceError: it is not installed.
    """
    return needed("torch", f"stage {stage!r}", "models")


def check_device(stage: str, device: str) -> None:
    """Refuse a device that no version of Torch has.

    Raises:
        PipelineError: it is not valid.

    Examples:
        >>> check_device("embed", "gpu")
        Traceback (most recent call last):
        ...
        dcurate.errors.PipelineError: stage 'embed': unknown device 'gpu'; give 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps'
    """
    kind, _, number = device.partition(":") if isinstance(device, str) else ("", "", "")
    if kind not in ("auto", "cpu", "cuda", "mps", "xpu") or (number and not number.isdigit()):
        offer = "give 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps'"
        raise PipelineError(f"stage {stage!r}: unknown device {device!r}; {offer}")


def check_autocast(stage: str, autocast: bool | str) -> None:
    """Refuse an unknown precision.

    Raises:
        PipelineError: it is not valid.
    """
    if autocast not in AUTOCASTS:
        raise PipelineError(f"stage {stage!r}: autocast={autocast!r} must be True, False, 'bf16', 'fp16' or 'off'")


def device_of(stage: str, device: str, slot: WorkerMetadata | None = None) -> Any:
    """The ``torch.device`` of a slot.

    Args:
        stage: its name, for the error.
        device: ``"auto"`` takes the GPU that the slot was given, else the first one that Torch sees, else the CPU;
            ``"cuda"`` requires a GPU; any other value is used as it is.
        slot: the argument of ``setup``.

    Raises:
        ResourceError: a GPU is asked for, or was given, and Torch cannot use it.
    """
    torch = torch_for(stage)
    cards = slot.allocation if slot is not None else ()
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto" and not cards:
        return torch.device("cuda:0" if seen else "cpu")
    card = f"cuda:{cards[0] if cards else 0}"
    wanted = torch.device(card if device in ("auto", "cuda") else device)
    if wanted.type == "cuda" and (wanted.index or 0) >= seen:
        built = "was built without CUDA" if torch.version.cuda is None else f"sees {seen or 'no'} GPUs here"
        hint = "install a Torch for this machine's driver, or pass device='cpu'"
        raise ResourceError(f"stage {stage!r} should run on {wanted}, but torch {torch.__version__} {built}; {hint}")
    return wanted


def precision(autocast: bool | str, device: Any, half: str = "bf16") -> Any:
    """Return the dtype of ``torch.autocast``, or None to compute in the dtype of the weights.

    ``True`` means ``half`` on a GPU, and float16 on one that only emulates bfloat16 (before compute capability 8.0). On
    any CPU it means no autocast: most are slower with 16 bits, and all hosts should give the same rows. ``"bf16"`` and
    ``"fp16"`` are used as given, on any device.
    """
    torch = needed("torch", "a model", "models")
    named = {"bf16": torch.bfloat16, "fp16": torch.float16}
    if isinstance(autocast, str):
        return named.get(autocast)
    if not autocast or device.type != "cuda":
        return None
    newer = torch.cuda.get_device_capability(device) >= (8, 0)
    return named[half] if newer else torch.float16


def casting(dtype: Any, device: Any) -> AbstractContextManager[Any]:
    """Context in which Torch computes in this dtype where that is harmless; None changes nothing."""
    if dtype is None:
        return nullcontext()
    torch = needed("torch", "a model", "models")
    context: AbstractContextManager[Any] = torch.autocast(device.type, dtype=dtype)
    return context


def without_gradients(dtype: Any) -> AbstractContextManager[Any]:
    """Context in which Torch computes no gradients.

    Args:
        dtype: what is cast to, or None. Where there is one it is not inference mode, quicker as that is: in it autocast
            does not cache cast weights, and casts them again for every batch.
    """
    torch = needed("torch", "a model", "models")
    context: AbstractContextManager[Any] = torch.inference_mode() if dtype is None else torch.no_grad()
    return context


def aligned(device: Any) -> int:
    """The preferred multiple for the number of columns of a batch on a device."""
    return _ALIGNED if device.type == "cuda" else 1


def current(device: Any) -> AbstractContextManager[Any]:
    """Context in which a GPU is the current one of the thread, so that no other is used by default."""
    return needed("torch", "a model", "models").cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def threads(cpus: float) -> Iterator[None]:
    """Context in which Torch operations in this thread use this many CPUs.

    Torch keeps the number for each thread of Python, so that slots of one process do not disturb each other.
    """
    torch = needed("torch", "a model", "models")
    wanted, before = max(1, int(cpus)), torch.get_num_threads()
    if wanted != before:
        torch.set_num_threads(wanted)
    try:
        yield
    finally:
        if wanted != before:
            torch.set_num_threads(before)


class MemoryShare:
    """The share of a GPU's memory that Torch may take for one slot, until it is released.

    What this process may take is the sum of the shares of its slots, so that those of other processes have theirs.
    Shares are of `usable_memory`. No limit is set for a process with all of a GPU, on CPUs, and where Torch
    allocates from RMM, which shares its pool.

    Args:
        resources: resources of the stage.
    """

    def __init__(self, device: Any, resources: Resources) -> None:
        self._device = device
        self._share = 0.0
        if device.type == "cuda":
            self._share = resources.gpus or 1.0
            if resources.gpu_memory_gb:
                self._share = resources.gpu_memory_gb * 1e9 / _total_memory(device)
            self._add(self._share)

    def release(self) -> None:
        """Give the share back; once."""
        share, self._share = self._share, 0.0
        if share:
            self._add(-share)

    def _add(self, share: float) -> None:
        torch = needed("torch", "a model", "models")
        with _shares_lock:
            held = _shares[str(self._device)] = round(_shares.get(str(self._device), 0.0) + share, 6)
            if torch.cuda.get_allocator_backend() == "pluggable":
                return
            total = _total_memory(self._device)
            part = usable_memory(total) / total if 0 < held < 1 else 1.0
            torch.cuda.set_per_process_memory_fraction(min(held or 1.0, 1.0) * part, self._device)


def _total_memory(device: Any) -> float:
    return float(needed("torch", "a model", "models").cuda.get_device_properties(device).total_memory)


def emptied(device: Any) -> None:
    """Free unused GPU memory; CPU memory is freed automatically."""
    if device.type == "cuda":
        gc.collect()  # a compiled model holds itself in circles
        needed("torch", "a model", "models").cuda.empty_cache()
