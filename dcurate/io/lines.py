"""Lines of a file by their numbers, read in blocks: a line of any length takes no more memory than a block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

_BLOCK = 2**20


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
    """How many lines there are, blank ones too; the last need not end."""
    count, last = 0, b"\n"
    for _, data in blocks:
        count += data.count(b"\n")
        last = data[-1:]
    return count + (last != b"\n")


def count_rows(blocks: Iterable[ByteBlock]) -> int:
    r"""How many lines are not blank.

    Examples:
        >>> count_rows([ByteBlock(0, b"one\n \nt"), ByteBlock(7, b"wo\n\n")])
        2
    """
    count, begun = 0, False
    for _, data in blocks:
        *lines, rest = data.split(b"\n")
        for line in lines:
            count += begun or bool(line.strip())
            begun = False
        begun = begun or bool(rest.strip())
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
