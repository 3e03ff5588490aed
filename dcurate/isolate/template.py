"""Start child processes of a sandbox in milliseconds: a process that has loaded the function forks them.

A process that loads NumPy, numba and a decoder takes a second of CPU to start. A file that kills its child costs two
starts, so that a few hostile files would cost more than hundreds of good ones.
"""

from __future__ import annotations

import gc
import importlib
import os
import re
import signal
import socket
import struct
import subprocess
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from typing import NamedTuple, Protocol

from dcurate.isolate.child import main
from dcurate.isolate.process import start
from dcurate.redaction import is_secret, without_secrets

#: A request: what to do, a process, and options of wait4. An answer: process, status, CPU-seconds, peak KiB of memory.
REQUEST, ANSWER = struct.Struct("<BiI"), struct.Struct("<qqdq")
FORK, WAIT = 0, 1
#: Seconds for the function to load.
_START_S = 300.0
#: Requests, answers, the lifeline, and standard error.
_ENDS = 4
_HERE = "dcurate.isolate.template"
#: Environment variables that Python and libraries need: paths, languages, temporary folders, caches, threads, memory.
_NEEDED = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_\w+|TZ|TZDIR|TMPDIR|TEMP|TMP|VIRTUAL_ENV|CONDA_PREFIX|PYTHON\w+"
    r"|(LD|DYLD|XDG|NUMBA|OMP|OPENBLAS|MKL|BLIS|KMP|MALLOC|FONTCONFIG|TESSDATA|COVERAGE|COV_CORE|DCURATE)_\w+"
    r"|GLIBC_TUNABLES|CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES"
)


class Ended(NamedTuple):
    """How a process ended; `pid` is 0 while it runs."""

    pid: int
    status: int = 0
    cpu_s: float = 0.0
    peak_bytes: int = 0


class Process(Protocol):
    """A child process of a sandbox."""

    pid: int

    def wait(self, options: int) -> Ended:
        """Return how it ended; with ``os.WNOHANG`` at once."""


class Executed:
    """A child that this process started.

    Args:
        ends: its file descriptors: requests, answers, the lifeline, and standard error.
    """

    def __init__(self, ends: Sequence[int]) -> None:
        self._process = _started("execute", ends[:3], ends[3])
        self.pid = self._process.pid

    def wait(self, options: int) -> Ended:
        """Return how it ended; with ``os.WNOHANG`` at once."""
        return _ended(self._process, options)


class Forked:
    """A child that the template forked."""

    def __init__(self, template: Template, pid: int) -> None:
        self.pid, self._template = pid, template

    def wait(self, options: int) -> Ended:
        """Return how it ended; with ``os.WNOHANG`` at once. If the template is gone, it counts as killed."""
        try:
            return self._template.ask(WAIT, self.pid, options)
        except OSError:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            return Ended(self.pid, signal.SIGKILL)


class Template:
    """A process that has loaded a function and forks children that call it.

    A module that starts threads when it is loaded cannot be forked: its children are started one by one.

    Args:
        function: ``"package.module:function"``.
    """

    def __init__(self, function: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _started("serve", [theirs.fileno()], subprocess.DEVNULL, function)
        self._socket = ours
        self._socket.settimeout(_START_S)
        self._waited_s = 0.0

    def child(self, ends: Sequence[int]) -> Process:
        """Start a child with these file descriptors: requests, answers, the lifeline, and standard error."""
        try:
            pid = self.ask(FORK, 0, 0, ends).pid
        except OSError:  # it died over loading the module: the child does, too, and says why
            pid = 0
        return Forked(self, pid) if pid else Executed(ends)

    def ask(self, what: int, pid: int, options: int, ends: Sequence[int] = ()) -> Ended:
        """Send a request and return the answer.

        Raises:
            OSError: the process is gone.
        """
        message = REQUEST.pack(what, pid, options)
        socket.send_fds(self._socket, [message], list(ends))
        answer = self._socket.recv(ANSWER.size, socket.MSG_WAITALL)
        if len(answer) < ANSWER.size:
            raise ConnectionResetError("the template process is gone")
        ended = Ended(*ANSWER.unpack(answer))
        self._waited_s += ended.cpu_s
        return ended

    def end(self) -> float:
        """End the process; return the seconds of CPU that it took itself."""
        self._socket.close()
        os.kill(self._process.pid, signal.SIGKILL)  # not Popen.kill, which would wait for it first
        return max(0.0, _ended(self._process, 0).cpu_s - self._waited_s)  # the kernel adds those of its children


def _started(role: str, ends: Sequence[int], errors: int, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a process that calls a function of this module; it gets the environment variables that it needs alone."""
    return start(
        f"{_HERE}:{role}",
        ends,
        *arguments,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        env={"OPENBLAS_NUM_THREADS": "1", **_environment()},
        start_new_session=True,  # Ctrl-C in a terminal is for the parent
    )


def _environment() -> dict[str, str]:
    """The environment of a process that reads hostile bytes: what libraries need, and no secrets."""
    return {
        name: value
        for name, value in os.environ.items()
        if _NEEDED.fullmatch(name) and not is_secret(name) and without_secrets(value) == value
    }


def _ended(process: subprocess.Popen[bytes], options: int) -> Ended:
    pid, status, usage = os.wait4(process.pid, options)
    if not pid:
        return Ended(0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(pid, status, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss)


def execute(*ends: str) -> None:
    """The work of a child that was started by itself."""
    main(*map(int, ends))


def serve(control: str, function: str) -> None:
    """The work of a template: load the function, and fork children until there are no more requests.

    Args:
        control: file descriptor of a socket.
        function: name of the function, as in `Template`.
    """
    warnings.simplefilter("ignore")
    # Plugins of other packages, which Numba loads when it begins to compile, may start threads.
    metadata.entry_points = lambda **_: metadata.EntryPoints()  # type: ignore[assignment]
    with suppress(Exception):  # the child says what is wrong
        importlib.import_module(function.partition(":")[0])
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(control)) as requests:
        while True:
            message, ends, _, _ = socket.recv_fds(requests, REQUEST.size, _ENDS)
            if len(message) < REQUEST.size:
                return
            request, pid, options = REQUEST.unpack(message)
            if request == FORK:
                ended = Ended(_forked(requests, ends))
                for end in ends:
                    os.close(end)
            else:
                pid, status, usage = os.wait4(pid, options)
                ended = Ended(pid, status, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss)
            requests.sendall(ANSWER.pack(*ended))


def _forked(requests: socket.socket, ends: Sequence[int]) -> int:
    """Fork a child; return 0 where the module has started threads, which a fork does not have."""
    if len(os.listdir("/proc/self/task")) > 1:
        return 0
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        requests.close()
        os.dup2(ends[3], 2)
        main(*ends[:3])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
