"""Have workers of dask-cuda count results that are on a GPU as memory of the GPU."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from dcurate.core.batch import Batch
from dcurate.engine.worker.operator_task import TaskResult


def register_results() -> None:
    """Have dask-cuda see the frames in results, in a worker that it started; do nothing in others.

    It moves frames on a GPU to the host where there are too many of them, unless cuDF itself spills. In objects of
    other libraries it does not see frames, and would count them as memory of the host.
    """
    if "dask_cuda" in sys.modules:
        for name in ("is_device_object", "is_spillable_object"):
            _see_frames(getattr(importlib.import_module(f"dask_cuda.{name}"), name))


def _see_frames(holds: Any) -> None:
    """Register results with a function of dask-cuda that says whether an object is of a sort.

    Args:
        holds: dispatches on types, as Dask's `Dispatch` does.
    """

    def in_batch(batch: Any) -> bool:
        return bool(holds(getattr(batch, "data", None)))

    def in_result(result: TaskResult) -> bool:
        return any(in_batch(batch) for batches in result.outputs for batch in batches)

    holds.register(Batch, in_batch)
    holds.register(TaskResult, in_result)
