"""Documents as tokens, with information about each, read from the chunks that a run has on disk before its shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import FilePart
from dcurate.frames.columns import lists_of, numbers, values
from dcurate.fs.stores import Directory
from dcurate.shuffle.chunks import read_chunks, read_index
from dcurate.tokens.layout import Ints
from dcurate.tokens.tokenize import DOC, EPOCH, FIRST, IDS, LOSS, ROW, SOURCE

#: Bytes of chunks that are read at once.
_READ = 2**22

_Array = npt.NDArray[Any]


class Documents(NamedTuple):
    """Consecutive documents.

    Args:
        bounds: bounds of each document in the tokens.
        ids: the tokens.
        loss: 1 where a token counts, one for each; None where all do.
        doc: the id of each document; None for padding, where that is kept as it was.
        source, row, epoch: where each comes from, see `Span`.
        first: the number, in its document, of the first token of each, where only a part of it is there.
    """

    bounds: Ints
    ids: _Array
    loss: _Array | None
    doc: list[str | None]
    source: list[str]
    row: Ints
    epoch: Ints
    first: Ints


class DocumentSource(Protocol):
    """Where the documents of a shard are read."""

    def lengths(self, part: FilePart) -> Ints:
        """Return the tokens of each document of a part."""

    def documents(self, part: FilePart) -> Iterator[Documents]:
        """Yield the documents of a part, some at a time."""


@dataclass(frozen=True)
class ChunkedDocuments:
    """Reads documents from files of chunks.

    Args:
        options: fsspec's ``storage_options``.
        with_loss: whether each token has a loss.
    """

    options: Mapping[str, Any]
    with_loss: bool

    def lengths(self, part: FilePart) -> Ints:
        """Return the tokens of each document of a part, from the index alone."""
        assert part.rows is not None
        index = read_index(Directory(part.path, self.options), part.path)
        return np.asarray(index.notes["lengths"][slice(*part.rows)])

    def documents(self, part: FilePart) -> Iterator[Documents]:
        """Yield the documents of a part, a few chunks at a time."""
        assert part.rows is not None
        index = read_index(Directory(part.path, self.options), part.path)
        chunk = int(np.searchsorted(index.rows, part.rows[0], "right")) - 1
        last = int(np.searchsorted(index.rows, part.rows[1]))
        while chunk < last:
            stop = int(np.searchsorted(index.bounds, index.bounds[chunk] + _READ, "right")) - 1
            stop = min(max(stop, chunk + 1), last)
            before = int(index.rows[chunk])
            bounds = int(index.bounds[chunk]), int(index.bounds[stop])
            for table in read_chunks(part.path, dict(self.options), *bounds):
                low, high = max(part.rows[0] - before, 0), min(part.rows[1] - before, table.num_rows)
                if low < high:
                    yield self._read(table.slice(low, high - low))
                before += table.num_rows
            chunk = stop

    def _read(self, table: Any) -> Documents:
        bounds, ids = lists_of(table, IDS)
        loss = lists_of(table, LOSS)[1] if self.with_loss else None
        first = numbers(table, FIRST) if FIRST in table.column_names else np.zeros(table.num_rows, np.int64)
        return Documents(
            bounds=bounds,
            ids=ids,
            loss=loss,
            doc=values(table, DOC),
            source=values(table, SOURCE),
            row=numbers(table, ROW),
            epoch=numbers(table, EPOCH).astype(np.int64),
            first=first,
        )


def joined(parts: Sequence[Documents]) -> Documents:
    """Return documents of several groups as one."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.bounds) for part in parts])
    losses = [part.loss for part in parts if part.loss is not None]
    return Documents(
        bounds=np.concatenate([[0], np.cumsum(lengths)]),
        ids=np.concatenate([part.ids for part in parts]),
        loss=np.concatenate(losses) if losses else None,
        doc=[doc for part in parts for doc in part.doc],
        source=[source for part in parts for source in part.source],
        row=np.concatenate([part.row for part in parts]),
        epoch=np.concatenate([part.epoch for part in parts]),
        first=np.concatenate([part.first for part in parts]),
    )


def some(documents: Documents, start: int, stop: int) -> Documents:
    """Return some documents of several."""
    if start == 0 and stop == len(documents.doc):
        return documents
    low, high = int(documents.bounds[start]), int(documents.bounds[stop])
    return Documents(
        bounds=documents.bounds[start : stop + 1] - low,
        ids=documents.ids[low:high],
        loss=None if documents.loss is None else documents.loss[low:high],
        doc=documents.doc[start:stop],
        source=documents.source[start:stop],
        row=documents.row[start:stop],
        epoch=documents.epoch[start:stop],
        first=documents.first[start:stop],
    )
