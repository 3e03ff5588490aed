"""Where files lie: a local disk or any store that fsspec knows, behind the few things that we do with it."""

from __future__ import annotations

import errno
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from inspect import signature
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple, cast

import psutil
from fsspec import available_protocols, filesystem, get_filesystem_class
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractBufferedFile
from fsspec.utils import get_protocol

from dcurate.core.redirects import guarded
from dcurate.core.secrets import HidesSecrets
from dcurate.errors import DataError, ResourceError, without_secrets

#: What dcurate keeps beside an output: ledger, quarantine, half-written files.
META_DIR = "_dcurate"
TMP = f"{META_DIR}/tmp"

_REMOTE_ERRORS = (
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("aiohttp", "ClientError"),
)
#: File systems that several hosts share.
_SHARED = {
    *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "cifs", "smb3", "smbfs", "9p", "orangefs"),
    *(f"fuse.{name}" for name in ("glusterfs", "ceph", "s3fs", "gcsfuse", "goofys", "juicefs", "rclone", "sshfs")),
}
#: How an address begins that says its protocol, or several in a chain.
_PROTOCOL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Entry(NamedTuple):
    """A file in a store: ``version`` changes when its content does."""

    path: str
    size: int
    version: str


@dataclass(frozen=True)
class Directory(HidesSecrets):
    """A directory (or file) in a store. It pickles as its address and opens the store where it is used.

    Args:
        url: a local path or any URL that fsspec opens.
        options: fsspec's ``storage_options``.
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def _opened(self) -> tuple[Any, str]:
        return opened(self.url, self.options)

    @property
    def local(self) -> bool:
        """Whether it is on a file system of this host."""
        return isinstance(self._opened()[0], LocalFileSystem)

    @property
    def on_disk(self) -> bool:
        """Whether it is on a disk of this host, as far as file systems tell: not in a store, nor shared by hosts."""
        return self.local and file_system(self.address, _mounts()) not in _SHARED

    @property
    def address(self) -> str:
        """The full address of the directory: an absolute local path, or a URL."""
        check_reachable(self.url)
        store, root = self._opened()
        return full_address(store, root)

    def path(self, name: str) -> str:
        """The address of a file in the directory; a name that is a full address already stays as it is."""
        return name if _is_address(name) else f"{self.address.rstrip('/')}/{name}"

    def files(self, below: str = "", *, own: bool = False) -> dict[str, Entry]:
        """Every file in the directory (or the named part of it) by its name in it; our own records only where asked."""
        store, root = self._opened()
        root = root.rstrip("/")
        with storage_errors("list", self.url):
            found = {}
            for entry in walk(store, f"{root}/{below}" if below else root):
                name = entry.path[len(root) + 1 :]
                if own or below or not name.startswith(f"{META_DIR}/"):
                    found[name] = entry
            return found

    def is_file(self) -> bool:
        """Whether the address is that of a file, not of a directory."""
        store, root = self._opened()
        with storage_errors("look at", self.url):
            return bool(store.isfile(root))

    def read(self, name: str) -> bytes | None:
        """The content of a file, or None if there is no such file."""
        store, root = self._opened()
        with storage_errors("read", self.path(name)):
            try:
                return cast(bytes, store.cat_file(f"{root.rstrip('/')}/{name}"))
            except FileNotFoundError:
                return None

    def remove(self, names: list[str]) -> None:
        """Delete files; those that are gone already are fine, and local directories left empty go with them."""
        store, root = self._opened()
        root = root.rstrip("/")
        paths = [f"{root}/{name}" for name in names]
        if not self.local and len(paths) > 1:
            try:
                with storage_errors("delete", self.address):
                    store.rm(paths)  # many in one request, where the store can
                paths = []
            except DataError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
        for path in paths:
            with storage_errors("delete", full_address(store, path)):
                try:
                    store.rm_file(path)
                except FileNotFoundError:
                    continue
        if self.local:
            for parent in sorted(set(map(os.path.dirname, paths)), reverse=True):
                _remove_empty(parent, root)
        store.invalidate_cache()

    def clear(self) -> None:
        """Delete the directory and all that is in it; it is fine if it is gone already."""
        store, root = self._opened()
        with storage_errors("delete", self.url), suppress(FileNotFoundError):
            store.rm(root, recursive=True)
        store.invalidate_cache()

    @contextmanager
    def writing(self, name: str, scratch: str = TMP, *, durable: bool = True) -> Iterator[BinaryIO]:
        """A file to write to that appears under its name whole, or not at all.

        Locally it is written in ``scratch`` below the directory, synced and renamed; elsewhere it is
        collected in memory and put in one request.

        Args:
            durable: whether a local file is synced, so that it outlives a power failure. It outlives the process and
                any kill in either case; a sync costs milliseconds, so files that a run deletes at its end go without.

        Raises:
            DataError: it cannot be written; the disk is full.
        """
        store, root = self._opened()
        final = f"{root.rstrip('/')}/{name}"
        with storage_errors("write", self.path(name)):
            if isinstance(store, LocalFileSystem):
                with _replacing(final, os.path.join(root, scratch), durable) as file:
                    yield file
            else:
                buffer = BytesIO()
                yield buffer
                store.pipe_file(final, buffer.getvalue())

    def write(self, name: str, data: bytes, scratch: str = TMP) -> None:
        """Write a small file whole, or not at all."""
        with self.writing(name, scratch) as file:
            file.write(data)


def file_system(path: str, mounts: Mapping[str, str]) -> str:
    """The kind of file system that a path is on.

    Args:
        path: absolute.
        mounts: the kind of each file system by where it is mounted.

    Examples:
        >>> file_system("/data/web/out", {"/": "ext4", "/data": "nfs4"})
        'nfs4'
    """
    places = [place for place in mounts if f"{path}/".startswith(f"{place.rstrip('/')}/")]
    return mounts[max(places, key=len)] if places else ""


@cache
def _mounts() -> dict[str, str]:
    return {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}


def _is_address(name: str) -> bool:
    return name.startswith("/") or "://" in name


def opened(url: str, options: Mapping[str, Any] | None) -> tuple[Any, str]:
    """The file system of fsspec for an address, and the path in it.

    Raises:
        DataError: no such protocol, or what no file can be called.
        ResourceError: the package for the protocol is not installed.
    """
    check_name(url)
    if not options and url.startswith("/") and "::" not in url:  # fsspec takes 20 times as long to find this out
        return _local_files(), url.rstrip("/") or "/"
    try:
        if "::" in url and not _is_chain(url):
            store = filesystem(protocol_of(url), **guarded(url, options))
            return store, store._strip_protocol(url)
        with storage_errors("read", url):
            return cast(tuple[Any, str], url_to_fs(url, **guarded(url, options)))
    except ValueError as error:
        raise DataError(f"cannot open {url!r}: {error}; give a local path or a URL that fsspec knows") from error
    except ImportError as error:
        extra = "; pip install 'dcurate[s3]'" if url.startswith("s3") else ""
        raise ResourceError(f"cannot open {url!r}: {error}{extra}") from error


@cache
def _local_files() -> LocalFileSystem:
    return LocalFileSystem()


def check_name(path: str) -> None:
    """Refuse what would break a report or a ledger, and what no file can be called.

    Raises:
        DataError: the path holds bytes that are no UTF-8, or a NUL.
    """
    if "\0" in path:
        raise DataError(f"{path!r} holds a NUL, which no file has in its name; leave it out")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{path!r} is a name in bytes that are not UTF-8; rename the file or folder") from error


def protocol_of(url: str) -> str:
    """The protocol by which an address is opened.

    Examples:
        >>> [protocol_of(url) for url in ("a/b::c.jsonl", "s3://bucket/a::b.jsonl", "simplecache::s3://bucket/a")]
        ['file', 's3', 'simplecache']
    """
    match = _PROTOCOL.match(url)
    if "::" not in url:
        return str(get_protocol(url))
    return match[1] if match and (match[2] == "://" or match[1] in available_protocols()) else "file"


def _is_chain(url: str) -> bool:
    """Whether ``::`` chains protocols in an address, as in ``zip://a::b.zip``; else it is part of a name."""
    protocol = protocol_of(url)
    taken = signature(get_filesystem_class(protocol).__init__).parameters
    return url.startswith(f"{protocol}::") or "fo" in taken or "target_protocol" in taken


