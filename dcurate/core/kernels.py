"""Kernels that stages use, as the engine sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Kernels:
    """Kernels that are compiled together, at their first use or before.

    Args:
        name: the same for the same kernels.
        load: loads them, and compiles those that are not kept on this machine; it can be pickled.
        missing: returns how many are not.
        seconds: how long all of them take to compile, roughly.
        group: name of a group of kernels that call the same functions, which one process compiles once for all of them.
    """

    name: str
    load: Callable[[], object]
    missing: Callable[[], int]
    seconds: float
    group: str = ""
