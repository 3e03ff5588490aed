"""Counts of characters by class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import has_zero, load_eight
from dcurate.kernels.layout import INLINE_LATE, Bytes, Ints, Scalar
from dcurate.kernels.signal import columns, signal

#: So few bytes are counted at once that no count of them is larger than a byte holds.
_BLOCK = 240
_NINE_F = np.uint64(0x9F9F9F9F9F9F9F9F)


class CharacterSignals(NamedTuple):
    r"""Number of characters of each class in each text.

    ``plain`` are ``[a-zA-Z0-9\n?!,.]``, ``digits`` ``[0-9]``, ``blanks`` tab, newline, return, backspace and space,
    ``brackets`` ``{}[]()⟨⟩``.
    """

    total: npt.NDArray[np.int64]
    plain: npt.NDArray[np.int64]
    digits: npt.NDArray[np.int64]
    blanks: npt.NDArray[np.int64]
    brackets: npt.NDArray[np.int64]


@njit(**INLINE_LATE)
def _angle_brackets(data: Bytes, start: int, stop: int) -> Scalar:
    suspects = np.uint64(0)
    for at in range(start, stop - 7, 8):
        suspects |= has_zero(load_eight(data, at) ^ _NINE_F)
    for at in range(stop - (stop - start) % 8, stop):
        suspects |= np.uint64(data[at] == 0x9F)
    if suspects == 0:
        return 0
    count = 0
    for at in range(start, stop - 2):
        count += (data[at] == 0xE2) & (data[at + 1] == 0x9F) & ((data[at + 2] & 0xFE) == 0xA8)
    return count


@njit(**INLINE_LATE)
def _counts(data: Bytes, start: int, stop: int) -> tuple[Scalar, ...]:
    """The counts of at most `_BLOCK` bytes by class: in bytes, so that many are counted by one instruction."""
    total = plain = digits = blanks = brackets = np.uint8(0)
    first = np.uint64(start)
    for step in range(stop - start):
        byte = data[first + np.uint64(step)]
        lower = np.uint8(byte | 32)
        is_digit = np.uint8(np.uint8(byte - 48) < 10)
        is_letter = np.uint8(np.uint8(lower - 97) < 26)
        is_mark = np.uint8(byte == 10) | np.uint8(byte == 33) | np.uint8(byte == 44) | np.uint8(byte == 46)
        is_blank = np.uint8(np.uint8(byte - 8) < 3) | np.uint8(byte == 13) | np.uint8(byte == 32)
        is_bracket = np.uint8(lower == 123) | np.uint8(lower == 125) | np.uint8(byte == 40) | np.uint8(byte == 41)
        total = np.uint8(total + np.uint8((byte & 0xC0) != 0x80))
        plain = np.uint8(plain + (is_digit | is_letter | is_mark | np.uint8(byte == 63)))
        digits = np.uint8(digits + is_digit)
        blanks = np.uint8(blanks + is_blank)
        brackets = np.uint8(brackets + is_bracket)
    return np.int64(total), np.int64(plain), np.int64(digits), np.int64(blanks), np.int64(brackets)


@njit(**INLINE_LATE)
def measure_characters(data: Bytes, span: tuple[int, int], tables: int, scratch: Bytes, out: Ints) -> None:
    """Count the characters of one text, as in `CharacterSignals`."""
    start, stop = span
    for at in range(start, stop, _BLOCK):
        total, plain, digits, blanks, brackets = _counts(data, at, min(at + _BLOCK, stop))
        out[0] += total
        out[1] += plain
        out[2] += digits
        out[3] += blanks
        out[4] += brackets
    if out[0] < stop - start:
        out[4] += _angle_brackets(data, start, stop)


@signal(measure_characters, columns(CharacterSignals))
def character_signals() -> int:
    r"""Count characters by class.

    Examples:
        >>> text = "a 1\n(é)".encode()
        >>> signals = character_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> [int(count[0]) for count in signals]
        [7, 3, 1, 2, 2]
    """
    return 0
