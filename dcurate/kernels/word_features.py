"""What is known of words from their bytes: lengths, kinds of characters, and hashes that can be joined."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import OPTIONS, Bytes, Offsets, Places, Scalar, Words, frozen

_BASE = np.uint64(0x9E3779B97F4A7C15)
_SPREAD, _SHIFT = np.uint64(0xD6E8FEB86659FD93), np.uint64(0x632BE59BD9B4E019)


class Kinds(NamedTuple):
    """What a character, by its code point, says of its word, as bits; nothing is known of those beyond.

    ``some`` holds what a word has that has one of them, ``every`` what it has that has no others, ``alone`` what it has
    that is nothing else.
    """

    some: Bytes
    every: Bytes
    alone: Bytes


class WordFacts(NamedTuple):
    """Of each word its characters, its bits, its hash and its power; bits are 0 where a character is not known.

    The power is the factor for the hash of the text before the word: the hash of two words
    joined is that of the first times the power of the second, plus that of the second.
    """

    characters: npt.NDArray[np.int32]
    bits: npt.NDArray[np.uint8]
    hashes: npt.NDArray[np.uint64]
    powers: npt.NDArray[np.uint64]


@njit(**OPTIONS)
def _facts(
    offsets: Offsets, data: Bytes, kinds: Kinds, sizes: tuple[Places, Bytes], joins: tuple[Words, Words]
) -> None:
    for place in range(offsets.size - 1):
        start, stop = offsets[place], offsets[place + 1]
        value, power = np.uint64(0), np.uint64(1)
        some, every, length = np.uint8(0), np.uint8(0xFF), 0
        point = np.int64(0)
        known: Scalar = True
        for at in range(start, stop):
            byte = data[at]
            value = value * _BASE + (np.uint64(byte) + _SHIFT) * _SPREAD
            power = power * _BASE
            if byte & 0xC0 == 0x80:
                point = (point << 6) | np.int64(byte & 0x3F)
            else:
                length += 1
                point = np.int64(byte) & (
                    0x7F if byte < 0x80 else 0x1F if byte < 0xE0 else 0x0F if byte < 0xF0 else 0x07
                )
            if at + 1 == stop or data[at + 1] & 0xC0 != 0x80:
                known &= point < kinds.some.size
                if known:
                    some |= kinds.some[point]
                    every &= kinds.every[point]
        joins[0][place], joins[1][place] = value, power
        sizes[0][place] = length
        if start < stop and known:
            sizes[1][place] = some | every | (kinds.alone[point] if length == 1 else np.uint8(0))


def word_facts(offsets: Offsets, data: Bytes, kinds: Kinds) -> WordFacts:
    """What is known of words, text by text in the Arrow layout.

    Examples:
        >>> nothing = np.zeros(128, np.uint8)
        >>> facts = word_facts(np.array([0, 2, 3, 6]), np.frombuffer(b"abcabc", np.uint8), Kinds(*3 * [nothing]))
        >>> facts.characters.tolist()
        [2, 1, 3]
        >>> (facts.hashes[:1] * facts.powers[1:2] + facts.hashes[1:2] == facts.hashes[2:]).tolist()
        [True]
    """
    count = len(offsets) - 1
    facts = WordFacts(
        np.zeros(count, np.int32), np.zeros(count, np.uint8), np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    )
    tables = Kinds(*(frozen(table, np.uint8) for table in kinds))
    _facts(frozen(offsets, np.int64), frozen(data, np.uint8), tables, facts[:2], facts[2:])
    return facts
