"""Counts of characters by class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, Bytes, Ints, Scalar, Word
from dcurate.kernels.signal import columns, signal

_FIELD = 12
_BLOCK = (1 << _FIELD) - 1
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\n?!,.")


def _packed_classes() -> npt.NDArray[np.uint64]:
    """For each byte its classes, as one twelve-bit counter per class."""
    table = np.zeros(256, np.uint64)
    for byte in range(256):
        classes = (
            byte & 0xC0 != 0x80,
            byte in _PLAIN,
            byte in b"0123456789",
            byte in b"\t\n\r\b ",
            byte in b"{}[]()",
        )
        table[byte] = sum(int(member) << (_FIELD * place) for place, member in enumerate(classes))
    return table


_CLASSES = _packed_classes()


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


@njit(**INLINE)
def _angle_brackets(data: Bytes, start: int, stop: int) -> Scalar:
    suspects = 0
    for at in range(start, stop):
        suspects += data[at] == 0x9F
    if suspects == 0:
        return 0
    count = 0
    for at in range(start, stop - 2):
        count += (data[at] == 0xE2) & (data[at + 1] == 0x9F) & ((data[at + 2] & 0xFE) == 0xA8)
    return count


@njit(**INLINE)
def _packed_counts(block: Bytes) -> Word:
    """The counters of a block of at most `_BLOCK` bytes, in four independent chains."""
    first = second = third = fourth = np.uint64(0)
    even = block.size // 4 * 4
    for at in range(0, even, 4):
        first += _CLASSES[block[at]]
        second += _CLASSES[block[at + 1]]
        third += _CLASSES[block[at + 2]]
        fourth += _CLASSES[block[at + 3]]
    for at in range(even, block.size):
        first += _CLASSES[block[at]]
    return first + second + third + fourth


@njit(**INLINE)
def measure_characters(data: Bytes, span: tuple[int, int], tables: int, scratch: Bytes, out: Ints) -> None:
    """Count the characters of one text, as in `CharacterSignals`."""
    start, stop = span
    low = np.uint64(_BLOCK)
    for at in range(start, stop, _BLOCK):
        packed = _packed_counts(data[at : min(at + _BLOCK, stop)])
        for field in range(5):
            out[field] += np.int64((packed >> np.uint64(_FIELD * field)) & low)
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
