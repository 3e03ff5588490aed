"""Where the tokens of each document lie in a shard: pure arithmetic on lengths."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

#: How documents become sequences.
Packing = Literal["none", "concat", "best_fit"]
PACKINGS: tuple[str, ...] = get_args(Packing)

#: Windows of best fit are filled from documents that follow one another: at least this many tokens, or windows.
_BLOCK_TOKENS, _BLOCK_WINDOWS = 2**22, 512


@dataclass(frozen=True)
class Layout:
    """The pieces of documents in a shard, in the order of the shard, and the sequences that they make.

    Args:
        document: number of each piece's document, counted in the shard.
        start: first token of each piece within its document.
        length: tokens of each piece.
        position: first token of each piece within the shard.
        sequences: tokens of each sequence, padding included.
        blocks: documents after which all tokens before lie before all tokens after; the first is 0, the last is all.
    """

    document: Ints
    start: Ints
    length: Ints
    position: Ints
    sequences: Ints
    blocks: Ints

    @property
    def tokens(self) -> int:
        """Tokens of the shard, padding included."""
        return int(self.sequences.sum())

    @property
    def padding(self) -> int:
        """Tokens of padding."""
        return self.tokens - int(self.length.sum())

    def part(self, pieces: slice, document: int, position: int) -> Layout:
        """Return some of the pieces, counted from a document and a position on."""
        return replace(
            self,
            document=self.document[pieces] - document,
            start=self.start[pieces],
            length=self.length[pieces],
            position=self.position[pieces] - position,
        )

    @property
    def boundaries(self) -> Ints:
        """Where a piece, padding or a sequence begins, and the end of the last: ``cu_seqlens`` of the shard.

        Examples:
            >>> layout_of(np.array([3, 4]), "concat", 5).boundaries.tolist()
            [0, 3, 5, 7, 10]
        """
        ends = np.cumsum(self.sequences)
        return np.unique(np.concatenate([[0], self.position, self.position + self.length, ends]))


def layout_of(lengths: Ints, packing: str, window: int | None) -> Layout:
    """Lay documents out in a shard.

    Args:
        lengths: tokens of each document, at least one.
        packing: ``"none"``: each document is a sequence. ``"concat"``: documents follow one another, and are cut into
            windows; the last is padded. ``"best_fit"``: each document is put in the window with the least space that
            holds it, and cut only if it is longer than a window.
        window: tokens of a window.

    Examples:
        >>> fit = layout_of(np.array([3, 4, 2, 1]), "best_fit", 5)
        >>> fit.document.tolist(), fit.position.tolist(), fit.sequences.tolist()
        ([0, 2, 1, 3], [0, 3, 5, 9], [5, 5])
    """
    count = len(lengths)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if count else 0
    if packing == "best_fit" and window is not None:
        return _best_fit(lengths, window)
    sequences = lengths
    blocks = np.arange(count + 1)
    if packing == "concat" and window is not None:
        sequences = np.full(-(-total // window), window, np.int64)
    zeros = np.zeros(count, np.int64)
    return Layout(np.arange(count), zeros, lengths, ends - lengths, sequences, blocks)


def _best_fit(lengths: Ints, window: int) -> Layout:
    size = max(_BLOCK_TOKENS, _BLOCK_WINDOWS * window)
    before = np.concatenate([[0], np.cumsum(lengths)])
    bounds = [0]
    while bounds[-1] < len(lengths):
        bounds.append(max(bounds[-1] + 1, int(np.searchsorted(before, before[bounds[-1]] + size, "right")) - 1))
    pieces = [np.zeros((0, 4), np.int64)]
    windows = 0
    for first, last in pairwise(bounds):
        packed, used = _packed(lengths[first:last], window)
        packed[:, 0] += first
        packed[:, 3] += windows * window
        pieces.append(packed)
        windows += used
    document, start, length, position = np.concatenate(pieces).T
    return Layout(document, start, length, position, np.full(windows, window, np.int64), np.array(bounds))


def _packed(lengths: Ints, window: int) -> tuple[Ints, int]:
    """Pieces as rows of document, start, length and position, in order of position; and the number of windows."""
    pieces = [
        (document, start, min(window, length - start))
        for document, length in enumerate(lengths.tolist())
        for start in range(0, length, window)
    ]
    windows: list[list[tuple[int, int, int]]] = []
    spaces: list[tuple[int, int]] = []  # free space of a window, and its number
    for piece in sorted(pieces, key=lambda piece: -piece[2]):
        place = bisect_left(spaces, (piece[2], -1))
        if place == len(spaces):
            space, number = window, len(windows)
            windows.append([])
        else:
            space, number = spaces.pop(place)
        windows[number].append(piece)
        if space > piece[2]:
            insort(spaces, (space - piece[2], number))
    rows: list[tuple[int, int, int, int]] = []
    for number, held in enumerate(sorted(map(sorted, windows))):
        position = number * window
        for document, start, length in held:
            rows.append((document, start, length, position))
            position += length
    return np.array(rows, np.int64).reshape(-1, 4), len(windows)
