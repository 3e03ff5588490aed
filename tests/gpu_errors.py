"""Errors of CUDA libraries. Those of numba and PyTorch are the real classes, which need no GPU to be made."""

from __future__ import annotations

import torch
from numba.cuda.cudadrv.driver import CudaAPIError


class CUDAError(Exception):
    """As ``cuda.core._utils.cuda_utils.CUDAError``."""


class CUDARuntimeError(RuntimeError):
    """As ``cupy_backends.cuda.api.runtime.CUDARuntimeError``."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    def __reduce__(self) -> tuple[type[Exception], tuple[int, str]]:
        return type(self), (self.status, str(self))


class CUDADriverError(CUDARuntimeError):
    """As ``cupy_backends.cuda.api.driver.CUDADriverError``."""


class OutOfMemoryError(MemoryError):
    """As ``cupy.cuda.memory.OutOfMemoryError``."""


_ILLEGAL = "an illegal memory access was encountered"
_PARTS = "CUDA kernel errors might be asynchronously reported at some other API call"

OUT_OF_MEMORY: list[Exception] = [
    CudaAPIError(2, "Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"),
    CUDAError("CUDA_ERROR_OUT_OF_MEMORY: The API call failed because it was unable to allocate enough memory"),
    CUDAError("cudaErrorMemoryAllocation: The API call failed because it was unable to allocate enough memory"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB"),
    torch.AcceleratorError(f"CUDA error: out of memory\n{_PARTS}"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    OutOfMemoryError("Out of memory allocating 1,073,741,824 bytes (allocated so far: 0 bytes)."),
    CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory"),
    CUDADriverError(2, "CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    MemoryError(
        "std::bad_alloc: out_of_memory: CUDA error (failed to allocate 8589934592 bytes) at: "
        "/opt/rmm/mr/cuda_memory_resource.hpp:62: cudaErrorMemoryAllocation out of memory"
    ),
    MemoryError("std::bad_alloc: out_of_memory: RMM failure at:/opt/rmm/pool_memory_resource.hpp:276: Maximum pool "),
    RuntimeError("parallel_for failed: cudaErrorMemoryAllocation: out of memory"),
    RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes."),
    RuntimeError("Triton Error [CUDA]: out of memory"),
]

POISON: list[Exception] = [
    CudaAPIError(700, "Call to cuMemcpyDtoH results in CUDA_ERROR_ILLEGAL_ADDRESS"),
    CudaAPIError(719, "Call to cuCtxSynchronize results in CUDA_ERROR_LAUNCH_FAILED"),
    CUDAError("CUDA_ERROR_MISALIGNED_ADDRESS: The device encountered a load or store instruction on a memory address"),
    CUDAError("cudaErrorIllegalAddress: The device encountered a load or store instruction on an invalid memory"),
    torch.AcceleratorError(f"CUDA error: device-side assert triggered\n{_PARTS}"),
    torch.AcceleratorError(f"CUDA error: unspecified launch failure\n{_PARTS}"),
    RuntimeError("CUDA error: uncorrectable ECC error encountered"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k)`"),
    CUDARuntimeError(700, f"cudaErrorIllegalAddress: {_ILLEGAL}"),
    CUDADriverError(719, "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"),
    RuntimeError(f"CUDA error at: /opt/rmm/cuda_stream_view.cpp:45: cudaErrorIllegalAddress {_ILLEGAL}"),
    RuntimeError(f"Fatal CUDA error encountered at: /opt/cudf/column.cu:84: 700 cudaErrorIllegalAddress {_ILLEGAL}"),
    RuntimeError(f"for_each: failed to synchronize: cudaErrorIllegalAddress: {_ILLEGAL}"),
    RuntimeError(f"Triton Error [CUDA]: {_ILLEGAL}"),
]
