"""Errors of CUDA libraries, as they raise them: the real classes where they are installed, else their names and texts.

Texts are those of numba-cuda 0.30.4, cuda.core 1.2.2, CuPy 14.2.0, PyTorch 2.13, RMM and libcudf.
"""

from __future__ import annotations

import pickle

import pytest
import torch
from numba.cuda.cudadrv.driver import CudaAPIError

from dcurate.core.gpu_errors import is_gpu_out_of_memory, is_out_of_memory, poison_in
from tests.gpu_errors import OUT_OF_MEMORY, POISON, CUDAError, CUDARuntimeError


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=repr)
def test_every_library_s_out_of_memory_is_one_and_poisons_nothing(error: Exception) -> None:
    assert is_gpu_out_of_memory(error)
    assert is_out_of_memory(error)
    assert poison_in(error) is None


@pytest.mark.parametrize("error", POISON, ids=repr)
def test_every_library_s_sticky_error_is_one_and_no_want_of_memory(error: Exception) -> None:
    assert poison_in(error) is error
    assert not is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        CudaAPIError(1, "Call to cuLaunchKernel results in CUDA_ERROR_INVALID_VALUE"),
        CudaAPIError(701, "Call to cuLaunchKernel results in CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
        CUDAError("cudaErrorInvalidPitchValue: one or more of the pitch-related parameters is not acceptable"),
        CUDARuntimeError(98, "cudaErrorInvalidDeviceFunction: invalid device function"),
        torch.AcceleratorError("CUDA error: invalid argument"),
        RuntimeError("shapes do not match: an unknown error"),
        ValueError("cudaErrorIllegalAddress: a text about CUDA, out of memory"),
        OSError(28, "No space left on device"),
    ],
    ids=repr,
)
def test_other_errors_are_neither(error: Exception) -> None:
    assert poison_in(error) is None
    assert not is_out_of_memory(error)


@pytest.mark.parametrize(
    "error", [MemoryError(), MemoryError("std::bad_alloc"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_memory_of_the_host_is_not_that_of_a_gpu(error: Exception) -> None:
    assert is_out_of_memory(error)
    assert not is_gpu_out_of_memory(error)


def _looked_up_after(first: Exception) -> None:
    """Raise a KeyError while another error is handled, as code does that cleans up."""
    try:
        raise first
    except CudaAPIError:
        dict[str, int]()["scores"]


def test_a_sticky_error_is_found_below_those_that_it_led_to() -> None:
    first = CudaAPIError(700, "Call to cuMemcpyDtoH results in CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(KeyError) as raised:
        _looked_up_after(first)
    assert poison_in(raised.value) is first
    assert poison_in(ExceptionGroup("two", [ValueError(), raised.value])) is first
    assert poison_in(pickle.loads(pickle.dumps(first))) is not None
