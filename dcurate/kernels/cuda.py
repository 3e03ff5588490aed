"""Kernels on a GPU: the CPU kernels' functions of one text, compiled by numba for CUDA, one text per thread.

There is one source. A CPU kernel is a loop over texts around a function of one text, and numba-cuda compiles that
function for the GPU. Both compute with integers, so both give the same bits. One thread per text keeps the source one:
threads that share a text would need to be coordinated.

Not tested on a GPU. The kernels run in numba's CUDA simulator, where they give the results of the CPU, and compile for
compute capability 9.0 (`python -m benchmarks.device.compiled`).
"""

from __future__ import annotations

import importlib
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import config, njit

from dcurate.core.gpu_memory import in_parts
from dcurate.errors import ResourceError
from dcurate.kernels.layout import INLINE, Offsets, Rows, frozen

#: Threads of a block: a warp, so that few texts spread over as many multiprocessors as can be; threads share nothing.
_THREADS = 32
#: GPU memory for scratch arrays per launch, in bytes, at most; the remaining texts wait for the next launch.
SCRATCH = 2**33
#: The same where the free memory is not known: numba takes it from a pool of RMM.
_SCRATCH_OF_POOL = 2**30
#: Slots that a GPU may have: four processes of four threads. A launch uses one part of its free memory.
_SLOTS = 16
#: numba stores no closures on disk.
_UNCACHED: dict[str, Any] = {**INLINE, "cache": False}

#: A compiled function of (data, span, tables, scratch, out), which measures one text: see `dcurate.kernels.signal`.
Measure: TypeAlias = Callable[..., None]


@njit(**INLINE)
def as_allocated(scratch: Any) -> None:
    """Leave scratch uninitialized."""


class Scratch(NamedTuple):
    """Memory that a function of one text works in: arrays, alone or in nested (named) tuples.

    Args:
        new: allocates it for texts of at most a number of items. Of what it returns a GPU takes shapes and types.
        reset: a compiled function of scratch, which makes it ready for the first text.
    """

    new: Callable[..., Any]
    reset: Callable[[Any], None] = as_allocated


def _one_byte(most: int) -> npt.NDArray[Any]:
    return np.empty(1, np.uint8)


#: For functions that need none; kernels take an array.
NO_SCRATCH = Scratch(_one_byte)


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


#: numba.cuda, imported on first use, since most processes do not need it. It is a global of the module because the
#: simulator replaces that while a kernel runs.
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


def copied(array: npt.NDArray[Any]) -> Any:
    """An array on the GPU."""
    return _cuda().to_device(frozen(array, array.dtype))


def empty_on_gpu(size: int, dtype: Any = np.uint8) -> Any:
    """An uninitialized array on the GPU, for kernels to write to."""
    return _cuda().device_array(max(size, 1), dtype)


#: Copies of read-only arrays on the GPU, by the array's id: each is freed with its array.
_COPIES: dict[int, tuple[weakref.ref[Any], Any]] = {}


def _copied_once(array: npt.NDArray[Any]) -> Any:
    if array.flags.writeable:
        return copied(array)
    known, copy = _COPIES.get(id(array), (None, None))
    if known is None or known() is not array:
        copy, key = copied(array), id(array)
        _COPIES[key] = weakref.ref(array, lambda _: _COPIES.pop(key, None)), copy
    return copy


def tables_on_gpu(tables: Any) -> Any:
    """Copy the arrays in nested (named) tuples to the GPU; a read-only array is copied only once."""
    if isinstance(tables, np.ndarray):
        return _copied_once(tables)
    return _rebuilt(tables, map(tables_on_gpu, tables)) if isinstance(tables, tuple) else tables


def _rebuilt(like: tuple[Any, ...], values: Iterable[Any]) -> Any:
    return tuple(values) if type(like) is tuple else type(like)(*values)


def _arrays(scratch: Any) -> Iterator[npt.NDArray[Any]]:
    """All arrays in nested tuples."""
    if not isinstance(scratch, tuple):
        yield scratch
        return
    for part in scratch:
        yield from _arrays(part)


def scratch_on_gpu(like: Any, count: int) -> Any:
    """Allocate scratch for a number of threads: each array has a first axis for the thread."""
    if isinstance(like, tuple):
        return _rebuilt(like, (scratch_on_gpu(part, count) for part in like))
    return _cuda().device_array((count, *like.shape), like.dtype)


def _form(scratch: Any) -> Any:
    """The types of nested tuples of arrays."""
    return (type(scratch), *map(_form, scratch)) if isinstance(scratch, tuple) else None


