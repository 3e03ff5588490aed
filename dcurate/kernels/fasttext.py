"""Inference of fastText classifiers (Joulin et al., 2016), with identical numbers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import (
    ALLOCATING,
    INLINE,
    OPTIONS,
    Bytes,
    Ints,
    Offsets,
    Places,
    Rows,
    Scalar,
    Word,
    frozen,
    longest,
)

Floats = npt.NDArray[np.float32]

HIERARCHICAL, NEGATIVE, SOFTMAX, ONE_VERSUS_ALL = 1, 2, 3, 4

_BASIS, _PRIME = np.uint32(2166136261), np.uint32(16777619)
_NEXT_WORD = np.uint64(116049371)
_SIGNS = np.uint32(0xFFFFFF00)
_BEGIN, _END = np.uint32(ord("<")), np.uint32(ord(">"))
DELIMITER = np.array([byte in b" \n\r\t\v\f\0" for byte in range(256)])
LABEL = np.frombuffer(b"__label__", np.uint8)
LAST = np.frombuffer(b"</s>", np.uint8)
_SIGMOIDS, _BOUND = np.float32(512), np.float32(8)  # not integers, with which Numba would count in 64 bits
_STEPS = (np.arange(_SIGMOIDS + 1, dtype=np.float32) * 2 * _BOUND / _SIGMOIDS - _BOUND).tolist()
_SIGMOID = np.array([1 / (1 + float(np.float32(math.exp(-step)))) for step in _STEPS], np.float32)


class Network(NamedTuple):
    """A classifier as arrays.

    Attributes:
        names, letters: where each entry of the dictionary (words, then labels) ends, begins, and its UTF-8.
        table: a hash table of the entries by their 32-bit FNV hashes: numbers plus one, 0 where free.
        pruned: for each n-gram bucket its position among the kept ones, or -1; empty if all were kept.
        rows, weights: the vectors of words and then of n-grams; those of labels, or of inner nodes of the tree.
        left, right: children of each node of the tree of labels, empty unless the loss is hierarchical.
        sizes: words, labels, buckets, shortest and longest n-gram of characters, longest of words, the loss.
    """

    names: Ints
    letters: Bytes
    table: Places
    pruned: Places
    rows: Floats
    weights: Floats
    left: Places
    right: Places
    sizes: Ints


class _Lists(NamedTuple):
    """Scratch for one text: its vectors, and the hashes of its words."""

    rows: npt.NDArray[np.int32]
    hashes: npt.NDArray[np.int32]


class Classified(NamedTuple):
    """The most likely label of each text (its number, -1 for a text without known tokens), and probabilities.

    ``wanted`` is the probability of the label asked about. As in fastText, each is 0.00001 more than it should be.
    """

    label: npt.NDArray[np.int64]
    probability: npt.NDArray[np.float64]
    wanted: npt.NDArray[np.float64]


@njit(**INLINE)
def _mixed(value: Word, byte: Word) -> Word:
    """One step of FNV; bytes from 128 on count as negative."""
    signed = byte | (_SIGNS if byte >= 128 else np.uint32(0))
    return np.uint32((value ^ signed) * _PRIME)


@njit(**INLINE)
def hashed(data: Bytes, start: int, stop: int) -> Word:
    """The hash of a string by FNV, as fastText has it."""
    value = _BASIS
    for at in range(start, stop):
        value = _mixed(value, np.uint32(data[at]))
    return value


@njit(**INLINE)
def begins_with(data: Bytes, start: int, stop: int, word: Bytes) -> Scalar:
    """Whether a string begins with a word."""
    if stop - start < word.size:
        return False
    for step in range(word.size):  # noqa: SIM110 - a loop compiles to less than a generator
        if data[start + step] != word[step]:
            return False
    return True


@njit(**INLINE)
def find_entry(network: Network, value: Word, data: Bytes, start: int, stop: int) -> Scalar:
    """The number of the entry equal to a string, or -1."""
    mask = network.table.size - 1
    slot = np.int64(value) & mask
    while network.table[slot] > 0:
        number = np.int64(network.table[slot]) - 1
        first, last = network.names[number], network.names[number + 1]
        if last - first == stop - start and begins_with(data, start, stop, network.letters[first:last]):
            return number
        slot = (slot + 1) & mask
    return np.int64(-1)


@njit(**OPTIONS)
def fill_table(names: Ints, letters: Bytes, table: Places) -> None:
    """Put all entries into the hash table."""
    mask = table.size - 1
    for number in range(names.size - 1):
        slot = np.int64(hashed(letters, names[number], names[number + 1])) & mask
        while table[slot] > 0:
            slot = (slot + 1) & mask
        table[slot] = number + 1


@njit(**OPTIONS)
def find_entries(data: Bytes, at: int, bounds: Ints) -> Scalar:
    """Write where the name of each entry begins and ends, in turn; ten bytes stand between two. Returns where they end.

    Where the file ends too soon, that is beyond its end.
    """
    for number in range(bounds.size // 2):
        bounds[2 * number] = at
        while at < data.size and data[at] != 0:
            at += 1
        bounds[2 * number + 1] = at
        at += 10
    return at


@njit(**INLINE)
def _byte(data: Bytes, start: int, stop: int, at: int) -> Word:
    """The byte at ``at`` of a word with its boundary marks, before ``start`` and at ``stop``."""
    if at < start:
        return _BEGIN
    return _END if at >= stop else np.uint32(data[at])


@njit(**INLINE)
def list_ngrams(data: Bytes, span: tuple[int, int], sizes: Ints, listed: Places, count: int) -> Scalar:
    """List the buckets of a word's character n-grams; returns the number listed so far."""
    start, stop = span
    buckets = np.uint32(sizes[2])
    least, most = sizes[3], sizes[4]
    for first in range(start - 1, stop + 1):
        if (_byte(data, start, stop, first) & np.uint32(0xC0)) == np.uint32(0x80):
            continue
        value = _BASIS
        at = first
        n = 1
        while at <= stop and n <= most:
            value = _mixed(value, _byte(data, start, stop, at))
            at += 1
            while at < stop and (data[at] & 0xC0) == 0x80:
                value = _mixed(value, np.uint32(data[at]))
                at += 1
            if n >= least and not (n == 1 and (first == start - 1 or at == stop + 1)):
                listed[count] = value % buckets
                count += 1
            n += 1
    return count


