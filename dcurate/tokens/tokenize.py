"""Tokenize documents, and write their tokens to files of chunks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from dcurate.core.batch import BatchKey, FilePart, Rejection
from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import DataError, PipelineError
from dcurate.frames.columns import as_text, column_of, lists_of, numbers, only, table_of, values, with_lists
from dcurate.frames.document import DocumentBatch
from dcurate.frames.excerpts import id_columns
from dcurate.hub.shared import SHARED
from dcurate.io.opted_out import StandingLists, rows_but
from dcurate.io.optouts import REASON
from dcurate.rows import ORIGINS, origins_of
from dcurate.shuffle.writer import ChunkWriter
from dcurate.tokens.layout import Ints
from dcurate.tokens.settings import TokenSettings
from dcurate.tokens.special import SPECIAL_TOKEN
from dcurate.tokens.tokenizer import Encoded, Ids, SpecialIds, TextEncoder, TokenizerSource

#: Columns of tokens on their way to shards.
IDS, LOSS, DOC, SOURCE, ROW, EPOCH, FIRST = "ids", "loss", "doc", "source", "row", "epoch", "first"
#: The column of how many special tokens are spelled in each text.
SPECIAL = "special"
#: The reason for which a document without tokens is left out.
NO_TOKENS = "no_tokens"

_CHUNK_TOKENS = 2**18


@dataclass(frozen=True)
class _Loaded:
    encoder: TextEncoder
    special: SpecialIds
    kind: str


@dataclass
class TokenizeDocuments(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make tokens of texts.

    A document without any is dropped for the reason ``no_tokens``, and one with special tokens in its text for the
    reason ``special_token``, where the settings refuse these. Those that were removed from the output are left out.
    """

    token_settings: TokenSettings
    standing: StandingLists = field(default_factory=lambda: StandingLists([]))
    name: str = "tokenize_documents"

    _loaded: _Loaded | None = field(default=None, init=False, repr=False, compare=False)
    _key: Hashable | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_loaded", "_key")}

    def columns_read(self) -> Sequence[str] | None:
        """Those that are named; any without a column of ids, as these are then made of all columns."""
        return None if self.token_settings.id_field is None else super().columns_read()

    def settings(self) -> dict[str, Any]:
        return self.token_settings.deciding()

    def outputs(self) -> Spec:
        return [], [DOC, SOURCE, ROW, EPOCH, SPECIAL, IDS]

    def new_columns(self) -> list[str]:
        """None: the rows that it makes have no columns of the documents."""
        return []

    def columns_after(self, columns: Sequence[str]) -> list[str]:
        return self.outputs()[1]

    def inputs(self) -> Spec:
        settings = self.token_settings
        return [], [
            name for name in (settings.text_field, settings.id_field, settings.loss_ranges_field) if name is not None
        ]

    def optional_inputs(self) -> Sequence[str]:
        return [*ORIGINS, *self.standing.columns()]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Download the tokenizer to this host, if it is not here."""
        self.token_settings.tokenizer.fetch()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the tokenizer, unless another slot of this process has."""
        key: Hashable = (type(self), self.token_settings.tokenizer.key)
        encoder = SHARED.hold(key, self.token_settings.tokenizer.load)
        self._key = key
        self._loaded = _Loaded(encoder, *self.token_settings.rules(encoder))

    def teardown(self) -> None:
        """Release the tokenizer; the last slot of the process frees its memory."""
        key, self._key, self._loaded = self._key, None, None
        if key is not None:
            SHARED.release(key)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return one row for each document: its tokens, id, and number in the batch.

        Raises:
            DataError: a document is longer than a shard.
        """
        assert self._loaded is not None
        settings, encoder = self.token_settings, self._loaded.encoder
        task, removed = self._without_removed(task)
        task, special = without_refused(task, self.name, settings.text_field, encoder, settings.tokenizer)
        refused = task.rejections
        table = task.to_arrow()
        texts = _texts_of(table, settings.text_field)
        ranges = None if settings.loss_ranges_field is None else values(table, settings.loss_ranges_field)
        if ranges is None:
            token_ids, losses = encoder.encode(texts), None
        else:
            token_ids, losses = self._with_losses(texts, ranges)
        mask = np.array([len(ids) > 0 for ids in token_ids], np.bool_)
        batch = task.keep(mask, self.name, NO_TOKENS)
        docs = _ids_of(table, settings.id_field, task.key)
        kept = np.flatnonzero(mask)
        bounds, flat = self._joined([token_ids[row] for row in kept.tolist()])
        self._check_length(np.diff(bounds), [docs[row] for row in kept.tolist()])
        made = table_of(
            {
                DOC: [docs[row] for row in kept.tolist()],
                **_places(table, kept, task.key),
                SPECIAL: special[kept].astype(np.int32),
            }
        )
        made = with_lists(made, IDS, bounds, flat)
        if losses is not None:
            made = with_lists(made, LOSS, bounds, self._joined_losses([losses[row] for row in kept.tolist()]))
        self._log_metrics({"documents": len(kept), "tokens": int(bounds[-1]), "special_in_text": int(special.sum())})
        rejections = (*removed, *refused, *batch.rejections)
        batch = batch.with_data(made)
        batch.rejections = rejections
        return batch

    def _joined(self, token_ids: Sequence[Ids]) -> tuple[Ints, Any]:
        """Bounds of documents, and their tokens with the special ones around them."""
        assert self._loaded is not None
        bos, eos = self._loaded.special.bos, self._loaded.special.eos
        around = (bos is not None) + (eos is not None)
        bounds = np.zeros(len(token_ids) + 1, np.int64)
        np.cumsum([len(ids) + around for ids in token_ids], out=bounds[1:])
        flat = np.empty(int(bounds[-1]), self._loaded.kind)
        first = int(bos is not None)
        for start, ids in zip(bounds.tolist(), token_ids, strict=False):
            flat[start + first : start + first + len(ids)] = ids
        if bos is not None:
            flat[bounds[:-1]] = bos
        if eos is not None:
            flat[bounds[1:] - 1] = eos
        return bounds, flat

    def _joined_losses(self, losses: Sequence[Any]) -> Any:
        """The losses of tokens with those of the special ones: the BOS counts never, the EOS as the token before."""
        assert self._loaded is not None
        special = self._loaded.special
        pieces = [np.zeros(0, np.uint8)]
        for loss in losses:
            pieces += [np.zeros(int(special.bos is not None), np.uint8), loss]
            pieces += [loss[-1:]] if special.eos is not None else []
        return np.concatenate(pieces)

    def _without_removed(self, task: DocumentBatch) -> tuple[DocumentBatch, tuple[Rejection, ...]]:
        """The documents but those that were removed from the output on request; nothing of these is kept."""
        table = task.to_arrow()
        gone = self.standing.named(table)
        if not gone:
            return task, ()
        kept = rows_but(table, gone)
        return task.with_data(kept), (
            Rejection(self.name, REASON, len(gone), max(0, table.nbytes - kept.nbytes), None),
        )

    def _with_losses(self, texts: Sequence[str], ranges: Sequence[Any]) -> tuple[list[Ids], list[Any]]:
        """The ids of each text, and 1 for each token of which a character is in one of the ranges."""
        assert self._loaded is not None
        token_ids, losses = [], []
        for text, wanted in zip(texts, ranges, strict=True):
            encoded = self._loaded.encoder.encode_places(text)
            if encoded is None:
                settings = self.token_settings
                raise PipelineError(
                    f"{settings.tokenizer.asks}: loss_ranges_field={settings.loss_ranges_field!r} "
                    "needs a tokenizer that says which characters a token is of; give a tokenizer.json"
                )
            token_ids.append(encoded.ids)
            losses.append(loss_of(encoded, wanted))
        return token_ids, losses

    def _check_length(self, lengths: Ints, docs: Sequence[str]) -> None:
        most = self.token_settings.shard_tokens
        if len(lengths) and int(lengths.max()) > most:
            longest = int(lengths.argmax())
            raise DataError(
                f"{self.token_settings.tokenizer.asks}: document {docs[longest]!r} has {int(lengths[longest]):,} "
                f"tokens, more than shard_tokens={most:,}; give larger shards, or cut the document"
            )


def _texts_of(table: Any, column: str) -> list[str]:
    texts: list[str] = column_of(table, column, text=True).fill_null("").to_pylist()
    return texts


def without_refused(
    task: DocumentBatch, stage: str, text_field: str, encoder: TextEncoder, source: TokenizerSource
) -> tuple[DocumentBatch, Ints]:
    """Drop documents in whose text special tokens are spelled, where these are refused.

    Args:
        task: documents.
        stage: name of the stage that drops them.
        text_field: column of texts.
        encoder: loaded tokenizer.
        source: settings of the tokenizer.

    Returns:
        the documents that stay, and for each of them the number of special tokens in its text.
    """
    counts = np.array(encoder.special_counts(_texts_of(task.to_arrow(), text_field)), np.int64)
    kept = (counts == 0) | (source.special_in_text != "refuse")
    return task.keep(kept, stage, SPECIAL_TOKEN), counts[kept]


def loss_of(encoded: Encoded, ranges: Any) -> Any:
    """Return 1 for each token of which a character is in one of the ranges, else 0; 1 for all where there are none.

    Raises:
        DataError: the ranges are no pairs of numbers.

    Examples:
        >>> encoded = Encoded(np.array([5, 6, 7]), np.array([0, 3, 6]), np.array([3, 6, 9]))
        >>> loss_of(encoded, [[4, 5], [8, 9]]).tolist(), loss_of(encoded, None).tolist()
        ([0, 1, 1], [1, 1, 1])
    """
    loss = np.full(len(encoded.ids), ranges is None, np.uint8)
    for pair in ranges or ():
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(bound, int) for bound in pair):
            raise DataError(f"a range of characters for the loss is {pair!r}; give lists of [first, one past the last]")
        loss[(encoded.starts < pair[1]) & (encoded.stops > pair[0])] = 1
    return loss


def _places(table: Any, kept: Ints, key: BatchKey | None) -> dict[str, Any]:
    """Where each of some rows was read, and how often a mixture had it before."""
    split = "" if key is None else key.split
    files, numbers, epochs = origins_of(table)
    return {
        SOURCE: [split if files is None else files[row] or split for row in kept.tolist()],
        ROW: kept if numbers is None else numbers[kept],
        EPOCH: np.zeros(len(kept), np.int32) if epochs is None else epochs[kept].astype(np.int32),
    }


def _ids_of(table: Any, id_field: str | None, key: BatchKey | None) -> list[str]:
    """The id of each row as text; made of the batch's key and the row's number where there is none.

    Rows of different sources have different columns: the first that has an id counts.
    """
    columns = [id_field] if id_field is not None else id_columns(table.column_names)
    made = "" if key is None else key.digest
    identifiers: list[str | None] = [None] * table.num_rows
    for column in columns:
        if None in identifiers:
            texts = values(as_text(only(table, [column]), column), column)
            identifiers = [text if before is None else before for before, text in zip(identifiers, texts, strict=True)]
    return [f"{made}_{row}" if identifier is None else identifier for row, identifier in enumerate(identifiers)]


@dataclass
class TokenChunkWriter(ChunkWriter):
    """Writes the tokens of each batch in chunks of documents, with their lengths in the index."""

    name: str = "token_chunk_writer"

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        bounds, _ = lists_of(table, IDS)
        lengths = np.diff(bounds)
        special = np.zeros(0, np.int64)
        if SPECIAL in table.column_names:  # not where tokens are shuffled
            special, table = numbers(table, SPECIAL), table.drop_columns([SPECIAL])
        cuts = np.unique([*np.searchsorted(bounds, np.arange(0, int(bounds[-1]), _CHUNK_TOKENS)), table.num_rows])
        chunks = (table.slice(start, stop - start) for start, stop in pairwise(cuts.tolist()))
        notes: dict[str, Any] = {
            "lengths": lengths.astype(np.int32),
            "path": np.array(key.path, np.int64),
            "special": np.array([np.count_nonzero(special), special.sum()], np.int64),
        }
        yield self.chunks(chunks, key, folder, False, **notes)
