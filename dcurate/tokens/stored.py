"""Documents read back from shards of tokens, of any format and packing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import FilePart
from dcurate.errors import DataError
from dcurate.frames.columns import numbers, rows_at, values
from dcurate.io.parquet_stream import parquet_table
from dcurate.tokens.documents import Documents
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.layout import Ints
from dcurate.tokens.pairs import spans_of_pair
from dcurate.tokens.spans import SPANS, shard_notes

#: Tokens that are read at once.
_READ = 2**21
_PLACES = ("document", "first", "start", "end")
#: More than the documents of any shard.
_ALL = 2**62


class _SpanPieces(NamedTuple):
    """The spans of a shard in the order of its documents.

    Args:
        document: number of each span's document, counted from 0 without those that are left out.
        start, end: bounds of each span, as in `Span`.
        row: row of each span in the table of spans; below 0 for padding.
        table: the spans.
        sizes: tokens of each document that is stored.
    """

    document: Ints
    start: Ints
    end: Ints
    row: Ints
    table: Any
    sizes: Ints


class DocumentInfo(NamedTuple):
    """Information about documents, see `Documents`."""

    doc: list[str | None]
    source: list[str]
    row: Ints
    epoch: Ints
    first: Ints


class SpansInOrder(NamedTuple):
    """Spans as they follow one another in a shard."""

    start: Ints
    end: Ints
    table: Any

    def known(self, rows: Ints) -> DocumentInfo:
        """Return information about the documents of some spans."""
        return _known(self.table if self.table.num_rows else None, np.zeros(len(rows), np.int64), rows)


@dataclass(frozen=True)
class StoredDocuments:
    """Reads documents from shards of tokens, whose parts are what `stored_part` returns.

    In folders whose windows were shuffled, what a window has of a document is a document here, and so is padding: every
    token keeps its place.

    Args:
        about: the folder's ``tokens.json``; the shards in it are not used.
        options: fsspec's ``storage_options``.
        kind: the type that all ids must fit.
        without: numbers of documents that are left out, by shard; in folders of shuffled windows they become padding.
    """

    about: Mapping[str, Any]
    options: Mapping[str, Any]
    kind: str
    without: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def lengths(self, part: FilePart) -> Ints:
        """Return the tokens of each document of a part."""
        assert part.rows is not None
        pieces = self._pieces(part, _PLACES)
        return np.bincount(pieces.document, pieces.end - pieces.start).astype(np.int64)[slice(*part.rows)]

    def documents(self, part: FilePart) -> Iterator[Documents]:
        """Yield the documents of a part, some at a time.

        Raises:
            DataError: the files cannot be read, or an id does not fit the type.
        """
        assert part.rows is not None
        pieces = self._pieces(part)
        first, last = np.searchsorted(pieces.document, part.rows).tolist()
        before = np.concatenate([[0], np.cumsum(pieces.end[first:last] - pieces.start[first:last])])
        heads = np.flatnonzero(np.diff(pieces.document[first:last], prepend=-1, append=-1))  # and the end of the last
        begun = 0
        while begun < len(heads) - 1:
            stop = int(np.searchsorted(before[heads], before[heads[begun]] + _READ, "right")) - 1
            stop = max(stop, begun + 1)
            piece_range = slice(first + int(heads[begun]), first + int(heads[stop]))
            yield self._read(part, pieces, piece_range, heads[begun:stop] - heads[begun])
            begun = stop

    def within(self, part: FilePart, start: int, end: int) -> SpansInOrder:
        """Return the spans of a part's shard that have tokens from `start` up to `end`, in the order of the shard."""
        folder, shard = self._place(part)
        table = _spans(folder, shard, part)
        starts, ends = (numbers(table, column).astype(np.int64) for column in ("start", "end"))
        matches = np.flatnonzero((starts < end) & (ends > start))
        if not len(matches):
            none = np.zeros(1, np.int64)
            return SpansInOrder(none, none, rows_at(table, matches))
        return SpansInOrder(starts[matches], ends[matches], rows_at(table, matches))

    def _place(self, part: FilePart) -> tuple[TokenFolder, str]:
        return stored_place(part, self.about, self.options)

    def _pieces(self, part: FilePart, columns: tuple[str, ...] | None = None) -> _SpanPieces:
        folder, shard = self._place(part)
        table = _spans(folder, shard, part, columns)
        if not table.num_rows:
            none = np.zeros(0, np.int64)
            return _SpanPieces(none, none, none, none, table, none)
        document, first, start, end = (numbers(table, column).astype(np.int64) for column in _PLACES)
        dropped = np.isin(document, sorted(self.without.get(shard, ())))
        if self.about.get("unit") == "window":
            total = int(shard_notes(folder.directory, f"{SPANS}/{shard}.parquet")["tokens"])
            return _with_padding(start, end, np.where(dropped, -1, np.arange(len(start))), table, total)
        sizes = np.bincount(document, end - start).astype(np.int64)
        order = np.lexsort((first, document))
        order = order[~dropped[order]]
        numbered = np.cumsum(np.diff(document[order], prepend=document[order[:1]]) != 0)
        return _SpanPieces(numbered, start[order], end[order], order, table, sizes)

    def _read(self, part: FilePart, pieces: _SpanPieces, piece_range: slice, heads: Ints) -> Documents:
        folder, shard = self._place(part)
        starts, ends, row = pieces.start[piece_range], pieces.end[piece_range], pieces.row[piece_range]
        table = rows_at(pieces.table, np.maximum(row, 0)) if (row >= 0).any() else None
        low, high = int(starts.min()), int(ends.max())
        samples = None
        if table is not None and self.about["sequence_length"] is None:
            first, last = (int(numbers(table, "document")[place]) for place in (0, -1))
            samples = first, pieces.sizes[first : last + 1]
        ids, loss = folder.stretch(shard, low, high, samples)
        bounds = np.concatenate([[0], np.cumsum(ends - starts)])
        if (starts[1:] != ends[:-1]).any():
            at = np.arange(bounds[-1]) + np.repeat(starts - low - bounds[:-1], ends - starts)
            ids, loss = ids[at], None if loss is None else loss[at]
        self._check_fits(folder, shard, ids)
        ids = ids.astype(self.kind)
        padding = np.repeat(row < 0, ends - starts)
        if padding.any():
            ids[padding] = self.about["pad"]
            loss = None if loss is None else np.where(padding, 0, loss).astype(np.uint8)
        return Documents(np.append(bounds[heads], bounds[-1]), ids, loss, *_known(table, row[heads], heads))

    def _check_fits(self, folder: TokenFolder, shard: str, ids: npt.NDArray[Any]) -> None:
        if len(ids) and ids.max() > np.iinfo(self.kind).max:
            raise DataError(
                f"{folder.url!r}: shard {shard!r} has the id {int(ids.max()):,}, which does not fit "
                f"dtype={self.kind!r}; leave dtype out, or name a larger one"
            )


