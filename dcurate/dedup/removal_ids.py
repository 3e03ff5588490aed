"""Ids from Parquet files, sorted once per host in files that are mapped into memory, also where they do not fit."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from dcurate.core.batch import FileGroup
from dcurate.core.secrets import HidesSecrets
from dcurate.errors import DataError
from dcurate.frames.ids import NONE, IdKeys, id_keys
from dcurate.fs.errors import storage_errors
from dcurate.fs.locks import is_at, open_locked, try_lock
from dcurate.fs.stores import Directory
from dcurate.fs.temporary import own_folder
from dcurate.io.parquet_reader import ParquetReader
from dcurate.kernels.layout import Words

#: Target bytes of Parquet in one part of the sort; there are no more parts than files can be open at a time.
_PART_BYTES = 2**24
_MOST_PARTS = 512
_ABOUT, _HIGH, _LOW = "about.json", "high.bin", "low.bin"
#: What every directory that dcurate wrote to has, also if it wrote no row.
_WRITTEN = "_dcurate/output.json"


@dataclass(frozen=True)
class RemovalIds(HidesSecrets):
    """The ids in a column of Parquet files.

    Args:
        path: path of files, directories or globs; a directory that dcurate wrote no file to has no ids.
        id_field: the column; of text or of whole numbers, in any order, each any number of times.
        read_kwargs: settings of the reader, as in `ParquetReader`.
    """

    path: str | list[str]
    id_field: str
    read_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """Identifies the files and the columns that are read; changes when they do."""
        parts = [
            (part.path, part.version, part.start) for group in self._groups(self._reader()) for part in group.parts
        ]
        return hashlib.blake2b(orjson.dumps([self.id_field, parts]), digest_size=16).hexdigest()

    def opened(self) -> SortedIds:
        """The ids, sorted: by this process, or by another one of this host before it; close them when done.

        Raises:
            DataError: they cannot be read, or are not all of one kind; no space is left for them.
        """
        folder = own_folder("ids") / self.version
        _sweep(folder)
        while True:
            lock = _lock_of(folder, shared=True)
            if (folder / _ABOUT).exists():
                return SortedIds(folder, lock)
            os.close(lock)
            lock = _lock_of(folder, shared=False)
            try:
                if not (folder / _ABOUT).exists():
                    shutil.rmtree(folder, ignore_errors=True)
                    with storage_errors("write", str(folder)):
                        folder.mkdir(mode=0o700)
                        self._sort(folder)
            except BaseException:
                _remove(folder)
                raise
            finally:
                os.close(lock)

    def _reader(self) -> ParquetReader:
        return ParquetReader(self.path, blocksize="32MiB", fields=[self.id_field], read_kwargs=dict(self.read_kwargs))

    def _groups(self, reader: ParquetReader) -> list[FileGroup]:
        try:
            return list(reader.splits())
        except DataError:  # there is no file, which is right where there was nothing to write
            paths = [self.path] if isinstance(self.path, str) else self.path
            options = self.read_kwargs.get("storage_options", {})
            if all(Directory(path, options).read(_WRITTEN) is not None for path in paths):
                return []
            raise

    def _sort(self, folder: Path) -> None:
        reader = self._reader()
        groups = self._groups(reader)
        bits = math.ceil(math.log2(min(_MOST_PARTS, max(1, sum(map(_size, groups)) / _PART_BYTES))))
        kind = NONE
        with ExitStack() as stack:
            parts = [stack.enter_context(open(folder / f"part-{number}", "w+b")) for number in range(1 << bits)]
            for batch in filter(None, map(reader.process, groups)):
                ids = id_keys(batch.to_arrow(), self.id_field)
                kind = ids.kind if kind == NONE else kind
                _share_out(ids.keys, parts, bits)
            _put_together(parts, folder)
        for number in range(1 << bits):
            (folder / f"part-{number}").unlink()
        (folder / _ABOUT).write_bytes(orjson.dumps({"kind": kind}))


def _size(group: FileGroup) -> int:
    return sum(part.nbytes for part in group.parts)


class IdMatches(NamedTuple):
    """The rows whose id is to be removed, and the positions of these ids, each once and in order."""

    rows: npt.NDArray[np.bool_]
    places: npt.NDArray[np.int64]


class SortedIds:
    """Ids in files on this host; those who use them hold a lock, and the last of them removes the files."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.kind: str = orjson.loads((folder / _ABOUT).read_bytes())["kind"]
        self._high, self._low = _mapped(folder / _HIGH), _mapped(folder / _LOW)
        self.close = weakref.finalize(self, _close, folder, lock)

    def __len__(self) -> int:
        return len(self._high)

    def find(self, ids: IdKeys, rows: int) -> IdMatches:
        """Look up the ids of `rows` rows.

        Raises:
            DataError: they are of another kind than those that are looked for.
        """
        marks = np.zeros(rows, np.bool_)
        if not len(self) or ids.kind == NONE:
            return IdMatches(marks, np.zeros(0, np.int64))
        if ids.kind != self.kind:
            raise DataError(f"they are {ids.kind}, and the ids to remove are {self.kind}, so that none can be equal")
        order = np.lexsort((ids.keys[:, 1], ids.keys[:, 0]))
        keys = ids.keys[order]
        places = np.searchsorted(self._high, keys[:, 0])
        here = np.zeros(len(keys), np.bool_)
        pending = np.arange(len(keys))
        while len(pending):  # once, but for two ids that share 64 bits
            pending = pending[places[pending] < len(self)]
            pending = pending[self._high[places[pending]] == keys[pending, 0]]
            same = self._low[places[pending]] == keys[pending, 1]
            here[pending[same]] = True
            pending = pending[~same]
            places[pending] += 1
        marks[ids.rows[order[here]]] = True
        return IdMatches(marks, np.unique(places[here]))


