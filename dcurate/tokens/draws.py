"""Which documents of a source a mixture draws, and in which order they come. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.frames.rows import Keys

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_WHOLE = 2.0**64
_MARGIN = 1e-9
_CELLS, _SHIFT = 2**16, np.uint64(48)


class Placed(NamedTuple):
    """Rows in a part of the combined order, some several times: their positions, and which copy each is."""

    rows: Ints
    positions: Floats
    copies: Ints


@dataclass(frozen=True)
class Drawn:
    """The documents of a source that come: all of them a number of times, and some once more.

    Args:
        rows: number of documents of the source.
        copies: number of copies of all of them.
        extra: how many come once more: those with the smallest draws.
        last: the largest draw of these; None if there are none.
        ties: how many of exactly that draw come once more.
        tokens: number of tokens of all that come.
    """

    rows: int
    copies: int = 0
    extra: int = 0
    last: float | None = None
    ties: int = 0
    tokens: int = 0

    @property
    def wanted(self) -> int:
        """Rows that come."""
        return self.rows * self.copies + self.extra

    @property
    def _share(self) -> float:
        return self.extra / self.rows if self.rows else 0.0

    @property
    def _epochs(self) -> float:
        return self.copies + self._share

    def turns(self, part: int, parts: int) -> Iterator[tuple[int, float, float]]:
        """Return which copies fall in a part of the combined order, and the key ranges of their rows."""
        for copy in range(self.copies + (self.extra > 0)):
            length = 1.0 if copy < self.copies else self._share
            start = (part / parts * self._epochs - copy) / length - _MARGIN
            stop = ((part + 1) / parts * self._epochs - copy) / length + _MARGIN if part + 1 < parts else 1.0
            if stop > 0 and start < 1:
                yield copy, max(start, 0.0), min(stop, 1.0)

    def placed(self, keys: Keys, draws: Floats, part: int, parts: int) -> Placed:
        """Return the rows in a part of the combined order.

        Args:
            keys: keys of all rows that may be drawn; equal keys together.
            draws: draws of the same rows.
            part: number of the part, of as many of equal length as ``parts`` says.
        """
        placed = [Placed(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))]
        shares = keys[:, 0] / _WHOLE
        for copy, _, _ in self.turns(part, parts):
            length = 1.0 if copy < self.copies else self._share
            at = (copy + shares * length) / self._epochs
            here = np.minimum(np.floor(at * parts), parts - 1) == part
            if copy == self.copies:
                here &= self._once_more(draws)
            chosen = np.flatnonzero(here)
            placed.append(Placed(chosen, at[chosen], np.full(len(chosen), copy)))
        return Placed(*(np.concatenate(column) for column in zip(*placed, strict=True)))

    def _once_more(self, draws: Floats) -> npt.NDArray[np.bool_]:
        ties = draws == self.last
        return np.asarray((draws < (self.last or 0.0)) | (ties & (np.cumsum(ties) <= self.ties)))


def draws_of(keys: Keys, log_weights: Floats | None = None) -> Floats:
    """Return a number for each row; the rows with the smallest ones are drawn without replacement by their weights.

    Args:
        keys: random bits of each row, equal for equal rows.
        log_weights: logarithms of the weights; all weights are equal if None.

    Examples:
        >>> keys = np.array([[0, 2**62], [0, 2**63]], np.uint64)
        >>> draws_of(keys).round(2).tolist(), draws_of(keys, np.array([-9.0, 0])).round(2).tolist()
        ([0.33, -0.37], [9.33, -0.37])
    """
    uniform = (keys[:, 1] + 0.5) / _WHOLE
    gumbel = -np.log(-np.log(np.clip(uniform, 1e-300, 1 - 2**-53)))
    return np.asarray(-(gumbel if log_weights is None else gumbel + log_weights))


def drawn(source: Callable[[], Iterable[tuple[Floats, Ints]]], target: int) -> Drawn:
    """Return the documents whose tokens are nearest to a number.

    Args:
        source: yields draws of documents and their tokens, in any order; it is called twice.
        target: number of tokens.

    Examples:
        >>> few = [(np.array([0.5, 0.1]), np.array([10, 20])), (np.array([0.3]), np.array([5]))]
        >>> drawn(lambda: few, 60)
        Drawn(rows=3, copies=1, extra=2, last=0.3, ties=1, tokens=60)
    """
    rows, cells, counts = 0, np.zeros(_CELLS, np.int64), np.zeros(_CELLS, np.int64)
    for draws, tokens in source():
        rows += len(draws)
        draw_cells = _cell(draws)
        cells += np.bincount(draw_cells, tokens, _CELLS).astype(np.int64)
        counts += np.bincount(draw_cells, minlength=_CELLS)
    total = int(cells.sum())
    if not total:
        return Drawn(rows)
    copies, remaining = divmod(target, total)
    before = np.cumsum(cells)
    cell = int(np.searchsorted(before, remaining, "right"))  # the first of which not all fit
    held = [
        (draws[draw_cells == cell], tokens[draw_cells == cell])
        for draws, tokens in source()
        for draw_cells in [_cell(draws)]
    ]
    draws, tokens = (np.concatenate(arrays) for arrays in zip(*held, strict=True))
    order = np.argsort(draws, kind="stable")
    skipped, done = int(before[cell - 1]) if cell else 0, int(counts[:cell].sum())
    sums = skipped + np.concatenate([[0], np.cumsum(tokens[order])])
    more = int(np.abs(sums - remaining).argmin())
    extra = done + more
    if not extra or extra == rows:
        copies += extra == rows
        return Drawn(rows, copies, tokens=copies * total)
    if more:
        last = float(draws[order[more - 1]])
    else:  # the nearest is the end of the cells before
        last = max(float(draws[_cell(draws) < cell].max(initial=-np.inf)) for draws, _ in source())
    ties = int((draws[order[:more]] == last).sum())
    ties = ties or sum(int((draws == last).sum()) for draws, _ in source())
    return Drawn(rows, copies, extra, last, ties, copies * total + int(sums[more]))


def _cell(draws: Floats) -> Ints:
    """The cell of each number: by the first 16 bits, in the order of the numbers."""
    bits = np.ascontiguousarray(draws, np.float64).view(np.uint64)
    negative = (bits >> np.uint64(63)).astype(np.bool_)
    ordered = np.where(negative, ~bits, bits | np.uint64(1 << 63))
    return np.asarray((ordered >> _SHIFT).astype(np.int64))
