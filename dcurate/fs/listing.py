"""List the files of a store with their versions, and refuse files that changed since they were listed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple

from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractBufferedFile

from dcurate.core.foreign import whole_number
from dcurate.errors import DataError

#: Bytes of the largest file, 1 PiB; the largest of a store have a few TB.
_LARGEST = 2**50


class Entry(NamedTuple):
    """A file in a store: ``version`` changes when its content does."""

    path: str
    size: int
    version: str


def walk(store: Any, path: str, skip: Callable[[str], bool] = lambda name: False) -> Iterator[Entry]:
    """Yield every file at and below a path, except below names that `skip` matches.

    Yields nothing if there is no such path.
    """
    if isinstance(store, LocalFileSystem):
        yield from _walk_local(path, skip, frozenset())
        return
    store.invalidate_cache()
    for file_path, info in sorted(store.find(path, detail=True).items()):
        inner = file_path[len(path) :].strip("/").split("/")
        if info["type"] == "file" and not file_path.endswith("/") and not any(map(skip, inner)):
            yield Entry(file_path, _size(file_path, info), _version(info))


def _walk_local(path: str, skip: Callable[[str], bool], above: frozenset[str]) -> Iterator[Entry]:
    try:
        with os.scandir(path) as listing:
            children = sorted(listing, key=lambda child: child.name)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        yield file_entry(LocalFileSystem(), path)
        return
    real = os.path.realpath(path)
    if real in above:
        return
    for child in children:
        if skip(child.name):
            continue
        if child.is_dir():
            yield from _walk_local(child.path, skip, above | {real})
        elif child.is_file():
            try:
                status = child.stat()
            except FileNotFoundError:  # it was removed since the folder was listed
                continue
            yield Entry(child.path, status.st_size, f"{status.st_size}-{status.st_mtime}")
        elif child.is_symlink() and not os.path.exists(child.path):
            yield Entry(child.path, 0, "")  # reading it says that it is not there; leaving it out would not


def file_entry(store: Any, path: str) -> Entry:
    """Look up one file.

    Raises:
        DataError: the store reports an impossible size.
    """
    info = store.info(path)
    return Entry(path, _size(path, info), _version(info))


def _size(path: str, info: Mapping[str, Any]) -> int:
    """The size of a file; 0 if the store does not know it. A server may report any value, and files are split by it."""
    size = whole_number(str(info["size"] or 0), _LARGEST)
    if size is None:
        raise DataError(f"{path!r} would have a size of {info['size']} bytes; check the address and its server")
    return size


def _version(info: Mapping[str, Any]) -> str:
    return next(_versions(info), "")


def _versions(info: Mapping[str, Any]) -> Iterator[str]:
    """Values that identify the content of a file, best first; a listing may have fewer than a look at the file."""
    for etag in ("ETag", "etag", "md5Hash", "content_md5"):
        if info.get(etag):
            yield str(info[etag]).strip('"').encode(errors="backslashreplace").decode()  # of bytes that are not text
    for time in ("mtime", "LastModified", "last_modified", "updated", "created"):
        if info.get(time) not in (None, ""):
            yield f"{info['size']}-{info[time]}".encode(errors="backslashreplace").decode()
            if isinstance(info[time], datetime):  # fsspec's store in memory lists the one, and reports the other
                yield f"{info['size']}-{info[time].timestamp()}"
    if info.get("size") is not None:
        yield str(info["size"])


def check_unchanged(store: Any, path: str, version: str, name: str) -> None:
    """Refuse a file that changed since it was listed.

    Args:
        version: from the listing; an empty one is not checked.
        name: name of the file in the message.

    Raises:
        DataError: it changed.
    """
    if version:
        store.invalidate_cache(path)  # a cached listing has the old version
        _compare(store.info(path), version, name)


@contextmanager
def unchanged(store: Any, path: str, version: str, name: str) -> Iterator[None]:
    """Refuse a file that changes before or while it is read inside the ``with`` statement.

    Raises:
        DataError: it changed.
    """
    try:
        yield
    except (OSError, DataError):  # what follows from a change, such as a file that ends too soon, does not say so
        check_unchanged(store, path, version, name)
        raise
    check_unchanged(store, path, version, name)


@contextmanager
def open_unchanged(store: Any, path: str, version: str, name: str, **how: Any) -> Iterator[BinaryIO]:
    """Open a file for reading, and refuse it if it changed since it was listed.

    A remote store is asked once, by fsspec, when the file is opened; S3 then gives no byte of another version.

    Args:
        how: for fsspec's ``open``.

    Raises:
        DataError: it changed.
    """
    if version:
        store.invalidate_cache(path)
    with store.open(path, "rb", **how) as file:
        remote = isinstance(file, AbstractBufferedFile)
        if remote and version:
            _compare(file.details, version, name)
        try:
            yield file
        except (OSError, DataError):
            check_unchanged(store, path, version, name)
            raise
        if not remote:
            check_unchanged(store, path, version, name)


def _compare(info: Mapping[str, Any], version: str, name: str) -> None:
    if version not in _versions(info):
        raise DataError(f"{name} changed since it was listed; run again with resume=True")
