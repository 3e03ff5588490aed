"""What worker processes have loaded as they start: the process that they are forked from imports this module."""

from __future__ import annotations

import gc
import importlib
import os
import signal
from contextlib import suppress

from dcurate.cluster.fork_server import SAFE_PATH

#: Of what every worker needs. None of them starts a thread, which a fork would lose, or touches a GPU.
MODULES = (
    "distributed",
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
    "dcurate.engine.dask.scheduler_plugin",
    "dcurate.engine.dask.worker_plugin",
    "dcurate.io.jsonl",
    "dcurate.text.thresholds",
)


def load() -> None:
    """Import the modules, and have numba load the half of itself that it loads with the first kernel."""
    if os.environ.get("PYTHONSAFEPATH") == SAFE_PATH:
        del os.environ["PYTHONSAFEPATH"]
    for module in MODULES:
        importlib.import_module(module)
    nesting = importlib.import_module("dcurate.kernels.nesting")
    nesting.line_ends(b"{}\n", 9)
    gc.freeze()  # no worker looks for garbage in all this, which would also copy its pages


_before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the driver acts
with suppress(Exception):  # of any library; a worker imports what is not there, and reports why that fails
    load()
signal.signal(signal.SIGINT, _before)
