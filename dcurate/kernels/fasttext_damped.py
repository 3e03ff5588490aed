"""Scores of texts by fastText's features with sublinear counts.

What is ``n`` times in a text counts ``1 + log(n)``, with ``n`` at most 1,023.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.fasttext import (
    DELIMITER,
    LABEL,
    LAST,
    Floats,
    Network,
    begins_with,
    find_entry,
    hashed,
    list_ngrams,
    list_word_ngrams,
    new_lists,
)
from dcurate.kernels.fasttext_training import Heads, answer_all
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
    frozen,
    longest,
)
from dcurate.kernels.row_sums import AHEAD, add_rows, prefetch

#: The weight of a feature by its count, up to 1,023; one that is there more often has the last weight.
DAMPED = np.array([0.0, *(1 + math.log(count) for count in range(1, 1024))], np.float32)
_MOST = DAMPED.size - 1
#: A cell holds the number of a text above these bits, and a count in them.
_BITS = 10
_TEXTS = 2**20
_PROBES = 64


class WordFeatures(NamedTuple):
    """The n-grams of characters of the words of the dictionary, as rows of the network.

    Attributes:
        ends: where the list of each word ends, after a first 0.
        rows: the rows.
    """

    ends: Ints
    rows: Places


class _Distinct(NamedTuple):
    """The distinct words of a text in the order in which they first came.

    Attributes:
        table: a hash table of their numbers plus one; 0 where free.
        firsts, lasts: where each begins and ends.
        values: the hash of each.
        counts: how often each is there.
    """

    table: Places
    firsts: Ints
    lasts: Ints
    values: Places
    counts: Places


@njit(**ALLOCATING)
def _new_distinct(most: int) -> Any:
    """Scratch for texts of at most that many bytes."""
    size = most // 2 + 2
    slots = np.int64(16)
    while slots < 2 * size:
        slots *= 2
    ends = np.empty(size, np.int64), np.empty(size, np.int64)
    return _Distinct(np.zeros(slots, np.int32), *ends, np.empty(size, np.int32), np.empty(size, np.int32))


@njit(**INLINE)
def _count(distinct: _Distinct, mask: Scalar, data: Bytes, word: tuple[Scalar, Scalar, Scalar], used: Scalar) -> Scalar:
    """Count a word; returns the number of distinct ones.

    After `_PROBES` others in its way it is listed once more, so that texts made for it take no longer.
    """
    start, stop, value = word
    slot = np.int64(np.uint32(value)) & mask
    free = False
    for _ in range(_PROBES):
        number = np.int64(distinct.table[slot]) - 1
        if number < 0:
            free = True
            break
        first, last = distinct.firsts[number], distinct.lasts[number]
        if (
            distinct.values[number] == value
            and last - first == stop - start
            and begins_with(data, start, stop, data[first:last])
        ):
            distinct.counts[number] += 1
            return used
        slot = (slot + 1) & mask
    if free:
        distinct.table[slot] = used + 1
    distinct.firsts[used], distinct.lasts[used] = start, stop
    distinct.values[used], distinct.counts[used] = value, 1
    return used + 1


@njit(**INLINE)
def _list_distinct(data: Bytes, span: tuple[int, int], hashes: Places, distinct: _Distinct) -> Any:
    """List the distinct words of a text, and the hashes of all; returns both numbers, and whether it ends by itself."""
    at, stop = span
    slots = np.int64(16)
    while slots < stop - at + 2:
        slots *= 2
    mask = min(slots, np.int64(distinct.table.size)) - 1  # a short text keeps to a part of the table
    words = used = np.int64(0)
    over = False
    while at < stop and not over:
        if DELIMITER[data[at]]:
            at += 1
            continue
        begin = at
        while at < stop and not DELIMITER[data[at]]:
            at += 1
        if begins_with(data, begin, at, LABEL):
            continue
        value = np.int32(hashed(data, begin, at))
        hashes[words] = value
        words += 1
        used = _count(distinct, mask, data, (begin, at, value), used)
        over = at - begin == LAST.size and begins_with(data, begin, at, LAST)
    for number in range(used):
        slot = np.int64(np.uint32(distinct.values[number])) & mask
        while distinct.table[slot] > 0:
            distinct.table[slot] = 0
            slot = (slot + 1) & mask
    if words > 0 and not over:
        hashes[words] = np.int32(hashed(LAST, 0, LAST.size))
        words += 1
    return words, used, over


@njit(**INLINE)
def _added(cells: Places, turn: Scalar, cell: Scalar, times: Scalar) -> Scalar:
    """Count a feature of a text; returns by how much its weight grows."""
    before = np.int64(cells[cell])
    count = before & _MOST if before >> _BITS == turn else np.int64(0)
    after = min(count + times, np.int64(_MOST))
    cells[cell] = (turn << _BITS) | after
    return DAMPED[after] - DAMPED[count]


@njit(**INLINE)
def _list_rows(network: Network, nothing: Scalar, listed: Places) -> None:
    """Make buckets rows; those that were not trained become -1 less their number."""
    for place in range(listed.size):
        row = np.int64(network.pruned[listed[place]])
        listed[place] = -1 - listed[place] if row < 0 or row == nothing else network.sizes[0] + row


@njit(**INLINE)
def _list_word(model: Any, word: Any, listed: Places, count: Scalar) -> Scalar:
    """List the features of a word; returns the number listed so far."""
    network, features, nothing = model
    data, first, last, value = word
    entry = find_entry(network, value, data, first, last)
    if entry >= 0:
        listed[count] = entry
        count += 1
        for place in range(features.ends[entry], features.ends[entry + 1]):
            listed[count] = features.rows[place]
            count += 1
    elif network.sizes[4] > 0 and not (last - first == LAST.size and begins_with(data, first, last, LAST)):
        before = count
        count = list_ngrams(data, (first, last), network.sizes, listed, count)
        _list_rows(network, nothing, listed[before:count])
    return count


@njit(**INLINE)
def _cell(network: Network, feature: Scalar) -> Scalar:
    """The cell of a feature: those that were not trained have theirs beyond the rows."""
    feature = np.int64(feature)
    return feature if feature >= 0 else network.rows.shape[0] - 1 - feature


@njit(**INLINE)
def _weigh(network: Network, counting: Any, span: tuple[Scalar, Scalar], times: Scalar, scratch: Any) -> Scalar:
    """Count listed features, each ``times`` times; returns by how much their weights grow."""
    (cells, turn), (listed, factors, count) = counting, scratch
    weights = np.float64(0)
    for place in range(span[0], span[1]):
        prefetch(cells, _cell(network, listed[min(place + AHEAD, count - 1)]))
        factors[place] = _added(cells, turn, _cell(network, listed[place]), times)
        weights += np.float64(factors[place])
    return weights


@njit(**OPTIONS)
def _score_texts(
    model: tuple[Network, WordFeatures, Scalar],
    layout: tuple[Offsets, Bytes],
    rows: Rows,
    heads: Heads,
    out: Floats,
) -> None:
    network, _, nothing = model
    offsets, data = layout
    total = np.empty(network.rows.shape[1], np.float32)
    most = longest(offsets, rows)
    lists, distinct = new_lists(most, network.sizes), _new_distinct(most)
    listed, factors = lists.rows, np.empty(lists.rows.size, np.float32)
    ends = np.empty(lists.hashes.size + 1, np.int64)
    cells = np.zeros(network.rows.shape[0] + network.sizes[2], np.int32)
    for place in range(rows.size):
        turn = np.int64(place % _TEXTS) + 1
        if turn == 1 and place > 0:
            cells[:] = 0
        span = offsets[rows[place]], offsets[rows[place] + 1]
        words, used, over = _list_distinct(data, span, lists.hashes, distinct)
        if words == 0:
            out[place] = np.float32(np.nan)
            continue
        count = np.int64(0)
        for number in range(used):
            word = data, distinct.firsts[number], distinct.lasts[number], np.uint32(distinct.values[number])
            count = _list_word(model, word, listed, count)
            ends[number] = count
        if not over:
            last = LAST, np.int64(0), np.int64(LAST.size), hashed(LAST, 0, LAST.size)
            count = _list_word(model, last, listed, count)
        single = count
        if network.sizes[5] > 1:
            count = list_word_ngrams(network.sizes, lists, count, words)
            _list_rows(network, nothing, listed[single:count])
        scratch = listed, factors, count
        weights, first = np.float64(0), np.int64(0)
        for number in range(used):
            span = first, ends[number]
            weights += _weigh(network, (cells, turn), span, np.int64(distinct.counts[number]), scratch)
            first = ends[number]
        weights += _weigh(network, (cells, turn), (first, count), np.int64(1), scratch)
        for feature in range(count):
            listed[feature] = listed[feature] if listed[feature] >= 0 else network.sizes[0] + nothing
        total[:] = np.float32(0)
        add_rows(network.rows, listed[:count], factors, total)
        answer_all(heads, network.weights, total, weights, out[place])


@njit(**OPTIONS)
def _list_features(network: Network, ends: Ints, listed: Places, rows: Places) -> Scalar:
    """List the n-grams of each word; returns their number, or -1 if too many."""
    count = np.int64(0)
    for number in range(network.sizes[0]):
        first, last = network.names[number], network.names[number + 1]
        if not (last - first == LAST.size and begins_with(network.letters, first, last, LAST)):
            ngrams = list_ngrams(network.letters, (first, last), network.sizes, listed, 0)
            if count + ngrams > rows.size:
                return np.int64(-1)
            for place in range(ngrams):
                rows[count] = network.sizes[0] + network.pruned[listed[place]]
                count += 1
        ends[number + 1] = count
    return count


def word_features(network: Network) -> WordFeatures:
    """Return the n-grams of the words of a network that was trained here: it has a vector for each of them."""
    words = int(network.sizes[0])
    ends = np.zeros(words + 1, np.int64)
    if network.sizes[4] == 0:
        return WordFeatures(frozen(ends, np.int64), np.zeros(0, np.int32))
    longest_word = int(np.diff(network.names).max(initial=0)) + 2
    listed = np.empty(longest_word * (int(network.sizes[4]) + 1), np.int32)
    size = 1024 + len(network.letters)
    while True:
        rows = np.empty(size, np.int32)
        count = int(_list_features(network, ends, listed, rows))
        if count >= 0:
            return WordFeatures(frozen(ends, np.int64), frozen(rows[:count], np.int32))
        size *= 4


def score_damped_texts(
    layout: tuple[Offsets, Bytes],
    rows: npt.NDArray[np.int64],
    network: Network,
    features: WordFeatures,
    heads: Heads,
) -> Floats:
    """The answers of all heads to the texts numbered ``rows``, in one pass; NaN for texts without words.

    Args:
        layout: offsets and bytes of the texts.
        network: one that was trained here; its last vector is that of buckets that were not trained.
        features: of the network's words.

    Returns:
        of shape (texts, outputs): probabilities of classes, or numbers.
    """
    out = np.empty((len(rows), int(heads.starts[-1])), np.float32)
    texts = frozen(layout[0], np.int64), frozen(layout[1], np.uint8)
    nothing = len(network.rows) - int(network.sizes[0]) - 1
    _score_texts((network, features, nothing), texts, frozen(rows, np.int64), heads, out)
    return out
