"""Rows of different lengths put into batches with little padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dcurate.frames.tokens import Tokens

Ints = npt.NDArray[np.int64]
Side = Literal["left", "right"]

#: Padding that a batch may have, as a share of its tokens, when its rows are packed by length.
SHARE = 0.03


@dataclass(frozen=True)
class Limits:
    """How large a batch may be.

    Args:
        tokens: rows times the longest of them; a row that is longer has a batch to itself.
        rows: of a batch.
        spare: tokens of padding that cost no more than one batch more does.

    Raises:
        ValueError: a limit below one.
    """

    tokens: int
    rows: int
    spare: int = 64

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.rows < 1 or self.spare < 0:
            raise ValueError(
                f"tokens={self.tokens} and rows={self.rows} must be at least 1, spare={self.spare} not below 0"
            )


@dataclass(frozen=True)
class Rows:
    """Token ids of rows, cut to a length.

    Args:
        ids: of all rows, int32.
        starts: where each row begins in them.
        lengths: tokens of each row.
    """

    ids: npt.NDArray[np.int32]
    starts: Ints
    lengths: Ints

    @classmethod
    def cut(cls, tokens: Tokens, longest: int | None = None, side: Side = "right") -> Rows:
        """Rows of at most so many tokens: their first ones if padding goes to the right, else their last ones.

        Examples:
            >>> tokens = Tokens(np.array([0, 3, 4]), np.array([7, 8, 9, 5], np.int32))
            >>> Rows.cut(tokens, 2).lengths.tolist(), Rows.cut(tokens, 2, "left").starts.tolist()
            ([2, 1], [1, 3])
        """
        lengths = tokens.lengths
        kept = lengths if longest is None else np.minimum(lengths, longest)
        starts = tokens.bounds[:-1] if side == "right" else tokens.bounds[1:] - kept
        return cls(tokens.ids, starts, kept)

    def __len__(self) -> int:
        return len(self.lengths)

    def padded(self, rows: Ints, filler: int, side: Side = "right") -> npt.NDArray[np.int32]:
        """These rows as an array of shape (rows, longest), filled up at that side; of at least one column.

        Examples:
            >>> tokens = Tokens(np.array([0, 3, 4]), np.array([7, 8, 9, 5], np.int32))
            >>> Rows.cut(tokens).padded(np.array([1, 0]), filler=0, side="left").tolist()
            [[0, 0, 5], [7, 8, 9]]
        """
        lengths = self.lengths[rows]
        longest = max(1, int(lengths.max(initial=0)))
        before = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) + np.repeat(self.starts[rows] - before, lengths)
        array = np.full((len(rows), longest), filler, np.int32)
        array[present(lengths, longest, side)] = self.ids[places]
        return array


def present(lengths: Ints, longest: int, side: Side = "right") -> npt.NDArray[np.bool_]:
    """Where padded rows hold tokens of their own: an array of shape (rows, longest).

    Examples:
        >>> present(np.array([1, 2]), 2, "left").tolist()
        [[False, True], [True, True]]
    """
    columns = np.arange(longest)
    own: npt.NDArray[np.bool_] = (
        columns < lengths[:, None] if side == "right" else columns >= longest - lengths[:, None]
    )
    return own


def packed(lengths: Ints, limits: Limits, by_length: bool = True) -> list[Ints]:
    """Batches of rows, as arrays of row numbers; each row is in one of them.

    Rows are sorted by length, longest first, so that a batch that is too large for a card is met at once. A batch ends
    where a limit is reached, or where its padding would exceed `SHARE` of it and be worth more than a batch more.

    Args:
        lengths: tokens of each row; none counts as one.
        by_length: whether rows may change places; else batches are stretches of them, whatever the padding.

    Examples:
        >>> [batch.tolist() for batch in packed(np.array([1, 100, 1, 99]), Limits(tokens=200, rows=8))]
        [[1, 3], [0, 2]]
    """
    lengths = np.maximum(lengths, 1)
    if not by_length:
        return [np.arange(start, stop) for start, stop in _stretches(lengths, limits)]
    order = np.argsort(-lengths, kind="stable")
    return [order[start:stop] for start, stop in _alike(lengths[order], limits)]


def padding(lengths: Ints, batches: list[Ints]) -> int:
    """Tokens of padding in these batches.

    Examples:
        >>> padding(np.array([1, 3]), [np.array([0, 1])])
        2
    """
    lengths = np.maximum(lengths, 1)
    return sum(int(len(rows) * lengths[rows].max() - lengths[rows].sum()) for rows in batches)


def _alike(lengths: Ints, limits: Limits) -> Iterator[tuple[int, int]]:
    """Where batches begin and end among lengths that do not grow."""
    start = 0
    while start < len(lengths):
        longest = int(lengths[start])
        most = min(limits.rows, max(1, limits.tokens // longest))
        here = lengths[start : start + most]
        cells = longest * np.arange(1, len(here) + 1)
        waste = cells - np.cumsum(here)  # grows row by row, and so does its share
        stop = start + int(np.count_nonzero(waste <= np.maximum(SHARE * cells, limits.spare)))
        yield start, stop
        start = stop


def _stretches(lengths: Ints, limits: Limits) -> Iterator[tuple[int, int]]:
    """Where batches begin and end among lengths in any order."""
    start = 0
    while start < len(lengths):
        longest = np.maximum.accumulate(lengths[start : start + limits.rows])
        cells = longest * np.arange(1, len(longest) + 1)
        stop = start + max(1, int(np.count_nonzero(cells <= limits.tokens)))
        yield start, stop
        start = stop
