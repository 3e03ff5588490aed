"""Find candidate pairs of near-duplicates: documents that share a bucket of an LSH index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError
from dcurate.groups.components import Edges, each_once
from dcurate.kernels.layout import Ints, Words, frozen
from dcurate.kernels.pairs import LEADERS, Entries, bucket_pairs, pairs_at_most

#: Different contents of a bucket that are compared each with each.
MOST_CONTENTS = 64

_ROOM = 2**20
_HALF, _SHIFT = 2**32, np.uint64(32)


class Candidates(NamedTuple):
    """Pairs of documents, each once, in order.

    ``left[p] < right[p]``; ``short`` is the number of buckets in which not every two were paired.
    """

    left: Ints
    right: Ints
    short: int


def candidate_pairs(
    keys: Words, docs: Ints, contents: npt.NDArray[np.uint32], most_contents: int = MOST_CONTENTS
) -> Candidates:
    """The pairs of documents that share a key.

    Documents that share a key are a bucket. In it, those of equal contents are copies: each is paired with the first
    of them only, as what is similar to one is so to all. The first ones are paired each with each if they are at most
    ``most_contents``. Otherwise the bucket is cut short: the first 8 are paired with all, and each of the others with
    the next 8 in an order at random that follows from the key. So a bucket costs at most 16 pairs a document, or
    ``most_contents`` / 2, however large it is.

    What that costs: documents that are all similar to each other stay connected. Of a mixed bucket, a document whose
    own kind is the share ``p`` of each of the ``k`` cut buckets that it is in, and of no other, is paired with none of
    its kind with a chance of about ``(1 - p) ** (16 * k)``, unless one of the first 8 is of it. As centre of a star, a
    document that is none of the first 8 takes at most 24 of a bucket, so that more of a large group are left. Of 60,000
    made-up documents in groups of up to 1,500, a third of the pairs made the same connected groups, and stars removed
    1.4 % less.

    Args:
        keys: uint64, in order.
        docs: the number of the document of each key; in order where keys are equal.
        contents: a hash of the contents of that document.
        most_contents: see above; at least 8.

    Raises:
        PipelineError: ``most_contents`` is less.

    Examples:
        >>> keys = np.array([5, 5, 5, 9, 9], np.uint64)
        >>> left, right, _ = candidate_pairs(keys, np.array([1, 4, 6, 1, 4]), np.array([7, 8, 8, 7, 8], np.uint32))
        >>> list(zip(left.tolist(), right.tolist()))
        [(1, 4), (4, 6)]
    """
    if most_contents < LEADERS:
        raise PipelineError(f"most_contents={most_contents} must be at least {LEADERS}")
    if not len(keys):
        return Candidates(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)
    near, known = _numbered(docs)
    entries = Entries(frozen(keys, np.uint64), frozen(near, np.uint32), frozen(contents, np.uint32))
    bounds = np.flatnonzero(entries.keys[1:] != entries.keys[:-1])
    largest = int(np.diff(bounds, prepend=-1, append=len(keys) - 1).max())
    codes = np.zeros(0, np.uint64)
    reached = short = 0
    while reached < len(keys):
        out = np.empty(max(_ROOM, len(codes), pairs_at_most(largest, most_contents)), np.uint64)
        reached, taken, cut = bucket_pairs(entries, reached, most_contents, largest, out)
        codes = each_once(np.concatenate([codes, out[:taken]]))
        short += cut
    return Candidates(*_apart(codes, known), short)


def pairs_once(left: Ints, right: Ints) -> Edges:
    """The different pairs among some, in order of ``left`` and then ``right``.

    Examples:
        >>> pairs_once(np.array([4, 1, 4]), np.array([5, 9, 5]))
        Edges(left=array([1, 4]), right=array([9, 5]))
    """
    if not len(left):
        return Edges(np.zeros(0, np.int64), np.zeros(0, np.int64))
    near, known = _numbered(np.concatenate([left, right]))
    codes = near[: len(left)].astype(np.uint64) << _SHIFT
    codes |= near[len(left) :]
    return Edges(*_apart(each_once(codes), known))


def _apart(codes: Words, known: int | Ints) -> tuple[Ints, Ints]:
    """The documents of pairs that are a number each, and are known as `_numbered` says."""
    ends = (codes >> _SHIFT).astype(np.int64), (codes & np.uint64(_HALF - 1)).astype(np.int64)
    if isinstance(known, int):
        return ends[0] + known, ends[1] + known
    return known[ends[0]], known[ends[1]]


def _numbered(docs: Ints) -> tuple[npt.NDArray[np.uint32], int | Ints]:
    """The documents by numbers of 32 bits in their order, and the first document, or all of them."""
    first = int(docs.min())
    if int(docs.max()) - first < _HALF:
        return (docs - first).astype(np.uint32), first
    known, numbers = np.unique(docs, return_inverse=True)
    return numbers.astype(np.uint32), known
