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
#: Contents of one hash, or of two, that are paired each with each, and contents of other hashes that a hash is paired
#: with. Of more, each is paired with the first `LEADERS`, and with the `FOLLOWERS` after it.
MOST_CONTENTS, LEADERS, FOLLOWERS = 16, 8, 8
#: Hashes of a bucket that a hash is compared with: the first and the last ones before it, half of each.
MOST_COMPARED = 2**13

_SHIFT = np.uint64(32)


class HashedEntries(NamedTuple):
    """Rows of an index of hashes, ordered by key, hash, content and document.

    Args:
        keys: of the buckets.
        hashes: of shape (rows, words).
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
    return types.int64(types.uint64), lambda _, builder, __, given: builder.ctpop(given[0])


#: How many bits of a word are set.
_ones: Scalar = intrinsic(_count_ones)


@njit(**INLINE)
def _near(hashes: Words, one: Scalar, other: Scalar, distance: Scalar) -> Scalar:
    """Whether two hashes differ in at most a number of bits."""
    total: Scalar = 0
    for word in range(hashes.shape[1]):
        total += _ones(hashes[one, word] ^ hashes[other, word])
        if total > distance:
            return False
    return True


@njit(**INLINE)
def _belongs(hashes: Words, one: Scalar, other: Scalar, group: Scalar, scheme: Scheme) -> Scalar:
    """Whether this combination is the first parts that the two agree in: of all buckets they share, one pairs them."""
    found = 0
    for part in range(scheme.masks.shape[0]):
        agrees = True
        for word in range(hashes.shape[1]):
            if (hashes[one, word] ^ hashes[other, word]) & scheme.masks[part, word]:
                agrees = False
                break
        if agrees:
            if scheme.groups[group, found] != part:
                return False
            found += 1
            if found == scheme.groups.shape[1]:
                return True
    return False


@njit(**INLINE)
def _same(hashes: Words, one: Scalar, other: Scalar) -> Scalar:
    differs = np.uint64(0)
    for word in range(hashes.shape[1]):
        differs |= hashes[one, word] ^ hashes[other, word]
    return differs == 0


@njit(**INLINE)
def _paired(one: Scalar, other: Scalar) -> Scalar:
    """Two documents as one number, the smaller one above."""
    return np.uint64(min(one, other)) << _SHIFT | np.uint64(max(one, other))


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
    """Where `near_pairs` stopped: a hash of a bucket; the pairs taken; and of how many buckets some were left out."""

    start: Scalar
    hash: Scalar
    taken: Scalar
    short: Scalar


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
def _find_near(entries: HashedEntries, scheme: Scheme, bucket: Bucket, high: Scalar) -> tuple[Scalar, Scalar]:
    """Write which hashes before one are near to it; return how many, and whether all were looked at."""
    group, found, paired, low = entries.groups[bucket.rows[high]], 0, 0, 0
    while low < high:
        if low == MOST_COMPARED // 2 and high > MOST_COMPARED:
            low = high - MOST_COMPARED // 2
        one, other = bucket.rows[low], bucket.rows[high]
        if _near(entries.hashes, one, other, scheme.distance):
            found += bucket.bounds[low + 1] - bucket.bounds[low]
            if _belongs(entries.hashes, one, other, group, scheme):
                bucket.near[paired] = low
                paired += 1
            if found >= bucket.most[0] and low + 1 < high:
                return paired, False
        low += 1
    return paired, high <= MOST_COMPARED


@njit(**INLINE)
def _most_pairs(bucket: Bucket, high: Scalar, near: Scalar) -> Scalar:
    """The most pairs of a hash."""
    count = bucket.bounds[high + 1] - bucket.bounds[high]
    most = bucket.rows[high + 1] - bucket.rows[high]
    most += count * min(count, bucket.most[0])
    for place in range(near):
        low = bucket.near[place]
        other = bucket.bounds[low + 1] - bucket.bounds[low]
        most += count * other if count + other <= bucket.most[0] else LEADERS * (count + other)
    return most


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
    for other in range(start, stop):
        leaders: Scalar = other if few else min(other, start + LEADERS)
        for one in range(start, leaders):
            out[taken] = _paired(bucket.docs[one], bucket.docs[other])
            taken += 1
        followers: Scalar = other if few else max(leaders, other - FOLLOWERS)
        for one in range(followers, other):
            out[taken] = _paired(bucket.docs[one], bucket.docs[other])
            taken += 1
    return taken


@njit(**INLINE)
def _pair_two(bucket: Bucket, low: Scalar, high: Scalar, out: Words, taken: Scalar) -> Scalar:
    """Pair the contents of two hashes: each with each, or with the first few of the other."""
    first, last, start, stop = bucket.bounds[low], bucket.bounds[low + 1], bucket.bounds[high], bucket.bounds[high + 1]
    few = last - first + stop - start <= bucket.most[0]
    leaders: Scalar = last if few else min(last, first + LEADERS)
    for other in range(start, stop):
        for one in range(first, leaders):
            out[taken] = _paired(bucket.docs[one], bucket.docs[other])
            taken += 1
    for one in range(leaders, last):
        for other in range(start, min(stop, start + LEADERS)):
            out[taken] = _paired(bucket.docs[one], bucket.docs[other])
            taken += 1
    return taken


@njit(**OPTIONS)
def near_pairs(
    entries: HashedEntries, scheme: Scheme, bucket: Bucket, begin: tuple[int, int], out: Words
) -> tuple[Scalar, Scalar, Scalar, Scalar]:
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
    taken, short = 0, 0
    while start < entries.keys.size:
        stop = _end(entries.keys, start)
        if stop - start > 1:
            count = _read(entries, start, stop, bucket)
            bucket.most[0] = SMALL if bucket.bounds[count] <= SMALL else MOST_CONTENTS
            whole = True
            for high in range(first, count):
                near, complete = _find_near(entries, scheme, bucket, high)
                if taken + _most_pairs(bucket, high, near) > out.size:
                    return start, high, taken, short + (not whole)
                contents = bucket.bounds[high + 1] - bucket.bounds[high]
                whole = whole and complete and (contents <= MOST_CONTENTS // 2 or bucket.most[0] == SMALL)
                if entries.groups[start] == 0:
                    taken = _pair_own(entries, bucket, high, out, taken)
                for place in range(near):
                    taken = _pair_two(bucket, bucket.near[place], high, out, taken)
            short += not whole
        start, first = stop, 0
    return start, 0, taken, short
