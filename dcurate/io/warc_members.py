"""Read archives of compressed members (gzip, Zstandard, LZ4, bzip2, xz), or plain ones, piece by piece.

Damage costs the member that it is in: reading goes on at the next place where a member begins.
"""

from __future__ import annotations

import bz2
import importlib
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import zstandard

from dcurate.errors import ResourceError

_READ = 2**18
_KEPT = 2**26
_LONGEST_MAGIC = 16
_LONGEST_WINDOW = 2**27
_LARGEST_DICTIONARY = 2**24
_ZSTD_DICTIONARY = b"\x5d\x2a\x4d\x18"
_ZSTD_FRAME = b"\x28\xb5\x2f\xfd"
_BROKEN = (EOFError, OSError, RuntimeError, ValueError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


class Piece(NamedTuple):
    """Some bytes of an archive, unpacked.

    Args:
        data: the bytes; empty where there is damage.
        offset: byte of the file where the member that holds them begins; in a plain file, where they begin.
        first: whether they are the first of a member.
        damage: why nothing more can be had of the member, or nothing can be had up to the next one.
    """

    data: bytes
    offset: int
    first: bool = False
    damage: str = ""


@dataclass(frozen=True)
class Packing:
    """The compression of an archive.

    Args:
        name: for messages.
        magic: what a member begins with.
        unpacker: makes an object that unpacks one member, as `zlib.decompressobj` does.
        feed: compressed bytes that it is given at once.
        head: compressed bytes after which a member has given some content, if it is one.
    """

    name: str
    magic: re.Pattern[bytes]
    unpacker: Callable[[], Any]
    feed: int = 2**16
    head: int = 2**24


class Archive:
    """A file that is read in order, whose bytes are kept as long as a search may have to go back to them.

    Args:
        begins: whether unpacked bytes begin a record.
        start: the byte to begin at.
        holds: whether unpacked bytes hold a whole record.
    """

    def __init__(
        self,
        file: BinaryIO,
        begins: Callable[[bytes], bool],
        start: int = 0,
        holds: Callable[[bytes], bool] = lambda data: False,
    ) -> None:
        self.begins, self.holds = begins, holds
        self._file = file
        self._data = bytearray()
        self._base = 0
        self._over = False
        self.packing = _packing_of(self)
        if start:
            file.seek(start)
            self._data, self._base, self._over = bytearray(), start, False

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer at the end of the file."""
        self._load(position + size)
        begin = position - self._base
        return bytes(self._data[begin : begin + size])

    def release(self, position: int) -> None:
        """Nothing before the position is read again."""
        if position - self._base >= _READ:
            del self._data[: position - self._base]
            self._base = position

    def find(self, pattern: re.Pattern[bytes], position: int, limit: int | None = None) -> int | None:
        """Return the first match of the pattern from a position (or from the first byte still kept) up to a limit."""
        position = max(position, self._base)
        while limit is None or position < limit:
            match = pattern.search(self._data, position - self._base)
            if match and (match.end() < len(self._data) or self._over):
                return match.start() + self._base
            if self._over:
                return None
            position = max(position, self._base + len(self._data) - _LONGEST_MAGIC)
            self.release(position)
            self._load(self._base + len(self._data) + 1)
        return None

    def _load(self, end: int) -> None:
        while not self._over and self._base + len(self._data) < end:
            more = self._file.read(_READ)
            self._over = not more
            self._data += more
            if len(self._data) > _KEPT + _READ:
                excess = len(self._data) - _KEPT
                del self._data[:excess]
                self._base += excess


def pieces(archive: Archive, start: int = 0, stop: int | None = None) -> Iterator[Piece]:
    """The content of an archive, in order; from the first member on that begins, with a record, in a range of bytes.

    Raises:
        ResourceError: the package that unpacks it is not installed.
    """
    if archive.packing is None:
        return _plain(archive, start)
    at = _next(archive, archive.packing, start, archive.begins, stop) if start else 0
    return _members(archive, archive.packing, at)


def _plain(archive: Archive, position: int) -> Iterator[Piece]:
    first = True
    while data := archive.read(position, _READ):
        yield Piece(data, position, first)
        first = False
        position += len(data)
        archive.release(position)


def _members(archive: Archive, packing: Packing, at: int | None) -> Iterator[Piece]:
    if at == 0 and archive.read(0, 1) == b"\0":  # padding only follows a member
        yield Piece(b"", 0, True, f"no {packing.name} member begins here")
    while at is not None:
        archive.release(at)
        at = _without_padding(archive, at)
        if not archive.read(at, 1):
            return
        damage, position, first = "", at, True
        unpacker = packing.unpacker()
        while not unpacker.eof:
            packed = archive.read(position, packing.feed)
            if not packed:
                damage = f"the file ends within a {packing.name} member"
                break
            try:
                data = unpacker.decompress(packed)
            except _BROKEN as error:
                damage = f"damaged {packing.name} member ({error})"
                break
            position += len(packed)
            if data:
                yield Piece(data, at, first)
                first = False
        if damage:
            yield Piece(b"", at, first, damage)
            at = _next(archive, packing, at + 1)
        else:
            at = position - len(unpacker.unused_data or b"")


def _next(
    archive: Archive,
    packing: Packing,
    position: int,
    begins: Callable[[bytes], bool] = bool,
    stop: int | None = None,
) -> int | None:
    """Return the start of the next member before `stop` whose first bytes can be decompressed."""
    at = archive.find(packing.magic, position, stop)
    while at is not None:
        try:
            if begins(_first_bytes(archive, packing, at)):
                return at
        except _BROKEN:
            pass
        at = archive.find(packing.magic, at + 1, stop)
    return None


def _first_bytes(archive: Archive, packing: Packing, position: int) -> bytes:
    """Return the first block of a member; some formats decompress only whole blocks."""
    unpacker = packing.unpacker()
    data, remaining = b"", packing.head
    while not data and not unpacker.eof and (packed := archive.read(position, min(packing.feed, remaining))):
        data = bytes(unpacker.decompress(packed))
        position, remaining = position + len(packed), remaining - len(packed)
    return data


def _without_padding(archive: Archive, position: int) -> int:
    while archive.read(position, 1) == b"\0":
        block = archive.read(position, _READ)
        position += len(block) - len(block.lstrip(b"\0"))
        archive.release(position)
    return position


def _packing_of(archive: Archive) -> Packing | None:
    """Return the compression of the file, by the first record near its head; None for plain."""
    head = archive.read(0, _READ)
    dictionary = _dictionary(archive) if head.startswith(_ZSTD_DICTIONARY) else None
    if dictionary is not None:
        return _zstd(dictionary)
    if archive.begins(head):
        return None
    candidates = sorted(
        (match.start(), number) for number, packing in enumerate(_PACKINGS) if (match := packing.magic.search(head))
    )
    for _, number in candidates:
        if _next(archive, _PACKINGS[number], 0, archive.begins, len(head)) is not None:
            return _PACKINGS[number]
    if archive.holds(head):  # a plain file of which the first bytes were damaged, and look like a packing's
        return None
    return next((_PACKINGS[number] for at, number in candidates if not at), None)


def _zstd(dictionary: zstandard.ZstdCompressionDict | None = None) -> Packing:
    def unpacker() -> Any:
        return zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=_LONGEST_WINDOW).decompressobj()

    return Packing("Zstandard", re.compile(re.escape(_ZSTD_FRAME)), unpacker, feed=2**13)


def _dictionary(archive: Archive) -> zstandard.ZstdCompressionDict | None:
    """What a frame to be skipped at the beginning holds: https://iipc.github.io/warc-specifications (WARC, zstd)."""
    size = int.from_bytes(archive.read(4, 4), "little")
    if size > _LARGEST_DICTIONARY or archive.read(8 + size, 4) != _ZSTD_FRAME:
        return None
    content = archive.read(8, size)
    try:
        if content.startswith(_ZSTD_FRAME):
            content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
        return zstandard.ZstdCompressionDict(content)
    except _BROKEN:
        return None


def _lz4() -> Any:
    try:
        frame = importlib.import_module("lz4.frame")
    except ImportError as error:
        raise ResourceError("reading LZ4 archives needs the 'html' extra: pip install 'dcurate[html]'") from error
    return frame.LZ4FrameDecompressor()


_PACKINGS = (
    Packing("gzip", re.compile(rb"\x1f\x8b\x08[\x00-\x1f]"), lambda: zlib.decompressobj(31), head=2**13),
    _zstd(),
    Packing("LZ4", re.compile(rb"\x04\x22\x4d\x18"), _lz4, feed=2**13),
    Packing("bzip2", re.compile(rb"BZh[1-9]1AY&SY"), bz2.BZ2Decompressor, feed=2**13),
    Packing("xz", re.compile(rb"\xfd7zXZ\x00"), lzma.LZMADecompressor, feed=2**13),
)
