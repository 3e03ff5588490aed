"""Announce kernels that numba compiles at their first use."""

from __future__ import annotations

import sys
import threading
from typing import Any

from numba.core import event
from numba.core.dispatcher import Dispatcher

from dcurate.core.first_use import announce, is_heard

#: Seconds that a kernel takes to compile on an idle machine, roughly.
_SECONDS = 1.5

_here = threading.local()


class FirstUse(event.Listener):
    """Hears when numba compiles a function: kernels count, and not the functions that they call."""

    def on_start(self, event: Any) -> None:
        depth = getattr(_here, "depth", 0)
        _here.depth = depth + 1
        if not depth and is_heard():
            kernels = _missing_beside(event.data.get("dispatcher"))
            announce(kernels, _SECONDS * kernels)

    def on_end(self, event: Any) -> None:
        _here.depth = max(0, getattr(_here, "depth", 0) - 1)


def _missing_beside(kernel: Any) -> int:
    """Return how many kernels of the module of a kernel are not compiled, at least that one."""
    from dcurate.kernels.kept import missing  # noqa: PLC0415 - it needs kernels

    name = getattr(getattr(kernel, "py_func", None), "__module__", "")
    names = vars(sys.modules[name]) if name in sys.modules else {}
    functions = [function for function in names.values() if isinstance(function, Dispatcher)]
    return max(1, missing(lambda: functions))
