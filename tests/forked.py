"""Run programs in processes that are forked from one that has loaded dcurate, which saves them seconds each."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess


def start_forked(command: Sequence[object]) -> BaseProcess:
    """Start ``[sys.executable, "-m", MODULE, ARGUMENT...]`` as a process of its own."""
    _, option, *argv = map(str, command)
    assert option == "-m"
    process = multiprocessing.get_context("forkserver").Process(target=_main, args=(argv, dict(os.environ)))
    process.start()
    return process


def run_forked(command: Sequence[object], timeout_s: float = 240.0) -> int:
    """Run a command as `start_forked` does; return its exit code, negative if a signal ended it."""
    process = start_forked(command)
    process.join(timeout_s)
    code = process.exitcode
    if code is None:
        process.kill()
        raise AssertionError(f"{command} has not ended within {timeout_s:g} s")
    return code


def _main(argv: list[str], environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = argv
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
