"""Private folders of this user in the temporary directory, removed when no process uses them any more.

Others may write to the temporary directory, too. So a folder with a name that they can guess is used only if it is a
folder (no link), belongs to this user, and is open to nobody else.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dcurate.errors import ResourceError
from dcurate.fs.locks import is_at, lock, try_lock

#: How often a folder is made that others remove at once, or is looked at while others remove it.
_TRIES = 100
#: Between two looks, in seconds.
_WAIT_S = 0.01


def own_folder(*names: str) -> Path:
    """Return a private folder of this user, created if missing.

    Args:
        names: names of the folder and those above it, in the one folder that all of dcurate's are in.

    Raises:
        ResourceError: something else has its name: a link, or a folder of another user; or it cannot be made.

    Examples:
        >>> import stat
        >>> stat.filemode(own_folder("examples").stat().st_mode)
        'drwx------'
    """
    path = Path(tempfile.gettempdir(), f"dcurate-{os.getuid()}")
    _make_private(path)
    for name in names:
        path = path / name.replace("/", "_")
        _make_private(path)
    return path


def folder_of_host(*names: str) -> Path:
    """Return an `own_folder` for this host alone, as hosts may share a temporary directory."""
    kind, *subfolders = names
    return own_folder(kind, socket.gethostname(), *subfolders)


def held(path: Path) -> int:
    """Mark a folder of this user as in use, until the descriptor that is returned is closed or this process ends.

    The folder is made if it is not there.

    Raises:
        ResourceError: as of `own_folder`.
    """
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            _make_private(path)
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            with suppress(OSError):  # a file system without locks
                lock(folder, shared=True)
            if is_at(path, folder, follow_symlinks=False):
                return folder
            os.close(folder)  # removed by another process before it was locked
    raise ResourceError(f"{str(path)!r} is removed again and again by something else; name another place with TMPDIR")


def sweep(parent: Path, needed: Callable[[Path], bool] = lambda folder: False) -> None:
    """Remove the subfolders that no living process has `held`: leftovers of killed runs.

    Args:
        needed: whether a folder that nobody holds stays nevertheless.
    """
    for path in parent.iterdir():
        remove_unused(path, needed)


def remove_unused(path: Path, needed: Callable[[Path], bool] = lambda folder: False) -> None:
    """Remove a folder, unless a living process has `held` it.

    Another process that does the same is waited for, for a second at most.

    Args:
        needed: whether a folder that nobody holds stays nevertheless.
    """
    with suppress(OSError):  # held, removed by another process, or on a file system without locks
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if _lock_if_unused(folder) and is_at(path, folder, follow_symlinks=False) and not needed(path):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(folder)


def _lock_if_unused(folder: int) -> bool:
    """Lock a folder unless a process has `held` it; wait for one that removes it, or looks whether it is needed."""
    for _ in range(_TRIES):
        if try_lock(folder):
            return True
        if try_lock(folder, shared=True):
            return try_lock(folder)  # False where it is held
        time.sleep(_WAIT_S)
    return False


@contextmanager
def scratch_folder() -> Iterator[str]:
    """Create a folder for the duration of a ``with`` statement; remove the leftovers of killed processes.

    Raises:
        ResourceError: as of `own_folder`.
    """
    parent = folder_of_host("scratch")
    sweep(parent)
    path = parent / uuid.uuid4().hex
    folder = held(path)
    try:
        yield str(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(folder)


def _make_private(path: Path) -> None:
    advice = "remove it, or name another temporary directory with TMPDIR"
    try:
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ResourceError(
            f"{str(path)!r} cannot be used as a private folder: {error.strerror}, or it is a link; {advice}"
        ) from error
    try:
        status = os.fstat(folder)
        if status.st_uid != os.geteuid():
            raise ResourceError(
                f"{str(path)!r} belongs to another user, who could read or change what is in it; {advice}"
            )
        if status.st_mode & 0o077:
            os.fchmod(folder, 0o700)
    finally:
        os.close(folder)
