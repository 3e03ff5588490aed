"""Training of fastText classifiers with several heads (Joulin et al., 2016), the same to the bit at each run.

Sums are added in one order, and no arithmetic is reordered, so that a model follows from its examples and settings.
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
    hashed,
    list_text,
    new_lists,
)
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Places, Rows, Scalar, frozen, longest

#: Kinds of heads.
CLASSES, NUMBER = 0, 1
#: Steps of numbers are those of a loss of Huber that bends no more than that of classes: at one learning rate neither
#: diverges. An error counts up to this many standard deviations.
CURVATURE, FARTHEST = np.float32(0.25), np.float32(2)


class WordCounts(NamedTuple):
    """The distinct words of texts in the order in which they first came.

    Attributes:
        table: a hash table of their numbers plus one; 0 where free.
        ends: the end of each word in `letters`, after a first 0.
        letters: their UTF-8.
        counts: number of occurrences of each.
        used: number of words.
    """

    table: Places
    ends: Ints
    letters: Bytes
    counts: Ints
    used: Ints


class Heads(NamedTuple):
    """What the outputs of a network are for.

    Attributes:
        starts: the first output of each head, and the number of all.
        columns: the first column of the rows that each head reads, and the number of all.
        kinds: `CLASSES` or `NUMBER` of each.
    """

    starts: Ints
    columns: Ints
    kinds: Ints


class Examples(NamedTuple):
    """Texts as lists of numbers of rows, and what the heads are to answer.

    Attributes:
        bounds: where the list of each text begins, and the end of the last.
        features: numbers of rows, each once in a text.
        times: the weight of each of these: how often it is in the text, or less.
        targets: number of the class, or the number, of each text and head; NaN if there is none.
        weights: weight of the example of each text and head.
    """

    bounds: Ints
    features: Places
    times: Floats
    targets: Floats
    weights: Floats


@njit(**INLINE)
def _count_word(words: WordCounts, data: Bytes, start: int, stop: int) -> None:
    mask = words.table.size - 1
    slot = np.int64(hashed(data, start, stop)) & mask
    while words.table[slot] > 0:
        number = np.int64(words.table[slot]) - 1
        first, last = words.ends[number], words.ends[number + 1]
        if last - first == stop - start and begins_with(data, start, stop, words.letters[first:last]):
            words.counts[number] += 1
            return
        slot = (slot + 1) & mask
    number = words.used[0]
    words.table[slot] = number + 1
    first = words.ends[number]
    for at in range(stop - start):
        words.letters[first + at] = data[start + at]
    words.ends[number + 1] = first + stop - start
    words.counts[number] = 1
    words.used[0] = number + 1


@njit(**OPTIONS)
def _count_words(offsets: Offsets, data: Bytes, rows: Rows, words: WordCounts) -> None:
    for row in rows:
        at, stop = offsets[row], offsets[row + 1]
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
            over = at - begin == LAST.size and begins_with(data, begin, at, LAST)
            _count_word(words, data, begin, at)
        if not over:
            _count_word(words, LAST, 0, LAST.size)


@njit(**OPTIONS)
def _put_again(words: WordCounts) -> None:
    """Fill an empty table with the words."""
    mask = words.table.size - 1
    for number in range(words.used[0]):
        slot = np.int64(hashed(words.letters, words.ends[number], words.ends[number + 1])) & mask
        while words.table[slot] > 0:
            slot = (slot + 1) & mask
        words.table[slot] = number + 1


def no_words() -> WordCounts:
    """The words of no text."""
    return WordCounts(
        np.zeros(2, np.int32),
        np.zeros(1, np.int64),
        np.zeros(0, np.uint8),
        np.zeros(0, np.int64),
        np.zeros(1, np.int64),
    )


def count_words(offsets: Offsets, data: Bytes, rows: Rows, words: WordCounts) -> WordCounts:
    """Count the words of the texts numbered ``rows``, and ``</s>`` at the end of each, as fastText does."""
    rows = frozen(rows, np.int64)
    nbytes = int((offsets[rows + 1] - offsets[rows]).sum())
    used = int(words.used[0])
    most = used + nbytes // 2 + len(rows) + 2
    letters = int(words.ends[used]) + nbytes + 4
    if len(words.counts) < most or len(words.letters) < letters:
        grown = WordCounts(
            np.zeros(1 << (4 * most).bit_length(), np.int32),
            _longer(words.ends, 2 * most + 1),
            _longer(words.letters, 2 * letters),
            _longer(words.counts, 2 * most),
            words.used,
        )
        _put_again(grown)
        words = grown
    _count_words(frozen(offsets, np.int64), frozen(data, np.uint8), rows, words)
    return words


def _longer(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer


@njit(**OPTIONS)
def _list_texts(
    network: Network, layout: tuple[Offsets, Bytes], rows: Rows, bounds: Ints, out: tuple[Places, Places]
) -> Scalar:
    """List the distinct features of texts and how often each is there; returns their number, or -1 if too many."""
    offsets, data = layout
    features, times = out
    lists = new_lists(longest(offsets, rows), network.sizes)
    count = 0
    for place in range(rows.size):
        number = list_text(network, data, offsets[rows[place]], offsets[rows[place] + 1], lists)
        if count + number > features.size:
            return np.int64(-1)
        listed = lists.rows[:number]
        listed.sort()
        before = count
        for at in range(number):
            if count > before and features[count - 1] == listed[at]:
                times[count - 1] += 1
            else:
                features[count] = listed[at]
                times[count] = 1
                count += 1
        bounds[place + 1] = count
    return np.int64(count)


def list_texts(offsets: Offsets, data: Bytes, rows: Rows, network: Network) -> tuple[Ints, Places, Places]:
    """List the distinct features of texts: where those of each begin, the features, and how often each is there.

    A feature is -1 less the number of a word, or the number of a bucket. They are in the order of these numbers.
    """
    layout, rows = (frozen(offsets, np.int64), frozen(data, np.uint8)), frozen(rows, np.int64)
    size = 1024 + int((offsets[rows + 1] - offsets[rows]).sum()) // 2
    while True:
        bounds = np.zeros(len(rows) + 1, np.int64)
        out = np.empty(size, np.int32), np.empty(size, np.int32)
        count = int(_list_texts(network, layout, rows, bounds, out))
        if count >= 0:
            return bounds, out[0][:count], out[1][:count]
        size *= 4


@njit(**INLINE)
def _mean(examples: Examples, text: Scalar, rows: Floats, hidden: Floats) -> Scalar:
    """Make ``hidden`` the weighted mean of the rows of a text; returns one by the sum of the weights."""
    hidden[:] = np.float32(0)
    total = np.float64(0)
    for place in range(examples.bounds[text], examples.bounds[text + 1]):
        row = np.int64(examples.features[place])
        factor = examples.times[place]
        total += np.float64(factor)
        for step in range(hidden.size):
            hidden[step] += factor * rows[row, step]
    share = np.float32(1.0 / max(total, np.float64(1)))
    for step in range(hidden.size):
        hidden[step] *= share
    return share


@njit(**INLINE)
def answer(heads: Heads, head: Scalar, weights: Floats, hidden: Floats, out: Floats) -> None:
    """Write the probabilities of the classes of a head, or its number."""
    first, last = heads.starts[head], heads.starts[head + 1]
    for output in range(first, last):
        total = np.float32(0)
        for step in range(heads.columns[head], heads.columns[head + 1]):
            total += weights[output, step] * hidden[step]
        out[output] = total
    if heads.kinds[head] == NUMBER:
        return
    most = out[first]
    for output in range(first + 1, last):
        most = max(most, out[output])
    total = np.float32(0)
    for output in range(first, last):
        out[output] = np.float32(math.exp(out[output] - most))
        total += out[output]
    for output in range(first, last):
        out[output] /= total


@njit(**INLINE)
def answer_all(heads: Heads, weights: Floats, total: Floats, count: Scalar, out: Floats) -> None:
    """Write the answers of all heads to a text; ``total`` is a sum of vectors, and becomes their mean."""
    share = np.float32(1.0 / max(count, 1))
    for step in range(total.size):
        total[step] *= share
    for head in range(heads.kinds.size):
        answer(heads, head, weights, total, out)


@njit(**INLINE)
def loss_of(heads: Heads, head: Scalar, target: Scalar, out: Floats) -> Scalar:
    """The loss of a head's answer."""
    first = heads.starts[head]
    if heads.kinds[head] == NUMBER:
        return np.float64(out[first] - target) ** 2 / 2
    return -math.log(np.float64(out[first + np.int64(target)]) + 1e-5)


