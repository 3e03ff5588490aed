"""How many sentences the lines of a text have, as spaCy's sentencizer finds them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.interning import Numbered
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Places, Scalar, frozen, longest
from dcurate.kernels.words import find_words

_NEWLINE, _SPACE = 10, 32


class Spoken(NamedTuple):
    """The words of texts, by the runs of characters between whitespace.

    ``runs`` holds these by number; the words of run ``r`` are ``parts[firsts[r]:firsts[r + 1]]``, and ``traits`` the
    bits of each word: ``ending`` for a mark that ends a sentence, ``punctual`` for a word of punctuation alone.
    """

    runs: Numbered
    firsts: Ints
    parts: Places
    traits: Bytes
    ending: int
    punctual: int


@njit(**INLINE)
def _gap(data: Bytes, start: int, stop: int) -> tuple[Scalar, Scalar]:
    """Whether whitespace, up to the first newline, is more than the one space after a word; and has a newline."""
    end = start
    while end < stop and data[end] != _NEWLINE:
        end += 1
    return end > start + 1 or (end == start + 1 and data[start] != _SPACE), end < stop


@njit(**OPTIONS)
def _sentences(layout: tuple[Offsets, Bytes], words: Spoken, out: Ints) -> None:
    offsets, data = layout
    rows = offsets.size - 1
    bounds = np.empty(longest(offsets, np.arange(rows)) + 9, np.int64)
    for row in range(rows):
        free, stop = offsets[row], offsets[row + 1]
        count = find_words(data, free, stop, bounds)
        seen = False
        for run in range(count + 1):
            blank, newline = _gap(data, free, bounds[2 * run] if run < count else stop)
            out[row] += run > 0 and blank and seen
            seen &= not blank and not newline
            if run == count:
                break
            number = words.runs.numbers[words.runs.begins[row] + run]
            for part in range(words.firsts[number], words.firsts[number + 1]):
                kind = words.traits[words.parts[part]]
                if kind & words.ending:
                    seen = True
                elif seen and not kind & words.punctual:
                    out[row] += 1
                    seen = False
            free = bounds[2 * run + 1]


def sentence_signals(offsets: Offsets, data: Bytes, words: Spoken) -> npt.NDArray[np.int64]:
    """How often a sentence begins within a line of each text, as spaCy's sentencizer has it: not at its begin.

    Args:
        offsets: where each text begins in ``data``.
        data: UTF-8.
        words: words of all texts.
    """
    out = np.zeros(len(offsets) - 1, np.int64)
    runs = Numbered(*(frozen(values, values.dtype) for values in words.runs))
    read = Spoken(
        runs,
        frozen(words.firsts, np.int64),
        frozen(words.parts, np.int32),
        frozen(words.traits, np.uint8),
        words.ending,
        words.punctual,
    )
    _sentences((frozen(offsets, np.int64), frozen(data, np.uint8)), read, out)
    return out