@njit(**INLINE)
def _list_word(network: Network, data: Bytes, span: tuple[int, int], lists: _Lists, counts: tuple[int, int]) -> Any:
    """List a word, as its negative number, its n-grams and its hash; returns the numbers of rows and hashes so far."""
    start, stop = span
    rows, words = counts
    value = hashed(data, start, stop)
    entry = find_entry(network, value, data, start, stop)
    if entry >= network.sizes[0] or (entry < 0 and begins_with(data, start, stop, LABEL)):
        return rows, words
    lists.hashes[words] = np.int32(value)
    lists.rows[rows] = -1 - entry
    rows += entry >= 0
    if network.sizes[4] > 0 and not (stop - start == LAST.size and begins_with(data, start, stop, LAST)):
        rows = list_ngrams(data, span, network.sizes, lists.rows, rows)
    return rows, words + 1


@njit(**INLINE)
def list_word_ngrams(sizes: Ints, lists: _Lists, rows: int, words: int) -> Scalar:
    """List the buckets of word n-grams; returns the number listed so far."""
    for first in range(words):
        value = np.uint64(np.int64(lists.hashes[first]))
        for last in range(first + 1, min(words, first + sizes[5])):
            value = value * _NEXT_WORD + np.uint64(np.int64(lists.hashes[last]))
            lists.rows[rows] = value % np.uint64(sizes[2])
            rows += 1
    return rows


@njit(**OPTIONS)
def list_text(network: Network, data: Bytes, start: int, stop: int, lists: _Lists) -> Scalar:
    """List the words and n-grams of a text; returns their number."""
    rows = words = 0
    at = start
    over = False
    while at < stop and not over:
        if DELIMITER[data[at]]:
            at += 1
            continue
        begin = at
        while at < stop and not DELIMITER[data[at]]:
            at += 1
        rows, words = _list_word(network, data, (begin, at), lists, (rows, words))
        over = at - begin == LAST.size and begins_with(data, begin, at, LAST)
    if not over:
        entry = find_entry(network, hashed(LAST, 0, LAST.size), LAST, 0, LAST.size)
        lists.rows[rows] = -1 - entry
        rows += entry >= 0
        lists.hashes[words] = np.int32(hashed(LAST, 0, LAST.size))
        words += 1
    return list_word_ngrams(network.sizes, lists, rows, words) if network.sizes[5] > 1 else rows


@njit(**OPTIONS)
def average(network: Network, listed: Places, hidden: Floats) -> Scalar:
    """Make ``hidden`` the mean of the vectors of what is listed; returns how many of these there are.

    First it is found out which have a vector, without branches, so that memory is waited for only once.
    """
    pruned, vectors = network.pruned, network.rows
    words = network.sizes[0]
    count = np.int64(0)
    for place in range(listed.size):
        entry = np.int64(listed[place])
        bucket = max(entry, np.int64(0))
        bucket = np.int64(pruned[bucket]) if pruned.size > 0 else bucket
        listed[count] = words + bucket if entry >= 0 else -1 - entry
        count += (bucket >= 0) | (entry < 0)
    hidden[:] = np.float32(0)
    for place in range(count):
        row = np.int64(listed[place])
        for step in range(hidden.size):
            hidden[step] += vectors[row, step]
    if count > 0:
        share = np.float32(1.0 / count)
        for step in range(hidden.size):
            hidden[step] *= share
    return count


