"""Mergeable summaries of numbers and of texts: the order of merging does not matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dcurate.core.profile import Bar

#: Ratio of the end of a bucket of a `NumberSketch` to its beginning.
GROWTH = 1.005
#: Number of distinct texts that are counted exactly; beyond that, a sample is.
TEXTS = 2**16

_LOG = float(np.log(GROWTH))
_ZERO_AT = 200_000
_INFINITE = 2 * _ZERO_AT
_NUDGE = 1e-9
_LARGEST = float(np.finfo(np.float64).max)
_COUNTABLE = 2.0**50


@dataclass
class NumberSketch:
    """A histogram sketch of numbers, with relative bucket width 0.5 %.

    A value is represented by the end of its bucket, so it is exact or at most 0.5 % too large (in magnitude); zero,
    infinity and whole numbers up to 200 are exact. Adding sketches up in any order gives the same sketch. These are the
    ranges of DDSketch (Masson, Rim and Lee, VLDB 2019), none of them collapsed.

    Examples:
        >>> sketch = NumberSketch()
        >>> sketch.add(np.array([1, 2, 3, 4, 100]))
        >>> sketch.quantile(0.5), sketch.least, sketch.most, sketch.total
        (3.0, 1.0, 100.0, 110)
    """

    ranges: Counter[int] = field(default_factory=Counter)
    missing: int = 0
    least: float = np.inf
    most: float = -np.inf
    total: int = 0
    whole: bool = True

    @property
    def count(self) -> int:
        """Number of values."""
        return self.ranges.total()

    def add(self, numbers: npt.NDArray[np.generic]) -> None:
        """Add numbers; NaN counts as missing."""
        if not np.issubdtype(numbers.dtype, np.integer) and numbers.dtype != np.bool_:
            known = numbers[~np.isnan(numbers.astype(np.float64))].astype(np.float64)
            self.missing += len(numbers) - len(known)
            self.whole &= bool((known == np.floor(known)).all()) and bool(np.isfinite(known).all())
        else:
            known = numbers.astype(np.float64)
            self.total += int(numbers.astype(np.int64).sum())
        if len(known):
            self.least, self.most = min(self.least, float(known.min())), max(self.most, float(known.max()))
            keys, counts = np.unique(_keys(known), return_counts=True)
            self.ranges.update(dict(zip(keys.tolist(), counts.tolist(), strict=True)))

    def merge(self, other: NumberSketch) -> None:
        """Merge another sketch."""
        self.ranges.update(other.ranges)
        self.missing += other.missing
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)
        self.total += other.total
        self.whole &= other.whole

    def ends(self) -> npt.NDArray[np.float64]:
        """The upper bound of each non-empty bucket, ascending."""
        return self._values(sorted(self.ranges))

    def upto(self) -> npt.NDArray[np.int64]:
        """Cumulative counts of these buckets."""
        return np.cumsum([self.ranges[key] for key in sorted(self.ranges)])

    def quantile(self, level: float) -> float:
        """Return the smallest value that at least a share of the numbers do not exceed; NaN if empty."""
        if not self.ranges:
            return float("nan")
        upto = self.upto()
        rank = max(1, int(np.ceil(level * upto[-1] - _NUDGE)))
        return float(self.ends()[np.searchsorted(upto, rank)])

    def _values(self, keys: Sequence[int]) -> npt.NDArray[np.float64]:
        at = np.array(keys, np.int64)
        with np.errstate(over="ignore"):
            above = np.exp((at - _ZERO_AT) * _LOG)
            below = -np.exp((-at - _ZERO_AT - 1) * _LOG)
        values = np.where(at > 0, above, np.where(at < 0, below, 0.0))
        # A bucket may end beyond the largest double.
        values = np.floor(values + _NUDGE * np.abs(values)) if self.whole else np.clip(values, -_LARGEST, _LARGEST)
        values[np.abs(at) == _INFINITE] = np.inf * np.sign(at[np.abs(at) == _INFINITE])
        return np.clip(values, self.least, self.most)


def _keys(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The bucket of each value, as a number that grows with the value."""
    keys = np.zeros(len(values), np.int64)
    above, below = (values > 0) & np.isfinite(values), (values < 0) & np.isfinite(values)
    keys[above] = np.ceil(np.log(values[above]) / _LOG - _NUDGE).astype(np.int64) + _ZERO_AT
    keys[below] = -(np.floor(np.log(-values[below]) / _LOG + _NUDGE).astype(np.int64) + _ZERO_AT) - 1
    infinite = np.isinf(values)
    keys[infinite] = np.where(values[infinite] > 0, _INFINITE, -_INFINITE)
    return keys


