"""Repetition of word n-grams in a text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.hashing import find_leader, hash_bytes, load_eight, load_up_to_eight, table_bits, table_slot
from dcurate.kernels.layout import ALLOCATING, INLINE_LATE, Bytes, Ints, Scalar, frozen
from dcurate.kernels.signal import Array, Output, signal
from dcurate.kernels.unicode import continuations
from dcurate.kernels.words import find_words

_STEP = np.uint64(0xF1357AEA2E62A9C5 | 2)
_BLANK = 32
#: A joint that is none: no word ends or begins with a blank.
_NO_JOINT = np.uint32(0x20202020)
#: The bytes of a joint that count if the first word is of one byte, or the second.
_BOTH, _NOT_FIRST, _NOT_LAST = np.uint32(0xFFFFFFFF), np.uint32(0xFFFFFF00), np.uint32(0x00FFFFFF)
_BEFORE, _AFTER, _GAP = np.uint64(0xFFFF), np.uint64(0xFFFF0000), np.uint64(8)
#: Joints that are compared at once.
_JOINTS = 64


class NgramSignals(NamedTuple):
    """The repeated n-grams of each text, by n.

    ``removed[n]`` is how many characters go when every occurrence of the most frequent n-gram, its words joined by
    one space, is removed from the text; of n-grams equally frequent it is the one that occurs first.
    ``repeated[n]`` counts the characters of n-grams that occurred before, and the spaces in them, none twice.
    Both are -1 for a text of fewer than n words.
    """

    removed: dict[int, npt.NDArray[np.int64]]
    repeated: dict[int, npt.NDArray[np.int64]]


class Sought(NamedTuple):
    """Sizes of n-grams, ascending, and for each whether the top one (row 0), and all repeats (row 1), are needed."""

    sizes: npt.NDArray[np.int64]
    wanted: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, removed: Iterable[int], repeated: Iterable[int]) -> Sought:
        """Arguments of the two kinds of signals."""
        tops, repeats = set(removed), set(repeated)
        sizes = sorted(tops | repeats)
        wanted = np.array([[size in tops for size in sizes], [size in repeats for size in sizes]], np.bool_)
        return cls(frozen(np.array(sizes), np.int64), frozen(wanted, np.bool_))

    def signals(self, found: npt.NDArray[np.int64]) -> NgramSignals:
        """Results, an array of shape (2, sizes, texts), by size."""
        return NgramSignals(
            *(
                {int(self.sizes[place]): found[kind, place] for place in np.flatnonzero(self.wanted[kind])}
                for kind in range(2)
            )
        )


class GramScratch(NamedTuple):
    """Scratch for one text.

    Of each word: where it begins and ends (``bounds``, two entries), its hash, its joint with the next one, the hash of
    the n-gram that begins with it, the word at which that n-gram occurs first (its leader), and how often the n-gram of
    a leader occurs. ``chosen`` lists the words at which n-grams are looked at; ``table`` is the hash table of leaders,
    ``seen`` says for each slot of a larger one whether one n-gram belongs there, or more (2).
    """

    bounds: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]
    joints: npt.NDArray[np.uint32]
    grams: npt.NDArray[np.uint64]
    leaders: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    chosen: npt.NDArray[np.int32]
    table: npt.NDArray[np.int32]
    seen: npt.NDArray[np.uint8]


@njit(**ALLOCATING)
def new_gram_scratch(most: int, sought: Sought) -> GramScratch:
    """Scratch for texts of at most ``most`` bytes; memory is allocated lazily."""
    words = most // 2 + 1
    bits = int(table_bits(words))
    return GramScratch(
        np.empty(most + 9, np.int64),
        np.empty(words, np.uint64),
        np.empty(words + _JOINTS, np.uint32),
        np.empty(words, np.uint64),
        np.empty(words, np.int32),
        np.empty(words, np.int32),
        np.empty(words, np.int32),
        np.empty(1 << bits, np.int32),
        np.empty(2 << bits, np.uint8),
    )


@njit(**INLINE_LATE)
def _same(data: Bytes, left: int, right: int, length: int) -> Scalar:
    for step in range(length):  # noqa: SIM110 - a loop compiles to less than a generator
        if data[left + step] != data[right + step]:
            return False
    return True


@njit(**INLINE_LATE)
def _word_occurrences(data: Bytes, span: tuple[int, int], start: int, stop: int) -> Scalar:
    """Non-overlapping occurrences of the word from ``start`` to ``stop`` in a text, also inside words."""
    at, end = span
    length = stop - start
    count = 0
    while at + length <= end:
        if data[at] == data[start] and _same(data, at, start, length):
            count += 1
            at += length
        else:
            at += 1
    return count


@njit(**INLINE_LATE)
def _joint(data: Bytes, stop: int) -> Scalar:
    """The two bytes before ``stop`` and the two after the one there as one number, where the data go on around it."""
    around = load_eight(data, stop - 2)
    return np.uint32((around & _BEFORE) | ((around >> _GAP) & _AFTER))


@njit(**INLINE_LATE)
def _edge_joint(data: Bytes, stop: int) -> Scalar:
    """The same at the beginning and at the end of the data."""
    joint = np.uint32(0)
    for step in range(4):
        at = stop - 2 + step + (step > 1)
        byte = data[at] if 0 <= at < data.size else np.uint8(0)
        joint |= np.uint32(byte) << np.uint32(8 * step)
    return joint


@njit(**INLINE_LATE)
def _find_joints(data: Bytes, scratch: GramScratch, words: int) -> None:
    """Write the joint of each word with the next one, if one blank is between them; there is none behind the last."""
    bounds, joints = scratch.bounds, scratch.joints
    for word in range(words - 1):
        stop = bounds[2 * word + 1]
        inside = stop > 1 and stop + 6 <= data.size
        joint = _joint(data, stop) if inside else _edge_joint(data, stop)
        near = (bounds[2 * word + 2] == stop + 1) & (data[stop] == _BLANK)
        joints[word] = joint if near else _NO_JOINT
    for word in range(max(words - 1, 0), words + _JOINTS - 1):
        joints[word] = _NO_JOINT


@njit(**INLINE_LATE)
def _occurs(data: Bytes, scratch: GramScratch, at: int, gram: tuple[int, int]) -> Scalar:
    """Whether the n-gram at word ``best`` occurs with its first blank behind word ``at``."""
    best, n = gram
    bounds, hashes = scratch.bounds, scratch.hashes
    first, final = bounds[2 * best], bounds[2 * (best + n - 1)]
    first_length, final_length = bounds[2 * best + 1] - first, bounds[2 * (best + n) - 1] - final
    begin, end = bounds[2 * at + 1] - first_length, bounds[2 * (at + n - 1)]
    if begin < bounds[2 * at] or bounds[2 * (at + n) - 1] - end < final_length:
        return False
    matches = _same(data, begin, first, first_length) and _same(data, end, final, final_length)
    for step in range(1, n - 1):
        matches &= scratch.joints[at + step] != _NO_JOINT and hashes[at + step] == hashes[best + step]
    return matches


@njit(**INLINE_LATE)
def _occurrences(data: Bytes, scratch: GramScratch, words: int, best: int, n: int) -> Scalar:
    """Non-overlapping occurrences of the n-gram at word ``best``, joined by single spaces, in the text.

    An occurrence has its spaces between words, so it ends one word, begins another, and holds whole words between.
    """
    bounds, joints = scratch.bounds, scratch.joints
    first_length = bounds[2 * best + 1] - bounds[2 * best]
    final_length = bounds[2 * (best + n) - 1] - bounds[2 * (best + n - 1)]
    mask = _NOT_FIRST if first_length == 1 else _BOTH
    if bounds[2 * best + 3] - bounds[2 * best + 2] == 1:
        mask &= _NOT_LAST
    sought = np.uint32(0)
    for step in range(2):
        sought |= np.uint32(data[max(bounds[2 * best + 1] - 2 + step, 0)]) << np.uint32(8 * step)
        last = min(bounds[2 * best + 2] + step, data.size - 1)
        sought |= np.uint32(data[last]) << np.uint32(8 * step + 16)
    sought &= mask
    count = 0
    free = np.int64(0)
    number = words - n + 1
    for block in range(0, number, _JOINTS):
        matches = np.uint32(0)
        for joint in joints[block : block + _JOINTS]:
            matches |= np.uint32(joint & mask == sought)
        if matches == 0:
            continue
        for at in range(block, min(block + _JOINTS, number)):
            if joints[at] & mask != sought or bounds[2 * at + 1] - first_length < free:
                continue
            if _occurs(data, scratch, at, (best, n)):
                count += 1
                free = bounds[2 * (at + n - 1)] + final_length
    return count


@njit(**INLINE_LATE)
def _characters(data: Bytes, bounds: Ints, first: int, stop: int) -> Scalar:
    """Characters of the words from ``first`` up to ``stop``."""
    count = 0
    for word in range(first, stop):
        at, end = bounds[2 * word], bounds[2 * word + 1]
        count += end - at
        while at + 8 < end:
            count -= continuations(load_eight(data, at))
            at += 8
        count -= continuations(load_up_to_eight(data, at, end))
    return count


@njit(**INLINE_LATE)
def _removed(data: Bytes, span: tuple[int, int], scratch: GramScratch, words: int, gram: tuple[int, int]) -> Scalar:
    """Characters removed with an n-gram, its words joined by one space, from the text."""
    best, n = gram
    bounds = scratch.bounds
    if n == 1:
        occurrences = _word_occurrences(data, span, bounds[2 * best], bounds[2 * best + 1])
    else:
        occurrences = _occurrences(data, scratch, words, best, n)
    return occurrences * (_characters(data, bounds, best, best + n) + n - 1)


@njit(**INLINE_LATE)
def _choose_all(scratch: GramScratch, words: int, n: int) -> Scalar:
    """Select every word that begins an n-gram; returns their number."""
    hashes, grams, chosen = scratch.hashes, scratch.grams, scratch.chosen
    number = words - n + 1
    for at in range(number):
        grams[at] = hashes[at]
        chosen[at] = at
    for step in range(1, n):
        for at in range(number):
            grams[at] = grams[at] * _STEP + hashes[at + step]
    return number


@njit(**INLINE_LATE)
def _choose_repeated(scratch: GramScratch, words: int, number: int, before: int, n: int) -> Scalar:
    """Of the selected words, keep those whose shorter n-gram is repeated; returns their number.

    No branch depends on which are: it would be mispredicted often.
    """
    hashes, grams, chosen = scratch.hashes, scratch.grams, scratch.chosen
    while number > 0 and chosen[number - 1] + n > words:
        number -= 1
    kept = 0
    for candidate in range(number):
        at = np.int64(chosen[candidate])
        gram = grams[at]
        for step in range(before, n):
            gram = gram * _STEP + hashes[at + step]
        grams[at] = gram
        chosen[kept] = at
        kept += scratch.counts[scratch.leaders[at]] > 1
    return kept


@njit(**INLINE_LATE)
def _choose_suspects(scratch: GramScratch, number: int) -> Scalar:
    """Of the selected words, keep those whose n-gram may be repeated, and few others; returns their number."""
    grams, chosen, seen = scratch.grams, scratch.chosen, scratch.seen
    bits = table_bits(number) + 1
    seen[: 1 << bits] = 0
    for place in range(number):
        slot = table_slot(grams[chosen[place]], bits)
        seen[slot] = 1 + (seen[slot] != 0)
    kept = 0
    for place in range(number):
        at = chosen[place]
        chosen[kept] = at
        scratch.counts[at] = 0
        kept += seen[table_slot(grams[at], bits)] == 2
    return kept


@njit(**INLINE_LATE)
def _count(data: Bytes, scratch: GramScratch, number: int, n: int, wants_repeated: bool) -> tuple[Scalar, Scalar]:
    """Count the n-grams at the selected words; returns the most frequent one's word, and the repeated characters."""
    grams, leaders, counts, table = scratch.grams, scratch.leaders, scratch.counts, scratch.table
    bits = table_bits(number)
    table[: 1 << bits] = 0
    best, best_count = np.int64(0), 1
    repeated, covered, before = np.int64(0), np.int64(0), np.int64(0)
    for place in range(number):
        at = np.int64(scratch.chosen[place])
        leader = find_leader(table, bits, grams, at)
        leaders[at] = leader
        counts[leader] += 1
        if counts[leader] > best_count or (counts[leader] == best_count and leader < best):
            best, best_count = leader, counts[leader]
        if not wants_repeated or leader == at:
            continue
        covered = max(covered - (at - before), np.int64(0))
        repeated += min(n - covered, n - 1) + _characters(data, scratch.bounds, at + covered, at + n)
        covered, before = np.int64(n), at
    return best, repeated


