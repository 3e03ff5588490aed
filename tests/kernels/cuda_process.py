"""Processes in which numba simulates CUDA: they read texts, a JSON list a line, and write what each kernel finds."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dcurate.kernels import cuda, cuda_dedup, cuda_scratch
from dcurate.kernels.cuda_scratch import ScratchPlan

#: numba's simulator runs kernels as Python; so must everything that they call.
SIMULATED = {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
#: Bytes of scratch: few, so that texts go to the simulated GPU in several launches.
SCRATCH = 2**19
#: Bytes of scratch that the simulated GPU has memory for, unless it is of one thread.
LARGEST = 2**13


class CudaAPIError(Exception):
    """As numba's is called, and no RuntimeError, either: memory ran out."""

    code = 2


class Simulated:
    """A process that was started by `simulated_cuda`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, texts: Sequence[str]) -> dict[str, Any]:
        """What the module's kernels find there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(texts)) + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))


@contextmanager
def simulated_cuda(module: str) -> Iterator[Simulated]:
    """Start such a process, and end it.

    Args:
        module: what it runs; that calls `serve`.
    """
    command = [sys.executable, "-m", module]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env={**os.environ, **SIMULATED}, **pipes) as process:
        yield Simulated(process)


def _fill_scratch() -> None:
    """Have new arrays hold what no kernel may count on, as memory of a GPU does, and too much scratch not fit there."""
    numba_cuda = vars(importlib.import_module("numba.cuda"))
    new = numba_cuda["device_array"]

    def filled(*given: Any) -> Any:
        array = new(*given)
        if array.size:
            array.copy_to_device(np.frombuffer(b"\xa5" * array.nbytes, array.dtype).reshape(array.shape))
        return array

    numba_cuda["device_array"] = filled
    allocated = cuda.scratch_on_gpu

    def limited(plan: ScratchPlan) -> Any:
        like = zip(plan.items, cuda_scratch.arrays(plan.like), strict=True)
        several = len(plan.sizes) > 1 or plan.items[0] > plan.sizes[0, 2]
        if several and sum(items * one[:1].nbytes for items, one in like) > LARGEST:
            raise CudaAPIError(2, "Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")
        return allocated(plan)

    vars(cuda)["scratch_on_gpu"] = vars(cuda_dedup)["scratch_on_gpu"] = limited


def serve(by_cuda: Callable[[Sequence[str]], dict[str, Any]]) -> None:
    """Answer every line of the standard input with what the function finds in its texts."""
    warnings.simplefilter("ignore", RuntimeWarning)  # numbers that wrap around
    cuda.SCRATCH = SCRATCH
    _fill_scratch()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(by_cuda(json.loads(line))) + "\n")
        sys.stdout.flush()
