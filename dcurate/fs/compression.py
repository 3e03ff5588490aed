"""Compressed files: bytes to bytes, in one piece or streamed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple, cast

import zstandard

from dcurate.errors import DataError, PipelineError, nearest

#: Endings of compressed files; an empty one means plain.
ENDINGS = ("", ".gz", ".bz2", ".zst", ".xz")

_NAMES = {
    "gzip": ".gz",
    "gz": ".gz",
    "bz2": ".bz2",
    "bzip2": ".bz2",
    "zstd": ".zst",
    "zst": ".zst",
    "xz": ".xz",
    "lzma": ".xz",
}
_LONGEST_WINDOW = 2**31
_BLOCK = 2**18
_SMALLEST_FEED, _LARGEST_FEED = 2**12, 2**24
_DOUBTED = 2**8
#: Zeros may follow a stream, as many as a multiple of this.
_PADDING = {".gz": 1, ".xz": 4}
_BROKEN = (EOFError, ValueError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


def ending_of(path: str) -> str:
    """The ending that says how a file is compressed, empty for plain.

    Examples:
        >>> ending_of("part-00.jsonl.GZ"), ending_of("part-00.jsonl")
        ('.gz', '')
    """
    lower = path.lower()
    return next((ending for ending in ENDINGS[1:] if lower.endswith(ending)), "")


def ending_for(compression: str | None) -> str:
    """The ending for a compression by name.

    Examples:
        >>> ending_for("gzip"), ending_for(None)
        ('.gz', '')

    Raises:
        PipelineError: no such compression.
    """
    if compression is None:
        return ""
    if compression not in _NAMES:
        raise PipelineError(f"compression={compression!r} is not known{nearest(compression, _NAMES)}")
    return _NAMES[compression]


class DamagedStream(NamedTuple):
    """The damage in a compressed file.

    Args:
        at: byte of the file at which the damaged stream begins.
        reason: what is wrong, in words.
        whole: bytes of the content that the streams before it hold.
    """

    at: int
    reason: str
    whole: int


class Lost(NamedTuple):
    """The part of a compressed file that cannot be read.

    Args:
        at: byte of the file at which the damaged stream begins.
        reason: what is wrong, in words.
        doubtful: what could be unpacked of the damaged stream; no checksum confirms it.
    """

    at: int
    reason: str
    doubtful: bytes


def unpack(data: bytes, ending: str, name: str) -> bytes:
    """The content of a compressed file.

    Raises:
        DataError: it is cut short, damaged, or not what its name says.
    """
    content, lost = salvage(data, ending)
    if lost is not None:
        raise _broken(name, ending, lost)
    return content


def salvage(data: bytes, ending: str) -> tuple[bytes, Lost | None]:
    r"""Return the content of a compressed file up to its first damaged stream, and the lost part if there is one.

    Examples:
        >>> one, two = (gzip.compress(text, mtime=0) for text in (b"one", b"two"))
        >>> content, lost = salvage(one + two[:-1], ".gz")
        >>> content, lost.at == len(one), lost.reason, lost.doubtful
        (b'one', True, 'the file ends within it', b'two')
    """
    if not ending:
        return data, None
    pieces: list[bytes] = []
    intact = 0
    try:
        for piece, last in _streams(BytesIO(data), ending, _LARGEST_FEED):
            pieces.append(piece)
            intact = len(pieces) if last else intact
    except _DamageError as error:
        doubtful = b"".join(_doubtful(BytesIO(data), error.at, ending))
        return b"".join(pieces[:intact]), Lost(error.at, error.reason, doubtful)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), None


def damage_in(file: BinaryIO, ending: str) -> DamagedStream | None:
    """Find the damage in a compressed file without holding its content; None if it is whole."""
    size = intact = 0
    try:
        for piece, last in _streams(file, ending):
            size += len(piece)
            intact = size if last else intact
    except _DamageError as error:
        return DamagedStream(error.at, error.reason, intact)
    return None


def salvaged_blocks(file: BinaryIO, ending: str, damage: DamagedStream) -> Iterator[bytes]:
    r"""Yield the result of `salvage` piece by piece: the whole streams, and the doubtful rest.

    Examples:
        >>> one, two = (gzip.compress(text, mtime=0) for text in (b"one", b"two"))
        >>> file = BytesIO(one + two[:-1])
        >>> damage = damage_in(file, ".gz")
        >>> file.seek(0), b"".join(salvaged_blocks(file, ".gz", damage))
        (0, b'onetwo')
    """
    remaining = damage.whole
    for piece, _ in _streams(file, ending) if remaining else ():
        yield piece
        remaining -= len(piece)
        if not remaining:
            break
    yield from _doubtful(file, damage.at, ending)


def head(file: BinaryIO, ending: str, size: int, name: str) -> bytes:
    """The first ``size`` bytes of the content of a compressed file; fewer if it has fewer before the first damage.

    Raises:
        DataError: not even its first stream is whole.
    """
    if not ending:
        return file.read(size)
    data, intact = bytearray(), 0
    try:
        for piece, last in _streams(file, ending):
            data += piece
            if len(data) >= size:
                break
            intact = len(data) if last else intact
    except _DamageError as error:
        if not intact:
            raise _broken(name, ending, error) from error
        del data[intact:]
    return bytes(data[:size])


def blocks(file: BinaryIO, ending: str, name: str) -> Iterator[bytes]:
    """The content of a compressed file, piece by piece.

    Raises:
        DataError: it is cut short, damaged, or not what its name says, where that is found while it is read.
    """
    if not ending:
        yield from iter(lambda: file.read(_BLOCK), b"")
        return
    try:
        yield from (piece for piece, _ in _streams(file, ending))
    except _DamageError as error:
        raise _broken(name, ending, error) from error


class _DamageError(Exception):
    """The stream that begins at a byte of a compressed file cannot be unpacked."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at, self.reason = at, reason


