"""Addresses: which store of fsspec a URL or local path belongs to, and its path there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from inspect import signature
from typing import Any, cast

import psutil
from fsspec import available_protocols, filesystem, get_filesystem_class
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import get_protocol

from dcurate.core.redirects import guarded
from dcurate.core.secrets import remember_secrets
from dcurate.errors import DataError, ResourceError
from dcurate.fs.errors import storage_errors
from dcurate.redaction import without_secrets

#: File systems that several hosts share.
_SHARED = {
    *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "cifs", "smb3", "smbfs", "9p", "orangefs"),
    *(f"fuse.{name}" for name in ("glusterfs", "ceph", "s3fs", "gcsfuse", "goofys", "juicefs", "rclone", "sshfs")),
}
#: The start of an address that names its protocol, or several in a chain.
_PROTOCOL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")


def open_store(url: str, options: Mapping[str, Any] | None) -> tuple[Any, str]:
    """Open the fsspec file system of an address; returns it and the path in it.

    Raises:
        DataError: an unknown protocol, or no valid file name.
        ResourceError: the package for the protocol is not installed.
    """
    check_name(url)
    if options or "@" in url:
        remember_secrets({"url": url, "storage_options": options})
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


def read_range(store: Any, path: str, start: int, stop: int) -> bytes:
    """Return the bytes of a file from `start` up to `stop`; of a local one without fsspec, which takes longer."""
    if not isinstance(store, LocalFileSystem):
        return cast(bytes, store.cat_file(path, start=start, end=stop))
    with open(path, "rb") as file:
        file.seek(start)
        return file.read(stop - start)


def check_name(path: str) -> None:
    """Refuse a path that is no valid file name, or that would break a report or a ledger.

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
    """Refuse a path within an archive or a cache: its files have no address by which a worker could open them.

    Raises:
        DataError: the address is in an archive or cache, such as ``zip://a.jsonl::b.zip``.
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


def without_links(address: str) -> str:
    """Return a full address with the symbolic links of a local path resolved."""
    return os.path.realpath(address) if address.startswith("/") else address


def is_address(name: str) -> bool:
    """Whether a name is a full address: an absolute path or a URL."""
    return name.startswith("/") or "://" in name


@lru_cache
def is_shared(path: str) -> bool:
    """Whether an absolute local path is on a file system that hosts share."""
    return file_system(path, _mounts()) in _SHARED


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
