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
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import config

from dcurate.core.gpu_memory import in_parts
from dcurate.core.slot_gpus import slot_has_gpu
from dcurate.errors import ResourceError
from dcurate.kernels.cuda_compiler import numba_refuses, stored, tables_in_global_memory
from dcurate.kernels.cuda_copies import lane, to_gpu, to_host
from dcurate.kernels.cuda_scratch import (
    NO_SCRATCH,
    Scratch,
    ScratchPlan,
    arrays,
    as_allocated,
    bytes_of,
    form_of,
    nested,
    own_scratch,
    planned,
    rebuilt,
    size_of_thread,
)
from dcurate.kernels.layout import Ints, Offsets, Rows, frozen

#: Threads of a block: a warp, so that few texts spread over as many multiprocessors as can be; threads share nothing.
_FEW = 32
#: The same where there are more texts than 132 multiprocessors can have in their 32 blocks each.
_MANY, _MANY_TEXTS = 128, 132 * 32 * 32
#: GPU memory for scratch arrays per launch, in bytes, at most; the remaining texts wait for the next launch.
SCRATCH = 2**33
#: The same where the free memory is not known: numba takes it from a pool of RMM.
_SCRATCH_OF_POOL = 2**30
#: Texts of more bytes may be measured by a core while the GPU measures the others.
LONG = 2**16
#: Threads of a GPU that read as much as a core in the same time. Estimated: a thread reads 1 to 5 MB/s.
_THREADS_OF_A_CORE = 64
#: Slots that a GPU may have: four processes of four threads. A launch uses one part of its free memory.
_SLOTS = 16
#: A compiled function of (data, span, tables, scratch, out), which measures one text: see `dcurate.kernels.signal`.
Measure: TypeAlias = Callable[..., None]


class CudaColumn(NamedTuple):
    """Texts on a GPU: like `TextColumn`, with the offsets on both sides.

    Args:
        offsets: on the host, int64; they need not begin at 0.
        starts: the same on the GPU.
        data: UTF-8 on the GPU.
        host: the same on the host, if it is there: a core measures the longest texts meanwhile.
    """

    offsets: Offsets
    starts: Any
    data: Any
    host: npt.NDArray[Any] | None = None


#: numba.cuda, imported on first use, since most processes do not need it. It is a global of the module because the
#: simulator replaces that while a kernel runs.
cuda: Any = None


def _cuda() -> Any:
    module = importlib.import_module("numba.cuda")
    if cuda is None:
        # Few texts leave most of a GPU idle; that is not an error of the user.
        vars(config)["CUDA_LOW_OCCUPANCY_WARNINGS"] = 0
        tables_in_global_memory()
        globals()["cuda"] = module
    return module


def usable() -> bool:
    """Whether numba finds a GPU, or simulates one.

    Raises:
        ResourceError: the slot or the process was given a GPU, and numba cannot use it; or the slot was given another
            than the first of its process.
    """
    has_gpu = slot_has_gpu()
    if _cuda().is_available():
        if refusal := numba_refuses():
            raise ResourceError(refusal)
        return True
    cards = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if cards in ("", "-1", "NoDevFiles"):
        if not has_gpu:
            return False
        reason = "the slot was given a GPU"
    else:
        reason = f"CUDA_VISIBLE_DEVICES={cards} assigns this process a GPU"
    raise ResourceError(
        f"{reason}, but numba cannot use it; "
        "install dcurate[cuda13], and check the CUDA section of `python -m numba -s`"
    )


def on_gpu(offsets: Offsets, data: Any) -> CudaColumn:
    """Copy texts to the GPU: the span of NumPy bytes that the offsets cover; device arrays are used in place.

    Args:
        offsets: on the host.
        data: a NumPy array, or an object with ``__cuda_array_interface__``.
    """
    host = None
    if isinstance(data, np.ndarray):
        begin, end = int(offsets[0]), int(offsets[-1])
        offsets, host = offsets - begin, frozen(data[begin:end], data.dtype)
        data = copied(host)
    else:
        data = _cuda().as_cuda_array(data).view(np.uint8)
    offsets = frozen(offsets, np.int64)
    return CudaColumn(offsets, copied(offsets), data, host)


def on_host(view: Any, dtype: Any) -> npt.NDArray[Any]:
    """Device bytes as a host array of that type.

    Args:
        view: an object with ``__cuda_array_interface__``.
    """
    return fetched(_cuda().as_cuda_array(view).view(dtype))


def copied(array: npt.NDArray[Any]) -> Any:
    """An array on the GPU."""
    return to_gpu(_cuda(), frozen(array, array.dtype))


def fetched(array: Any) -> npt.NDArray[Any]:
    """A device array on the host, when the kernels of this thread have written it."""
    return to_host(_cuda(), array)


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
    return rebuilt(tables, map(tables_on_gpu, tables)) if isinstance(tables, tuple) else tables


def scratch_on_gpu(plan: ScratchPlan) -> Any:
    """Allocate the scratch of a launch, nested as that of one text."""
    made = zip(plan.items, arrays(plan.like), strict=True)
    return nested(plan.like, (_cuda().device_array((items, *array.shape[1:]), array.dtype) for items, array in made))


