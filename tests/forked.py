"""Run programs in processes that are forked from one that has loaded dcurate, which saves them seconds each.

Workers that such a program starts with Dask's method ``forkserver`` are forked from there, too.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import dask

from dcurate.cluster import fork_server

#: Has a program fork its Dask workers.
FORKS = {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver"}


def start_forked(command: Sequence[object], log: Path | None = None, **environment: str) -> BaseProcess:
    """Start ``[sys.executable, "-m", MODULE, ARGUMENT...]`` as a process of its own, which may write to a log."""
    _, option, *argv = map(str, command)
    assert option == "-m"
    fork_server.start()
    given = argv, {**os.environ, **environment}, log
    process = multiprocessing.get_context("forkserver").Process(target=_main, args=given)
    process.start()
    return process


@contextmanager
def forked(*command: str, log: Path, **environment: str) -> Iterator[BaseProcess]:
    """A ``dask scheduler`` or ``dask worker``, forked as its workers are, and ended with the test.

    Its workers are no children of it.
    """
    process = start_forked(command, log, **FORKS, **environment)
    try:
        yield process
    finally:
        process.terminate()
        process.join(10)
        if process.exitcode is None:
            process.kill()


def run_forked(command: Sequence[object], timeout_s: float = 240.0) -> int:
    """Run a command as `start_forked` does; return its exit code, negative if a signal ended it."""
    process = start_forked(command)
    process.join(timeout_s)
    code = process.exitcode
    if code is None:
        process.kill()
        raise AssertionError(f"{command} has not ended within {timeout_s:g} s")
    return code


def _main(argv: list[str], environment: Mapping[str, str], log: Path | None) -> None:
    if log is not None:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
    os.environ.clear()
    os.environ.update(environment)
    dask.config.refresh()
    sys.argv = argv
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
