"""Count the characters of a text that belong to a set: letters, the alphabet of a language."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, Bytes, Ints, Scalar
from dcurate.kernels.signal import columns, signal
from dcurate.kernels.unicode import alphabetic_bits, count_characters, space_width, space_width_before

_POINTS = 1 << 21


class MemberSignals(NamedTuple):
    """The characters of each text, and how many of them belong to a set."""

    characters: npt.NDArray[np.int64]
    members: npt.NDArray[np.int64]


def _packed(points: npt.NDArray[np.bool_]) -> Bytes:
    bits = np.packbits(points, bitorder="little")
    bits.flags.writeable = False
    return bits


@cache
def letter_bits() -> Bytes:
    """``str.isalpha`` of every code point, eight per byte, the lowest bit first."""
    points = np.zeros(_POINTS, np.bool_)
    points[:0x110000] = [chr(point).isalpha() for point in range(0x110000)]
    return _packed(points)


@cache
def bits_of(characters: str) -> Bytes:
    """A bit set of code points, in the same layout."""
    points = np.zeros(_POINTS, np.bool_)
    points[[ord(character) for character in characters]] = True
    return _packed(points)


@njit(**INLINE)
def _count(data: Bytes, start: int, stop: int, bits: Bytes) -> Scalar:
    count = np.int64(0)
    at = start
    while at < stop:
        point = np.int64(data[at])
        width = 1 if point < 0xC0 else 2 if point < 0xE0 else 3 if point < 0xF0 else 4
        if at + width > stop:
            break
        if width > 1:
            point &= 0x7F >> width
            for step in range(1, width):
                point = (point << 6) | (np.int64(data[at + step]) & 0x3F)
        count += bits[point >> 3] >> (point & 7) & 1
        at += width
    return count


@njit(**INLINE)
def _trimmed(data: Bytes, start: int, stop: int) -> tuple[Scalar, Scalar]:
    """The bounds without whitespace at the ends, as by ``str.strip``."""
    while start < stop and space_width(data, start, stop) > 0:
        start += space_width(data, start, stop)
    while start < stop and space_width_before(data, start, stop) > 0:
        stop -= space_width_before(data, start, stop)
    return start, stop


@njit(**INLINE)
def measure_members(data: Bytes, span: tuple[int, int], members: tuple[Bytes, bool], scratch: Bytes, out: Ints) -> None:
    """Count the characters of one text and its members: a set as bits, and whether to trim the text first."""
    start, stop = span
    bits, trim = members
    out[0] = count_characters(data, start, stop)
    if trim:
        start, stop = _trimmed(data, start, stop)
    out[1] = _count(data, start, stop, bits)


@signal(measure_members, columns(MemberSignals))
def alphabetic_signals() -> tuple[Bytes, bool]:
    """Count the characters with the Alphabetic property, which ``[[:alpha:]]`` means to the ``regex`` package.

    Examples:
        >>> text = "aé中1Ⅷ".encode()
        >>> signals = alphabetic_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> [int(count[0]) for count in signals]
        [5, 4]
    """
    return alphabetic_bits(), False


@signal(measure_members, columns(MemberSignals))
def letter_signals() -> tuple[Bytes, bool]:
    """Count the characters of which ``str.isalpha`` is true.

    Examples:
        >>> text = "aé中1Ⅷ".encode()
        >>> signals = letter_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> [int(count[0]) for count in signals]
        [5, 3]
    """
    return letter_bits(), False


@signal(measure_members, columns(MemberSignals))
def alphabet_signals(alphabet: str) -> tuple[Bytes, bool]:
    """Count the characters that are in an alphabet, not counting whitespace at either end of a text.

    Examples:
        >>> text = b" a b "
        >>> arrays = np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0])
        >>> [int(count[0]) for count in alphabet_signals(*arrays, "ab ")]
        [5, 3]
    """
    return bits_of(alphabet), True
