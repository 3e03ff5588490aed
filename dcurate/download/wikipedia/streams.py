"""Read concatenated compressed streams of a multistream dump; from any byte, complete or damaged."""

from __future__ import annotations

import bz2
import re
from collections.abc import Generator, Iterator
from typing import BinaryIO, NamedTuple

#: A stream that holds more than this is given out before its end, so before it is known to be whole.
LARGEST_HELD = 2**26

_BEGIN = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
_BEGIN_BYTES = 10
_CHUNK = 2**18
_PIECE = 2**22


class ContentSpan(NamedTuple):
    """A span of content, or a position where content is missing.

    Args:
        offset: byte of the file at which its stream begins.
        data: content; that of a stream of ordinary size in one piece, after its checksums were found right.
        fault: the error, if content is missing.
        cut: whether content of the same stream was yielded before the missing part.
    """

    offset: int
    data: bytes = b""
    fault: str = ""
    cut: bool = False


def stretches(file: BinaryIO, start: int = 0, stop: int | None = None) -> Iterator[ContentSpan]:
    """Yield the content of the bzip2 streams that begin from byte ``start`` up to ``stop``; damage ends one stream.

    Memory holds a stream of ordinary size (100 pages), or a few megabytes of a larger one.

    Args:
        file: open for reading bytes, seekable.

    Examples:
        >>> from io import BytesIO
        >>> [piece.data for piece in stretches(BytesIO(bz2.compress(b"one") + bz2.compress(b"two")))]
        [b'one', b'two']
    """
    at, expected = start, start == 0
    while True:
        begin = _next_begin(file, at, stop)
        if expected and begin != at and not _is_padding(file, at, begin):
            yield ContentSpan(at, fault="no bzip2 stream begins here")
        if begin is None or (stop is not None and begin >= stop):
            return
        end = yield from _stream(file, begin)
        at, expected = (begin + 1, False) if end is None else (end, True)


def _next_begin(file: BinaryIO, at: int, stop: int | None) -> int | None:
    """The byte at which the next stream begins, from ``at`` on; None if there is none up to ``stop``."""
    file.seek(at)
    data = b""
    while more := file.read(_CHUNK if data else _BEGIN_BYTES):
        data += more
        match = _BEGIN.search(data)
        if match:
            return at + match.start()
        gone = max(0, len(data) - _BEGIN_BYTES + 1)
        at, data = at + gone, data[gone:]
        if stop is not None and at >= stop:
            break
    return None


def _is_padding(file: BinaryIO, at: int, begin: int | None) -> bool:
    """Whether only zeros and line ends are between two offsets; a range of a complete file may end with them."""
    file.seek(at)
    return not file.read(_CHUNK if begin is None else min(_CHUNK, begin - at)).strip(b"\0\r\n")


def _stream(file: BinaryIO, begin: int) -> Generator[ContentSpan, None, int | None]:
    """Yield the content of a stream; return its end offset, or None if it is damaged."""
    file.seek(begin)
    unpacker = bz2.BZ2Decompressor()
    held, size, delivered = [], 0, False
    while not unpacker.eof:
        packed = file.read(_CHUNK) if unpacker.needs_input else b""
        if unpacker.needs_input and not packed:
            yield ContentSpan(begin, fault="the file ends within a bzip2 stream", cut=delivered)
            return None
        try:
            held.append(unpacker.decompress(packed, _PIECE))
        except OSError as error:
            yield ContentSpan(begin, fault=f"a bzip2 stream is damaged ({error})", cut=delivered)
            return None
        size += len(held[-1])
        if size > LARGEST_HELD:
            yield ContentSpan(begin, b"".join(held))
            held, delivered = [], True
    if any(held):
        yield ContentSpan(begin, b"".join(held))
    return file.tell() - len(unpacker.unused_data)