def _known(table: Any, row: Ints, heads: Ints) -> DocumentInfo:
    """Information about documents; their id is None where the row is below 0."""
    if table is None:
        none = np.zeros(len(heads), np.int64)
        return DocumentInfo([None] * len(heads), [""] * len(heads), none, none, none)
    head_rows = rows_at(table, heads)
    doc = [
        None if at < 0 else identifier for at, identifier in zip(row.tolist(), values(head_rows, "doc"), strict=True)
    ]
    counted = [numbers(head_rows, name).astype(np.int64) for name in ("row", "epoch", "first")]
    return DocumentInfo(doc, values(head_rows, "source"), *counted)


def _with_padding(start: Ints, end: Ints, row: Ints, table: Any, total: int) -> _SpanPieces:
    """Spans and the gaps between them, up to the total number of tokens of a shard."""
    starts, stops = np.append(start, total), np.append(0, end)
    gaps = np.flatnonzero(starts > stops)
    start, end = np.insert(start, gaps, stops[gaps]), np.insert(end, gaps, starts[gaps])
    return _SpanPieces(np.arange(len(start)), start, end, np.insert(row, gaps, -1), table, end - start)


def stored_part(folder: TokenFolder, shard: Mapping[str, Any]) -> FilePart:
    """Return a shard of a folder as a part that `StoredDocuments` reads."""
    size = sum(shard["files"].values())
    name = shard["shard"]
    path = folder.directory.path(f"{name}.idx" if folder.about.get("pairs") else f"{SPANS}/{name}.parquet")
    return FilePart(path, size=size, version=str(size), rows=(0, _ALL))


def stored_place(part: FilePart, about: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[TokenFolder, str]:
    """Return the folder of a part that `stored_part` made, and the name of its shard."""
    url, _, name = part.path.rpartition("/" if _is_pair(part) else f"/{SPANS}/")
    return TokenFolder(url, options).known(about), name.rpartition(".")[0]


def _is_pair(part: FilePart) -> bool:
    return part.path.endswith(".idx")


def _spans(folder: TokenFolder, shard: str, part: FilePart, columns: tuple[str, ...] | None = None) -> Any:
    """The table of the spans of a shard."""
    if _is_pair(part):
        return spans_of_pair(folder.directory, shard)
    return parquet_table(folder.directory, f"{SPANS}/{shard}.parquet", columns)
