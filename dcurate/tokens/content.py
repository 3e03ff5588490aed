"""The content of a shard, read and laid out a few chunks at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.tokens.documents import Documents, DocumentSource, joined, some
from dcurate.tokens.layout import Ints, Layout, layout_of
from dcurate.tokens.plan import TokenShard

_Array = npt.NDArray[Any]


class Flat(NamedTuple):
    """Tokens as they follow one another in a shard, padding included.

    Args:
        ids: the tokens.
        loss: 1 where a token counts, one for each; None where all do.
        pieces: rows of the layout of which they are.
        documents: those of the pieces.
        first: number of the first of these documents in the shard.
    """

    ids: _Array
    loss: _Array | None
    pieces: slice
    documents: Documents
    first: int


class Sequences(NamedTuple):
    """Whole sequences: their tokens one after the other, the loss of each token, and the number of tokens of each."""

    ids: _Array
    loss: _Array | None
    lengths: Ints


@dataclass
class ShardContent:
    """The content of a shard.

    Args:
        shard: its documents.
        source: where the documents are read.
        packing, window: see `layout_of`.
        pad: the id of padding.
        kind: the type of ids.
        with_loss: whether each token has a loss.
        seen: is called with all tokens as they are read.
    """

    shard: TokenShard
    source: DocumentSource
    packing: str
    window: int | None
    pad: int
    kind: str
    with_loss: bool
    seen: list[Any] = field(default_factory=list, repr=False)

    @cached_property
    def layout(self) -> Layout:
        """Where the pieces of documents lie."""
        lengths = [np.zeros(0, np.int64), *map(self.source.lengths, self.shard.parts)]
        return layout_of(np.concatenate(lengths).astype(np.int64), self.packing, self.window)

    def flat(self) -> Iterator[Flat]:
        """Yield all tokens in the order of the shard."""
        layout = self.layout
        ends = np.cumsum(np.bincount(layout.document, minlength=self.shard.documents))
        total = layout.tokens
        piece, position = 0, 0
        for first, documents in self._blocks():
            last = first + len(documents.doc)
            stop = int(ends[last - 1])
            end = int(layout.position[stop]) if stop < len(layout.position) else total
            ids = np.full(end - position, self.pad, self.kind)
            loss = np.zeros(end - position, np.uint8) if self.with_loss else None
            within = slice(piece, stop)
            if self.packing == "best_fit":
                self._scatter(self.layout.part(within, first, position), documents, ids, loss)
            else:
                ids[: len(documents.ids)] = documents.ids
                if loss is not None and documents.loss is not None:
                    loss[: len(documents.ids)] = documents.loss
            for see in self.seen:
                see(Flat(ids, loss, within, documents, first))
            yield Flat(ids, loss, within, documents, first)
            piece, position = stop, end

    def sequences(self) -> Iterator[Sequences]:
        """Yield the same tokens, whole sequences at a time."""
        lengths = self.layout.sequences
        ends = np.concatenate([[0], np.cumsum(lengths)])
        done, have = 0, 0
        waiting: list[Flat] = []
        for piece in self.flat():
            waiting.append(piece)
            have += len(piece.ids)
            stop = int(np.searchsorted(ends, have, "right")) - 1
            if stop == done:
                continue
            ids = np.concatenate([flat.ids for flat in waiting])
            losses = [flat.loss for flat in waiting if flat.loss is not None]
            loss = np.concatenate(losses) if losses else None
            size = int(ends[stop] - ends[done])
            yield Sequences(ids[:size], None if loss is None else loss[:size], lengths[done:stop])
            remainder = piece._replace(ids=ids[size:], loss=None if loss is None else loss[size:])
            waiting, done = [remainder], stop

    def _scatter(self, pieces: Layout, documents: Documents, ids: _Array, loss: _Array | None) -> None:
        """Put the pieces of documents where they belong."""
        rows = (pieces.document, pieces.start, pieces.length, pieces.position)
        for document, start, length, place in zip(*(column.tolist() for column in rows), strict=True):
            begin = int(documents.bounds[document]) + start
            ids[place : place + length] = documents.ids[begin : begin + length]
            if loss is not None and documents.loss is not None:
                loss[place : place + length] = documents.loss[begin : begin + length]

    def _blocks(self) -> Iterator[tuple[int, Documents]]:
        """Documents in groups whose pieces are a range of the shard, each with the number of the first."""
        bounds = self.layout.blocks
        first, waiting, have = 0, list[Documents](), 0
        for documents in self._documents():
            waiting.append(documents)
            have += len(documents.doc)
            stop = int(bounds[int(np.searchsorted(bounds, have, "right")) - 1])
            if stop <= first:
                continue
            merged = joined(waiting)
            yield first, some(merged, 0, stop - first)
            waiting = [some(merged, stop - first, have - first)] if have > stop else []
            first = stop

    def _documents(self) -> Iterator[Documents]:
        for part in self.shard.parts:
            yield from self.source.documents(part)