@njit(**INLINE_LATE)
def measure_ngrams(data: Bytes, span: tuple[int, int], sought: Sought, scratch: GramScratch, out: Ints) -> None:
    """Find the repeated n-grams of one text: characters of the top one, and of all, by size (axis 1)."""
    sizes, wants = sought
    words = find_words(data, span[0], span[1], scratch.bounds)
    for word in range(words):
        scratch.hashes[word] = hash_bytes(data, scratch.bounds[2 * word], scratch.bounds[2 * word + 1])
    _find_joints(data, scratch, words)
    number = before = 0
    for index in range(sizes.size):
        n = sizes[index]
        if words < n:
            out[0, index] = out[1, index] = -1
            continue
        if before == 0:  # noqa: SIM108 - the line would be too long
            number = _choose_all(scratch, words, n)
        else:
            number = _choose_repeated(scratch, words, number, before, n)
        before = n
        number = _choose_suspects(scratch, number)
        best, repeated = _count(data, scratch, number, n, wants[1, index])
        out[1, index] = repeated
        if wants[0, index]:
            out[0, index] = _removed(data, span, scratch, words, (best, n))


def _shape(sought: Sought) -> tuple[int, ...]:
    return 2, len(sought.sizes)


def _by_size(out: Array, sought: Sought) -> NgramSignals:
    return sought.signals(np.ascontiguousarray(np.moveaxis(out, 0, 2)))


@signal(measure_ngrams, Output(_shape, _by_size), scratch=Scratch(new_gram_scratch))
def ngram_signals(removed: Iterable[int] = (), repeated: Iterable[int] = ()) -> Sought:
    """Find repeated n-grams of the sizes in ``removed`` and ``repeated``.

    Several sizes cost little more than the smallest of them: an n-gram can only occur twice where its beginning does.

    Examples:
        >>> text = b"so it goes and so it goes"
        >>> signals = ngram_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]), [2], [3])
        >>> int(signals.removed[2][0]), int(signals.repeated[3][0])
        (10, 10)
    """
    return Sought.of(removed, repeated)
