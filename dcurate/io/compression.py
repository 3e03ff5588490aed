"""Compressed files: bytes to bytes, in one piece or streamed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

import zstandard

from dcurate.errors import DataError, PipelineError, nearest

#: Endings of compressed files; the empty one stands for plain.
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


def unpack(data: bytes, ending: str, name: str) -> bytes:
    """The content of a compressed file.

    Raises:
        DataError: it is cut short or not what its name says.
    """
    try:
        return _UNPACK[ending](data)
    except _BROKEN as error:
        raise _broken(name, ending, error) from error


def head(file: BinaryIO, ending: str, size: int, name: str) -> bytes:
    """The first ``size`` bytes of the content of a compressed file, fewer if it has fewer."""
    try:
        return _STREAM[ending](file).read(size)
    except _BROKEN as error:
        raise _broken(name, ending, error) from error


@contextmanager
def streamed(file: BinaryIO, ending: str, name: str) -> Iterator[BinaryIO]:
    """The content of a compressed file, to be read piece by piece.

    Raises:
        DataError: it is cut short or not what its name says, where that is found while it is read.
    """
    try:
        yield _STREAM[ending](file)
    except _BROKEN as error:
        raise _broken(name, ending, error) from error


def _broken(name: str, ending: str, error: BaseException) -> DataError:
    return DataError(f"{name} is cut short or is no {ending} file ({error}); fetch it again or leave it out")


def _unpack_zstd(data: bytes) -> bytes:
    pieces = []
    rest = data
    while rest:
        frame = zstandard.ZstdDecompressor(max_window_size=_LONGEST_WINDOW).decompressobj()
        pieces.append(frame.decompress(rest))
        if not frame.eof:
            raise EOFError("the last frame does not end")
        rest = frame.unused_data
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _stream_zstd(file: BinaryIO) -> BinaryIO:
    unpacker = zstandard.ZstdDecompressor(max_window_size=_LONGEST_WINDOW)
    return cast(BinaryIO, unpacker.stream_reader(file, read_across_frames=True))


_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": _unpack_zstd,
}
_STREAM: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    "": lambda file: file,
    ".gz": cast(Callable[[BinaryIO], BinaryIO], gzip.open),
    ".bz2": cast(Callable[[BinaryIO], BinaryIO], bz2.open),
    ".xz": cast(Callable[[BinaryIO], BinaryIO], lzma.open),
    ".zst": _stream_zstd,
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