def _broken(name: str, ending: str, lost: Lost | _DamageError) -> DataError:
    where = f" at byte {lost.at:,}" if lost.at else ""
    return DataError(
        f"{name} is truncated or not a {ending} file{where} ({lost.reason}); fetch it again or leave it out"
    )


class _Feed:
    """A file that is read in order, from which bytes can be taken and the last of them given back.

    Attributes:
        at: byte of the file that is taken next.
    """

    def __init__(self, file: BinaryIO, block: int) -> None:
        self.at = 0
        self._file, self._block = file, block
        self._held, self._used = memoryview(b""), 0

    def take(self, size: int) -> memoryview:
        """Read at most `size` bytes; empty at the end of the file."""
        if self._used == len(self._held):
            self._held, self._used = memoryview(self._file.read(self._block)), 0
        taken = self._held[self._used : self._used + size]
        self._used += len(taken)
        self.at += len(taken)
        return taken

    def give_back(self, size: int) -> None:
        """Return the last `size` bytes of the previous read to the buffer."""
        self._used -= size
        self.at -= size


def _streams(file: BinaryIO, ending: str, largest: int = _BLOCK) -> Iterator[tuple[bytes, bool]]:
    """Yield the content of the streams of a compressed file, piece by piece, and whether a piece ends its stream.

    Each stream is given to its unpacker in growing pieces: what follows its end is copied, so that many small streams
    would otherwise cost the square of their number.

    Args:
        largest: packed bytes that are unpacked at once at most.

    Raises:
        _DamageError: a stream is damaged or does not end, or what follows one is none.
    """
    feed, padding = _Feed(file, max(largest, _BLOCK)), _PADDING.get(ending)
    while True:
        if feed.at and padding:
            _pass_padding(feed, padding)
        begin, size = feed.at, _SMALLEST_FEED
        packed = feed.take(size)
        if not packed:
            return
        unpacker = _UNPACKER[ending]()
        while True:
            try:
                data = unpacker.decompress(packed)
            except _BROKEN as error:
                raise _DamageError(begin, str(error)) from error
            if unpacker.eof:
                break
            yield data, False
            size = min(2 * size, largest)
            packed = feed.take(size)
            if not packed:
                raise _DamageError(begin, "the file ends within it")
        feed.give_back(len(unpacker.unused_data))
        yield data, True


def _pass_padding(feed: _Feed, unit: int) -> None:
    """Skip the zeros that may follow a stream; their number must be a multiple of `unit`."""
    begin = feed.at
    while packed := feed.take(_SMALLEST_FEED):
        excess = len(bytes(packed).lstrip(b"\0"))
        if excess:
            feed.give_back(excess)
            break
    if (feed.at - begin) % unit:
        raise _DamageError(begin, f"{feed.at - begin} bytes of padding are not a multiple of {unit}")


def _doubtful(file: BinaryIO, at: int, ending: str) -> Iterator[bytes]:
    """Return as much as can be decompressed of the damaged stream that begins at a byte."""
    unpacker = _UNPACKER[ending]()
    file.seek(at)
    while packed := file.read(_BLOCK):
        for begin in range(0, len(packed), _DOUBTED):
            try:
                piece = unpacker.decompress(packed[begin : begin + _DOUBTED])
            except _BROKEN:
                return
            yield piece


def _zstd() -> Any:
    return zstandard.ZstdDecompressor(max_window_size=_LONGEST_WINDOW).decompressobj()


#: What makes an object that unpacks one stream, as `zlib.decompressobj` does.
_UNPACKER: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(31),
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lzma.LZMADecompressor,
    ".zst": _zstd,
}


@contextmanager
def packing(file: BinaryIO, ending: str) -> Iterator[BinaryIO]:
    """A file to write to, whose content goes compressed into ``file``; the same content gives the same bytes."""
    if not ending:
        yield file
        return
    packed = _packed(file, ending)
    try:
        yield packed
    finally:
        packed.close()


def _packed(file: BinaryIO, ending: str) -> BinaryIO:
    if ending == ".gz":
        return cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0))
    if ending == ".bz2":
        return cast(BinaryIO, bz2.BZ2File(file, "wb"))
    if ending == ".xz":
        return cast(BinaryIO, lzma.LZMAFile(file, "wb"))
    return cast(BinaryIO, zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False))
