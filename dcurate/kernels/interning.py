"""Assign an integer id to each distinct word, so that per-word features are computed once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import hash_bytes
from dcurate.kernels.layout import (
    INLINE,
    OPTIONS,
    Bytes,
    Ints,
    Offsets,
    Places,
    Rows,
    Scalar,
    Word,
    Words,
    frozen,
    longest,
)
from dcurate.kernels.words import find_words

_MIX = np.uint64(0x9E3779B97F4A7C15)
#: The lowest bit of every hash is set, so that none is 0.
_ONE = np.uint64(1)
#: How much a table begins with: slots, words in it, bytes of these words.
_SLOTS, _ENTRIES, _ROOM = 1 << 15, 1 << 13, 1 << 17


class _Table(NamedTuple):
    """A hash table of words; at most half of its slots are used.

    ``cells`` holds two entries for each slot, side by side as they are read together: the hash of its word, or 0, and
    the word's number; ``ends`` where each word ends in ``data``, the first entry being 0.
    """

    cells: Words
    ends: Ints
    data: Bytes


class Numbered(NamedTuple):
    """The words of some texts by their ids.

    ``numbers`` holds those of all the texts, int32; the words of text ``i`` begin at ``begins[i]`` and are
    ``counts[i]``.
    """

    numbers: Places
    begins: Ints
    counts: Ints


@njit(**INLINE)
def _cell(cells: Words, wanted: Word) -> Scalar:
    """The slot of a word's hash, or the empty slot where it belongs."""
    mask = cells.size - 1
    place = np.int64(wanted * _MIX >> np.uint64(20)) * 2 & mask
    while cells[place] and cells[place] != wanted:
        place = (place + 2) & mask
    return place


@njit(**OPTIONS)
def _number(
    layout: tuple[Offsets, Bytes], rows: Rows, state: tuple[int, int, int], table: _Table, out: Numbered
) -> tuple[Scalar, Scalar, Scalar]:
    """Assign ids to the words of texts as far as the table has capacity.

    The state is how many texts are done, how many words the table knows and how many numbers are written; it is
    returned as it is then.
    """
    first, known, taken = state
    offsets, data = layout
    bounds = np.empty(longest(offsets, rows) + 9, np.int64)
    for place in range(first, rows.size):
        start, stop = offsets[rows[place]], offsets[rows[place] + 1]
        most = known + (stop - start) // 2 + 1
        if most >= table.ends.size or 4 * most > table.cells.size or table.ends[known] + stop - start > table.data.size:
            return place, known, taken
        words = find_words(data, start, stop, bounds)
        out.begins[place], out.counts[place] = taken, words
        for word in range(words):
            begin, end = bounds[2 * word], bounds[2 * word + 1]
            wanted = hash_bytes(data, begin, end) | _ONE
            cell = _cell(table.cells, wanted)
            if table.cells[cell] == 0:
                table.cells[cell], table.cells[cell + 1] = wanted, known
                used = table.ends[known]
                table.data[used : used + end - begin] = data[begin:end]
                known += 1
                table.ends[known] = used + end - begin
            out.numbers[taken] = table.cells[cell + 1]
            taken += 1
    return rows.size, known, taken


@njit(**OPTIONS)
def _moved(old: Words, cells: Words) -> None:
    for place in range(0, old.size, 2):
        if old[place]:
            cell = _cell(cells, old[place])
            cells[cell], cells[cell + 1] = old[place], old[place + 1]


@njit(**OPTIONS)
def _parts_in_all(words: Numbered, firsts: Ints) -> Scalar:
    size = np.int64(0)
    for number in words.numbers:
        size += firsts[number + 1] - firsts[number]
    return size


@njit(**OPTIONS)
def _expanded(words: Numbered, rows: Rows, firsts: Ints, parts: Places, out: Numbered) -> None:
    taken = 0
    for row in rows:
        out.begins[row] = taken
        for at in range(words.begins[row], words.begins[row] + words.counts[row]):
            number = words.numbers[at]
            for part in range(firsts[number], firsts[number + 1]):
                out.numbers[taken] = parts[part]
                taken += 1
        out.counts[row] = taken - out.begins[row]


