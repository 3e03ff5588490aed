"""Ranges of bytes of files: read together where they lie close, in turn from a compressed file, kept for a while."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar

from fsspec.implementations.local import LocalFileSystem

from dcurate.errors import DataError
from dcurate.fs.compression import blocks
from dcurate.fs.listing import file_entry
from dcurate.media.names import compression_of

#: Bytes between ranges of a remote file that are read in one request all the same, and bytes of a request, at most.
_GAP, _REQUEST = 2**16, 2**25
#: Bytes of content that a process keeps, and the largest that it keeps.
_KEPT, _LARGEST_KEPT = 2**26, 2**24
#: Seconds for which a remote file counts as unchanged.
_FRESH_S = 60.0
#: Compressed files that a process keeps open, to go on reading where it stopped.
_STREAMS = 4

K = TypeVar("K", bound=Hashable)


class Place(NamedTuple):
    """A range of bytes."""

    offset: int
    size: int


class Version(NamedTuple):
    """What changes when the content of a file does, and its size."""

    tag: str
    size: int


class _ContentCache(Generic[K]):
    """The content that was asked for last, bounded by its bytes."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._held: OrderedDict[K, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> bytes | None:
        with self._lock:
            data = self._held.get(key)
            if data is not None:
                self._held.move_to_end(key)
            return data

    def put(self, key: K, data: bytes) -> None:
        if len(data) > _LARGEST_KEPT:
            return
        with self._lock:
            self._size += len(data) - len(self._held.pop(key, b""))
            self._held[key] = data
            while self._size > self._most:
                self._size -= len(self._held.popitem(last=False)[1])


#: The content of files by reference and version.
CACHE: _ContentCache[Any] = _ContentCache(_KEPT)

_versions: dict[tuple[str, str], tuple[float, Version]] = {}


def version_of(store: Any, path: str) -> Version:
    """Return the version of a file; that of a remote one is asked for once a minute.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    if isinstance(store, LocalFileSystem):
        status = os.stat(path)
        return Version(f"{path}-{status.st_dev}-{status.st_ino}-{status.st_mtime_ns}", status.st_size)
    key = str(store.unstrip_protocol(path)), store._fs_token
    kept = _versions.get(key)
    if kept is not None and time.monotonic() - kept[0] < _FRESH_S:
        return kept[1]
    store.invalidate_cache(path)
    entry = file_entry(store, path)
    version = Version(f"{key[0]}-{entry.version}", entry.size)
    if len(_versions) > 10_000:
        _versions.clear()
    _versions[key] = time.monotonic(), version
    return version


def from_store(store: Any, path: str, wanted: Mapping[Any, Place], local: bool) -> dict[Any, bytes]:
    """Read ranges of a file; fewer bytes where it ends before."""
    if local:
        with open(path, "rb", buffering=0) as file:
            return {key: _at(file.fileno(), place) for key, place in wanted.items()}
    contents: dict[Any, bytes] = {key: b"" for key, place in wanted.items() if not place.size}
    spans = list(_joined([place for place in wanted.values() if place.size]))
    pieces = store.cat_ranges([path] * len(spans), [span[0] for span in spans], [span[1] for span in spans])
    parts = dict(zip(spans, pieces, strict=True))
    for key, place in wanted.items():
        for (start, stop), data in parts.items() if place.size else ():
            if start <= place.offset and place.offset + place.size <= stop:
                if isinstance(data, Exception):
                    raise data
                contents[key] = bytes(data[place.offset - start : place.offset - start + place.size])
                break
    return contents


def _at(file: int, place: Place) -> bytes:
    pieces, at, remaining = [], place.offset, place.size
    while remaining:
        data = os.pread(file, remaining, at)
        if not data:
            break
        pieces.append(data)
        at, remaining = at + len(data), remaining - len(data)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _joined(places: list[Place]) -> Iterator[tuple[int, int]]:
    """Return the ranges to request: those that lie close together are one.

    Examples:
        >>> list(_joined([Place(10, 5), Place(0, 10), Place(10**6, 1)]))
        [(0, 15), (1000000, 1000001)]
    """
    start = stop = -1
    for offset, size in sorted(set(places)):
        if start >= 0 and offset <= stop + _GAP and max(stop, offset + size) - start <= _REQUEST:
            stop = max(stop, offset + size)
            continue
        if start >= 0:
            yield start, stop
        start, stop = offset, offset + size
    if start >= 0:
        yield start, stop


class UnpackedStream:
    """The unpacked content of a compressed file, read once from front to back.

    Args:
        file: the file, closed by `close`.
        pieces: its content.

    Attributes:
        at: byte of the content that is read next.
        damage: why it cannot be read further, if that is so.
    """

    def __init__(self, file: BinaryIO, pieces: Iterator[bytes]) -> None:
        self._file, self._pieces = file, pieces
        self._held = memoryview(b"")
        self.at = 0
        self.damage = ""

    @classmethod
    def of(cls, store: Any, path: str, name: str) -> UnpackedStream:
        """Open a compressed file."""
        file = store.open(path, "rb")
        return cls(file, blocks(file, compression_of(path), name))

    def read(self, place: Place) -> bytes:
        """Return a range that begins at or after the end of the last one; fewer bytes where the content ends."""
        while self.at < place.offset and self._filled():
            self._take(place.offset - self.at)
        pieces: list[memoryview] = []
        end = place.offset + place.size
        while self.at < end and self._filled():
            pieces.append(self._take(end - self.at))
        return b"".join(pieces)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _filled(self) -> bool:
        while not self._held:
            try:
                piece = next(self._pieces, None)
            except DataError as error:  # ranges behind are short
                piece, self.damage = None, str(error)
            if piece is None:
                return False
            self._held = memoryview(piece)
        return True

    def _take(self, size: int) -> memoryview:
        taken, self._held = self._held[:size], self._held[size:]
        self.at += len(taken)
        return taken


_streams: OrderedDict[tuple[Version, int], UnpackedStream] = OrderedDict()


def from_stream(store: Any, path: str, version: Version, name: str, wanted: Mapping[Any, Place]) -> dict[Any, bytes]:
    """Read ranges of the unpacked content of a compressed file; fewer bytes where it ends, or is damaged, before.

    The file is read in turn. It stays open for a while, so that the next rows are read on from where these ended.
    """
    key = version, threading.get_ident()
    ordered = sorted(wanted.items(), key=lambda pair: pair[1])
    stream = _streams.pop(key, None)
    if stream is not None and ordered[0][1].offset < stream.at:
        stream.close()
        stream = None
    stream = stream or UnpackedStream.of(store, path, name)
    done: dict[Place, bytes] = {}
    try:
        for _, place in ordered:
            if place not in done:
                if place.offset < stream.at:  # ranges that overlap
                    stream.close()
                    stream = UnpackedStream.of(store, path, name)
                done[place] = stream.read(place)
    except BaseException:
        stream.close()
        raise
    _streams[key] = stream
    while len(_streams) > _STREAMS:
        _streams.popitem(last=False)[1].close()
    return {wanted_key: done[place] for wanted_key, place in ordered}
