"""Order the rows of one or several datasets by pseudo-random keys. Pure.

A dataset is a *stream*: its rows in the order of their keys, again from the start where more are wanted than there
are, and cut where enough are out. Streams are interleaved evenly: the row at place ``s`` of a stream of ``q`` rows
comes at ``s / q`` of the whole. The key gives ``s``, a number that is uniform over the stream, so a row
finds its position by itself, and the order depends on the keys alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dcurate.frames.rows import Keys

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_WHOLE = 2.0**64
#: Above the rounding error of a position; the search for chunks is widened by this much.
_MARGIN = 1e-9


@dataclass(frozen=True)
class Stream:
    """The rows of a dataset to draw: how many, and which.

    Args:
        rows: number of rows in the dataset.
        wanted: number of rows to draw; all of them come ``wanted // rows`` times, and the rest once more.
        last: the largest key, as (high, low), of those that come once more; None if there are none.
        ties: how many rows of exactly that key come once more; such rows are equal.
    """

    rows: int
    wanted: int
    last: tuple[int, int] | None = None
    ties: int = 0

    @property
    def copies(self) -> int:
        """The number of copies of every row."""
        return self.wanted // self.rows if self.rows else 0

    @property
    def rest(self) -> int:
        """The number of rows with one more copy."""
        return self.wanted % self.rows if self.rows else 0

    @property
    def scale(self) -> float:
        """The step of a row in the combined order."""
        return self.rows / self.wanted if self.wanted else 0.0

    def turns(self, part: int, parts: int) -> Iterator[tuple[int, float, float]]:
        """Return which copies fall in a part of the combined order, and the key ranges of their rows."""
        for copy in range(self.copies + (self.rest > 0)):
            start = part / parts / self.scale - copy - _MARGIN
            stop = (part + 1) / parts / self.scale - copy + _MARGIN if part + 1 < parts else 1.0
            if copy == self.copies and self.last is not None:
                stop = min(stop, self.last[0] / _WHOLE + _MARGIN)
            if stop > 0 and start < 1:
                yield copy, max(start, 0.0), min(stop, 1.0)

    def positions(self, keys: Keys, part: int, parts: int) -> tuple[Ints, Floats]:
        """Return the rows in a part of the combined order, some several times, and their positions.

        Args:
            keys: keys of all rows that may be in the part; equal keys together.
            part: number of the part, of as many of equal length as ``parts`` says.
        """
        rows: list[Ints] = [np.zeros(0, np.int64)]
        positions: list[Floats] = [np.zeros(0)]
        shares = keys[:, 0] / _WHOLE
        for copy, _, _ in self.turns(part, parts):
            at = (copy + shares) * self.scale
            here = np.minimum(np.floor(at * parts), parts - 1) == part
            if copy == self.copies:
                here &= self._once_more(keys)
            chosen = np.flatnonzero(here)
            rows.append(chosen)
            positions.append(at[chosen])
        return np.concatenate(rows), np.concatenate(positions)

    def _once_more(self, keys: Keys) -> npt.NDArray[np.bool_]:
        assert self.last is not None
        high, low = (np.uint64(half) for half in self.last)
        before = (keys[:, 0] < high) | ((keys[:, 0] == high) & (keys[:, 1] < low))
        ties = (keys[:, 0] == high) & (keys[:, 1] == low)
        return np.asarray(before | (ties & (np.cumsum(ties) <= self.ties)))


def shares(target: int, weights: Sequence[float]) -> list[int]:
    """A whole number for each weight that is less than one off its share of the target; together they are the target.

    Examples:
        >>> shares(10, [1, 1, 1])
        [4, 3, 3]
    """
    exact = [Fraction(weight) for weight in weights]
    wanted = [target * weight / sum(exact) for weight in exact]
    counts = [int(share) for share in wanted]
    order = sorted(range(len(wanted)), key=lambda place: (counts[place] - wanted[place], place))
    for place in order[: target - sum(counts)]:
        counts[place] += 1
    return counts
