"""Signals of the lines and paragraphs of a text, and their repetition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.hashing import find_leader, hash_bytes, load_eight, table_bits
from dcurate.kernels.layout import ALLOCATING, INLINE_LATE, Bytes, Ints, Places, Scalar, Words
from dcurate.kernels.signal import columns, signal
from dcurate.kernels.unicode import count_characters, space_width, space_width_before
from dcurate.kernels.words import first_high

_NEWLINE = 10
_NEWLINES = np.uint64(0x0A0A0A0A0A0A0A0A)
_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_LOWER = 32
#: The bullets, which all are three bytes that begin with E2, without that byte.
_BULLETS = np.array([int.from_bytes(mark.encode()[1:], "big") for mark in "•‣⁃⁌⁍∙○●◘◦⦾⦿"], np.int64)
_ENDS_SENTENCE = np.array([byte in b".?!\"'" for byte in range(256)])
_READ_MORE = np.frombuffer(b"read more", np.uint8).copy()


class LineSignals(NamedTuple):
    """Line statistics of each text; lines are separated by newlines and not blank.

    ``characters`` is their length together, ``unique`` how many different ones there are, ``unique_characters``
    the length of these, ``bulleted`` counts lines that begin with a bullet, ``trailing`` those that end with an
    ellipsis or "read more", ``unended`` those that do not end with ``. ? ! " '``, whitespace around them aside.
    """

    total: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int64]
    unique: npt.NDArray[np.int64]
    unique_characters: npt.NDArray[np.int64]
    bulleted: npt.NDArray[np.int64]
    trailing: npt.NDArray[np.int64]
    unended: npt.NDArray[np.int64]


class ParagraphSignals(NamedTuple):
    """The paragraphs of each text, separated by two consecutive newlines, blank or not.

    ``characters`` is their length together, ``unique`` how many different ones there are, ``unique_characters``
    the length of these; ``blank`` is 1 for a text of whitespace only, else 0.
    """

    total: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int64]
    unique: npt.NDArray[np.int64]
    unique_characters: npt.NDArray[np.int64]
    blank: npt.NDArray[np.int64]


@njit(**INLINE_LATE)
def _is_bullet(data: Bytes, start: int, stop: int) -> Scalar:
    if stop - start < 3 or data[start] != 0xE2:
        return False
    character = (np.int64(data[start + 1]) << 8) | np.int64(data[start + 2])
    for bullet in _BULLETS:  # noqa: SIM110 - a loop compiles to less than a generator
        if character == bullet:
            return True
    return False


@njit(**INLINE_LATE)
def _is_dots(data: Bytes, start: int, stop: int) -> Scalar:
    """Whether the span ends with three dots or the ellipsis character."""
    if stop - start < 3:
        return False
    if data[stop - 1] == 0x2E:
        return data[stop - 2] == 0x2E and data[stop - 3] == 0x2E
    return data[stop - 1] == 0xA6 and data[stop - 2] == 0x80 and data[stop - 3] == 0xE2


@njit(**INLINE_LATE)
def _says_read_more(data: Bytes, start: int, stop: int) -> Scalar:
    if stop - start < _READ_MORE.size:
        return False
    for step in range(_READ_MORE.size):
        byte = data[stop - _READ_MORE.size + step]
        if (byte | _LOWER if 65 <= byte <= 90 else byte) != _READ_MORE[step]:
            return False
    return True


@njit(**INLINE_LATE)
def _is_trailing(data: Bytes, start: int, stop: int) -> Scalar:
    """Whether a line, stripped, ends with one of the ellipsis marks."""
    last = data[stop - 1]
    if last == 0x2E:
        return _is_dots(data, start, stop) or (
            stop - start > 2 and data[stop - 2] == 0x2E and _says_read_more(data, start, stop - 2)
        )
    if last == 0xA6:
        return _is_dots(data, start, stop)
    if last == 0x5D:
        return _is_dots(data, start + 1, stop - 1) and data[stop - 5] == 0x5B
    if last == 0x29:
        return _is_dots(data, start + 1, stop - 1) and data[stop - 5] == 0x28
    if last == 0xBB:
        return stop - start > 2 and data[stop - 2] == 0xC2 and data[stop - 3] == 0x2D
    return _says_read_more(data, start, stop)


@njit(**INLINE_LATE)
def _unique(hashes: Words, lengths: Ints, count: int, table: Places) -> tuple[Scalar, Scalar]:
    """The number of distinct hashes, and the sum of their lengths."""
    bits = table_bits(count)
    table[: 1 << bits] = 0
    unique = characters = 0
    for at in range(count):
        if find_leader(table, bits, hashes, at) == at:
            unique += 1
            characters += lengths[at]
    return unique, characters


@njit(**INLINE_LATE)
def _after_spaces(data: Bytes, start: int, stop: int) -> Scalar:
    """The first position that is not whitespace; ``stop`` if there is none."""
    while start < stop:
        width = space_width(data, start, stop)
        if width == 0:
            break
        start += width
    return start


@njit(**INLINE_LATE)
def _before_spaces(data: Bytes, start: int, stop: int) -> Scalar:
    """The end of the last character that is not whitespace; there must be one after ``start``."""
    width = space_width_before(data, start, stop)
    while width > 0:
        stop -= width
        width = space_width_before(data, start, stop)
    return stop


@njit(**INLINE_LATE)
def line_end(data: Bytes, start: int, stop: int) -> Scalar:
    """The position of the next newline, or ``stop``; eight bytes at a time."""
    while start + 8 <= stop:
        differences = load_eight(data, start) ^ _NEWLINES
        newlines = (differences - _ONES) & ~differences & _HIGH
        if newlines:
            return start + first_high(newlines)
        start += 8
    while start < stop and data[start] != _NEWLINE:
        start += 1
    return start


@njit(**INLINE_LATE)
def _paragraph_end(data: Bytes, start: int, stop: int) -> Scalar:
    end = line_end(data, start, stop)
    while end < stop and not (end + 1 < stop and data[end + 1] == _NEWLINE):
        end = line_end(data, end + 1, stop)
    return end


class LineScratch(NamedTuple):
    """Scratch for one text: the hash and the length of each line or paragraph, and a hash table of them."""

    hashes: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.int64]
    table: npt.NDArray[np.int32]


@njit(**ALLOCATING)
def new_line_scratch(most: int, tables: int) -> LineScratch:
    """Scratch for texts of at most ``most`` bytes; memory is allocated lazily."""
    lines = most // 2 + 1
    table = np.empty(1 << int(table_bits(lines)), np.int32)
    return LineScratch(np.empty(lines, np.uint64), np.empty(lines, np.int64), table)


@njit(**INLINE_LATE)
def measure_lines(data: Bytes, span: tuple[int, int], tables: int, scratch: LineScratch, out: Ints) -> None:
    """Measure the lines of one text, as in `LineSignals`."""
    hashes, lengths, table = scratch
    at, stop = span
    ascii_only = count_characters(data, at, stop) == stop - at
    total = characters = bulleted = trailing = unended = 0
    while at < stop:
        start, end = at, line_end(data, at, stop)
        at = end + 1
        first = _after_spaces(data, start, end)
        if first == end:
            continue
        last = _before_spaces(data, first, end)
        length = end - start if ascii_only else count_characters(data, start, end)
        hashes[total], lengths[total] = hash_bytes(data, start, end), length
        characters += length
        total += 1
        bulleted += _is_bullet(data, first, last)
        trailing += _is_trailing(data, first, last)
        unended += not _ENDS_SENTENCE[data[last - 1]]
    out[0], out[1] = total, characters
    out[2], out[3] = _unique(hashes, lengths, total, table)
    out[4], out[5], out[6] = bulleted, trailing, unended


@njit(**INLINE_LATE)
def measure_paragraphs(data: Bytes, span: tuple[int, int], tables: int, scratch: LineScratch, out: Ints) -> None:
    """Measure the paragraphs of one text, as in `ParagraphSignals`."""
    hashes, lengths, table = scratch
    start, stop = span
    out[4] = _after_spaces(data, start, stop) == stop
    ascii_only = count_characters(data, start, stop) == stop - start
    total = characters = 0
    while start <= stop:
        end = _paragraph_end(data, start, stop)
        length = end - start if ascii_only else count_characters(data, start, end)
        hashes[total], lengths[total] = hash_bytes(data, start, end), length
        characters += length
        total += 1
        start = end + 2 if end < stop else stop + 1
    out[0], out[1] = total, characters
    out[2], out[3] = _unique(hashes, lengths, total, table)


@signal(measure_lines, columns(LineSignals), scratch=Scratch(new_line_scratch))
def line_signals() -> int:
    r"""Measure lines.

    Examples:
        >>> text = "• one.\n\n• one.\nand so on...".encode()
        >>> signals = line_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> [int(count[0]) for count in signals]
        [3, 24, 2, 18, 2, 1, 0]
    """
    return 0


@signal(measure_paragraphs, columns(ParagraphSignals), scratch=Scratch(new_line_scratch))
def paragraph_signals() -> int:
    r"""Measure paragraphs.

    Examples:
        >>> text = b"one\n\ntwo\n\none"
        >>> signals = paragraph_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> [int(count[0]) for count in signals]
        [3, 9, 2, 6, 0]
    """
    return 0
