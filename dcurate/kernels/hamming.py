"""Pairs of binary hashes within a Hamming distance, among those that share a bucket."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import intrinsic

from dcurate.kernels.layout import INLINE, OPTIONS, Ints, Scalar, Words

#: Contents of a bucket of which all that are near are paired. Of larger buckets the following limits hold.
SMALL = 512
#: Contents of one hash, or of two, that are paired each with each; and contents of other hashes that a hash is paired
#: with, of those that are near by chance and of the others. Of more, each is paired with the first `LEADERS`, and with
#: the `FOLLOWERS` after it.
MOST_CONTENTS, LEADERS, FOLLOWERS = 16, 8, 8
#: Hashes of a bucket that a hash is compared with: the first and the last ones before it, half of each.
MOST_COMPARED = 2**9

_SHIFT = np.uint64(32)


class HashedEntries(NamedTuple):
    """Rows of an index of hashes, ordered by key, hash, content and document.

    Args:
        keys: keys of the buckets.
        hashes: array of shape (rows, words).
        contents: what is known of a picture beside its hash, as one number: equal ones are copies.
        docs: the number of the document.
        groups: the combination of parts that the key is made of, by its number.
    """

    keys: Words
    hashes: npt.NDArray[np.uint64]
    contents: Words
    docs: npt.NDArray[np.uint32]
    groups: npt.NDArray[np.uint16]


class Scheme(NamedTuple):
    """How hashes are cut.

    Args:
        masks: the bits of each part, of shape (parts, words).
        groups: the parts of each combination, in order, of shape (combinations, parts of each).
        distance: most bits that differ.
    """

    masks: npt.NDArray[np.uint64]
    groups: npt.NDArray[np.int64]
    distance: Scalar


def _count_ones(context: Any, word: Any) -> tuple[Any, Any]:
    """The type of `_ones`, and its code: one instruction."""
    return types.int64(types.uint64), lambda _, builder, __, arguments: builder.ctpop(arguments[0])


#: How many bits of a word are set.
_ones: Scalar = intrinsic(_count_ones)


@njit(**INLINE)
def _apart(hashes: Words, row: Scalar, other_row: Scalar, distance: Scalar) -> Scalar:
    """In how many bits two hashes differ; more than a number of bits are not counted."""
    total: Scalar = 0
    for word in range(hashes.shape[1]):
        total += _ones(hashes[row, word] ^ hashes[other_row, word])
        if total > distance:
            break
    return total


@njit(**INLINE)
def _shared(hashes: Words, row: Scalar, other_row: Scalar, masks: Words, part: Scalar) -> Scalar:
    """How many bits are set in a part of both of two hashes; -1 if they do not agree in it."""
    total: Scalar = 0
    for word in range(hashes.shape[1]):
        if (hashes[row, word] ^ hashes[other_row, word]) & masks[part, word]:
            return -1
        total += _ones(hashes[row, word] & masks[part, word])
    return total


@njit(**INLINE)
def _belongs(entries: HashedEntries, row: Scalar, other_row: Scalar, scheme: Scheme, sign: Scalar) -> Scalar:
    """Whether a bucket is that of the parts with the most bits (sign 1) or the fewest (-1) in which two hashes agree.

    Of all buckets they share, so one pairs them. Of parts with as many bits the first ones count.
    """
    hashes, group, parts = entries.hashes, entries.groups[row], scheme.groups.shape[1]
    last, least = -1, 0
    for place in range(parts):
        part = scheme.groups[group, place]
        bits = _shared(hashes, row, other_row, scheme.masks, part)
        if bits < 0:
            return False
        if last < 0 or sign * bits <= least:
            last, least = part, sign * bits
    place = 0
    for part in range(scheme.masks.shape[0]):
        if place < parts and scheme.groups[group, place] == part:
            place += 1
            continue
        bits = _shared(hashes, row, other_row, scheme.masks, part)
        if bits >= 0 and (sign * bits > least or (sign * bits == least and part < last)):
            return False
    return True


@njit(**INLINE)
def _same(hashes: Words, row: Scalar, other_row: Scalar) -> Scalar:
    differs = np.uint64(0)
    for word in range(hashes.shape[1]):
        differs |= hashes[row, word] ^ hashes[other_row, word]
    return differs == 0


@njit(**INLINE)
def _paired(doc: Scalar, other_doc: Scalar) -> Scalar:
    """Two documents as one number, the smaller one above."""
    return np.uint64(min(doc, other_doc)) << _SHIFT | np.uint64(max(doc, other_doc))


class Bucket(NamedTuple):
    """What the rows of one bucket hold; arrays as long as the largest bucket, and one more.

    Args:
        docs: the first document of each content.
        rows: the first row of each hash.
        bounds: the first content of each hash.
        near: hashes that one hash is near to; room for `SMALL`.
        most: contents that are paired each with each: `SMALL` or `MOST_CONTENTS`.
    """

    docs: Ints
    rows: Ints
    bounds: Ints
    near: Ints
    most: Ints


class Reached(NamedTuple):
    """Where `near_pairs` stopped: a hash of a bucket; pairs taken; buckets of which some were left out; comparisons."""

    start: Scalar
    hash: Scalar
    taken: Scalar
    short: Scalar
    compared: Scalar


@njit(**INLINE)
def _end(keys: Words, start: Scalar) -> Scalar:
    """Where the bucket that begins at a row ends."""
    stop = start + 1
    while stop < keys.size and keys[stop] == keys[start]:
        stop += 1
    return stop


@njit(**OPTIONS)
def largest_bucket(keys: Words) -> Scalar:
    """The rows of the largest bucket."""
    start, largest = 0, 0
    while start < keys.size:
        stop = _end(keys, start)
        largest = max(largest, stop - start)
        start = stop
    return largest


@njit(**INLINE)
def _read(entries: HashedEntries, start: Scalar, stop: Scalar, bucket: Bucket) -> Scalar:
    """Find the hashes of a bucket, and the contents of each; return how many hashes there are."""
    count, contents = 0, 0
    for row in range(start, stop):
        new_hash = row == start or not _same(entries.hashes, row - 1, row)
        if new_hash:
            bucket.rows[count], bucket.bounds[count] = row, contents
            count += 1
        if new_hash or entries.contents[row] != entries.contents[row - 1]:
            bucket.docs[contents] = entries.docs[row]
            contents += 1
    bucket.rows[count], bucket.bounds[count] = stop, contents
    return count


@njit(**INLINE)
def _by_chance(hashes: Words, row: Scalar, other_row: Scalar, apart: Scalar) -> Scalar:
    """Whether two hashes share no more bits than they differ in: few bits are set, so that they are near to many."""
    shared: Scalar = 0
    for word in range(hashes.shape[1]):
        shared += _ones(hashes[row, word] & hashes[other_row, word])
    return shared <= apart


@njit(**INLINE)
def _find_near(entries: HashedEntries, scheme: Scheme, bucket: Bucket, high: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Write which hashes before one are near to it; return how many, whether all were looked at, and how many were.

    Hashes that are near by chance have limits of their own, so that they do not take the place of others.
    """
    paired, low, compared, complete, near_contents, by_chance = 0, 0, 0, True, 0, 0
    while low < high:
        if low == MOST_COMPARED // 2 and high > MOST_COMPARED:
            low = high - MOST_COMPARED // 2
            complete = False
        row, other_row = bucket.rows[low], bucket.rows[high]
        compared += 1
        apart = _apart(entries.hashes, row, other_row, scheme.distance)
        if apart <= scheme.distance:
            contents = bucket.bounds[low + 1] - bucket.bounds[low]
            if _by_chance(entries.hashes, row, other_row, apart):
                if by_chance >= bucket.most[0]:
                    complete = False
                elif _belongs(entries, row, other_row, scheme, -1):
                    bucket.near[paired] = low
                    paired += 1
                by_chance += contents
            elif _belongs(entries, row, other_row, scheme, 1):
                bucket.near[paired] = low
                paired += 1
                near_contents += contents
                if near_contents >= bucket.most[0] and low + 1 < high:
                    return paired, False, compared
        low += 1
    return paired, complete, compared


