"""Near-copies of the documents that go, by MinHash and the similarity of their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.dedup.minhash import jaccard
from dcurate.dedup.near import Search
from dcurate.frames.text import TextColumn, column_of, encodable

#: Texts that go with which a text is compared at most for each band that it shares with them.
_MOST = 256


class NearCopy(NamedTuple):
    """A near-copy: its row among those compared, what it is a copy of, and how similar the two are."""

    row: int
    of: str
    similarity: float


@dataclass
class NearCopies:
    """Texts of documents that go, with which other texts are compared.

    Args:
        threshold: similarity from which a text is a near-copy.

    Examples:
        >>> near = NearCopies(0.8)
        >>> near.add(["one two three four five six"], ["d1"])
        >>> near.copies_in([None, "seven", "One, two, three, four, five: six!"])
        [NearCopy(row=2, of='d1', similarity=1.0)]
    """

    threshold: float
    _texts: list[bytes] = field(default_factory=list, repr=False)
    _names: list[str] = field(default_factory=list, repr=False)
    _known: set[bytes] = field(default_factory=set, repr=False)
    _sorted: tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.search = Search.at(self.threshold)

    def add(self, texts: Sequence[str], names: Sequence[str]) -> None:
        """Add texts, and what the receipt calls them."""
        for text, name in zip(map(_encoded, texts), names, strict=True):
            if text not in self._known:
                self._known.add(text)
                self._texts.append(text)
                self._names.append(name)
        self._sorted = None

    def copies_in(self, texts: Sequence[Any]) -> list[NearCopy]:
        """Return the near-copies among texts, each of the most similar text that goes."""
        wanted, owners = self._keys()
        rows = np.array([row for row, text in enumerate(texts) if isinstance(text, str)], np.int64)
        if not len(wanted) or not len(rows):
            return []
        column = column_of([_encoded(texts[row]) for row in rows.tolist()])
        keys, places = self.search.banded(column)
        first, last = (wanted.searchsorted(keys, side) for side in ("left", "right"))
        pairs = {
            (int(owner), int(place))
            for place, start, stop in zip(places, first, last, strict=True)
            for owner in owners[start : min(stop, start + _MOST)]
        }
        best: dict[int, NearCopy] = {}
        for owner, place, similarity in self._similar(sorted(pairs), column):
            copy = NearCopy(int(rows[place]), self._names[owner], similarity)
            if place not in best or similarity > best[place].similarity:
                best[place] = copy
        return sorted(best.values())

    def _similar(self, pairs: Sequence[tuple[int, int]], column: TextColumn) -> list[tuple[int, int, float]]:
        """The pairs of texts that are similar enough."""
        owners, places = (sorted({pair[side] for pair in pairs}) for side in (0, 1))
        if not pairs:
            return []
        texts = [*(self._texts[owner] for owner in owners), *(_text_at(column, place) for place in places)]
        numbers = {owner: number for number, owner in enumerate(owners)}
        behind = {place: len(owners) + number for number, place in enumerate(places)}
        left = np.array([numbers[owner] for owner, _ in pairs])
        right = np.array([behind[place] for _, place in pairs])
        sets = self.search.minhash.sets(column_of(texts), np.arange(len(texts)))
        similarity = jaccard(sets, left, right)
        return [
            (owner, place, float(value))
            for (owner, place), value in zip(pairs, similarity, strict=True)
            if value >= self.threshold
        ]

    def _keys(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """The keys of the bands of all texts that go, in order, and the text of each."""
        if self._sorted is None:
            keys, owners = self.search.banded(column_of(self._texts))
            order = np.argsort(keys, kind="stable")
            self._sorted = keys[order], owners[order]
        return self._sorted


def _encoded(text: str) -> bytes:
    return encodable(text).encode()


def _text_at(column: TextColumn, place: int) -> bytes:
    start, stop = column.offsets[place : place + 2].tolist()
    return column.data[start:stop].tobytes()
