"""The owner of a run: the person who started it, and the job that it is a part of."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class RunOwner(NamedTuple):
    """The owner of the runs of a process.

    Attributes:
        person: user and host that asked for them, as ``alice@host``.
        job: id of the job; empty for a run of its own.
        take_lines: takes what stages print, log and warn on a worker: the worker's name, and lines as seconds since the
            epoch, level and text; it may be called by any thread. None to leave it on the worker.

    Examples:
        >>> RunOwner("alice@host").job
        ''
    """

    person: str
    job: str = ""
    take_lines: Callable[[str, Sequence[Sequence[Any]]], None] | None = None


_present: list[RunOwner] = []


def owner_here() -> str:
    """User and host of this process, as ``alice@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no entry
        user = "?"
    return f"{user}@{socket.gethostname()}"


def act_for(owner: RunOwner) -> None:
    """Make somebody else the owner of the runs of this process, as the driver of a job does."""
    _present[:] = [owner]


def present_owner() -> RunOwner:
    """Return the owner of the runs of this process."""
    return _present[0] if _present else RunOwner(owner_here())
