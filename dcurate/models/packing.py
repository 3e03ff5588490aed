"""Pack rows of different lengths into batches with little padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dcurate.frames.tokens import Tokens

Ints = npt.NDArray[np.int64]
Side = Literal["left", "right"]

#: Tokens of a batch on a GPU, which wants large ones, and what one batch more costs it, in tokens of padding.
_CUDA = (65536, 1024)
#: On a CPU small batches are as fast, as long as the states of their tokens, this many bytes, fit its caches.
_STATES = 1536 * 1024
#: Tokens of a batch on a CPU at least, and at most.
_LEAST, _MOST = 1024, 4096
#: What one batch more costs a CPU, in tokens of padding, by the bytes of a number: weights are laid out again for each,
#: which takes as many tokens more as these are quicker in 16 bits.
_SPARE = {4: 64, 2: 192}


@dataclass(frozen=True)
class BatchLimits:
    """The size limits of a batch.

    Args:
        tokens: rows times the widest of them; a row that is wider has a batch to itself.
        rows: maximum number of rows of a batch.
        spare: fixed cost of a batch, in tokens of padding.

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


def batch_limits(device: Any, rows: int, tokens: int | None = None, hidden: int = 0, size: int = 4) -> BatchLimits:
    """The preferred batch size on a device, if memory allows.

    Args:
        rows: at most.
        tokens: at most; by default as many as is quick on that device.
        hidden: numbers that the model has of each token; 0 if it does not say.
        size: bytes of such a number.
    """
    if device.type != "cpu":
        return BatchLimits(tokens or _CUDA[0], rows, _CUDA[1])
    most = min(_MOST, max(_LEAST, _STATES // (hidden * size))) if hidden else _LEAST
    return BatchLimits(tokens or most, rows, _SPARE.get(size, _SPARE[4]))


@dataclass(frozen=True)
class TokenRows:
    """Token ids of rows, truncated to a length.

    Args:
        ids: token ids of all rows, int32.
        starts: where each row begins in them.
        lengths: tokens of each row.
        widths: columns that a batch of this row alone has, at least one.
    """

    ids: npt.NDArray[np.int32]
    starts: Ints
    lengths: Ints
    widths: Ints

    @classmethod
    def cut(cls, tokens: Tokens, longest: int | None = None, side: Side = "right") -> TokenRows:
        """Truncate rows to a number of tokens: the first ones if padding is on the right, otherwise the last ones.

        Examples:
            >>> tokens = Tokens(np.array([0, 3, 4]), np.array([7, 8, 9, 5], np.int32))
            >>> TokenRows.cut(tokens, 2).lengths.tolist(), TokenRows.cut(tokens, 2, "left").starts.tolist()
            ([2, 1], [1, 3])
        """
        lengths = tokens.lengths
        kept = lengths if longest is None else np.minimum(lengths, longest)
        starts = tokens.bounds[:-1] if side == "right" else tokens.bounds[1:] - kept
        return cls(tokens.ids, starts, kept, np.maximum(kept, 1))

    def widened(self, multiple: int, most: int | None = None) -> TokenRows:
        """The same rows, with widths rounded up to a multiple, but no wider than ``most``.

        Examples:
            >>> rows = TokenRows.cut(Tokens(np.array([0, 3, 12]), np.zeros(12, np.int32)))
            >>> rows.widened(8).widths.tolist(), rows.widened(8, most=10).widths.tolist()
            ([8, 16], [8, 10])
        """
        widths = -(-self.widths // multiple) * multiple
        return replace(self, widths=widths if most is None else np.maximum(self.widths, np.minimum(widths, most)))

    def __len__(self) -> int:
        return len(self.lengths)

    def padded(self, rows: Ints, filler: int, side: Side = "right") -> npt.NDArray[np.int32]:
        """These rows as an array of shape (rows, widest), padded on that side.

        Examples:
            >>> tokens = Tokens(np.array([0, 3, 4]), np.array([7, 8, 9, 5], np.int32))
            >>> TokenRows.cut(tokens).padded(np.array([1, 0]), filler=0, side="left").tolist()
            [[0, 0, 5], [7, 8, 9]]
        """
        lengths = self.lengths[rows]
        widest = int(self.widths[rows].max())
        before = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) + np.repeat(self.starts[rows] - before, lengths)
        array = np.full((len(rows), widest), filler, np.int32)
        array[present(lengths, widest, side)] = self.ids[places]
        return array


def present(lengths: Ints, longest: int, side: Side = "right") -> npt.NDArray[np.bool_]:
    """The mask of real tokens in padded rows: an array of shape (rows, longest).

    Examples:
        >>> present(np.array([1, 2]), 2, "left").tolist()
        [[False, True], [True, True]]
    """
    columns = np.arange(longest)
    mask: npt.NDArray[np.bool_] = (
        columns < lengths[:, None] if side == "right" else columns >= longest - lengths[:, None]
    )
    return mask


def packed(widths: Ints, limits: BatchLimits, by_length: bool = True) -> list[Ints]:
    """Batches of rows, as arrays of row numbers; each row is in one of them.

    Rows are sorted by length, longest first, so that a batch that is too large for the GPU comes first. Batches begin
    and end where all of them together cost least: their rows times their widest, and `BatchLimits.spare` for each.

    Args:
        widths: columns that each row takes, at least one.
        by_length: whether rows may be reordered; otherwise batches are consecutive rows, even with more padding.

    Examples:
        >>> [batch.tolist() for batch in packed(np.array([1, 100, 1, 99]), BatchLimits(tokens=200, rows=8))]
        [[1, 3], [0, 2]]
    """
    if not by_length:
        return [np.arange(start, stop) for start, stop in _stretches(widths, limits)]
    order = np.argsort(-widths, kind="stable")
    return [order[start:stop] for start, stop in _cheapest(widths[order], limits)]


def padding(lengths: Ints, batches: list[Ints], widths: Ints | None = None) -> int:
    """Tokens of padding in these batches.

    Args:
        lengths: tokens of each row; none counts as one.
        widths: columns that each row takes, by default its tokens.

    Examples:
        >>> padding(np.array([1, 3]), [np.array([0, 1])])
        2
    """
    lengths = np.maximum(lengths, 1)
    wide = lengths if widths is None else widths
    return sum(int(len(rows) * wide[rows].max() - lengths[rows].sum()) for rows in batches)


def _cheapest(widths: Ints, limits: BatchLimits) -> list[tuple[int, int]]:
    """Optimal batch boundaries among non-increasing widths.

    What the first rows cost at least follows from what fewer of them cost: they end with a batch that begins somewhere.
    """
    count = len(widths)
    most = np.minimum(np.clip(limits.tokens // widths, 1, limits.rows), count - np.arange(count)).tolist()
    cost = np.full(count + 1, np.iinfo(np.int64).max)
    cost[0] = 0
    begin = np.zeros(count + 1, np.int64)
    rows = np.arange(limits.rows + 1)
    wide = widths.tolist()
    for start in range(count):
        # Where the row before is as wide, a batch that is not full could take that one, too, at no loss.
        few = most[start] if start and wide[start] == wide[start - 1] else 1
        candidates = cost[start] + limits.spare + wide[start] * rows[few : most[start] + 1]
        stops = slice(start + few, start + most[start] + 1)
        better = candidates < cost[stops]
        cost[stops][better] = candidates[better]
        begin[stops][better] = start
    batches: list[tuple[int, int]] = []
    while count:
        batches.append((int(begin[count]), count))
        count = batches[-1][0]
    return batches[::-1]


def _stretches(widths: Ints, limits: BatchLimits) -> Iterator[tuple[int, int]]:
    """Batch boundaries among widths in any order."""
    start = 0
    while start < len(widths):
        widest = np.maximum.accumulate(widths[start : start + limits.rows])
        cells = widest * np.arange(1, len(widest) + 1)
        stop = start + max(1, int(np.count_nonzero(cells <= limits.tokens)))
        yield start, stop
        start = stop