@cache
def _own(forms: tuple[Any, ...]) -> Any:
    """Compile a function of the scratch of all threads, and a thread, which returns the thread's own; both are tuples.

    numba compiles no loop over values of different types, and no function that returns a view of an array; a tuple of
    views is fine. So each value has a function, and calls the one for the values before it.

    Args:
        forms: those of the values, as `_form` returns them.
    """
    at, last = len(forms) - 1, forms[-1]
    if last is None:
        own = njit(**_UNCACHED)(lambda scratch, thread: (scratch[at][thread],))
    else:
        kind, parts = last[0], _own(last[1:])
        if kind is tuple:
            own = njit(**_UNCACHED)(lambda scratch, thread: (parts(scratch[at], thread),))
        else:
            own = njit(**_UNCACHED)(lambda scratch, thread: (kind(*parts(scratch[at], thread)),))
    if at == 0:
        return own
    others = _own(forms[:at])
    return njit(**_UNCACHED)(lambda scratch, thread: others(scratch, thread) + own(scratch, thread))


@cache
def compiled(measure: Measure, form: Any, reset: Callable[[Any], None]) -> Any:
    """The kernel that calls a function for each text, one thread per text.

    Args:
        measure: see `Measure`.
        form: that of the scratch.
        reset: see `Scratch`.
    """
    own = _own((form,))

    def kernel(layout: Any, rows: Any, tables: Any, scratch: Any, out: Any) -> None:
        thread = cuda.grid(1)
        if thread < rows.size:
            starts, data = layout
            row = rows[thread]
            (mine,) = own((scratch,), thread)
            reset(mine)
            measure(data, (starts[row], starts[row + 1]), tables, mine, out[thread])

    kernel.__name__ = f"{measure.__module__.rpartition('.')[2]}_{measure.__name__}"
    return _cuda().jit(kernel)


def launch(
    measure: Measure,
    column: CudaColumn,
    rows: Rows,
    tables: Any,
    *,
    out: npt.NDArray[Any],
    scratch: Scratch = NO_SCRATCH,
) -> None:
    """Write into ``out`` the results of ``measure`` for each of the texts numbered ``rows``.

    Texts are sorted by length, longest first, so that threads that run together have as much to do. A launch takes as
    many texts as their scratch fits into `scratch_bytes`, and half as many where memory runs out.

    Args:
        measure: see `Measure`.
        tables: what all texts share, with its arrays on the GPU.
        out: on the host, of shape (rows, ...); begins as zeros on the GPU.
        scratch: memory that ``measure`` works in.

    Raises:
        ResourceError: the memory of the GPU does not suffice for one text.
    """

    def measured(places: npt.NDArray[np.int64], own: Any) -> None:
        memory = Memory(
            tables, scratch_on_gpu(own, len(places)), copied(np.zeros((len(places), *out.shape[1:]), out.dtype))
        )
        run(measure, (column.starts, column.data), rows[places], memory, scratch.reset)
        out[places] = memory.out.copy_to_host()

    for places, own in portions(column, rows, scratch):
        in_parts(partial(measured, own=own), places)


class Memory(NamedTuple):
    """What a kernel reads and writes besides texts, all on the GPU: tables, scratch of all threads, and outputs."""

    tables: Any
    scratch: Any
    out: Any


def run(
    measure: Measure,
    layout: tuple[Any, Any],
    rows: Rows,
    memory: Memory,
    reset: Callable[[Any], None] = as_allocated,
) -> None:
    """Launch a kernel for the texts numbered ``rows``.

    Args:
        measure: see `Measure`.
        layout: offsets and data on the GPU.
        reset: see `Scratch`.
    """
    kernel = compiled(measure, _form(memory.scratch), reset)
    kernel[-(-len(rows) // _THREADS), _THREADS](layout, copied(rows.astype(np.int64)), *memory)


def scratch_bytes() -> int:
    """GPU memory that a launch may use for scratch arrays, in bytes: a share of what is free now, as for one slot."""
    try:
        free = _cuda().current_context().get_memory_info().free
    except NotImplementedError:  # of RMM, whose pool has taken the memory
        return min(SCRATCH, _SCRATCH_OF_POOL)
    return int(min(SCRATCH, free / _SLOTS))


def portions(column: CudaColumn, rows: Rows, scratch: Scratch) -> Iterator[tuple[npt.NDArray[np.int64], Any]]:
    """Places in ``rows`` of the texts of each launch, longest first, and the scratch of the longest of them."""
    lengths = column.offsets[rows + 1] - column.offsets[rows]
    order = np.argsort(-lengths, kind="stable")
    start, limit = 0, scratch_bytes()
    while start < len(order):
        own = scratch.new(int(lengths[order[start]]))
        each = sum(array.nbytes for array in _arrays(own))
        number = max(1, limit // max(each, 1))
        yield order[start : start + number], own
        start += number