def _share_out(keys: Words, parts: Sequence[BinaryIO], bits: int) -> None:
    """Append each key to the part for its range."""
    if not bits:
        parts[0].write(np.ascontiguousarray(keys).data)
        return
    numbers = (keys[:, 0] >> np.uint64(64 - bits)).astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(len(parts) + 1))
    ordered = keys[order]
    for part, start, stop in zip(parts, bounds[:-1], bounds[1:], strict=True):
        part.write(ordered[start:stop].data)


def _put_together(parts: Sequence[BinaryIO], folder: Path) -> None:
    """The keys of all parts in order, each once: their upper halves in one file, their lower halves in another."""
    with open(folder / _HIGH, "wb") as high, open(folder / _LOW, "wb") as low:
        for part in parts:
            part.seek(0)
            keys = np.frombuffer(part.read(), np.uint64).reshape(-1, 2)
            keys = keys[np.lexsort((keys[:, 1], keys[:, 0]))]
            new = np.ones(len(keys), np.bool_)
            new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
            high.write(np.ascontiguousarray(keys[new, 0]).data)
            low.write(np.ascontiguousarray(keys[new, 1]).data)


def _mapped(path: Path) -> Words:
    if not path.stat().st_size:
        return np.zeros(0, np.uint64)
    return np.asarray(np.memmap(path, np.uint64, "r"))


def _lock_of(folder: Path, *, shared: bool) -> int:
    """Lock the ids in a folder; returns a descriptor that holds the lock until it is closed."""
    path = folder.with_suffix(".lock")
    with storage_errors("write", str(path)):
        return open_locked(path, shared=shared)


def _close(folder: Path, lock: int) -> None:
    """Give back the lock; remove the files if nobody else holds it."""
    if try_lock(lock):
        _remove(folder)
    os.close(lock)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_suffix(".lock").unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Remove the leftovers of killed processes beside a folder: ids that nobody has locked."""
    for path in set(folder.parent.glob("*.lock")) - {folder.with_suffix(".lock")}:
        with suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDWR)
            with suppress(OSError):
                if try_lock(lock) and is_at(path, lock):
                    _remove(path.with_suffix(""))
            os.close(lock)
