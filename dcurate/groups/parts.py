"""Find all pairs of hashes within a Hamming distance: hashes are cut into parts, and some of these must be equal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError
from dcurate.kernels.hamming import SMALL, Bucket, HashedEntries, Reached, Scheme, largest_bucket, near_pairs
from dcurate.kernels.layout import Ints, Words, frozen

Hashes = npt.NDArray[np.uint64]

#: Most keys of one hash.
MOST_KEYS = 4096
_MIX, _STIR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_HALF = 2**32
#: Pairs that are written at a time.
_PAIRS = 2**20


class HashPairs(NamedTuple):
    """Pairs of pictures, each once: ``left[p] < right[p]``.

    Args:
        short: in how many buckets some pairs were left out.
        compared: how many pairs of hashes were looked at.
    """

    left: Ints
    right: Ints
    short: int = 0
    compared: int = 0


@dataclass(frozen=True)
class Parts:
    """How hashes are cut so that all pairs within a distance meet.

    Of ``max_distance + together`` parts, two hashes within the distance have at least ``together`` in common, by the
    pigeonhole principle. So each hash is filed under every combination of ``together`` of its parts, and is compared
    with those filed under the same.

    Args:
        bits: number of bits of a hash; a multiple of 64.
        max_distance: most bits in which two hashes differ.
        together: parts in a key. 1 makes few short keys, for up to some millions of pictures; more make longer keys,
            so that fewer hashes share one by chance, but more of them.

    Raises:
        PipelineError: numbers that do not go together.

    Examples:
        >>> Parts(128, 10, 1).keys_each, Parts(128, 10, 2).keys_each
        (11, 66)
    """

    bits: int
    max_distance: int
    together: int = 2

    def __post_init__(self) -> None:
        for name, least in (("bits", 64), ("max_distance", 0), ("together", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise PipelineError(f"{name}={value!r} is not a whole number from {least} on")
        if self.bits % 64:
            raise PipelineError(f"bits={self.bits} is not a multiple of 64")
        if self.parts > self.bits or self.keys_each > MOST_KEYS:
            raise PipelineError(
                f"max_distance={self.max_distance} with together={self.together} takes {self.keys_each:,} keys for each"
                f" hash of {self.bits} bits; choose a smaller distance, or together=1"
            )

    @property
    def parts(self) -> int:
        """How many there are."""
        return self.max_distance + self.together

    @property
    def keys_each(self) -> int:
        """Keys of one hash."""
        return math.comb(self.parts, self.together)

    @property
    def scheme(self) -> Scheme:
        """The bits of each part, every n-th one, so that all parts hold coarse and fine structure; and combinations."""
        bits = np.zeros((self.parts, self.bits), np.uint8)
        bits[np.arange(self.bits) % self.parts, np.arange(self.bits)] = 1
        groups = np.array(list(combinations(range(self.parts), self.together)), np.int64)
        masks = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        return Scheme(frozen(masks, np.uint64), frozen(groups, np.int64), self.max_distance)

    def keys(self, hashes: Hashes) -> npt.NDArray[np.uint64]:
        """Return the keys of hashes, of shape (hashes, keys of each).

        Args:
            hashes: array of shape (hashes, words of 64 bits).
        """
        scheme = self.scheme
        keys = np.empty((len(hashes), self.keys_each), np.uint64)
        parts = [_mixed(hashes & mask, number) for number, mask in enumerate(scheme.masks)]
        for number, group in enumerate(scheme.groups.tolist()):
            key = np.full(len(hashes), number + 1, np.uint64)
            for part in group:
                key = _stirred(key * _MIX + parts[part])
            keys[:, number] = key
        return keys

    def pairs(self, hashes: Hashes, contents: Words | None = None) -> HashPairs:
        """Return all pairs of hashes within the distance.

        Copies, which are equal in hash and content, are each paired with the first of them only. Of more than 512
        contents that share a key, each is compared with up to 512 hashes, and paired with up to 16 contents of its own
        hash, 16 of others, and 16 of those that are near by chance (hashes with few bits that share no more of them
        than they differ in, as those of white pictures with noise), so that time stays linear; ``short`` counts the
        keys where that left some out. Two hashes are paired under the key they share that has the most bits, which
        few others have; those that are near by chance under the one with the fewest.

        Args:
            hashes: array of shape (pictures, words).
            contents: what is known of each picture beside its hash, as a number; by default all differ.

        Examples:
            >>> hashes = np.array([[0, 0], [7, 0], [2**64 - 1, 0]], np.uint64)
            >>> found = Parts(128, 3).pairs(hashes)
            >>> found.left.tolist(), found.right.tolist(), found.short
            ([0], [1], 0)
        """
        if contents is None:
            contents = np.arange(len(hashes)).astype(np.uint64)
        rows = np.repeat(np.arange(len(hashes)), self.keys_each)
        groups = np.tile(np.arange(self.keys_each), len(hashes))
        return self.pairs_of(self.keys(hashes).ravel(), hashes[rows], contents[rows], rows, groups)

    def pairs_of(self, keys: Words, hashes: Hashes, contents: Words, docs: Ints, groups: npt.NDArray[Any]) -> HashPairs:
        """Return the pairs among the entries of some keys: all entries of a key must be there.

        Args:
            keys: key of each entry.
            hashes: array of shape (entries, words).
            contents: contents of the pictures, as for `pairs`.
            docs: the number of the picture.
            groups: the number of the key among those of its hash.
        """
        if not len(keys):
            return HashPairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
        first = int(docs.min())
        if int(docs.max()) - first < _HALF:
            known, numbers = None, (docs - first).astype(np.uint32)
        else:
            known, places = np.unique(docs, return_inverse=True)
            numbers = places.astype(np.uint32)
        columns: list[npt.NDArray[Any]] = [numbers, contents, *hashes.T, keys]
        order = np.lexsort(columns)
        entries = HashedEntries(
            frozen(keys[order], np.uint64),
            frozen(hashes[order], np.uint64),
            frozen(contents[order], np.uint64),
            frozen(numbers[order], np.uint32),
            frozen(groups[order], np.uint16),
        )
        codes, *counts = _codes(entries, self.scheme)
        left, right = (codes >> np.uint64(32)).astype(np.int64), (codes & np.uint64(_HALF - 1)).astype(np.int64)
        if known is None:
            return HashPairs(left + first, right + first, *counts)
        return HashPairs(known[left], known[right], *counts)


def _codes(entries: HashedEntries, scheme: Scheme) -> tuple[Words, int, int]:
    """All pairs as numbers, each once; in how many buckets some were left out; and how many were compared."""
    largest = int(largest_bucket(entries.keys))
    bucket = Bucket(*(np.empty(size, np.int64) for size in (largest, largest + 1, largest + 1, SMALL, 1)))
    chunks, begin, short, compared = [np.zeros(0, np.uint64)], (0, 0), 0, 0
    out = np.empty(_PAIRS, np.uint64)
    while begin[0] < len(entries.keys):
        reached = Reached(*near_pairs(entries, scheme, bucket, begin, out))
        if reached.taken:
            chunks.append(out[: reached.taken].copy())
        elif reached.start < len(entries.keys):
            out = np.empty(2 * len(out), np.uint64)
        begin, short = (reached.start, reached.hash), short + reached.short
        compared += reached.compared
    return np.unique(np.concatenate(chunks)), int(short), int(compared)


def _mixed(words: Hashes, number: int) -> npt.NDArray[np.uint64]:
    """A hash of some words and a number."""
    mixed = np.full(len(words), number + 1, np.uint64)
    for word in range(words.shape[1]):
        mixed = _stirred(mixed * _MIX + words[:, word])
    return mixed


def _stirred(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(30))) * _STIR
    return words ^ (words >> np.uint64(31))
