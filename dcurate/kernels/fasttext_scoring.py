"""Scores of texts by linear models on fastText's features: all heads in one pass."""

from __future__ import annotations

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
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Offsets, Places, Rows, Scalar, frozen, longest
from dcurate.kernels.row_sums import add_rows


class WordSums(NamedTuple):
    """What each word of the dictionary adds to the sum of a text.

    Attributes:
        rows: the sum of its vector and of those of its n-grams of characters.
        counts: how many vectors these are.
        nothing: the place of a vector of zeros among those of buckets, or -1: it is counted and not read.
    """

    rows: Floats
    counts: Places
    nothing: Scalar


@njit(**INLINE)
def _add_ngrams(network: Network, nothing: Scalar, listed: Places, total: Floats) -> Scalar:
    """Add the vectors of buckets to a sum; returns how many there are.

    First it is found out which have a vector, without branches, so that the CPU waits for memory for several at a time.
    """
    words = network.sizes[0]
    count = kept = np.int64(0)
    for place in range(listed.size):
        bucket = np.int64(listed[place])
        if network.pruned.size > 0:
            bucket = np.int64(network.pruned[bucket])
        listed[kept] = words + bucket
        count += bucket >= 0
        kept += (bucket >= 0) & (bucket != nothing)
    add_rows(network.rows, listed[:kept], None, total)
    return count


@njit(**OPTIONS)
def _sum_words(network: Network, nothing: Scalar, sums: Floats, counts: Places, listed: Places) -> None:
    for number in range(network.sizes[0]):
        start, stop = network.names[number], network.names[number + 1]
        for step in range(sums.shape[1]):
            sums[number, step] = network.rows[number, step]
        counts[number] = 1
        if network.sizes[4] > 0 and not (stop - start == LAST.size and begins_with(network.letters, start, stop, LAST)):
            found = list_ngrams(network.letters, (start, stop), network.sizes, listed, 0)
            counts[number] += _add_ngrams(network, nothing, listed[:found], sums[number])


def sum_words(network: Network) -> WordSums:
    """Return what each word of the dictionary adds to the sum of a text."""
    words = int(network.sizes[0])
    sums, counts = np.empty((words, network.rows.shape[1]), np.float32), np.empty(words, np.int32)
    most = int(np.diff(network.names).max(initial=0)) + 2
    last = len(network.rows) - words - 1
    nothing = last if len(network.pruned) and last >= 0 and not network.rows[-1].any() else -1
    _sum_words(network, nothing, sums, counts, np.empty(most * (int(network.sizes[4]) + 1), np.int32))
    return WordSums(frozen(sums, np.float32), frozen(counts, np.int32), nothing)


@njit(**INLINE)
def _add_word(network: Network, sums: WordSums, text: tuple[Bytes, Scalar, Scalar], scratch: Any, total: Floats) -> Any:
    """List a word of the dictionary, or add the vectors of another one.

    Returns how many vectors it adds, its hash, or -1 for a label, which is left out, and how many words are listed.
    """
    data, start, stop = text
    lists, entries, known = scratch
    value = hashed(data, start, stop)
    entry = find_entry(network, value, data, start, stop)
    if entry >= 0:
        entries[known] = entry
        return np.int64(0), np.int64(value), known + 1
    if begins_with(data, start, stop, LABEL):
        return np.int64(0), np.int64(-1), known
    if network.sizes[4] == 0:
        return np.int64(0), np.int64(value), known
    found = list_ngrams(data, (start, stop), network.sizes, lists.rows, 0)
    return _add_ngrams(network, sums.nothing, lists.rows[:found], total), np.int64(value), known


@njit(**INLINE)
def _add_text(network: Network, sums: WordSums, text: tuple[Bytes, Scalar, Scalar], scratch: Any, total: Floats) -> Any:
    """Add the vectors of a text; returns how many there are, and the number of its words."""
    data, at, stop = text
    lists, entries = scratch
    count = words = known = np.int64(0)
    over = False
    while at < stop and not over:
        if DELIMITER[data[at]]:
            at += 1
            continue
        begin = at
        while at < stop and not DELIMITER[data[at]]:
            at += 1
        added, value, known = _add_word(network, sums, (data, begin, at), (lists, entries, known), total)
        count += added
        if value >= 0:
            lists.hashes[words] = np.int32(np.uint32(value))
            words += 1
        over = at - begin == LAST.size and begins_with(data, begin, at, LAST)
    if words > 0 and not over:
        added, value, known = _add_word(network, sums, (LAST, 0, LAST.size), (lists, entries, known), total)
        count += added
        lists.hashes[words] = np.int32(np.uint32(value))
        words += 1
    for place in range(known):
        count += np.int64(sums.counts[entries[place]])
    add_rows(sums.rows, entries[:known], None, total)
    if network.sizes[5] > 1:
        listed = list_word_ngrams(network.sizes, lists, 0, words)
        count += _add_ngrams(network, sums.nothing, lists.rows[:listed], total)
    return count, words


@njit(**OPTIONS)
def _score_texts(
    model: tuple[Network, WordSums], layout: tuple[Offsets, Bytes], rows: Rows, heads: Heads, out: Floats
) -> None:
    network, sums = model
    offsets, data = layout
    total = np.empty(network.rows.shape[1], np.float32)
    lists = new_lists(longest(offsets, rows), network.sizes)
    scratch = lists, np.empty(lists.hashes.size, np.int32)
    for place in range(rows.size):
        total[:] = np.float32(0)
        text = data, offsets[rows[place]], offsets[rows[place] + 1]
        count, words = _add_text(network, sums, text, scratch, total)
        if words == 0:
            out[place] = np.float32(np.nan)
            continue
        answer_all(heads, network.weights, total, count, out[place])


def score_texts(
    layout: tuple[Offsets, Bytes], rows: npt.NDArray[np.int64], network: Network, sums: WordSums, heads: Heads
) -> Floats:
    """The answers of all heads to the texts numbered ``rows``, in one pass; NaN for texts without words.

    Args:
        layout: offsets and bytes of the texts.
        sums: sums of the network's words.

    Returns:
        of shape (texts, outputs): probabilities of classes, or numbers.
    """
    out = np.empty((len(rows), int(heads.starts[-1])), np.float32)
    texts = frozen(layout[0], np.int64), frozen(layout[1], np.uint8)
    _score_texts((network, sums), texts, frozen(rows, np.int64), heads, out)
    return out
