"""What all child processes have: pipes to the process that started them, limits, and a named cause of their end."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, BinaryIO

#: The header of a request: its length.
REQUEST = struct.Struct("<Q")


class Pipes:
    """The pipes to a child, and a file in which it writes why it dies.

    Attributes:
        requests: file descriptor for requests.
        answers: file descriptor of answers.
        ends: file descriptors for the child: requests, answers, the lifeline and traces. The lifeline is a pipe that
            closes when this process ends, however that happens; see `begin`.
    """

    def __init__(self) -> None:
        requests_end, self.requests = os.pipe()
        self.answers, answers_end = os.pipe()
        lifeline_end, self._lifeline = os.pipe()
        self._traces = os.memfd_create("traces")
        self.ends = (requests_end, answers_end, lifeline_end, self._traces)
        self._open = {self.requests, self.answers, self._lifeline, self._traces}

    def close_ends(self) -> None:
        """Close the ends that the child has, once it is started."""
        for end in self.ends[:3]:
            os.close(end)

    def send(self, request: bytes) -> None:
        """Send a request whole; if the child has died, reading its answers says so."""
        with suppress(BrokenPipeError), open(self.requests, "wb", closefd=False) as file:
            file.write(REQUEST.pack(len(request)))
            file.write(request)

    def close_requests(self) -> None:
        """Tell the child that there are no more requests."""
        self._close(self.requests)

    def close(self) -> None:
        """Close the ends of this process."""
        for end in tuple(self._open):
            self._close(end)

    def _close(self, end: int) -> None:
        if end in self._open:  # its number may belong to another file by now
            self._open.remove(end)
            os.close(end)

    def traces(self, most: int = -1) -> bytes:
        """Return the first bytes of what the child has written; all by default."""
        return os.pread(self._traces, os.fstat(self._traces).st_size if most < 0 else most, 0)


def start(function: str, ends: Sequence[int], *arguments: str, **settings: Any) -> subprocess.Popen[bytes]:
    """Start a Python process that calls a function.

    Args:
        function: name of the function, as ``"package.module:function"``. It gets the numbers of `ends`, and then
            `arguments`, as text.
        ends: file descriptors that it inherits.
        arguments: further arguments.
        settings: settings of `subprocess.Popen`.
    """
    module, _, name = function.partition(":")
    count = 1 + len(ends) + len(arguments)
    boot = f"import sys; mine, sys.path[:] = sys.argv[1:{count}], sys.argv[{count}:]; "
    boot += f"from {module} import {name}; {name}(*mine)"
    command = [sys.executable, "-c", boot, *map(str, ends), *arguments, *sys.path]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=ends, **settings)


def begin(lifeline: int, traces: int = 2) -> None:
    """Have this process, a child, end with the one that started it, and write down where it was when it dies.

    Args:
        lifeline: file descriptor of the reading end of a pipe, of which the other process alone holds the writing end.
        traces: file descriptor for tracebacks.
    """
    threading.Thread(target=_exit_with_parent, args=(lifeline,), daemon=True).start()  # where the kernel does not
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    faulthandler.enable(traces)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _exit_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)


def limit_memory(nbytes: int) -> None:
    """Limit the data that this process may hold."""
    resource.setrlimit(resource.RLIMIT_DATA, (nbytes, nbytes))


def receive(requests: BinaryIO) -> bytes | None:
    """Return the next request; None when there are no more."""
    head = requests.read(REQUEST.size)
    return requests.read(REQUEST.unpack(head)[0]) if len(head) == REQUEST.size else None


def named(code: int) -> str:
    """How a process ended, in words, by its exit code as Python gives it.

    Examples:
        >>> named(3), named(-11), named(-99)
        ('exit 3', 'SIGSEGV', 'signal 99')
    """
    if code >= 0:
        return f"exit {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
