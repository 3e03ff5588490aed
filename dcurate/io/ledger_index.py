"""An index of the records of a ledger by the hashes of their splits: sorted runs, the long ones on disk."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from dcurate.errors import RunError

#: Entries of a run that is kept in memory at most; a longer one is in a file without a name.
MOST_IN_MEMORY = 16_384

#: Entries of a block, which are read together to find one; number of blocks that are merged together.
_BLOCK, _CHUNK = 512, 65_536 // 512

#: Hashes of the names of splits.
Keys: TypeAlias = npt.NDArray[np.uint64]

#: Where records are: the number of a segment in the upper half, that of a row in the lower.
Places: TypeAlias = npt.NDArray[np.int64]

_Entries: TypeAlias = tuple[Keys, Places]


class RecordIndex:
    """Finds the places of records by a hash, with 16 bytes for each on disk and next to nothing in memory.

    Entries are in sorted runs, each of which has at least twice as many as the next.

    Args:
        is_present: says which places are of segments that exist; the others are left out when runs are merged.

    Raises:
        RunError: the temporary folder is full or cannot be written.

    Examples:
        >>> index = RecordIndex(lambda places: places < 5)
        >>> index.add(np.array([8, 3], np.uint64), np.array([0, 1]))
        >>> index.add(np.array([3, 9], np.uint64), np.array([2, 5]))
        >>> index.find(3), index.find(4), index.find(9)
        ([2, 1], [], [])
    """

    def __init__(self, is_present: Callable[[Places], npt.NDArray[np.bool_]]) -> None:
        self._is_present = is_present
        self._runs: list[_Run] = []

    def add(self, keys: Keys, places: Places) -> None:
        """Add entries, which are all in memory."""
        order = np.argsort(keys, kind="stable")
        self._runs.append(_Run([(keys[order], places[order])]))
        while len(self._runs) > 1 and self._runs[-2].rows < 2 * self._runs[-1].rows:
            self._merge_last()

    def find(self, key: int) -> list[int]:
        """Return the places of a hash, the largest first."""
        wanted = np.uint64(key)
        return sorted((place for run in self._runs for place in run.find(wanted)), reverse=True)

    def repeated(self) -> Iterator[int]:
        """Yield the places of hashes that have several."""
        while len(self._runs) > 1:
            self._merge_last()
        before = _joined([])
        for chunk in self._runs[0].chunks() if self._runs else ():
            keys, places = _joined([before, chunk])
            same = np.flatnonzero(keys[1:] == keys[:-1])
            yield from places[np.union1d(same, same + 1)].tolist()
            before = keys[-1:], places[-1:]

    def _merge_last(self) -> None:
        longer, shorter = self._runs[-2:]
        self._runs[-2:] = [_Run(self._present(_merged(longer.chunks(), shorter.chunks())))]

    def _present(self, chunks: Iterable[_Entries]) -> Iterator[_Entries]:
        for keys, places in chunks:
            present = self._is_present(places)
            yield keys[present], places[present]


class _Run:
    """Entries in the order of their hashes: in memory, or in blocks on disk, each its hashes and then their places.

    Args:
        chunks: the entries, in this order.
    """

    def __init__(self, chunks: Iterable[_Entries]) -> None:
        self.rows = 0
        self._waiting: list[_Entries] = []
        self._file: BinaryIO | None = None
        self._firsts = np.empty(0, np.uint64)  # the first hash of each block on disk
        for keys, places in chunks:
            self._waiting.append((keys, places))
            self.rows += len(keys)
            if sum(len(waiting) for waiting, _ in self._waiting) > MOST_IN_MEMORY:
                self._write(whole=True)
        if len(self._firsts):
            self._write(whole=False)
        self._waiting = [_joined(self._waiting)]

    def find(self, key: np.uint64) -> Iterator[int]:
        """Yield the places of a hash."""
        yield from _places_of(key, self._waiting[0])
        block = max(0, int(self._firsts.searchsorted(key)) - 1)
        while block < len(self._firsts) and self._firsts[block] <= key:
            yield from _places_of(key, self._read(block))
            block += 1

    def chunks(self) -> Iterator[_Entries]:
        """Yield all entries."""
        for block in range(0, len(self._firsts), _CHUNK):
            parts = [self._read(number) for number in range(block, min(block + _CHUNK, len(self._firsts)))]
            yield _joined(parts)
        yield self._waiting[0]

    def _write(self, whole: bool) -> None:
        """Write what waits to disk; with ``whole`` what fills no block goes on waiting."""
        keys, places = _joined(self._waiting)
        rows = len(keys) - len(keys) % _BLOCK if whole else len(keys)
        self._waiting = [(keys[rows:].copy(), places[rows:].copy())]
        with _disk():
            if self._file is None:
                self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - closed with the run
                weakref.finalize(self, self._file.close)
            for start in range(0, rows, _BLOCK):
                stop = min(start + _BLOCK, rows)
                self._file.write(keys[start:stop].tobytes() + places[start:stop].tobytes())
            self._file.flush()
        self._firsts = np.concatenate([self._firsts, keys[:rows:_BLOCK]])

    def _read(self, block: int) -> _Entries:
        """Return the entries of a block."""
        assert self._file is not None
        rows = min(_BLOCK, self.rows - block * _BLOCK)
        data = os.pread(self._file.fileno(), 16 * rows, 16 * _BLOCK * block)
        return np.frombuffer(data, np.uint64, rows), np.frombuffer(data, np.int64, rows, 8 * rows)


def _places_of(key: np.uint64, entries: _Entries) -> list[int]:
    keys, places = entries
    start = int(keys.searchsorted(key))
    if start == len(keys) or keys[start] != key:
        return []
    return cast(list[int], places[start : keys.searchsorted(key, "right")].tolist())


def _joined(parts: Sequence[_Entries]) -> _Entries:
    if not parts:
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    return np.concatenate([keys for keys, _ in parts]), np.concatenate([places for _, places in parts])


def _merged(first: Iterator[_Entries], second: Iterator[_Entries]) -> Iterator[_Entries]:
    """Yield the entries of two runs in the order of their hashes, with a chunk of each in memory."""
    ahead, behind = next(first, None), next(second, None)
    while ahead is not None and behind is not None:
        if not len(ahead[0]):
            ahead = next(first, None)
        elif not len(behind[0]):
            behind = next(second, None)
        else:
            limit = min(ahead[0][-1], behind[0][-1])
            lower = [entries[0].searchsorted(limit, "right") for entries in (ahead, behind)]
            keys, places = _joined([_slice(ahead, 0, lower[0]), _slice(behind, 0, lower[1])])
            order = np.argsort(keys, kind="stable")
            yield keys[order], places[order]
            ahead, behind = _slice(ahead, lower[0]), _slice(behind, lower[1])
    for rest, run in ((ahead, first), (behind, second)):
        if rest is not None:
            yield rest
            yield from run


def _slice(entries: _Entries, start: int, stop: int | None = None) -> _Entries:
    return entries[0][start:stop], entries[1][start:stop]


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"the index of the ledger cannot be kept in the temporary folder ({error}); free space there, or name "
            "another folder in the environment variable TMPDIR"
        ) from error
