"""Write a file so that readers see all of it or nothing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO


@contextmanager
def atomic_write(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str] | None = None,
    *,
    durable: bool = True,
    mode: int = 0o666,
) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces the one at `path` when the ``with`` statement ends without an error.

    Args:
        path: on a local file system; its folder is made if there is none.
        folder: where the temporary file is written, on the same file system; that of `path` if not given.
        durable: whether the file is synced first, so that it survives a power failure.
        mode: permissions of the file, less the umask.
    """
    folder = os.path.dirname(path) if folder is None else folder
    temporary = os.path.join(folder, f".{uuid.uuid4().hex}")

    def create(name: str, flags: int) -> int:
        return os.open(name, flags, mode)

    try:
        with _in_folder(temporary, lambda: open(temporary, "wb", opener=create)) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        _in_folder(path, lambda: os.replace(temporary, path))
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def _in_folder(path: str | os.PathLike[str], make: Callable[[], Any]) -> Any:
    """Make a file at a path; make its folder first only where there is none."""
    try:
        return make()
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return make()
