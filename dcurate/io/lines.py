"""Read the lines of a file: whole, by a range of bytes, or by their numbers."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

from fsspec.implementations.local import LocalFileSystem

from dcurate.core.batch import FilePart
from dcurate.errors import DataError
from dcurate.fs.listing import check_unchanged

_BLOCK = 2**20
_PIECE = 2**29
_READ_AHEAD = 2**16
#: From so many bytes on, memory for what is read is asked for in large pages.
_LARGE = 2**22


class ByteBlock(NamedTuple):
    """Bytes that follow each other in a file, and where the first of them is."""

    start: int
    data: bytes


def blocks_of(file: BinaryIO, start: int = 0, stop: int | None = None, block: int = _BLOCK) -> Iterator[ByteBlock]:
    r"""The lines of a file whose first byte is in a range, in blocks that may end within a line.

    Args:
        file: open for reading bytes; it must be seekable if ``start`` is not 0.
        stop: one past the last byte of the range; None for the end of the file.

    Examples:
        >>> from io import BytesIO
        >>> [*blocks_of(BytesIO(b"one\ntwo\nthree\n"), 3, 5)]
        [ByteBlock(start=4, data=b't'), ByteBlock(start=5, data=b'wo\n')]
    """
    at = max(start - 1, 0)  # the byte before the range may end the line before the first
    if at:
        file.seek(at)
    within, ended = not start, True
    while data := file.read(block if stop is None else min(block, stop - at)):
        low = 0 if within else data.find(b"\n") + 1
        within = within or low > 0
        if within and low < len(data):
            yield ByteBlock(at + low, data[low:])
            ended = data.endswith(b"\n")
        at += len(data)
    while not ended and stop is not None and (data := file.read(block)):
        high = data.find(b"\n") + 1
        yield ByteBlock(at, data[: high or len(data)])
        at, ended = at + len(data), bool(high)


def in_a_row(pieces: Iterable[bytes]) -> Iterator[ByteBlock]:
    """Pieces of a file that follow each other from its beginning, with their places.

    Examples:
        >>> [*in_a_row([b"one", b"two"])]
        [ByteBlock(start=0, data=b'one'), ByteBlock(start=3, data=b'two')]
    """
    start = 0
    for data in pieces:
        yield ByteBlock(start, data)
        start += len(data)


def count_lines(blocks: Iterable[ByteBlock]) -> int:
    """Count lines, including blank ones and an unterminated last one."""
    count, last = 0, b"\n"
    for _, data in blocks:
        count += data.count(b"\n")
        last = data[-1:]
    return count + (last != b"\n")


def first_lines(blocks: Iterable[ByteBlock], most: int) -> tuple[int, int]:
    r"""Count the lines that hold the first rows, and these: no blank line is a row. No more is read.

    Args:
        blocks: lines of a file.
        most: the number of rows at most.

    Examples:
        >>> blocks = [ByteBlock(0, b"one\n \nt"), ByteBlock(7, b"wo\n\nthree")]
        >>> [first_lines(blocks, most) for most in (1, 2, 3, 4)]
        [(1, 1), (3, 2), (5, 3), (5, 3)]
    """
    lines = rows = 0
    begun, unfinished = False, b""
    for _, data in blocks:
        *whole, unfinished = data.split(b"\n")
        for line in whole:
            lines += 1
            rows += begun or bool(line.strip())
            begun = False
            if rows == most:
                return lines, rows
        begun = begun or bool(unfinished.strip())
    return (lines + 1, rows + 1) if begun else (lines, rows)


def count_rows(blocks: Iterable[ByteBlock]) -> int:
    r"""Count lines that are not blank.

    Examples:
        >>> count_rows([ByteBlock(0, b"one\n \nt"), ByteBlock(7, b"wo\n\n")])
        2
    """
    count, begun = 0, False
    for _, data in blocks:
        *lines, unfinished = data.split(b"\n")
        for line in lines:
            count += begun or bool(line.strip())
            begun = False
        begun = begun or bool(unfinished.strip())
    return count + begun


def lines_between(blocks: Iterable[ByteBlock], first: int, last: int) -> Iterator[ByteBlock]:
    r"""The lines from number ``first`` up to ``last``, counted from 0, in blocks; no more is read than these need.

    Examples:
        >>> [*lines_between([ByteBlock(0, b"one\ntw"), ByteBlock(6, b"o\nthree\n")], 1, 2)]
        [ByteBlock(start=4, data=b'tw'), ByteBlock(start=6, data=b'o\n')]
    """
    number = 0
    for start, data in blocks:
        ends = data.count(b"\n")
        if number + ends >= first:
            low = _after(data, first - number) if number < first else 0
            high = _after(data, last - number) if number + ends >= last else len(data)
            if low < high:
                yield ByteBlock(start + low, data[low:high])
        number += ends
        if number >= last:
            return


def _after(data: bytes, ends: int) -> int:
    """The byte after the end of line number `ends`."""
    place = 0
    for _ in range(ends):
        place = data.index(b"\n", place) + 1
    return place


_UTF16 = "UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8) and try again"
_OTHERS = {
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
    b"{\0": _UTF16,
    b"\0{": _UTF16,
    b"PAR1": "a Parquet file; read it with ParquetReader or, named .parquet, with DocumentReader",
    b"ARROW1": "an Arrow file; write it as Parquet and read it with ParquetReader",
    b"\x1f\x8b": "compressed by gzip; let its name end in .gz",
    b"BZh": "compressed by bzip2; let its name end in .bz2",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; let its name end in .zst",
    b"\xfd7zXZ\0": "compressed by xz; let its name end in .xz",
    b"\x04\x22\x4d\x18": "compressed by lz4; unpack it first",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"WARC/1.": "a WARC file; read it with WarcReader",
}


def check_lines(data: bytes, name: str) -> None:
    """Refuse content that begins like another kind of file: none of its lines could be a row.

    Examples:
        >>> check_lines(b"BZh91AY", "a.jsonl")
        Traceback (most recent call last):
        dcurate.errors.DataError: a.jsonl is compressed by bzip2; let its name end in .bz2

    Raises:
        DataError: says what it is and what to do.
    """
    for beginning, kind in _OTHERS.items():
        if data.startswith(beginning):
            raise DataError(f"{name} is {kind}")


def read_whole(store: Any, path: str, part: FilePart, name: str) -> bytes:
    """The bytes of a file as it was listed."""
    data = _read(path, 0, None) if isinstance(store, LocalFileSystem) else store.cat_file(path)
    # One request gives one version of a remote file, and asking for it would be another request for each small file:
    # of a file that was replaced by one of equal size in between, a resumed run does the split again.
    if isinstance(store, LocalFileSystem) or len(data) != part.size:
        check_unchanged(store, path, part.version, name)
    return data


def _read(path: str, start: int, stop: int | None) -> bytes:
    """The bytes of a range of a local file; fewer if it is shorter now.

    The pages of fresh memory are made one after another while it is written, which takes longer than to copy the file:
    so these are large ones, where Linux has them.
    """
    with open(path, "rb") as file:
        stop = file.seek(0, os.SEEK_END) if stop is None else stop
        file.seek(start)
        if stop - start < _LARGE or not sys.platform.startswith("linux"):
            return file.read(stop - start)
        memory = BytesIO(bytes(stop - start))  # its buffer is written to, and then given away, without a copy
        with memory.getbuffer() as view:
            first = ctypes.addressof(ctypes.c_char.from_buffer(view))
            begin = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
            ctypes.CDLL(None).madvise(
                ctypes.c_void_p(begin), ctypes.c_size_t(first + len(view) - begin), mmap.MADV_HUGEPAGE
            )
            size = 0
            while size < len(view) and (count := file.readinto(view[size:])):
                size += count
        memory.truncate(size)
        return memory.getvalue()


def read_lines_of_range(store: Any, path: str, part: FilePart) -> tuple[bytes, int]:
    """The lines whose first byte lies in the range, and where the first of them begins."""
    stop = part.size if part.stop is None else part.stop
    if isinstance(store, LocalFileSystem):
        with open(path, "rb") as file:  # a line may be read twice: fewer bytes than a copy of the range
            begin = _after_newline(file, part.start - 1, stop) if part.start else 0
            end = stop if stop >= part.size else _after_newline(file, stop - 1, part.size)
        return (_read(path, begin, end) if begin < stop else b""), begin
    begin = max(part.start - 1, 0)
    data: bytes = store.cat_file(path, start=begin, end=stop)
    if part.start:
        newline = data.find(b"\n")
        if newline < 0:
            return b"", part.start
        data, begin = data[newline + 1 :], begin + newline + 1
    if not data or data.endswith(b"\n"):
        return data, begin
    tail, ahead = [data], _READ_AHEAD
    while stop < part.size:
        more: bytes = store.cat_file(path, start=stop, end=min(stop + ahead, part.size))
        newline = more.find(b"\n")
        tail.append(more if newline < 0 else more[: newline + 1])
        if newline >= 0 or not more:
            break
        stop, ahead = stop + len(more), ahead * 2
    return b"".join(tail), begin


def _after_newline(file: BinaryIO, start: int, stop: int) -> int:
    """The position after the first newline of a range of a file; the end of the range if it has none."""
    file.seek(start)
    ahead = _READ_AHEAD
    while start < stop and (data := file.read(min(ahead, stop - start))):
        newline = data.find(b"\n")
        if newline >= 0:
            return start + newline + 1
        start, ahead = start + len(data), min(ahead * 2, _LARGE)
    return stop


def cut_at_lines(data: bytes) -> Iterator[bytes]:
    """Pieces of whole lines, small enough to be parsed at once."""
    start = 0
    while len(data) - start > _PIECE:
        stop = data.rfind(b"\n", start, start + _PIECE) + 1
        if stop <= start:
            stop = data.find(b"\n", start) + 1 or len(data)
        yield data[start:stop]
        start = stop
    if start < len(data):
        yield data[start:] if start else data
