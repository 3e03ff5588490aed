"""Lock files and folders between the processes of a host.

Locks are advisory (``flock``) and belong to an open file: they end when it is closed or its process ends. Some network
file systems have none; there these functions raise `OSError`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any


def lock(file: int | IO[Any], *, shared: bool = False) -> None:
    """Wait until an open file or folder can be locked, and lock it.

    Args:
        shared: whether others may hold a shared lock at the same time.
    """
    fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_lock(file: int | IO[Any], *, shared: bool = False) -> bool:
    """Lock an open file or folder without waiting; False if others hold locks that exclude this one.

    Args:
        shared: whether others may hold a shared lock at the same time.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(file: int | IO[Any]) -> Iterator[None]:
    """Hold an exclusive lock on an open file for the ``with`` statement."""
    lock(file)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def open_locked(path: str | os.PathLike[str], *, shared: bool = False) -> int:
    """Open and lock the lock file at `path`, created if missing; return its descriptor.

    A lock file that its last user removed meanwhile is made again.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        lock(file, shared=shared)
        if is_at(path, file):
            return file
        os.close(file)


def is_at(path: str | os.PathLike[str], file: int, *, follow_symlinks: bool = True) -> bool:
    """Whether an open file or folder still has this path: it was neither removed nor replaced."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path, follow_symlinks=follow_symlinks), os.fstat(file))
    return False