def check_reachable(url: str) -> None:
    """Refuse what lies within an archive or another store: a file there has no address of its own, to be opened again.

    Raises:
        DataError: the address is one of those, such as ``zip://a.jsonl::b.zip``.
    """
    if _is_within(protocol := protocol_of(url)):
        raise DataError(
            f"{without_secrets(url)!r} is within something that {protocol!r} opens, where files have no address of "
            "their own; unpack it, and name a folder or a store such as s3"
        )


@cache
def _is_within(protocol: str) -> bool:
    try:
        return "fo" in signature(get_filesystem_class(protocol).__init__).parameters
    except (ValueError, ImportError):  # opening it says what is wrong
        return False


def full_address(store: Any, path: str) -> str:
    """The address that opens a path of a store again from anywhere."""
    return path if isinstance(store, LocalFileSystem) else str(store.unstrip_protocol(path))


def walk(store: Any, path: str, skip: Callable[[str], bool] = lambda name: False) -> Iterator[Entry]:
    """Every file at and below a path; entries whose own name is to be skipped are not entered.

    Nothing at all where there is no such path.
    """
    if isinstance(store, LocalFileSystem):
        yield from _walk_local(path, skip, frozenset())
        return
    store.invalidate_cache()
    for found, info in sorted(store.find(path, detail=True).items()):
        inner = found[len(path) :].strip("/").split("/")
        if info["type"] == "file" and not found.endswith("/") and not any(map(skip, inner)):
            yield Entry(found, int(info["size"] or 0), _version(info))


