"""What to do when the memory of a GPU ran out: free what libraries keep for later, use less at a time, and wait.

Only libraries that are loaded are asked; none is imported. Untested on a GPU.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from dcurate.core.gpu_errors import is_out_of_memory
from dcurate.errors import ResourceError

R = TypeVar("R")

#: Of the memory of a GPU: the part that the driver keeps, and bytes of the CUDA contexts of its four processes.
_RESERVED, _CONTEXTS = 0.02, 4 * 500_000_000
#: Seconds to wait between tries when one item alone is too much: other processes of the GPU may free memory meanwhile.
WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0, 14.5)


def usable_memory(total: float, held: float = 0.0) -> float:
    """Memory of a GPU that workers may use, in bytes: without CUDA's own, and what other programs hold.

    Args:
        total: memory of the GPU.
        held: memory that processes hold which are no workers.

    Examples:
        >>> usable_memory(80e9, held=10e9) / 1e9
        66.4
    """
    return max(1.0, total * (1 - _RESERVED) - held - _CONTEXTS)


def free_gpu_memory() -> None:
    """Free the GPU memory that libraries loaded in this process hold without need.

    Freed are objects in reference cycles, what numba is to free later, unused blocks of CuPy and PyTorch, and, where
    cuDF spills, its columns: they move to the host.
    """
    gc.collect()
    for name, free in _FREES.items():
        library = sys.modules.get(name)
        if library is not None:
            with suppress(AttributeError):  # another thread has just begun to import it
                free(library)


def _free_numba(library: Any) -> None:
    if library.is_available() and not library.config.ENABLE_CUDASIM:
        library.current_context().deallocations.clear()


def _free_cupy(library: Any) -> None:
    if library.is_available():
        library.get_default_memory_pool().free_all_blocks()
        library.get_default_pinned_memory_pool().free_all_blocks()


def _free_torch(library: Any) -> None:
    if library.cuda.is_initialized():
        library.cuda.empty_cache()


def _free_cudf(library: Any) -> None:
    manager = library.get_global_manager()
    if manager is not None:
        manager.spill_to_device_limit(device_limit=0)


_FREES: dict[str, Callable[[Any], None]] = {
    "numba.cuda": _free_numba,
    "cudf.core.buffer.spill_manager": _free_cudf,
    "cupy": _free_cupy,
    "torch": _free_torch,
}


def wait_for_gpu() -> None:
    """Wait for all work that libraries of this process have given to GPUs, so that its errors are raised here.

    Raises:
        Exception: an error of CUDA.
    """
    torch, cupy, numba_cuda = (sys.modules.get(name) for name in ("torch", "cupy", "numba.cuda"))
    with suppress(AttributeError):  # another thread has just begun to import it
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        elif cupy is not None and cupy.is_available():
            cupy.cuda.Device().synchronize()
        elif numba_cuda is not None and numba_cuda.is_available():
            numba_cuda.synchronize()


def with_waits(
    function: Callable[[], R], free: Callable[[], object] = free_gpu_memory, waits: Sequence[float] | None = None
) -> R:
    """Call a function, again and again while memory runs out: free memory and wait before each try.

    Args:
        free: frees memory.
        waits: seconds before each try but the first two; `WAITS_S` if not given.

    Raises:
        Exception: any error of the function; that of the last try if memory ran out each time.

    Examples:
        >>> sizes = iter([MemoryError, MemoryError])
        >>> def embed():
        ...     for error in sizes:
        ...         raise error
        ...     return "embedded"
        >>> with_waits(embed, waits=[0.0])
        'embedded'
    """
    for wait in (0.0, *(WAITS_S if waits is None else waits)):
        try:
            return function()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        free()  # behind the `except`: its traceback holds what the failed call held
        time.sleep(wait)
    return function()


def in_parts(
    function: Callable[[Any], R],
    items: Any,
    free: Callable[[], object] = free_gpu_memory,
    waits: Sequence[float] | None = None,
) -> list[R]:
    """Call a function on items together; where memory runs out, on halves of them, down to single items.

    Args:
        function: called with slices of the items.
        items: a list or an array; all of them are covered, each once, in order.
        free: frees memory before the next try.
        waits: seconds between tries of a single item, as for `with_waits`.

    Raises:
        ResourceError: a single item is too much.
        Exception: any other error of the function.

    Examples:
        >>> def measure(texts):
        ...     if len(texts) > 2:
        ...         raise RuntimeError("cudaErrorMemoryAllocation: out of memory")
        ...     return texts
        >>> in_parts(measure, [1, 2, 3, 4, 5])
        [[1, 2], [3, 4], [5]]
    """
    answers: list[R] = []
    start, size = 0, len(items)
    while start < len(items):
        part = items[start : start + size]
        if len(part) == 1:
            answers.append(_alone(function, part, free, waits))
            start += 1
            continue
        try:
            answers.append(function(part))
            start += len(part)
            continue
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        size = len(part) // 2
        free()  # behind the `except`: its traceback holds what the failed call held
    return answers


def _alone(function: Callable[[Any], R], part: Any, free: Callable[[], object], waits: Sequence[float] | None) -> R:
    try:
        return with_waits(lambda: function(part), free, waits)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise too_full(error) from error


def too_full(error: BaseException, doing: str = "one row") -> ResourceError:
    """Return the error for GPU memory that does not suffice for the least there is to do.

    Args:
        doing: what there is to do, in words.

    Examples:
        >>> print(too_full(MemoryError("2 GiB")))
        one row: the memory of the GPU does not suffice (MemoryError: 2 GiB); use a GPU with more of it, give the \
stage a larger share (gpus=, gpu_memory_gb=), or end other programs on the GPU
    """
    text = " ".join(str(error).split())
    return ResourceError(
        f"{doing}: the memory of the GPU does not suffice ({type(error).__name__}: {text}); use a GPU with more of it, "
        "give the stage a larger share (gpus=, gpu_memory_gb=), or end other programs on the GPU"
    )
