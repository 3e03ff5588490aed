"""The process that workers of this machine are forked from: it has loaded what they need, which takes seconds."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import glob
from multiprocessing import forkserver
from typing import Any

#: Forked processes are not safe with the libraries of macOS, and Windows has none.
CAN_FORK = sys.platform == "linux"

#: What glibc does with memory that is freed. Dask has it give memory back at once, which also makes every allocation
#: above 128 KiB a fresh mapping: batches are made of such, and faulting their pages in again and again cost a sixth of
#: the CPU of a filter run.
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": str(256 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
#: The environment of workers as they start, unless Dask's configuration has another.
USUAL = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **ALLOCATOR}

#: Dask's seed of hashes for all workers.
_SEED = {"PYTHONHASHSEED": "6640"}
#: Files in the working directory are not imported instead of libraries. Workers do not inherit this value.
SAFE_PATH = "while-loading"
#: Set meanwhile by dcurate, where the package's folder is read-only, and by Dask in each process for itself.
_OWN = frozenset({"NUMBA_CACHE_DIR", "__DASK_PARENT_PID"})
_started_with: dict[str, str] = {}


def start(environment: Mapping[str, Any] = USUAL) -> bool:
    """Start the process, unless it runs; returns at once, while it loads. It ends with this process.

    Args:
        environment: variables to set before it starts, as libraries read some only then.

    Returns:
        Whether workers can be forked from it: not if it was started with other variables, which they would have, or
        if it cannot be started, as where the path of the temporary directory is too long for a socket.
    """
    if not CAN_FORK:
        return False
    variables = {name: str(value) for name, value in environment.items()} | _SEED
    full_environment = {name: value for name, value in {**os.environ, **variables}.items() if name not in _OWN}
    if _started_with and _started_with != full_environment:
        return False
    _started_with.update(full_environment)
    multiprocessing.get_context("forkserver").set_forkserver_preload(["dcurate.cluster.preloaded"])
    meanwhile = {"PYTHONSAFEPATH": os.environ.get("PYTHONSAFEPATH") or SAFE_PATH, **variables}
    before = {name: os.environ.get(name) for name in meanwhile}
    os.environ.update(meanwhile)
    try:
        forkserver.ensure_running()
    except OSError:
        return False
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return True


def _stop() -> None:
    process = vars(forkserver)["_forkserver"]
    pid = vars(process).get("_forkserver_pid")
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _started_with.clear()


@contextmanager
def started_ahead() -> Iterator[None]:
    """Start the process while this one still finds out what to do; end it at once if that fails."""
    started = not glob("/dev/nvidia[0-9]*") and start()  # workers are not forked where there are GPUs
    try:
        yield
    except BaseException:
        if started:
            _stop()
        raise