def entry(store: Any, path: str) -> Entry:
    """What the store says of one file."""
    info = store.info(path)
    return Entry(path, int(info["size"] or 0), _version(info))


def _version(info: Mapping[str, Any]) -> str:
    return next(_versions(info), "")


def _versions(info: Mapping[str, Any]) -> Iterator[str]:
    """What may stand for the content of a file, best first; a listing may know less of it than a look at the file."""
    for etag in ("ETag", "etag", "md5Hash", "content_md5"):
        if info.get(etag):
            yield str(info[etag]).strip('"')
    for time in ("mtime", "LastModified", "last_modified", "updated", "created"):
        if info.get(time):
            yield f"{info['size']}-{info[time]}"
            if isinstance(info[time], datetime):  # fsspec's store in memory lists the one, and tells the other
                yield f"{info['size']}-{info[time].timestamp()}"
    if info.get("size") is not None:
        yield str(info["size"])


def check_unchanged(store: Any, path: str, version: str, name: str) -> None:
    """Refuse a file that is not what it was when it was listed.

    Args:
        version: what it was; where none is known nothing is looked at.
        name: what the file is called in the message.

    Raises:
        DataError: it changed.
    """
    if version:
        store.invalidate_cache(path)  # what is kept of a listing says what was
        _compare(store.info(path), version, name)


@contextmanager
def unchanged(store: Any, path: str, version: str, name: str) -> Iterator[None]:
    """What is read inside is of the file as it was listed.

    Raises:
        DataError: it changed before it was read, or meanwhile: half of what was read may be of the one, half of the
            other.
    """
    try:
        yield
    except (OSError, DataError):  # what follows from a change, such as a file that ends too soon, does not say so
        check_unchanged(store, path, version, name)
        raise
    check_unchanged(store, path, version, name)


@contextmanager
def reading(store: Any, path: str, version: str, name: str, **how: Any) -> Iterator[BinaryIO]:
    """A file to read from as it was listed.

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


def _walk_local(path: str, skip: Callable[[str], bool], above: frozenset[str]) -> Iterator[Entry]:
    try:
        with os.scandir(path) as listing:
            children = sorted(listing, key=lambda child: child.name)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        yield entry(LocalFileSystem(), path)
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
            status = child.stat()
            yield Entry(child.path, status.st_size, f"{status.st_size}-{status.st_mtime}")
        elif child.is_symlink() and not os.path.exists(child.path):
            yield Entry(child.path, 0, "")  # reading it says that it is not there; leaving it out would not


@contextmanager
def _replacing(final: str, scratch: str, durable: bool) -> Iterator[BinaryIO]:
    temporary = os.path.join(scratch, f".{uuid.uuid4().hex}")
    try:
        with _in_folder(temporary, lambda: open(temporary, "wb")) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        _in_folder(final, lambda: os.replace(temporary, final))
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def _in_folder(path: str, make: Callable[[], Any]) -> Any:
    """Make a file at a path; make its folder first only where there is none."""
    try:
        return make()
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return make()


def _remove_empty(path: str, root: str) -> None:
    while path != root and path.startswith(root) and os.path.isdir(path) and not os.listdir(path):
        os.rmdir(path)
        path = os.path.dirname(path)


def _remote_errors() -> tuple[type[BaseException], ...]:
    """Errors of remote stores that are no OSError, of those packages that are loaded."""
    return tuple(getattr(sys.modules[module], name) for module, name in _REMOTE_ERRORS if module in sys.modules)


@contextmanager
def _hushed() -> Iterator[None]:
    """Errors of a store lose what is secret in the address that they quote: Python prints them as causes."""
    try:
        yield
    except OSError as error:
        if any(isinstance(one, str) and without_secrets(one) != one for one in error.args):
            error.args = tuple(without_secrets(one) if isinstance(one, str) else one for one in error.args)
        raise


@contextmanager
def storage_errors(doing: str, path: str) -> Iterator[None]:
    """Whatever the store raises inside becomes one sentence that says what was done to which path.

    Raises:
        DataError: instead of an OSError, or of an error of a remote store's own.
    """
    try:
        with _hushed():
            yield
    except FileNotFoundError as error:
        if os.path.islink(path):
            raise DataError(
                f"cannot {doing} {path!r}: it is a link to {os.readlink(path)!r}, which is not there; "
                "put it there or remove the link"
            ) from error
        raise DataError(f"cannot {doing} {path!r}: there is no such file or directory; check the path") from error
    except PermissionError as error:
        mend = "check the credentials in storage_options" if "://" in path else "give this user the right to it"
        raise DataError(f"cannot {doing} {path!r}: permission denied; {mend}") from error
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise DataError(
                f"no space left on device while writing {path!r}; free some and run again with resume=True"
            ) from error
        raise DataError(f"cannot {doing} {path!r}: {error.strerror or error}") from error
    except _remote_errors() as error:
        raise DataError(f"cannot {doing} {path!r}: {error}; check the address and storage_options") from error
