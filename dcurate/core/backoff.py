"""Limit the items of a call to what the memory of a GPU holds."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dcurate.core.gpu_errors import is_out_of_memory
from dcurate.core.gpu_memory import with_waits

R = TypeVar("R")

#: Successful calls of the allowed size in a row before twice the size is allowed.
GROW_AFTER = 8
#: Calls after memory ran out during which the size that failed is not tried again.
REMEMBER = 256


@dataclass
class _DeviceMemory:
    """The size that a device may be given, and the size that was too much."""

    allowed: int | None = None
    failed: int | None = None
    since: int = 0
    well: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def size(self, wanted: int) -> int:
        with self.lock:
            return wanted if self.allowed is None else min(wanted, self.allowed)

    def went_well(self, size: int) -> None:
        with self.lock:
            if self.allowed is None:
                return
            self.since += 1
            if self.failed is not None and self.since >= REMEMBER:
                self.failed = None
            self.well += size >= self.allowed
            if self.well >= GROW_AFTER and (self.failed is None or 2 * self.allowed < self.failed):
                self.allowed *= 2
                self.well = 0

    def ran_out(self, size: int) -> None:
        with self.lock:
            self.allowed = max(1, min(size // 2, self.allowed or size))
            self.failed = size if self.failed is None else min(size, self.failed)
            self.since = self.well = 0


_devices: dict[str, _DeviceMemory] = {}
_devices_lock = threading.Lock()


class Backoff:
    """Calls a function on slices of a sequence that fit into the memory of a GPU.

    When memory runs out the slice is halved, and the size that works is kept for all callers in this process that name
    the same device. It grows again by doubling, step by step: after `GROW_AFTER` calls of the size allowed, and for
    `REMEMBER` calls never to a size at which memory ran out.

    Args:
        device: name of the device, such as ``"cuda:0"``; with the model's name where several share one.
        free: called between a failure and the next call, such as ``torch.cuda.empty_cache``.
        waits: seconds between tries of one item alone, while other processes may free memory; none if not given.

    Examples:
        A model for which three texts are too many at once:

        >>> def embed(texts):
        ...     if len(texts) > 2:
        ...         raise MemoryError
        ...     return [len(text) for text in texts]
        >>> backoff = Backoff("cuda:0 embed", free=lambda: print("freed"))
        >>> backoff.run(embed, ["a", "bb", "ccc", "dddd"])
        freed
        [[1, 2], [3, 4]]
        >>> backoff.run(embed, ["a", "bb", "ccc"])
        [[1, 2], [3]]
    """

    def __init__(
        self, device: str, free: Callable[[], object] | None = None, waits: Sequence[float] | None = None
    ) -> None:
        self.device = device
        self._free = free
        self._waits = waits
        with _devices_lock:
            self._memory = _devices.setdefault(device, _DeviceMemory())

    def run(self, function: Callable[[Any], R], items: Sequence[Any], size: int | None = None) -> list[R]:
        """Call the function on slices of the items; returns its answers in order.

        Args:
            function: called with slices of the items.
            items: a list, a tensor, an array; all of them are covered, each once.
            size: no slice is longer; None for no limit but memory.

        Raises:
            ValueError: ``size`` is below one.
            Exception: what the function raises, if that is not for want of memory, or one item alone is too much.
        """
        if size is not None and size < 1:
            raise ValueError(f"size={size} must be at least 1")
        answers: list[R] = []
        start, count = 0, len(items)
        while start < count:
            length = self._memory.size(min(size or count, count - start))
            answer = self._tried(function, items[start : start + length], length)
            if answer is None:
                self._freed()
                continue
            answers.append(answer[0])
            start += length
        return answers

    def _tried(self, function: Callable[[Any], R], items: Any, length: int) -> tuple[R] | None:
        """The function's answer; None if memory ran out."""
        alone = length == 1 and bool(self._waits)
        try:
            answer = with_waits(lambda: function(items), self._freed, self._waits) if alone else function(items)
        except Exception as error:
            if length == 1 or not is_out_of_memory(error):
                raise
            self._memory.ran_out(length)
            return None
        self._memory.went_well(length)
        return (answer,)

    def _freed(self) -> None:
        if self._free is not None:
            gc.collect()  # frames of the failed call may still hold its memory
            self._free()
