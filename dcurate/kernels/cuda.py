"""Kernels on a GPU: the CPU kernels' functions of one text, compiled by numba for CUDA, one text per thread.

There is one source. A kernel of the CPU is a loop over texts around a function of one text, and numba-cuda compiles
that function for the card when a kernel of CUDA calls it. Both do the same with whole numbers, so both give the same
bits. A thread to a text is what keeps the source one: threads that share a text would need to be coordinated.

Untested on a GPU. The kernels run in numba's simulator of CUDA, where they give what the CPU gives, and compile for
compute capability 9.0 (`python -m benchmarks.device.compiled`).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Hashable, Iterator
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from numba import config

from dcurate.errors import ResourceError
from dcurate.kernels.layout import Offsets, Rows, frozen

#: Threads of a block: a warp, so that few texts spread over as many multiprocessors as can be; threads share nothing.
_THREADS = 32
#: GPU memory for scratch arrays per launch, in bytes; the remaining texts wait for the next launch.
SCRATCH = 2**30

Tuple = TypeVar("Tuple", bound=tuple[Any, ...])
Build = TypeVar("Build", bound=Callable[..., Any])
#: Scratch arrays for a text of at most a number of bytes.
Room: TypeAlias = Callable[[int], tuple[npt.NDArray[Any], ...]]

#: CUDA builds, by their CPU kernels.
BUILDS: dict[Callable[..., Any], Callable[..., Any]] = {}


def build_of(kernel: Callable[..., Any]) -> Callable[[Build], Build]:
    """Register a function as the CUDA build of ``kernel``.

    Args:
        kernel: a function of (offsets, data, rows, *options).

    Returns:
        A decorator for a function of (`CudaColumn`, rows, *options), which it returns unchanged.
    """

    def registered(build: Build) -> Build:
        BUILDS[kernel] = build
        return build

    return registered


class CudaColumn(NamedTuple):
    """Texts on a GPU: like `TextColumn`, with the offsets on both sides.

    Args:
        offsets: on the host, int64; they need not begin at 0.
        starts: the same on the GPU.
        data: UTF-8 on the GPU.
    """

    offsets: Offsets
    starts: Any
    data: Any


#: numba's CUDA, from when it is first asked for: most processes have no use for it. It is a name of the module because
#: there the simulator puts its own for as long as a kernel runs.
cuda: Any = None


def _cuda() -> Any:
    found = importlib.import_module("numba.cuda")
    if cuda is None:
        # Few texts leave most of a GPU idle; that is not an error of the user.
        vars(config)["CUDA_LOW_OCCUPANCY_WARNINGS"] = 0
        globals()["cuda"] = found
    return found


def usable() -> bool:
    """Whether numba finds a GPU, or simulates one.

    Raises:
        ResourceError: the process was given a GPU, and numba cannot use it.
    """
    if _cuda().is_available():
        return True
    cards = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if cards in ("", "-1", "NoDevFiles"):
        return False
    raise ResourceError(
        f"CUDA_VISIBLE_DEVICES={cards} assigns this process a GPU, but numba cannot use it; "
        "install dcurate[cuda13], and check the CUDA section of `python -m numba -s`"
    )


def on_gpu(offsets: Offsets, data: Any) -> CudaColumn:
    """Copy texts to the GPU: the span of NumPy bytes that the offsets cover; device arrays are used in place.

    Args:
        offsets: on the host.
        data: a NumPy array, or an object with ``__cuda_array_interface__``.
    """
    if isinstance(data, np.ndarray):
        begin, end = int(offsets[0]), int(offsets[-1])
        offsets, data = offsets - begin, copied(data[begin:end])
    else:
        data = _cuda().as_cuda_array(data).view(np.uint8)
    offsets = frozen(offsets, np.int64)
    return CudaColumn(offsets, copied(offsets), data)


def on_host(view: Any, dtype: Any) -> npt.NDArray[Any]:
    """Device bytes as a host array of that type.

    Args:
        view: an object with ``__cuda_array_interface__``.
    """
    return np.asarray(_cuda().as_cuda_array(view).view(dtype).copy_to_host())


@cache
def constant_on_gpu(make: Callable[..., npt.NDArray[Any]], *options: Hashable) -> Any:
    """A lookup table for kernels, copied to the GPU once per process."""
    return copied(make(*options))


def copied(array: npt.NDArray[Any]) -> Any:
    """An array on the GPU."""
    return _cuda().to_device(frozen(array, array.dtype))


def empty_on_gpu(size: int) -> Any:
    """A byte buffer on the GPU, for kernels to write to."""
    return _cuda().device_array(max(size, 1), np.uint8)


def carried(known: Tuple) -> Tuple:
    """A (named) tuple of arrays and numbers, with the arrays on the GPU."""
    made = (copied(value) if isinstance(value, np.ndarray) else value for value in known)
    return type(known)(made) if type(known) is tuple else type(known)(*made)


def no_room(most: int) -> tuple[npt.NDArray[Any], ...]:
    """Empty scratch arrays, for functions without any."""
    return (np.empty(1, np.uint8),)


@cache
def compiled(body: Callable[..., None]) -> Any:
    """The kernel that calls a function for each text, one thread per text.

    Args:
        body: a kernel's function of ``(data, span, (known, rooms, place), out)``: ``rooms[...][place]`` are the
            text's own scratch arrays, and ``out`` is where its numbers go.
    """

    def kernel(layout: Any, rows: Any, known: Any, rooms: Any, out: Any) -> None:
        place = cuda.grid(1)
        if place < rows.size:
            starts, data = layout
            row = rows[place]
            body(data, (starts[row], starts[row + 1]), (known, rooms, place), out[place])

    return _cuda().jit(kernel)


def launch(
    body: Callable[..., None],
    column: CudaColumn,
    rows: Rows,
    known: Any,
    *,
    room: Room,
    out: npt.NDArray[Any],
) -> None:
    """Write into ``out`` the results of ``body`` for each of the texts numbered ``rows``.

    Texts go by length, the longest first, so that threads that run together have as much to do; as many at a time as
    their scratch arrays fit into `SCRATCH` bytes.

    Args:
        body: see `compiled`.
        known: data shared by all texts, with its arrays on the GPU.
        room: scratch arrays for a text of at most a number of bytes; only their sizes and types are used.
        out: on the host, of shape (rows, ...); begins as zeros on the card.
    """
    kernel = compiled(body)
    lengths = column.offsets[rows + 1] - column.offsets[rows]
    order = np.argsort(-lengths, kind="stable")
    for places, sizes in _portions(lengths, order, room):
        rooms = tuple(_cuda().device_array((len(places), size), dtype) for size, dtype in sizes)
        found = copied(np.zeros((len(places), *out.shape[1:]), out.dtype))
        chosen = copied(rows[places].astype(np.int64))
        layout = column.starts, column.data
        kernel[-(-len(places) // _THREADS), _THREADS](layout, chosen, known, rooms, found)
        out[places] = found.copy_to_host()


def _portions(
    lengths: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    room: Room,
) -> Iterator[tuple[npt.NDArray[np.int64], list[tuple[int, Any]]]]:
    """Texts that are launched together, and the sizes of their scratch arrays: those of the longest of them."""
    start = 0
    while start < len(order):
        arrays = room(int(lengths[order[start]]))
        each = sum(array.nbytes for array in arrays)
        number = max(1, SCRATCH // max(each, 1))
        yield order[start : start + number], [(array.size, array.dtype) for array in arrays]
        start += number
