"""List the n-grams of texts, and number those that differ, for the training of n-gram models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Places, Rows, Scalar, Word, Words, frozen
from dcurate.kernels.ngram_models import SPACES, murmur, next_word, word_hash

#: The hashes of the marks of a sentence and of unknown words; texts do not have them as words.
BEGIN, END, UNKNOWN = (murmur(mark) for mark in (b"<s>", b"</s>", b"<unk>"))
_MARKS = BEGIN, END, UNKNOWN, murmur(b"<UNK>")
_FACTOR, _SHIFT, _ZERO, _ONE = np.uint64(0x9E3779B97F4A7C15), np.uint64(32), np.uint64(0), np.uint64(1)
#: A matrix of n-grams: the hashes of their words, the last word in the last column, 0 before the first one.
Ngrams = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


class SentenceWords(NamedTuple):
    """The words of sentences, each with `BEGIN` before and `END` after its words: hashes, and places in the texts."""

    hashes: Words
    begins: Ints
    ends: Ints


@njit(**OPTIONS)
def _list_tokens(layout: tuple[Offsets, Bytes], rows: Rows, by_line: bool, out: SentenceWords, store: bool) -> Scalar:
    """Store the tokens of texts, and return their number; without ``store`` the greatest number that there can be."""
    offsets, data = layout
    count = 0
    for row in rows:
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            begun = False
            while True:
                begin, at = next_word(data, at, stop, by_line)
                if begin == at:
                    break
                if not begun:
                    if store:
                        out.hashes[count], out.begins[count], out.ends[count] = _MARKS[0], 0, 0
                    begun = True
                    count += 1
                if store:
                    value = max(word_hash(data, begin, at), _ONE)
                    if value == _MARKS[0] or value == _MARKS[1] or value == _MARKS[2] or value == _MARKS[3]:
                        continue
                    out.hashes[count], out.begins[count], out.ends[count] = value, begin, at
                count += 1
            if begun:
                if store:
                    out.hashes[count], out.begins[count], out.ends[count] = _MARKS[1], 0, 0
                count += 1
            at += 1
    return count


def list_tokens(offsets: Offsets, data: Bytes, by_line: bool) -> SentenceWords:
    """Return the words of texts, which are what ASCII whitespace separates, without ``<s>``, ``</s>`` and ``<unk>``.

    Args:
        offsets: bounds of the texts in ``data``.
        data: UTF-8.
        by_line: whether each line that is not blank is a sentence; else a text is one. Blank texts are none.
    """
    layout, rows = (frozen(offsets, np.int64), frozen(data, np.uint8)), np.arange(len(offsets) - 1)
    nothing = np.zeros(0, np.int64)
    size = _list_tokens(layout, rows, by_line, SentenceWords(np.zeros(0, np.uint64), nothing, nothing), False)
    out = SentenceWords(np.empty(size, np.uint64), np.empty(size, np.int64), np.empty(size, np.int64))
    size = _list_tokens(layout, rows, by_line, out, True)
    return SentenceWords(out.hashes[:size], out.begins[:size], out.ends[:size])


@njit(**OPTIONS)
def _mark_words(offsets: Offsets, data: Bytes, out: Mask) -> None:
    for row in range(out.size):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop and SPACES[data[at]]:
            at += 1
        out[row] = at < stop


def has_words(offsets: Offsets, data: Bytes) -> Mask:
    """Return whether each text has anything but whitespace.

    Examples:
        >>> has_words(np.array([0, 1, 2]), np.frombuffer(b" a", np.uint8)).tolist()
        [False, True]
    """
    out = np.empty(len(offsets) - 1, np.bool_)
    _mark_words(frozen(offsets, np.int64), frozen(data, np.uint8), out)
    return out


@njit(**OPTIONS)
def _list_ngrams(hashes: Words, out: Ngrams) -> Scalar:
    order = out.shape[1]
    count, first = 0, 0
    for place in range(hashes.size):
        if hashes[place] == _MARKS[0]:
            first = place
            continue
        for step in range(order):
            out[count, order - 1 - step] = hashes[place - step] if place - step >= first else _ZERO
        count += 1
    return count


def list_ngrams(hashes: Words, order: int) -> Ngrams:
    """Return the longest n-gram that ends with each word of sentences, of at most ``order`` words.

    Args:
        hashes: those of `SentenceWords`.
        order: columns of the result.

    Examples:
        >>> list_ngrams(np.array([BEGIN, 7, 8, END], np.uint64), 2)[1].tolist()
        [7, 8]
    """
    out = np.empty((len(hashes), order), np.uint64)
    return out[: _list_ngrams(hashes, out)]


@njit(**INLINE)
def _mixed(value: Word, word: Word) -> Word:
    value = (value ^ word) * _FACTOR
    return value ^ (value >> _SHIFT)


@njit(**OPTIONS)
def _number_rows(words: Ngrams, columns: tuple[int, int], numbers: Ints, firsts: Ints) -> Scalar:
    size = 4
    while size < 2 * len(words):
        size *= 2
    slots = np.full(size, -1, np.int64)
    count = 0
    for row in range(len(words)):
        value = _ZERO
        for column in range(columns[0], columns[1]):
            value = _mixed(value, words[row, column])
        slot = np.int64(value & np.uint64(size - 1))
        while slots[slot] >= 0:
            first = firsts[slots[slot]]
            column = columns[0]
            while column < columns[1] and words[first, column] == words[row, column]:
                column += 1
            if column == columns[1]:
                break
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot], firsts[count] = count, row
            count += 1
        numbers[row] = slots[slot]
    return count


def number_rows(words: Ngrams, start: int, stop: int) -> tuple[Ints, Ints]:
    """Number the different rows of columns of a matrix in the order in which they first occur.

    Args:
        words: the matrix.
        start: the first column that counts.
        stop: the column after the last one that counts.

    Returns:
        the number of each row, and for each number the first row.

    Examples:
        >>> number_rows(np.array([[7, 1], [8, 1], [7, 2]], np.uint64), 0, 1)
        (array([0, 1, 0]), array([0, 1]))
    """
    numbers, firsts = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
    count = _number_rows(frozen(words, np.uint64), (start, stop), numbers, firsts)
    return numbers, firsts[:count]


@njit(**INLINE)
def _slot(value: Word, slots: Places) -> Scalar:
    return np.int64(_mixed(_ZERO, value) & np.uint64(slots.size - 1))


@njit(**OPTIONS)
def _fill_slots(hashes: Words, slots: Places) -> None:
    for place in range(hashes.size):
        slot = _slot(hashes[place], slots)
        while slots[slot] >= 0:
            slot = (slot + 1) & (slots.size - 1)
        slots[slot] = place


@njit(**OPTIONS)
def _find_places(hashes: Words, slots: Places, wanted: Words, out: Places) -> None:
    for row in range(wanted.size):
        slot = _slot(wanted[row], slots)
        while hashes[slots[slot]] != wanted[row]:
            slot = (slot + 1) & (slots.size - 1)
        out[row] = slots[slot]


def slots_of(hashes: Words) -> Places:
    """Return a table in which `find_places` finds different hashes."""
    slots = np.full(2 ** int(2 * len(hashes)).bit_length(), -1, np.int32)
    _fill_slots(frozen(hashes, np.uint64), slots)
    return slots


def find_places(hashes: Words, slots: Places, wanted: Words) -> Places:
    """Return the places of hashes, all of which are there.

    Args:
        hashes: all different ones.
        slots: their `slots_of`.
        wanted: those to find, of any shape.

    Examples:
        >>> hashes = np.array([7, 8, 9], np.uint64)
        >>> find_places(hashes, slots_of(hashes), np.array([[9, 7]], np.uint64))
        array([[2, 0]], dtype=int32)
    """
    out = np.empty(wanted.size, np.int32)
    _find_places(frozen(hashes, np.uint64), frozen(slots, np.int32), frozen(wanted.reshape(-1), np.uint64), out)
    return out.reshape(wanted.shape)


def keys_of_rows(words: Ngrams) -> Words:
    """Return a key of 64 bits that follows from the words of each row.

    Examples:
        >>> keys = keys_of_rows(np.array([[0, 7], [7, 0], [0, 7]], np.uint64))
        >>> (keys == keys[0]).tolist()
        [True, False, True]
    """
    keys = np.zeros(len(words), np.uint64)
    for column in words.T:
        keys = (keys ^ column) * _FACTOR
        keys ^= keys >> _SHIFT
        keys *= _FACTOR
        keys ^= keys >> _SHIFT
    return keys


@njit(**OPTIONS)
def _first_other(hashes: Words, layout: tuple[Offsets, Bytes], order: Ints, firsts: Ints) -> tuple[Scalar, Scalar]:
    offsets, data = layout
    count = 0
    for place in range(order.size):
        row = order[place]
        if place == 0 or hashes[row] != hashes[firsts[count - 1]]:
            firsts[count] = row
            count += 1
            continue
        start, first = offsets[row], offsets[firsts[count - 1]]
        size = offsets[row + 1] - start
        same = size == offsets[firsts[count - 1] + 1] - first
        for step in range(size if same else 0):
            same = same and data[start + step] == data[first + step]
        if not same:
            return count, row
    return count, -1


def different_words(hashes: Words, offsets: Offsets, data: Bytes) -> tuple[Ints, int]:
    """Return a row of each different hash, in the order of the hashes; and a row of another word, -1 if there is none.

    Args:
        hashes: hash of each word.
        offsets: bounds of the words in ``data``.
        data: UTF-8.

    Examples:
        >>> rows, other = different_words(np.array([8, 7, 8], np.uint64), np.arange(4), np.frombuffer(b"bab", np.uint8))
        >>> rows.tolist(), other
        ([1, 0], -1)
    """
    order = np.argsort(hashes, kind="stable")
    firsts = np.empty(len(order), np.int64)
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    count, other = _first_other(frozen(hashes, np.uint64), layout, frozen(order, np.int64), firsts)
    return firsts[:count], int(other)


@njit(**OPTIONS)
def _take(data: Bytes, begins: Ints, offsets: Offsets, out: Bytes) -> None:
    for row in range(begins.size):
        for step in range(offsets[row + 1] - offsets[row]):
            out[offsets[row] + step] = data[begins[row] + step]


def take_spans(data: Bytes, begins: Ints, ends: Ints) -> tuple[Offsets, Bytes]:
    """Return spans of bytes one after the other, and their bounds.

    Examples:
        >>> take_spans(np.frombuffer(b"abcd", np.uint8), np.array([2, 0]), np.array([4, 1]))[1].tobytes()
        b'cda'
    """
    offsets = np.zeros(len(begins) + 1, np.int64)
    np.cumsum(ends - begins, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    _take(frozen(data, np.uint8), np.ascontiguousarray(begins), offsets, out)
    return offsets, out
