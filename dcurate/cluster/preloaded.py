"""What worker processes have loaded as they start: the process that they are forked from imports this module."""

from __future__ import annotations

import gc
import importlib
import os
import signal
from contextlib import suppress
from typing import Any

from dcurate.cluster.fork_server import SAFE_PATH

#: Of what every worker needs. None of them starts a thread, which a fork would lose, or touches a GPU.
MODULES = (
    "distributed",
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
    "dcurate.engine.dask.scheduler_plugin",
    "dcurate.engine.dask.worker_plugin",
    "dcurate.io.jsonl_reader",
    "dcurate.io.jsonl_writer",
    "dcurate.text.thresholds",
)


def load() -> None:
    """Import the modules, and have numba load the half of itself that it loads with the first kernel.

    No kernel is compiled here, where workers wait for it: they compile several at once.
    """
    if os.environ.get("PYTHONSAFEPATH") == SAFE_PATH:
        del os.environ["PYTHONSAFEPATH"]
    for module in MODULES:
        importlib.import_module(module)
    _load_numba_without_scipy()
    target: Any = importlib.import_module("numba.core.registry").cpu_target
    target.typing_context.refresh()
    target.target_context.refresh()
    nesting = importlib.import_module("dcurate.kernels.nesting")
    if not nesting.KERNELS.missing():
        nesting.KERNELS.load()
    gc.freeze()  # no worker looks for garbage in all this, which would also copy its pages


def _load_numba_without_scipy() -> None:
    """Have numba import ``scipy.linalg`` with the first kernel that needs it: few do, and it takes a fifth of a second.

    Numba imports it with the first kernel of any kind, to learn whether it is installed. It asks again as it compiles
    a product of matrices, and says then if it is not.
    """
    linalg: Any = importlib.import_module("numba.np.linalg")
    ensure_blas = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        arrays: Any = importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = ensure_blas
    arrays.ensure_blas = ensure_blas


_before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the driver acts
with suppress(Exception):  # of any library; a worker imports what is not there, and reports why that fails
    load()
signal.signal(signal.SIGINT, _before)