@njit(**INLINE)
def add_change(heads: Heads, head: Scalar, weights: Floats, wanted: tuple[Any, Any], vectors: Any) -> None:
    """Add what a head's answer is to change about ``hidden``."""
    target, size = wanted
    out, change = vectors
    first = heads.starts[head]
    for output in range(first, heads.starts[head + 1]):
        if heads.kinds[head] == NUMBER:
            step_size = size * CURVATURE * max(-FARTHEST, min(FARTHEST, target - out[output]))
        else:
            step_size = size * (np.float32(np.int64(target) == output - first) - out[output])
        for step in range(heads.columns[head], heads.columns[head + 1]):
            change[step] += step_size * weights[output, step]


@njit(**OPTIONS)
def _train(examples: Examples, order: Rows, heads: Heads, network: tuple[Floats, Floats, Floats], rates: Floats) -> Any:
    rows, weights, scales = network
    hidden = np.empty(rows.shape[1], np.float32)
    change = np.empty(rows.shape[1], np.float32)
    out = np.empty(heads.starts[-1], np.float32)
    lost = 0.0
    for turn in range(order.size):
        text = order[turn]
        share = _mean(examples, text, rows, hidden)
        change[:] = np.float32(0)
        for head in range(heads.kinds.size):
            target = examples.targets[text, head]
            if np.isnan(target):
                continue
            answer(heads, head, weights, hidden, out)
            weight = examples.weights[text, head]
            lost += np.float64(weight) * loss_of(heads, head, target, out)
            add_change(heads, head, weights, (target, rates[turn] * weight), (out, change))
        for step in range(hidden.size):
            change[step] *= share
        for place in range(examples.bounds[text], examples.bounds[text + 1]):
            row = np.int64(examples.features[place])
            factor = examples.times[place] * scales[row]
            for step in range(hidden.size):
                rows[row, step] += factor * change[step]
    return lost