class Kernel:
    """A kernel for a GPU. One thread at a time launches it, so that it is compiled once."""

    def __init__(self, jitted: Any) -> None:
        self._jitted = jitted
        self._lock = threading.Lock()

    def launch(self, threads: int, *arguments: Any) -> None:
        """Queue it on the stream of this thread, for a number of texts."""
        block = _MANY if threads > _MANY_TEXTS else _FEW
        with self._lock:
            self._jitted[-(-threads // block), block, lane(_cuda()).stream](*arguments)


_COMPILING = threading.RLock()


def compiled(measure: Measure, form: Any, reset: Callable[[Any], None]) -> Kernel:
    """The kernel that calls a function for each text, one thread per text; the same for all threads of the process.

    Args:
        measure: see `Measure`.
        form: layout of the scratch.
        reset: see `Scratch`.
    """
    with _COMPILING:
        return _compiled(measure, form, reset)


@cache
def _compiled(measure: Measure, form: Any, reset: Callable[[Any], None]) -> Kernel:
    scratch_of = own_scratch((form,))

    def kernel(layout: Any, work: Any, tables: Any, scratch: Any, out: Any) -> None:
        thread = cuda.grid(1)
        rows, sizes = work
        if thread < rows.size:
            starts, data = layout
            row = rows[thread]
            (mine,) = scratch_of((scratch,), (sizes, size_of_thread(sizes, thread), thread))
            reset(mine)
            measure(data, (starts[row], starts[row + 1]), tables, mine, out[thread])

    kernel.__name__ = f"{measure.__module__.rpartition('.')[2]}_{measure.__name__}"
    return Kernel(stored(_cuda().jit(kernel), measure, form, reset))


class TextFunction(NamedTuple):
    """A function that measures one text, and what it needs.

    Args:
        measure: see `Measure`.
        scratch: memory that it works in.
        on_cpu: returns the same results for some of the rows, measured on the CPU; used for the longest, while the GPU
            measures the others, if the column has its data on the host.
        resumes: whether it goes on from the results that it is given.
    """

    measure: Measure
    scratch: Scratch = NO_SCRATCH
    on_cpu: Callable[[Rows], npt.NDArray[Any]] | None = None
    resumes: bool = False


def launch(function: TextFunction, column: CudaColumn, rows: Rows, tables: Any, *, out: npt.NDArray[Any]) -> None:
    """Write into ``out`` the results of a function for each of the texts numbered ``rows``.

    Texts are sorted by length, longest first, so that threads that run together have as much to do. A launch takes as
    many texts as their scratch fits into `scratch_bytes`, and half as many where memory runs out.

    Args:
        tables: what all texts share, with its arrays on the GPU.
        out: on the host, of shape (rows, ...); begins as zeros on the GPU, unless the function resumes.

    Raises:
        ResourceError: the memory of the GPU does not suffice for one text.
    """
    measure, scratch, on_cpu, resumes = function
    lengths = column.offsets[rows + 1] - column.offsets[rows]
    order = np.argsort(-lengths, kind="stable")
    beside = 0
    if on_cpu is not None and column.host is not None:
        beside = texts_for_cpu(lengths[order] * column.host.itemsize)
    waiting = [order[:beside]] if beside else []

    def measured(places: npt.NDArray[np.int64]) -> None:
        plan = planned(lengths[places], scratch)
        begun = out[places] if resumes else np.zeros((len(places), *out.shape[1:]), out.dtype)
        memory = Memory(tables, scratch_on_gpu(plan), copied(plan.sizes), copied(begun))
        run(measure, (column.starts, column.data), rows[places], memory, scratch.reset)
        if waiting and on_cpu is not None:
            cpu_places = waiting.pop()
            out[cpu_places] = on_cpu(rows[cpu_places])
        out[places] = fetched(memory.out)

    for places in portions(lengths, order[beside:], scratch):
        in_parts(measured, places)
    if waiting and on_cpu is not None:
        out[waiting[0]] = on_cpu(rows[waiting[0]])


def texts_for_cpu(sizes: Ints) -> int:
    """The number of texts that a core is to measure while a GPU measures the others: the longest.

    A thread of a GPU reads a fraction of what a core reads in the same time. Of the texts above `LONG` bytes the core
    takes as many as make the slower of the two as fast as can be.

    Args:
        sizes: bytes of the texts, in descending order.

    Examples:
        >>> texts_for_cpu(np.array([9_000_000, 70_000, 40_000])), texts_for_cpu(np.array([2**17] * 100))
        (1, 0)
    """
    long = int((sizes > LONG).sum())
    core = np.cumsum(np.append(0, sizes[:long])) / _THREADS_OF_A_CORE
    return int(np.argmin(np.maximum(core, np.append(sizes, 0)[: long + 1])))


class Memory(NamedTuple):
    """What a kernel reads and writes besides texts, all on the GPU.

    Args:
        tables: what all texts share.
        scratch: scratch memory of all threads.
        sizes: table of the part of it that each thread has, see `ScratchPlan`.
        out: results, of shape (threads, ...).
    """

    tables: Any
    scratch: Any
    sizes: Any
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
    kernel = compiled(measure, form_of(memory.scratch), reset)
    work = copied(rows.astype(np.int64)), memory.sizes
    kernel.launch(len(rows), layout, work, memory.tables, memory.scratch, memory.out)


def scratch_bytes() -> int:
    """GPU memory that a launch may use for scratch arrays, in bytes: a share of what is free now, as for one slot."""
    try:
        free = _cuda().current_context().get_memory_info().free
    except NotImplementedError:  # of RMM, whose pool has taken the memory
        return min(SCRATCH, _SCRATCH_OF_POOL)
    return int(min(SCRATCH, free / _SLOTS))


def portions(lengths: Ints, order: Ints, scratch: Scratch) -> Iterator[Ints]:
    """Yield the texts of each launch: as many as their scratch fits into `scratch_bytes`, at least one.

    Args:
        lengths: lengths of all texts.
        order: numbers of those to launch for, the longest first.
        scratch: what a text needs.
    """
    used = np.cumsum(bytes_of(lengths[order], scratch))
    start, limit = 0, scratch_bytes()
    while start < len(order):
        before = used[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(used, before + limit, "right")))
        yield order[start:end]
        start = end
