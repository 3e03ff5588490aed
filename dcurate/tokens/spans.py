"""The table of spans beside a shard: which tokens are of which document, and where that came from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from dcurate.errors import DataError
from dcurate.frames.columns import table_of
from dcurate.fs.stores import Directory
from dcurate.io.parquet_stream import ParquetStream, parquet_notes, parquet_rows
from dcurate.tokens.content import Flat
from dcurate.tokens.layout import Layout

#: Folder of what is beside the files of a format.
SPANS = "spans"
_NOTE = "dcurate_tokens"


@dataclass(frozen=True)
class Span:
    """Consecutive tokens of a document in a shard.

    Args:
        shard: its name.
        start: first token in the shard.
        end: one past the last.
        doc: id of the document, and ``document`` its number in the shard: ids may not be unique.
        first: number in the document of the first token.
        source: the file, or part of a file, that the document was read from.
        row: number of the row in that, from 0; in its batch where the reader does not say it.
        epoch: how often a mixture had the document before; 0 without one.
    """

    shard: str
    start: int
    end: int
    doc: str
    document: int
    first: int
    source: str
    row: int
    epoch: int


class SpanFileWriter:
    """Writes the spans of a shard, sorted by their start.

    Args:
        file: open for writing.
        shard: name of the shard.
        layout: layout of the shard.

    Attributes:
        documents: that were written, and ``tokens`` how many are in them.
    """

    def __init__(self, file: BinaryIO, shard: str, layout: Layout) -> None:
        self._stream, self._shard, self._layout = ParquetStream(file), shard, layout
        self.documents = self.tokens = 0

    def add(self, piece: Flat) -> None:
        """Add the spans of some tokens."""
        layout, documents = self._layout, piece.documents
        within = np.arange(piece.pieces.start, piece.pieces.stop)
        indices = layout.document[within] - piece.first
        if None in documents.doc:  # padding that is kept as it was
            real = np.array([documents.doc[index] is not None for index in indices.tolist()], np.bool_)
            within, indices = within[real], indices[real]
        start, length = layout.position[within], layout.length[within]
        table = table_of(
            {
                "shard": [self._shard] * len(indices),
                "start": start,
                "end": start + length,
                "doc": [documents.doc[index] or "" for index in indices.tolist()],
                "document": layout.document[within],
                "first": layout.start[within] + documents.first[indices],
                "source": [documents.source[index] for index in indices.tolist()],
                "row": documents.row[indices],
                "epoch": documents.epoch[indices].astype(np.int32),
            }
        )
        self._stream.write(table)
        self.documents += len(np.unique(indices))
        self.tokens += int(length.sum())

    def close(self, about: Mapping[str, Any]) -> None:
        """Write the end of the file, with information about the shard."""
        self._stream.close({_NOTE: json.dumps(about)})


def shard_notes(directory: Directory, name: str) -> dict[str, Any]:
    """Return information about a shard, from its table of spans.

    Raises:
        DataError: the table cannot be read.
    """
    note = parquet_notes(directory, name).get(_NOTE)
    if note is None:
        raise DataError(f"{directory.path(name)!r} is not a table of spans; leave only what TokenWriter wrote there")
    notes: dict[str, Any] = json.loads(note)
    return notes


def spans_of(directory: Directory, shard: str, at: int | None = None) -> Iterator[Span]:
    """Yield the spans of a shard in order.

    Args:
        at: a token; spans far before it are left out.

    Raises:
        DataError: the table cannot be read.
    """
    within = None if at is None else ("start", at)
    for row in parquet_rows(directory, f"{SPANS}/{shard}.parquet", within=within):
        yield Span(**row)


def span_at(directory: Directory, shard: str, at: int) -> Span | None:
    """Return the span that holds a token; None for padding, or past the end.

    Raises:
        DataError: the table cannot be read.
    """
    return next((span for span in spans_of(directory, shard, at) if span.start <= at < span.end), None)
