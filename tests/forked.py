"""Run programs in processes that are forked from one that has loaded dcurate, which saves them seconds each.

Workers that such a program starts with Dask's method ``forkserver``, as `LocalCluster` does, are forked from a copy of
that process.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

import dask

from dcurate.cluster import fork_server

#: Has a program fork its Dask workers.
FORKS = {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver"}


def start_forked(command: Sequence[object], log: Path | None = None, **environment: str) -> BaseProcess:
    """Start ``[sys.executable, "-m", MODULE, ARGUMENT...]`` as a process of its own, which may write to a log."""
    return _start(command, {**os.environ, **environment}, outputs=(log, log))


def _start(
    command: Sequence[object],
    environment: Mapping[str, str],
    outputs: tuple[Path | None, Path | None],
    folder: Path | None = None,
) -> BaseProcess:
    _, option, *argv = map(str, command)
    assert option == "-m"
    fork_server.start()
    given = argv, environment, outputs, folder
    process = multiprocessing.get_context("forkserver").Process(target=_main, args=given)
    process.start()
    return process


@contextmanager
def forked(*command: str, log: Path, **environment: str) -> Iterator[BaseProcess]:
    """A ``dask scheduler`` or ``dask worker``, forked as its workers are, and ended with the test."""
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
    return _ended(start_forked(command), command, timeout_s)


def finished(
    command: Sequence[object], cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout_s: float = 240.0
) -> CompletedProcess[str]:
    """Run a command as `start_forked` does, in a folder; return what `subprocess.run` returns of one that prints text.

    The folder is the first where it looks for modules, as with ``python -m``.
    """
    with TemporaryDirectory() as printed:
        out, err = Path(printed, "out"), Path(printed, "err")
        process = _start(command, dict(os.environ if env is None else env), (out, err), cwd or Path.cwd())
        code = _ended(process, command, timeout_s)
        return CompletedProcess([*map(str, command)], code, out.read_text("utf-8"), err.read_text("utf-8"))


def _ended(process: BaseProcess, command: Sequence[object], timeout_s: float) -> int:
    process.join(timeout_s)
    code = process.exitcode
    if code is None:
        process.kill()
        raise AssertionError(f"{command} has not ended within {timeout_s:g} s")
    return code


def _main(
    argv: list[str], environment: Mapping[str, str], outputs: tuple[Path | None, Path | None], folder: Path | None
) -> None:
    for descriptor, output in enumerate(outputs, start=1):
        if output is not None:
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(file, descriptor)
            os.close(file)
    if folder is not None:
        os.chdir(folder)
        sys.path.insert(0, str(folder))
    os.environ.clear()
    os.environ.update(environment)
    dask.config.refresh()
    _fork_own_server()
    sys.argv = argv
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


def _fork_own_server() -> None:
    """Fork the fork server of this process, which would else be a program that loads all modules again."""
    resource_tracker.ensure_running()
    address = os.path.join(util.get_temp_dir(), f"server-{os.getpid()}")
    Path(address).unlink(missing_ok=True)  # of a process that was killed, if it had the same id
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        # It ends when nobody has the other end of this pipe any more.
        alive_r, alive_w = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.close(alive_w)
                os.environ.update(fork_server.USUAL)
                forkserver.main(listener.detach(), alive_r, [])
            finally:
                os._exit(0)
    os.close(alive_r)
    vars(vars(forkserver)["_forkserver"]).update(
        _forkserver_address=address, _forkserver_alive_fd=alive_w, _forkserver_pid=pid
    )
