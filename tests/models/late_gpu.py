"""A GPU that works as late as it may, with an allocator that gives memory away as soon as it is freed."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt


class Event:
    """A point in a stream."""

    def __init__(self) -> None:
        self.is_over = False


class Stream:
    """Work in order, of which nothing is done until the GPU is `finished`."""

    def __init__(self, device: object = None) -> None:
        self.queue: list[Callable[[], bool]] = []

    def ask(self, work: Callable[[], object]) -> None:
        def done() -> bool:
            work()
            return True

        self.queue.append(done)

    def record_event(self) -> Event:
        event = Event()
        self.ask(lambda: setattr(event, "is_over", True))
        return event

    def wait_event(self, event: Event) -> None:
        self.queue.append(lambda: event.is_over)

    def advance(self) -> bool:
        """Do what does not wait for another stream; returns whether there was any."""
        before = len(self.queue)
        while self.queue and self.queue[0]():
            del self.queue[0]
        return len(self.queue) < before


class Tensor:
    """An array on the GPU."""

    def __init__(self, gpu: LateGpu, shape: tuple[int, ...]) -> None:
        self.gpu, self.shape = gpu, shape
        self._memory = gpu.taken(int(np.prod(shape)))
        weakref.finalize(self, gpu.freed, self._memory, gpu.current)

    @property
    def content(self) -> npt.NDArray[np.int32]:
        return self._memory[: int(np.prod(self.shape))].reshape(self.shape)

    def long(self) -> list[Any]:
        """Copy it on the current stream: what the copy holds is known once the GPU is finished."""
        copy: list[Any] = []
        content = self.content
        self.gpu.current.ask(lambda: copy.append(content.copy()))
        return copy

    def record_stream(self, stream: Stream) -> None:
        """Do nothing, as Torch does with an allocator of others."""


class HostTensor:
    """An array in pinned memory."""

    def __init__(self, gpu: LateGpu, array: npt.NDArray[np.int32]) -> None:
        self.gpu, self.array = gpu, array

    def pin_memory(self) -> HostTensor:
        return HostTensor(self.gpu, self.array.copy())

    def to(self, device: object, non_blocking: bool = False) -> Tensor:
        there = Tensor(self.gpu, self.array.shape)
        content, array = there.content, self.array
        self.gpu.current.ask(lambda: content.__setitem__(slice(None), array))
        return there


class LateGpu:
    """What `HostToDevice` needs of Torch, with such a GPU."""

    def __init__(self) -> None:
        self.work = self.current = Stream()
        self.copies: list[Stream] = []
        self._free: list[tuple[npt.NDArray[np.int32], Stream, Event]] = []
        self.reused = 0
        self.cuda = SimpleNamespace(Stream=self._stream, stream=self._on, current_stream=lambda device: self.work)

    def from_numpy(self, array: npt.NDArray[np.int32]) -> HostTensor:
        return HostTensor(self, array)

    def _stream(self, device: object) -> Stream:
        self.copies.append(Stream())
        return self.copies[-1]

    @contextmanager
    def _on(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    def taken(self, size: int) -> npt.NDArray[np.int32]:
        """Memory, the last freed first; another stream than the one that freed it waits for that one."""
        if not self._free:
            return np.zeros(1024, np.int32)
        memory, stream, freed = self._free.pop()
        self.reused += 1
        if stream is not self.current:
            self.current.wait_event(freed)
        return memory

    def freed(self, memory: npt.NDArray[np.int32], stream: Stream) -> None:
        self._free.append((memory, stream, stream.record_event()))

    def finished(self) -> None:
        """Do all work: of the streams of copies whatever can be done, and only then what the model asked for."""
        streams = [*self.copies, self.work]
        while any(stream.advance() for stream in streams):
            pass
        assert not any(stream.queue for stream in streams), "streams wait for each other"
