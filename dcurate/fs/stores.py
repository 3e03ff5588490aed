"""A directory on a local disk or in any store that fsspec knows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from typing import Any, BinaryIO, cast

from fsspec.implementations.local import LocalFileSystem

from dcurate.core.secrets import HidesSecrets
from dcurate.errors import DataError
from dcurate.fs.atomic import atomic_write
from dcurate.fs.errors import storage_errors
from dcurate.fs.listing import Entry, walk
from dcurate.fs.locks import open_locked
from dcurate.fs.paths import check_reachable, full_address, is_address, is_shared, open_store

#: What the names of dcurate's own files begin with: ledger, quarantine, half-written files. See `Directory.records`.
META_DIR = "_dcurate"
TMP = f"{META_DIR}/tmp"
#: The folder of records that holds a folder for each run, where runs do not share one.
RUNS = "runs"
_LOCK = "lock"
#: How the folder of those files ends, beside the directory.
BESIDE = ".dcurate"
#: Names of files and folders by which the folder of records of a run is known.
RECORD_FILES = ("report.json", "output.json", "runs", "running")


@dataclass(frozen=True)
class Directory(HidesSecrets):
    """A directory (or file) in a store. It pickles as its address and opens the store where it is used.

    Files whose names begin with `META_DIR` are dcurate's own, and are in another folder; see `records`.

    Args:
        url: a local path or any URL that fsspec opens.
        options: fsspec's ``storage_options``.
        run: id of the run whose records are meant, where each run has a folder of its own for them.
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""

    def __post_init__(self) -> None:
        vars(self)["url"] = os.fspath(self.url)

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

    @cached_property
    def records(self) -> str:
        """Address of the folder of dcurate's own files: ``out.dcurate`` beside ``out``, or the folder of the run in it.

        Other tools, which read all files of a directory as data, do not see it there. It is ``out/_dcurate`` where an
        earlier version left it, where the directory is the root of a store or of a file system, and where nothing can
        be written beside it.
        """
        store, _ = self._opened()
        return full_address(store, self._records)

    @cached_property
    def _records(self) -> str:
        return f"{self._all_records()}/{RUNS}/{self.run}" if self.run else self._all_records()

    def _all_records(self) -> str:
        store, root = self._opened()
        root = root.rstrip("/")
        inside, beside = f"{root}/{META_DIR}", f"{root}{BESIDE}"
        parent = root.rpartition("/")[0]
        with storage_errors("look at", self.url):
            if not parent.strip("/") or store.isdir(inside):
                return inside
            local = isinstance(store, LocalFileSystem)
            return beside if not local or store.isdir(beside) or _takes_folders(parent, root) else inside

    def _located(self, name: str) -> str:
        """The path of a file in the store."""
        if name == META_DIR or name.startswith(f"{META_DIR}/"):
            return self._records + name[len(META_DIR) :]
        return f"{self._opened()[1].rstrip('/')}/{name}"

    def path(self, name: str) -> str:
        """The address of a file in the directory; a name that is a full address already stays as it is."""
        return name if is_address(name) else full_address(self._opened()[0], self._located(name))

    def files(self, below: str = "", *, own: bool = False) -> dict[str, Entry]:
        """Return every file in the directory (or `below` a folder in it) by name; those in `META_DIR` only if `own`.

        Records of output directories that are inside it are left out.
        """
        store, root = self._opened()
        root = root.rstrip("/")
        entries = {}
        with storage_errors("list", self.url):
            if not below.startswith(META_DIR):
                for entry in walk(store, f"{root}/{below}" if below else root):
                    name = entry.path[len(root) + 1 :]
                    if (below or not name.startswith(f"{META_DIR}/")) and f"{BESIDE}/" not in name:
                        entries[name] = entry
            if own or below.startswith(META_DIR):
                for entry in walk(store, self._located(below) if below else self._records):
                    entries[META_DIR + entry.path[len(self._records) :]] = entry
        return entries

    def is_file(self) -> bool:
        """Whether the address is a file, not a directory."""
        store, root = self._opened()
        with storage_errors("look at", self.url):
            return bool(store.isfile(root))

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        store, _ = self._opened()
        with storage_errors("look at", self.path(name)):
            return bool(store.isfile(self._located(name)))

    def read(self, name: str) -> bytes | None:
        """The content of a file, or None if there is no such file."""
        store, _ = self._opened()
        with storage_errors("read", self.path(name)):
            try:
                return cast(bytes, store.cat_file(self._located(name)))
            except FileNotFoundError:
                return None

    def remove(self, names: list[str]) -> None:
        """Delete files that exist, and local directories that this leaves empty."""
        store, root = self._opened()
        paths = [self._located(name) for name in names]
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
                _remove_empty(parent, root.rstrip("/"))
                _remove_empty(parent, os.path.dirname(self._records))
        store.invalidate_cache()

    def create(self) -> None:
        """Create the directory if it is missing; stores without directories need none."""
        store, root = self._opened()
        if isinstance(store, LocalFileSystem):
            with storage_errors("write", self.url):
                store.makedirs(root, exist_ok=True)

    def clear(self) -> None:
        """Delete the directory and everything in it, if it exists, and dcurate's own files."""
        store, root = self._opened()
        for path in (self._records, root):
            with storage_errors("delete", self.url), suppress(FileNotFoundError):
                store.rm(path, recursive=True)
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
        store, _ = self._opened()
        final = self._located(name)
        with storage_errors("write", self.path(name)):
            if isinstance(store, LocalFileSystem):
                with atomic_write(final, self._located(scratch), durable=durable) as file:
                    yield file
            else:
                buffer = BytesIO()
                yield buffer
                store.pipe_file(final, buffer.getvalue())

    def create_file(self, name: str, data: bytes = b"") -> bool:
        """Create a small file; return False if there is one of this name already.

        Of several programs that do so at once, one gets True. In stores that cannot create a file exclusively, two
        within the time of a request may.

        Raises:
            DataError: it cannot be created.
        """
        store, _ = self._opened()
        path = self._located(name)
        with storage_errors("write", self.path(name)):
            if isinstance(store, LocalFileSystem):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                return _create_local(path, data)
            if store.exists(path):
                return False
            try:
                store.pipe_file(path, data, mode="create")
            except FileExistsError:
                return False
            except Exception:  # stores and their clients raise different errors for options that they do not know
                store.pipe_file(path, data)
            return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs that ask for this lock out during the ``with`` statement, where files can be locked."""
        with ExitStack() as stack:
            if self.local:
                path = f"{self._all_records()}/{_LOCK}"
                with suppress(OSError):  # some network file systems have no locks
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    stack.callback(os.close, open_locked(path))
            yield

    def take_over(self, other: Directory, names: Iterable[str]) -> None:
        """Move files of another directory of the same store here, each in the place of one that has its name.

        A file that is not there is left out, so that a move that was interrupted can be done again.

        Raises:
            DataError: a file cannot be moved.
        """
        store, _ = self._opened()
        for name in names:
            start, end = other._located(name), self._located(name)
            with storage_errors("write", self.path(name)), suppress(FileNotFoundError):
                if isinstance(store, LocalFileSystem):
                    if os.path.exists(start):
                        os.makedirs(os.path.dirname(end), exist_ok=True)
                        os.replace(start, end)
                else:
                    store.mv(start, end)
        store.invalidate_cache()

    def write(self, name: str, data: bytes, scratch: str = TMP) -> None:
        """Write a small file completely, or not at all."""
        with self.writing(name, scratch) as file:
            file.write(data)


def output_of(url: str) -> str:
    """The directory to which an address belongs, which may be that of its `Directory.records`.

    Examples:
        >>> [output_of(url) for url in ("out", "out.dcurate/", "out/_dcurate")]
        ['out', 'out', 'out']
    """
    url = os.fspath(url).rstrip("/")
    return url.removesuffix(BESIDE) if url.endswith(BESIDE) else url.removesuffix(f"/{META_DIR}")


def _create_local(path: str, data: bytes) -> bool:
    try:
        file = open(path, "xb")  # noqa: SIM115 - closed below
    except FileExistsError:
        return False
    try:
        with file:
            file.write(data)
    except OSError:  # the disk is full
        os.unlink(path)
        raise
    return True


def _takes_folders(parent: str, root: str) -> bool:
    """Whether a folder can be made beside a local directory, on the same file system."""
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    same = not os.path.isdir(root) or os.stat(root).st_dev == os.stat(parent).st_dev
    return same and os.access(parent, os.W_OK | os.X_OK)


def _remove_empty(path: str, root: str) -> None:
    while path != root and path.startswith(root) and os.path.isdir(path) and not os.listdir(path):
        os.rmdir(path)
        path = os.path.dirname(path)