def histogram(kept: NumberSketch, dropped: NumberSketch | None = None, most: int = 40) -> tuple[Bar, ...]:
    """Bars of equal width for shares and small numbers, of equal ratio for numbers that span more than a thousandfold.

    Examples:
        >>> sketch = NumberSketch()
        >>> sketch.add(np.array([1, 2, 2, 3]))
        >>> [(bar.low, bar.high, bar.count) for bar in histogram(sketch)]
        [(0.5, 1.5, 1), (1.5, 2.5, 2), (2.5, 3.5, 1)]
    """
    both = NumberSketch()
    for sketch in (kept, dropped or NumberSketch()):
        both.merge(sketch)
    values = both.ends()
    finite = values[np.isfinite(values)]
    if not len(finite):
        return ()
    edges = _edges(float(finite[0]), float(finite[-1]), both.whole, most)
    counts, gone = _binned(both, edges), _binned(dropped, edges) if dropped else np.zeros(len(edges) - 1, np.int64)
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), gone.tolist(), strict=True)
    return tuple(Bar(*row) for row in rows)


def _edges(low: float, high: float, integral: bool, most: int) -> npt.NDArray[np.float64]:
    """Bar boundaries: two or more values, ascending."""
    if integral and high - low < most and max(-low, high) < _COUNTABLE:
        return np.arange(low - 0.5, high + 1)
    if low >= 0 and high > 1000 * max(low, 1.0):
        start = max(low, 1.0 if integral else high * 1e-6)
        edges = np.concatenate([[0.0 if low < start else low * 0.99], high * np.geomspace(start / high, 1.0, most)])
    elif low >= 0 and 0.5 <= high <= 1:
        edges = np.linspace(0, 1, most + 1)
    elif integral and max(-low, high) < _COUNTABLE:
        step = float(np.ceil((high - low + 1) / most))
        edges = np.arange(low - 0.5, high + step, step)
    else:
        edges = 2 * np.linspace(low / 2, high / 2, most + 1)  # halved, for the difference may not be a double
    edges = np.unique(edges)
    return edges if len(edges) > 1 else np.array([low - max(abs(low) * 0.01, 0.5), high])


def _binned(sketch: NumberSketch, edges: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    values = sketch.ends()
    counts = np.array([sketch.ranges[key] for key in sorted(sketch.ranges)], np.int64)
    places = np.clip(np.searchsorted(edges, values) - 1, 0, len(edges) - 2)
    finite = np.isfinite(values)
    return np.bincount(places[finite], counts[finite], len(edges) - 1).astype(np.int64)


@dataclass
class TextSketch:
    """Estimate the number of documents that repeat an earlier text.

    It keeps the texts of the smallest hashes, with how often each came: a sample of the different texts whose counts
    are exact, and all of them while there are at most 65,536.

    Examples:
        >>> sketch = TextSketch()
        >>> sketch.add(np.array([7, 8, 7], np.uint64))
        >>> round(sketch.repeated, 3), sketch.exact
        (0.333, True)
    """

    counts: Counter[int] = field(default_factory=Counter)
    exact: bool = True
    size: int = TEXTS

    def add(self, hashes: npt.NDArray[np.uint64]) -> None:
        """Add a hash for each document."""
        distinct, counts = np.unique(hashes, return_counts=True)
        self.exact &= len(distinct) <= self.size
        self.counts.update(dict(zip(distinct[: self.size].tolist(), counts[: self.size].tolist(), strict=True)))
        self._cut()

    def merge(self, other: TextSketch) -> None:
        """Merge another counter."""
        self.counts.update(other.counts)
        self.exact &= other.exact
        self._cut()

    @property
    def repeated(self) -> float:
        """The share of documents whose text occurred before, from 0 to 1."""
        return 1 - len(self.counts) / self.counts.total() if self.counts else 0.0

    def _cut(self) -> None:
        if len(self.counts) > self.size:
            self.exact = False
            self.counts = Counter({key: self.counts[key] for key in sorted(self.counts)[: self.size]})