@njit(**INLINE)
def _most_pairs(bucket: Bucket, high: Scalar, near: Scalar) -> Scalar:
    """The most pairs of a hash."""
    count = bucket.bounds[high + 1] - bucket.bounds[high]
    most = bucket.rows[high + 1] - bucket.rows[high]
    most += count * min(count, bucket.most[0])
    for place in range(near):
        low = bucket.near[place]
        most += count * (bucket.bounds[low + 1] - bucket.bounds[low] if _few(bucket, low, high) else LEADERS)
    return most


@njit(**INLINE)
def _few(bucket: Bucket, low: Scalar, high: Scalar) -> Scalar:
    """Whether all contents of two hashes are paired."""
    count = bucket.bounds[low + 1] - bucket.bounds[low] + bucket.bounds[high + 1] - bucket.bounds[high]
    return count <= bucket.most[0]


@njit(**INLINE)
def _pair_own(entries: HashedEntries, bucket: Bucket, high: Scalar, out: Words, taken: Scalar) -> Scalar:
    """Pair what has one hash: copies with the first of them, contents each with each or with a few."""
    content = bucket.bounds[high]
    for row in range(bucket.rows[high] + 1, bucket.rows[high + 1]):
        if entries.contents[row] != entries.contents[row - 1]:
            content += 1
        elif entries.docs[row] != bucket.docs[content]:
            out[taken] = _paired(bucket.docs[content], np.int64(entries.docs[row]))
            taken += 1
    start, stop = bucket.bounds[high], bucket.bounds[high + 1]
    few = stop - start <= bucket.most[0]
    for later in range(start, stop):
        leaders: Scalar = later if few else min(later, start + LEADERS)
        for earlier in range(start, leaders):
            out[taken] = _paired(bucket.docs[earlier], bucket.docs[later])
            taken += 1
        followers: Scalar = later if few else max(leaders, later - FOLLOWERS)
        for earlier in range(followers, later):
            out[taken] = _paired(bucket.docs[earlier], bucket.docs[later])
            taken += 1
    return taken