@njit(**INLINE)
def _dot(weights: Floats, row: int, hidden: Floats) -> Scalar:
    total = np.float32(0)
    for place in range(hidden.size):
        total += weights[row, place] * hidden[place]
    return total


@njit(**INLINE)
def _logarithm(value: Scalar) -> Scalar:
    return np.float32(math.log(np.float64(value) + 1e-5))


@njit(**OPTIONS)
def _score_tree(network: Network, hidden: Floats, scores: Floats) -> None:
    """The log probabilities of all nodes of the tree, the labels first."""
    labels = network.sizes[1]
    scores[2 * labels - 2] = np.float32(0)
    for node in range(2 * labels - 2, labels - 1, -1):
        above = np.float32(1) + np.float32(math.exp(-_dot(network.weights, node - labels, hidden)))
        likely = np.float32(1.0 / np.float64(above))
        scores[network.left[node]] = scores[node] + _logarithm(np.float32(1.0 - np.float64(likely)))
        scores[network.right[node]] = scores[node] + _logarithm(likely)


@njit(**INLINE)
def _sigmoid(value: Scalar) -> Scalar:
    if value < -_BOUND:
        return np.float32(0)
    if value > _BOUND:
        return np.float32(1)
    return _SIGMOID[np.int64((value + _BOUND) * _SIGMOIDS / _BOUND / np.float32(2))]


@njit(**OPTIONS)
def _score_labels(network: Network, hidden: Floats, scores: Floats) -> None:
    """The log probabilities of all labels."""
    labels = network.sizes[1]
    for label in range(labels):
        scores[label] = _dot(network.weights, label, hidden)
    if network.sizes[6] == SOFTMAX:
        most = scores[:labels].max()
        total = np.float32(0)
        for label in range(labels):
            scores[label] = math.exp(scores[label] - most)
            total += scores[label]
        for label in range(labels):
            scores[label] /= total
    else:
        for label in range(labels):
            scores[label] = _sigmoid(scores[label])
    for label in range(labels):
        scores[label] = _logarithm(scores[label])


@njit(**ALLOCATING)
def new_lists(most: int, sizes: Ints) -> _Lists:
    """Scratch for texts of at most that many bytes; memory is allocated lazily."""
    words = most // 2 + 2
    ngrams = (most + 2 * words) * max(sizes[4] - sizes[3] + 1, 0) if sizes[4] > 0 else 0
    return _Lists(np.empty(ngrams + words * max(sizes[5], 1), np.int32), np.empty(words, np.int32))


@njit(**OPTIONS)
def _classify(network: Network, layout: tuple[Offsets, Bytes], rows: Rows, wanted: int, out: Any) -> None:
    offsets, data = layout
    label, probability, of_wanted = out
    hidden = np.empty(network.rows.shape[1], np.float32)
    lists = new_lists(longest(offsets, rows), network.sizes)
    scores = np.empty(2 * network.sizes[1], np.float32)
    for place in range(rows.size):
        start, stop = offsets[rows[place]], offsets[rows[place] + 1]
        label[place], probability[place], of_wanted[place] = -1, 0.0, 0.0
        count = list_text(network, data, start, stop, lists)
        if average(network, lists.rows[:count], hidden) == 0:
            continue
        if network.sizes[6] == HIERARCHICAL:
            _score_tree(network, hidden, scores)
        else:
            _score_labels(network, hidden, scores)
        best = np.int64(0)
        for candidate in range(network.sizes[1]):
            best = np.int64(candidate) if scores[candidate] >= scores[best] else best
        label[place], probability[place] = best, np.float64(np.float32(math.exp(scores[best])))
        if wanted >= 0:
            of_wanted[place] = np.float64(np.float32(math.exp(scores[wanted])))


def classify(offsets: Offsets, data: Bytes, rows: Rows, network: Network, wanted: int = -1) -> Classified:
    """Find the most likely label of each of the texts numbered ``rows``; newlines in them are like spaces.

    Args:
        wanted: number of the label whose probability is asked for, or -1.
    """
    out = np.empty(rows.size, np.int64), np.empty(rows.size), np.empty(rows.size)
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    _classify(network, layout, frozen(rows, np.int64), wanted, out)
    return Classified(*out)
