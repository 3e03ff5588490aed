"""Copies between the host and a GPU, on a stream for each thread.

Slots of a process run in threads. With a stream each, one slot's copies run beside another's kernels; on the default
stream they would take turns. Streams are made to wait for the default stream, and it for them, so that arrays of cuDF,
CuPy and PyTorch are ready. A copy has ended when a function here returns: its array may be used on any stream.

Large arrays go through two pinned buffers that each thread keeps: the next part is copied into one while the GPU reads
the other. Untested on a GPU.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

#: Bytes of a pinned buffer; arrays that are not larger are copied as they are.
STAGED = 2**22


class Lane(NamedTuple):
    """What a thread uses to copy and to launch: its stream, and pinned buffers with the event of their last copy."""

    stream: Any
    staging: tuple[tuple[Any, Any], ...]


class _Lanes(threading.local):
    """The lane of this thread, and the library that made it."""

    made_by: Any = None
    lane: Lane | None = None


_LANES = _Lanes()


def lane(library: Any) -> Lane:
    """The lane of this thread; its stream is created on first use.

    Args:
        library: numba.cuda.
    """
    if _LANES.lane is None or _LANES.made_by is not library:
        _LANES.made_by, _LANES.lane = library, Lane(library.stream(), ())
    return _LANES.lane


def _staging(library: Any) -> tuple[tuple[Any, Any], ...]:
    """Two pinned buffers of this thread, each with an event."""
    thread_lane = lane(library)
    if not thread_lane.staging:
        buffers = ((library.pinned_array(STAGED, np.uint8), library.event()) for _ in range(2))
        thread_lane = _LANES.lane = thread_lane._replace(staging=tuple(buffers))
    return thread_lane.staging


def to_gpu(library: Any, array: npt.NDArray[Any]) -> Any:
    """Copy a contiguous array to the GPU.

    Args:
        library: numba.cuda.
    """
    stream = lane(library).stream
    if array.nbytes <= STAGED:
        copy = library.to_device(array, stream=stream)
    else:
        copy = library.device_array(array.shape, array.dtype)
        _staged(library, array.reshape(-1).view(np.uint8), copy.reshape(array.size).view(np.uint8))
    stream.synchronize()
    return copy


def _staged(library: Any, data: npt.NDArray[np.uint8], copy: Any) -> None:
    """Queue the copy of bytes, a buffer at a time; a buffer is filled again when its last copy has ended."""
    stream, buffers = lane(library).stream, _staging(library)
    for number, start in enumerate(range(0, data.size, STAGED)):
        buffer, copied = buffers[number % len(buffers)]
        if number >= len(buffers):
            copied.synchronize()
        part = data[start : start + STAGED]
        buffer[: part.size] = part
        copy[start : start + part.size].copy_to_device(buffer[: part.size], stream=stream)
        copied.record(stream)


def to_host(library: Any, array: Any) -> npt.NDArray[Any]:
    """Copy an array of the GPU to the host, when the kernels of this thread that write to it have ended."""
    stream = lane(library).stream
    copy = array.copy_to_host(stream=stream)
    stream.synchronize()
    return np.asarray(copy)