@njit(**INLINE)
def _pair_two(bucket: Bucket, low: Scalar, high: Scalar, out: Words, taken: Scalar) -> Scalar:
    """Pair the contents of two hashes: each with each, or those of the second with the first few of the other."""
    first, last = bucket.bounds[low], bucket.bounds[low + 1]
    leaders: Scalar = last if _few(bucket, low, high) else min(last, first + LEADERS)
    for later in range(bucket.bounds[high], bucket.bounds[high + 1]):
        for earlier in range(first, leaders):
            out[taken] = _paired(bucket.docs[earlier], bucket.docs[later])
            taken += 1
    return taken


@njit(**OPTIONS)
def near_pairs(
    entries: HashedEntries, scheme: Scheme, bucket: Bucket, begin: tuple[int, int], out: Words
) -> tuple[Scalar, Scalar, Scalar, Scalar, Scalar]:
    """Write the pairs of documents in one bucket whose hashes are within the distance, up to the size of `out`.

    A pair is one number: the smaller document in its upper half. A bucket takes time that is linear in its rows, with a
    large factor, no matter what they hold.

    Args:
        entries: the rows.
        scheme: how hashes are cut.
        bucket: room for the largest bucket.
        begin: the row where a bucket begins, and the number of a hash in it.
        out: for the pairs.

    Returns:
        As `Reached`; if nothing was taken, `out` is too small for the next hash.
    """
    start, first = begin
    taken, short, compared = 0, 0, 0
    while start < entries.keys.size:
        stop = _end(entries.keys, start)
        if stop - start > 1:
            count = _read(entries, start, stop, bucket)
            bucket.most[0] = SMALL if bucket.bounds[count] <= SMALL else MOST_CONTENTS
            bucket_complete = True
            for high in range(first, count):
                near, complete, looked_at = _find_near(entries, scheme, bucket, high)
                compared += looked_at
                if taken + _most_pairs(bucket, high, near) > out.size:
                    return start, high, taken, short + (not bucket_complete), compared
                contents = bucket.bounds[high + 1] - bucket.bounds[high]
                bucket_complete = (
                    bucket_complete and complete and (contents <= MOST_CONTENTS // 2 or bucket.most[0] == SMALL)
                )
                if entries.groups[start] == 0:
                    taken = _pair_own(entries, bucket, high, out, taken)
                for place in range(near):
                    taken = _pair_two(bucket, bucket.near[place], high, out, taken)
            short += not bucket_complete
        start, first = stop, 0
    return start, 0, taken, short, compared