def expanded(found: Numbered, firsts: Ints, parts: Places) -> Numbered:
    """Replace each word by its parts: those of word ``w`` are ``parts[firsts[w]:firsts[w + 1]]``.

    Examples:
        >>> words = Numbered(np.array([0, 1], np.int32), np.array([0]), np.array([2]))
        >>> expanded(words, np.array([0, 1, 3]), np.array([7, 8, 9], np.int32)).numbers.tolist()
        [7, 8, 9]
    """
    size = _parts_in_all(found, firsts)
    out = Numbered(np.empty(size, np.int32), np.empty_like(found.begins), np.empty_like(found.counts))
    _expanded(found, np.arange(len(found.begins)), firsts, parts, out)
    return out


class WordTable:
    """Assign ids to words, in order of first occurrence; words are split as by ``str.split``.

    Words are distinguished by 63-bit hashes. Not thread-safe.

    Examples:
        >>> text = b"to be or not to be"
        >>> table = WordTable()
        >>> table.number(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0])).numbers.tolist()
        [0, 1, 2, 3, 0, 1]
        >>> table.words(0, 2)
        [b'to', b'be']
    """

    def __init__(self) -> None:
        self._table = _Table(
            np.zeros(2 * _SLOTS, np.uint64),
            np.zeros(_ENTRIES, np.int64),
            np.empty(_ROOM, np.uint8),
        )
        self._known = 0

    def __len__(self) -> int:
        return self._known

    @property
    def nbytes(self) -> int:
        """Memory of the table in bytes."""
        return sum(array.nbytes for array in self._table)

    def layout(self, start: int, stop: int) -> tuple[Offsets, Bytes]:
        """The words with ids from ``start`` up to ``stop``, in the Arrow layout, with offsets from 0."""
        ends = self._table.ends[start : stop + 1]
        return ends - ends[0], self._table.data[ends[0] : ends[-1]].copy()

    def words(self, start: int, stop: int) -> list[bytes]:
        """The same as UTF-8."""
        offsets, data = self.layout(start, stop)
        text = data.tobytes()
        return [text[begin:end] for begin, end in pairwise(offsets.tolist())]

    def number(self, offsets: Offsets, data: Bytes, rows: Rows) -> Numbered:
        """The word ids of the texts numbered ``rows``; new words get new ids."""
        layout = frozen(offsets, np.int64), frozen(data, np.uint8)
        rows = frozen(rows, np.int64)
        sizes = layout[0][rows + 1] - layout[0][rows]
        out = Numbered(
            np.empty(int((sizes + 1).sum()) // 2 + 1, np.int32),
            np.empty(len(rows), np.int64),
            np.empty(len(rows), np.int64),
        )
        done, taken = 0, 0
        while True:
            done, self._known, taken = _number(layout, rows, (done, self._known, taken), self._table, out)
            if done == len(rows):
                return Numbered(out.numbers[:taken], out.begins, out.counts)
            self._grow(int(sizes[done]))

    def _grow(self, size: int) -> None:
        """Grow the table for all the words that a text of a number of bytes can have."""
        cells, ends, data = self._table
        most = self._known + size // 2 + 2
        if 4 * most > cells.size:
            wider = np.zeros(1 << (4 * most - 1).bit_length(), np.uint64)
            _moved(cells, wider)
            cells = wider
        self._table = _Table(cells, _longer(ends, most + 1), _longer(data, int(ends[self._known]) + size))


def _longer(array: npt.NDArray[Any], least: int) -> npt.NDArray[Any]:
    """The array with capacity for a number of entries, doubled if it is too short."""
    if least <= array.size:
        return array
    longer = np.zeros(max(least, 2 * array.size), array.dtype)
    longer[: array.size] = array
    return longer
