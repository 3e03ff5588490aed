"""A stage that poisons the GPU of its worker once, for `benchmarks.device.faults`."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dcurate import DocumentBatch, ProcessingStage
from dcurate.core.stage.base import Spec


class CudaAPIError(Exception):
    """What numba raises after a kernel wrote out of bounds, where there is no GPU to do so."""

    code = 700


@dataclass
class PoisonOnce(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Pass batches on; the first in all workers writes out of bounds on the GPU.

    Args:
        marker: a file that says that it was done.
        cpu: raise the error instead.
    """

    marker: str
    cpu: bool = False
    name: str = "poison_once"

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        try:
            Path(self.marker).touch(exist_ok=False)
        except FileExistsError:
            return task
        if self.cpu:
            raise CudaAPIError(700, "Call to cuCtxSynchronize results in CUDA_ERROR_ILLEGAL_ADDRESS")
        cuda = importlib.import_module("numba.cuda")

        def wild(array: Any) -> None:
            array[(cuda.grid(1) + 1) << 40] = 1

        array = cuda.to_device(np.zeros(8, np.uint8))
        cuda.jit(wild)[1, 32](array)
        cuda.synchronize()
        return task