def train(
    examples: Examples,
    order: Rows,
    heads: Heads,
    network: tuple[Floats, Floats, Floats],
    rates: npt.NDArray[np.float64],
) -> float:
    """Change the rows of a network by one pass over the texts numbered ``order``, in that order.

    Args:
        network: its rows, which are changed; its weights; and of each row the factor of its steps.
        rates: the learning rate of each turn.

    Returns:
        the sum of the losses, each before its step.
    """
    rows, weights, scales = network
    matrices = rows, frozen(weights, np.float32), frozen(scales, np.float32)
    return float(_train(_frozen(examples), frozen(order, np.int64), heads, matrices, frozen(rates, np.float32)))


@njit(**OPTIONS)
def _ask(examples: Examples, order: Rows, heads: Heads, network: tuple[Floats, Floats], out: Floats) -> Scalar:
    rows, weights = network
    hidden = np.empty(rows.shape[1], np.float32)
    lost = 0.0
    for turn in range(order.size):
        _mean(examples, order[turn], rows, hidden)
        for head in range(heads.kinds.size):
            answer(heads, head, weights, hidden, out[turn])
            target = examples.targets[order[turn], head]
            if not np.isnan(target):
                lost += np.float64(examples.weights[order[turn], head]) * loss_of(heads, head, target, out[turn])
    return lost


def ask(examples: Examples, order: Rows, heads: Heads, network: tuple[Floats, Floats]) -> tuple[Floats, float]:
    """The answers of all heads to the texts numbered ``order``, and the sum of their losses."""
    out = np.empty((len(order), int(heads.starts[-1])), np.float32)
    matrices = frozen(network[0], np.float32), frozen(network[1], np.float32)
    return out, float(_ask(_frozen(examples), frozen(order, np.int64), heads, matrices, out))


def _frozen(examples: Examples) -> Examples:
    kinds = (np.int64, np.int32, np.float32, np.float32, np.float32)
    arrays: tuple[npt.NDArray[Any], ...] = examples
    return Examples(*(frozen(array, kind) for array, kind in zip(arrays, kinds, strict=True)))
