"""Pairs of documents that share a bucket: linear in the rows, however large a bucket is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import find_leader, stirred, table_bits
from dcurate.kernels.layout import INLINE, OPTIONS, Ints, Places, Scalar, Words

#: If a bucket has too many contents, each is paired with the first `LEADERS`, and with `FOLLOWERS` random later ones.
LEADERS, FOLLOWERS = 8, 8

_SHIFT = np.uint64(32)
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Entries(NamedTuple):
    """Rows of an index, ordered by key and, where it is equal, by document."""

    keys: Words
    docs: npt.NDArray[np.uint32]
    contents: npt.NDArray[np.uint32]


class Work(NamedTuple):
    """Arrays for one bucket, and the one for all pairs."""

    table: Places
    hashes: Words
    firsts: Ints
    out: Words


def pairs_at_most(rows: int, most: int) -> int:
    """Maximum number of pairs of a bucket of ``rows`` rows."""
    if rows <= most:
        return rows * rows
    return most * most + rows * (1 + LEADERS + FOLLOWERS)


#: The same in kernels.
most_pairs = njit(**INLINE)(pairs_at_most)


@njit(**INLINE)
def _paired(doc: Scalar, other_doc: Scalar) -> Scalar:
    """Two documents as one number, the smaller one above."""
    return np.uint64(min(doc, other_doc)) << _SHIFT | np.uint64(max(doc, other_doc))


@njit(**INLINE)
def _each_with_each(firsts: Ints, count: int, out: Words, taken: int) -> Scalar:
    for low in range(count):
        for high in range(low + 1, count):
            out[taken] = _paired(firsts[low], firsts[high])
            taken += 1
    return taken


@njit(**INLINE)
def _thinned(firsts: Ints, count: int, seed: Scalar, out: Words, taken: int) -> Scalar:
    """Pairs of too many contents: a few with all, and each with a few in an order that the seed gives."""
    taken = _each_with_each(firsts, LEADERS, out, taken)
    state = seed
    for at in range(count - 1, LEADERS, -1):
        state += _MIX
        partner = LEADERS + np.int64(stirred(state) % np.uint64(at - LEADERS + 1))
        firsts[at], firsts[partner] = firsts[partner], firsts[at]
    for at in range(LEADERS, count):
        for leader in range(LEADERS):
            out[taken] = _paired(firsts[leader], firsts[at])
            taken += 1
        for next_one in range(at + 1, min(at + 1 + FOLLOWERS, count)):
            out[taken] = _paired(firsts[at], firsts[next_one])
            taken += 1
    return taken


@njit(**INLINE)
def _bucket(entries: Entries, span: tuple[int, int], most: int, work: Work, taken: int) -> tuple[Scalar, Scalar]:
    """The pairs of a bucket, after those that were taken; and how many contents it has."""
    start, stop = span
    bits = table_bits(stop - start)
    work.table[: 1 << bits] = 0
    count = 0
    for row in range(stop - start):
        work.hashes[row] = np.uint64(entries.contents[start + row])
        leader = find_leader(work.table, bits, work.hashes, row)
        doc = np.int64(entries.docs[start + row])
        if leader == row:
            work.firsts[count] = doc
            count += 1
        elif doc != entries.docs[start + leader]:
            work.out[taken] = _paired(np.int64(entries.docs[start + leader]), doc)
            taken += 1
    if count <= most:
        return _each_with_each(work.firsts, count, work.out, taken), count
    return _thinned(work.firsts, count, entries.keys[start], work.out, taken), count


@njit(**OPTIONS)
def bucket_pairs(entries: Entries, start: int, most: int, largest: int, out: Words) -> tuple[Scalar, Scalar, Scalar]:
    """Write the pairs of all buckets from row ``start`` on, up to the size of ``out``.

    A pair is one number: the smaller document in its upper half. One that shares several buckets comes as often.

    Args:
        entries: the rows.
        start: where a bucket begins.
        most: contents of a bucket that are paired each with each.
        largest: rows of the largest bucket; its pairs fit into ``out``.
        out: for the pairs.

    Returns:
        The row that was reached, how many pairs were taken, and how many buckets had too many contents.
    """
    table = np.empty(1 << table_bits(largest), np.int32)
    work = Work(table, np.empty(largest, np.uint64), np.empty(largest, np.int64), out)
    taken, short = 0, 0
    while start < entries.keys.size:
        stop = start + 1
        while stop < entries.keys.size and entries.keys[stop] == entries.keys[start]:
            stop += 1
        if stop - start > 1:
            if taken + most_pairs(stop - start, most) > out.size:
                break
            taken, count = _bucket(entries, (start, stop), most, work, taken)
            short += count > most
        start = stop
    return start, taken, short
