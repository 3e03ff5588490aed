"""A directory on a local disk or in any store that fsspec knows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, BinaryIO, cast

from fsspec.implementations.local import LocalFileSystem

from dcurate.core.secrets import HidesSecrets
from dcurate.errors import DataError
from dcurate.fs.atomic import atomic_write
from dcurate.fs.errors import storage_errors
from dcurate.fs.listing import Entry, walk
from dcurate.fs.paths import check_reachable, full_address, is_address, is_shared, open_store

#: The folder that dcurate keeps beside an output: ledger, quarantine, half-written files.
META_DIR = "_dcurate"
TMP = f"{META_DIR}/tmp"


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
        return open_store(self.url, self.options)

    @property
    def local(self) -> bool:
        """Whether it is on a file system of this host."""
        return isinstance(self._opened()[0], LocalFileSystem)

    @property
    def on_disk(self) -> bool:
        """Whether it is on a disk of this host, and not in a store or on a file system that hosts share."""
        return self.local and not is_shared(self.address)

    @property
    def address(self) -> str:
        """The full address of the directory: an absolute local path, or a URL."""
        check_reachable(self.url)
        store, root = self._opened()
        return full_address(store, root)

    def path(self, name: str) -> str:
        """The address of a file in the directory; a name that is a full address already stays as it is."""
        return name if is_address(name) else f"{self.address.rstrip('/')}/{name}"

    def files(self, below: str = "", *, own: bool = False) -> dict[str, Entry]:
        """Return every file in the directory (or `below` a folder in it) by name; those in `META_DIR` only if `own`."""
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
        """Whether the address is a file, not a directory."""
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
        """Delete files that exist, and local directories that this leaves empty."""
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
        """Delete the directory and everything in it, if it exists."""
        store, root = self._opened()
        with storage_errors("delete", self.url), suppress(FileNotFoundError):
            store.rm(root, recursive=True)
        store.invalidate_cache()

    @contextmanager
    def writing(self, name: str, scratch: str = TMP, *, durable: bool = True) -> Iterator[BinaryIO]:
        """Open a file for writing that appears under its name complete, or not at all.

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
                with atomic_write(final, os.path.join(root, scratch), durable=durable) as file:
                    yield file
            else:
                buffer = BytesIO()
                yield buffer
                store.pipe_file(final, buffer.getvalue())

    def write(self, name: str, data: bytes, scratch: str = TMP) -> None:
        """Write a small file completely, or not at all."""
        with self.writing(name, scratch) as file:
            file.write(data)


def _remove_empty(path: str, root: str) -> None:
    while path != root and path.startswith(root) and os.path.isdir(path) and not os.listdir(path):
        os.rmdir(path)
        path = os.path.dirname(path)
