"""Documents that are not there: which of them resemble each other, and the entries that an LSH index has of them.

Most stand alone. The others are in groups whose sizes follow a power law: near-duplicates, of which half are copies,
and families of pages that only have a template in common. A document resembles the ideal one of its group by a
similarity ``s``, and keeps each key of the ideal one with a chance of ``s ** rows``; so two of a group have the Jaccard
similarity of the product, and share a band as often as MinHash would have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import stirred

Array = npt.NDArray[Any]

_MIX, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_HALF, _CHANCE = np.uint64(0xFFFFFFFF), 2.0**-32


@dataclass(frozen=True)
class Proportions:
    """What a dataset is made of.

    Args:
        near: share of documents in groups of near-duplicates.
        template: share of documents in families with a template in common.
        copies: share of the members of groups that are copies of the ideal one.
        exponent: of the power law of sizes.
        largest: size of the largest group.
        least: similarity of a near-duplicate to the ideal one, at least.
        alike: similarity of a page to its template.
    """

    near: float = 0.25
    template: float = 0.05
    copies: float = 0.5
    exponent: float = 2.2
    largest: int = 10_000
    least: float = 0.85
    alike: float = 0.7


class MadeDocuments:
    """A dataset of so many documents, the same each time."""

    def __init__(self, count: int, mixture: Proportions | None = None, seed: int = 0) -> None:
        mixture = mixture or Proportions()
        rng = np.random.default_rng(seed)
        self.count = count
        self.group = np.zeros(count, np.uint32)
        self.like = np.zeros(count, np.float32)
        self.content = np.arange(1, count + 1, dtype=np.uint32)
        taken = groups = 0
        for share, template in ((mixture.near, False), (mixture.template, True)):
            stop = taken + int(share * count)
            sizes = np.minimum(rng.zipf(mixture.exponent, stop - taken) + 1, mixture.largest)
            sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), stop - taken)) + 1]
            numbers = np.repeat(np.arange(1, len(sizes) + 1, dtype=np.uint32), sizes)[: stop - taken]
            self.group[taken:stop] = numbers + np.uint32(groups)
            self.like[taken:stop] = (
                mixture.alike if template else rng.uniform(mixture.least, 1, stop - taken).astype(np.float32)
            )
            if not template:
                copied = taken + np.flatnonzero(rng.random(stop - taken) < mixture.copies)
                self.content[copied] = np.uint32(count) + self.group[copied]
                self.like[copied] = 1
            taken, groups = stop, groups + len(sizes)
        order = rng.permutation(count)
        self.group, self.like, self.content = self.group[order], self.like[order], self.content[order]

    def entries(self, part: int, parts: int, bands: int, rows: int) -> tuple[Array, Array, Array]:
        """Keys, documents and contents of the entries in one of ``parts`` ranges of keys, by document."""
        room = int(1.05 * self.count * bands / parts) + 200_000
        keys, docs = np.empty(room, np.uint64), np.empty(room, np.uint32)
        taken = _entries(self.group, self.like**rows, self.content, (part, parts, bands), (keys, docs))
        if taken > room:
            keys, docs = np.empty(taken, np.uint64), np.empty(taken, np.uint32)
            _entries(self.group, self.like**rows, self.content, (part, parts, bands), (keys, docs))
        return keys[:taken], docs[:taken], self.content[docs[:taken]]

    def similarity(self, left: Array, right: Array) -> npt.NDArray[np.float32]:
        """How similar the documents of each pair are."""
        same = self.content[left] == self.content[right]
        product = np.minimum(self.like[left] * self.like[right], np.float32(0.9999))
        product[self.group[left] != self.group[right]] = 0
        return np.where(same, np.float32(1), product)


@njit(nogil=True, cache=True)
def _entries(group: Array, chance: Array, content: Array, cut: tuple[int, int, int], out: tuple[Array, Array]) -> int:
    part, parts, bands = cut
    keys, docs = out
    taken = 0
    for doc in range(group.size):
        for band in range(bands):
            key = stirred((np.uint64(content[doc]) * np.uint64(bands) + np.uint64(band)) * _MIX)
            if (key & _HALF) * _CHANCE < chance[doc]:
                key = stirred((np.uint64(group[doc]) * np.uint64(bands) + np.uint64(band)) * _SECOND)
            if (key >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32) == part:
                if taken < keys.size:
                    keys[taken], docs[taken] = key, doc
                taken += 1
    return taken
