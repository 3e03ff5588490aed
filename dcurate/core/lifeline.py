"""Processes that end with the process that started them."""

from __future__ import annotations

import fcntl
import os
import signal
import threading


def end_with_parent(lifeline: int) -> None:
    """Have the kernel kill this process when the one that started it ends.

    Args:
        lifeline: file descriptor of the reading end of a pipe, of which the other process alone holds the writing end.
    """
    threading.Thread(target=_exit_with_parent, args=(lifeline,), daemon=True).start()  # where the kernel does not
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _exit_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)
