"""The GPUs of the slot that runs in this thread, for code below stages that is not given them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from dcurate.errors import ResourceError

#: Names the simulated GPUs of this process: stages see no CUDA device there.
SIMULATED = "DCURATE_SIMULATED_GPUS"

_given: ContextVar[tuple[int, ...]] = ContextVar("gpus of the slot", default=())


@contextmanager
def given_gpus(gpus: Sequence[int]) -> Iterator[None]:
    """Context of a slot that was given GPUs, by their CUDA indices.

    Examples:
        >>> with given_gpus((0, 1)):
        ...     slot_has_gpu()
        True
        >>> slot_has_gpu()
        False
    """
    token = _given.set(tuple(gpus))
    try:
        yield
    finally:
        _given.reset(token)


def slot_has_gpu() -> bool:
    """Whether the slot was given a GPU that is not simulated.

    Raises:
        ResourceError: it is not the first GPU of the process, the only one that kernels, CuPy and cuDF use here.
    """
    gpus = _given.get()
    if not gpus or os.environ.get(SIMULATED):
        return False
    if gpus[0] != 0:
        raise ResourceError(
            f"a slot was given GPU {gpus[0]} of its process, counted from 0, and kernels, CuPy and cuDF use the first "
            "one; start a worker process for each GPU, with that GPU first in CUDA_VISIBLE_DEVICES"
        )
    return True
