"""Recognize errors of CUDA libraries: memory that ran out, and a GPU that the process cannot use any more.

After an illegal address or a failed launch every later CUDA call of the process fails with the same error, whatever
its input: CUDA calls it sticky. Only a new process helps. Libraries are not imported: errors are known by the names of
their classes, their codes and their texts, as numba-cuda 0.30, cuda.core 1.2, CuPy 14, PyTorch 2.13, RMM and libcudf
26.10 make them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dcurate.redaction import text_of

#: Where classes of errors keep the code of the CUDA driver or runtime.
_CODES = {"CudaAPIError": "code", "AcceleratorError": "error_code", "CUDARuntimeError": "status"}
_CODES |= {"CUDADriverError": "status"}
#: Classes of CUDA libraries that are no RuntimeError.
_OWN = {"CudaAPIError", "CudaDriverError", "CUDAError"}
#: The code of memory that ran out: ``CUDA_ERROR_OUT_OF_MEMORY`` and ``cudaErrorMemoryAllocation``.
_NO_MEMORY = 2
#: Codes that CUDA documents as fatal to the process, with `CUDA_ERROR_UNKNOWN`.
_STICKY = {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999}
#: The start of a text in which a library names the error; a traceback of C++ may follow.
_NAMED = 2000

#: Names of errors, in lower case without underscores, so that those of driver and runtime are one.
_STICKY_NAME = re.compile(
    r"cudaerror(eccuncorrectable|nvlinkuncorrectable|contained|illegaladdress|launchtimeout|contextisdestroyed|assert"
    r"|hardwarestackerror|illegalinstruction|misalignedaddress|invalidaddressspace|invalidpc|launchfail(ed|ure)"
    r"|tensormemoryleak|unknown)\b"
    r"|statusexecutionfailed"  # of cuBLAS, cuDNN and others, which say no more
    r"|fatal cuda error"
)
#: Texts of `cudaGetErrorString`, where a library names no code.
_STICKY_TEXT = re.compile(
    r"cuda.{0,40}(illegal memory access|illegal instruction|misaligned address|device-side assert|launch failure"
    r"|launch timed out|hardware stack error|invalid program counter|context is destroyed|error: unknown error"
    r"|uncorrectable (ecc|nvlink) error|on global/shared address space)"
)
_GPU_MEMORY = re.compile(
    r"cudaerror(outofmemory|memoryallocation)\b|cuda.{0,40}out of memory|hiperroroutofmemory|outofmemory:"
    r"|maximum pool size exceeded|resourceexhausted|(status|cufft)alloc(ation)?failed"
)
_MEMORY = re.compile(r"out of memory|outofmemory|can(no|')t allocate memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception of Python, PyTorch, CuPy, numba, cuda.core, RMM, libcudf or XLA says that memory ran out.

    Examples:
        >>> is_out_of_memory(RuntimeError("CUDA error: out of memory")), is_out_of_memory(ValueError("out of memory"))
        (True, False)
    """
    if isinstance(error, MemoryError) or is_gpu_out_of_memory(error):
        return True
    return _may_be_cuda(error) and _MEMORY.search(_text(error)) is not None


def is_gpu_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that the memory of a GPU ran out, and not that of the host.

    Examples:
        >>> is_gpu_out_of_memory(RuntimeError("cudaErrorMemoryAllocation: out of memory"))
        True
        >>> is_gpu_out_of_memory(MemoryError()), is_gpu_out_of_memory(RuntimeError("can't allocate memory"))
        (False, False)
    """
    if "OutOfMemoryError" in _kinds(error) or _code(error) == _NO_MEMORY:
        return True
    return (isinstance(error, MemoryError) or _may_be_cuda(error)) and _GPU_MEMORY.search(_text(error)) is not None


def poison_in(error: BaseException) -> BaseException | None:
    """Return the sticky CUDA error that an exception is, or that led to it; None if there is none.

    What was caught on the way counts, too: the process cannot use its GPU any more, even if the call returned.

    Examples:
        >>> poison_in(RuntimeError("CUDA error: device-side assert triggered"))
        RuntimeError('CUDA error: device-side assert triggered')
        >>> poison_in(RuntimeError("CUDA error: invalid argument")) is None
        True
    """
    return next(filter(_is_sticky, _chain(error)), None)


def _is_sticky(error: BaseException) -> bool:
    if _code(error) in _STICKY:
        return True
    if not _may_be_cuda(error):
        return False
    text = _text(error)
    return _STICKY_NAME.search(text) is not None or _STICKY_TEXT.search(text) is not None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and all that led to it, each once."""
    known: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in known:
            continue
        known.add(id(link))
        yield link
        waiting += [link.__cause__, link.__context__]
        waiting += link.exceptions if isinstance(link, BaseExceptionGroup) else ()


def _kinds(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _may_be_cuda(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) or not _OWN.isdisjoint(_kinds(error))


def _code(error: BaseException) -> int | None:
    for kind in _CODES.keys() & _kinds(error):
        code = getattr(error, _CODES[kind], None)
        return None if code is None else int(code)
    return None


def _text(error: BaseException) -> str:
    return text_of(error, _NAMED).lower().replace("_", "")
