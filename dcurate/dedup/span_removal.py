"""Cut spans out of documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcurate.frames.text import TextColumn, character_places
from dcurate.kernels.splice import spliced

_SENTENCE_ENDS = ".!?"


@dataclass(frozen=True)
class SpanRemoval:
    """How much text to remove around a span.

    Args:
        shortest: drop pieces with fewer characters.
        side: characters to remove on either side of a span, and from there to the end of the sentence.
        most: drop a document with more pieces as a whole.

    Examples:
        >>> SpanRemoval(1, 0, 10).pieces(b"One. Two three four. Five.", np.array([[9, 14]]))
        [(0, 4), (20, 26)]
    """

    shortest: int
    side: int
    most: int

    def pieces(self, text: bytes, stretches: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
        """Return the pieces of a UTF-8 text to keep, as byte offsets; `stretches` are the spans to remove, in order."""
        places = character_places(text)
        characters = text.decode()
        kept, cursor = [], 0
        for start, stop in np.searchsorted(places, stretches).tolist():
            if start < cursor:
                continue
            before = max(characters.rfind(mark, cursor, max(start - self.side + 1, 0)) for mark in _SENTENCE_ENDS)
            if before > cursor and before + 1 - cursor >= self.shortest:
                kept.append((cursor, before + 1))
            after = [place for mark in _SENTENCE_ENDS if (place := characters.find(mark, stop + self.side)) >= 0]
            cursor = min(after) + 1 if after else len(characters)
        if cursor < len(characters) and len(characters) - cursor >= self.shortest:
            kept.append((cursor, len(characters)))
        return [(int(places[start]), int(places[stop])) for start, stop in kept]


def stretches_of(
    copies: TextColumn, column: TextColumn, parents: Sequence[int], spans: Sequence[tuple[int, int]]
) -> TextColumn:
    """Return `copies` of texts of `column`, each cut to its span."""
    outer = np.array([(column.offsets[row], column.offsets[row + 1]) for row in parents], np.int64).reshape(-1, 2)
    inner = np.array(spans, np.int64).reshape(-1, 2)
    begins, ends = copies.offsets[:-1], copies.offsets[1:]
    starts = np.stack([begins, begins + inner[:, 1] - outer[:, 0]], axis=1).ravel()
    stops = np.stack([begins + inner[:, 0] - outer[:, 0], ends], axis=1).ravel()
    bounds = np.arange(len(parents) + 1) * 2
    nothing = np.zeros(2, np.int64), np.zeros(0, np.uint8)
    return TextColumn(*spliced(copies, bounds, (starts, stops), nothing, np.zeros(len(starts), np.int64)))
