"""`TokenShuffle`: the documents or windows of files of tokens in random order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import CompositeStage, ProcessingStage, SourceStage, Spec, Stage
from dcurate.datasets.shuffle import Shuffle, check_seed
from dcurate.errors import PipelineError, listed
from dcurate.frames.columns import lists_of, table_of, values, with_lists, with_texts_each
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.io import output
from dcurate.tokens.documents import Documents, joined
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.layout import Ints
from dcurate.tokens.rewrite import KnownShardWriter, alike, settings_of
from dcurate.tokens.stored import StoredDocuments, stored_part, stored_place
from dcurate.tokens.tokenize import DOC, EPOCH, FIRST, IDS, LOSS, ROW, SOURCE
from dcurate.tokens.writer import TokenBarrier

#: What is put in random order.
Unit = Literal["document", "window"]
#: Tokens of a split.
_SPLIT = 2**23
_KEY, _LENGTHS = "key", "lengths"


@dataclass
class TokenShuffle(CompositeStage[FileGroup, FileGroup]):
    """Write the documents or windows of folders of tokens to another folder in random order, out of core.

    The order depends only on the seed and on what is in the folders, not on the number of workers. Spans and losses
    stay. It is a pipeline of its own: it reads, and it writes.

    Args:
        folders: a folder that `TokenWriter` wrote, or several of one tokenizer, format and packing.
        path: the folder to write to, local or a URL.
        unit: ``"document"``: documents are shuffled, and packed again where they were packed. ``"window"``: windows of
            packed folders are shuffled, as they are; documents that are in several windows are then in several places.
        seed: other seeds give other orders.
        shard_tokens: tokens of a shard at most, without padding; of windows with padding.
        mode: what to do about existing files: ``"error"``, ``"overwrite"``, ``"ignore"`` or ``"append"``.
        storage_options: for fsspec.
        name: name of the stage.

    Raises:
        PipelineError: settings that cannot be; windows of a folder without packing, or documents of a folder whose
            windows were shuffled.
        DataError: a folder is none of tokens, damaged, or unlike the first.

    Examples:
        >>> TokenShuffle("tokens", "shuffled", unit="window", seed=3).unit
        'window'
    """

    folders: str | list[str]
    path: str
    unit: Unit = "document"
    seed: int = 0
    shard_tokens: int = 2**27
    mode: output.Mode = "error"
    storage_options: dict[str, Any] | None = None
    name: str = "token_shuffle"

    def __post_init__(self) -> None:
        check_seed(self.name, self.seed)
        if self.unit not in get_args(Unit):
            raise PipelineError(f"{self.name}: unit={self.unit!r} is not one of {listed(get_args(Unit))}")

    def decompose(self) -> list[Stage]:
        urls = [self.folders] if isinstance(self.folders, str) else list(self.folders)
        if not urls:
            raise PipelineError(f"{self.name}: no folder of tokens is given; name at least one")
        folders = [TokenFolder(str(url), self.storage_options or {}) for url in urls]
        about = alike(folders)
        window = about["sequence_length"]
        if self.unit == "window" and window is None:
            raise PipelineError(
                f"{self.name}: {urls[0]!r} has no windows, as its documents are not packed; use unit='document', or "
                "convert it to a packing first"
            )
        if self.unit == "document" and about["unit"] == "window":
            raise PipelineError(
                f"{self.name}: the windows of {urls[0]!r} were shuffled, so it has no whole documents; "
                "use unit='window', or the folder that was shuffled"
            )
        most = self.shard_tokens
        changed: dict[str, Any] = {"shard_tokens": most}
        if self.unit == "window":
            most = max(most // window, 1) * window
            changed = {"shard_tokens": most, "packing": "concat", "unit": "window"}
        small = {name: value for name, value in about.items() if name != "shards"}
        settings = settings_of(small, self.name, **changed)
        options = dict(self.storage_options or {})
        reader = StoredTokens(file_paths=urls, about=small, unit=self.unit, options=options, name=f"{self.name}_reader")
        writer = KnownShardWriter(
            str(self.path),
            mode=self.mode,
            storage_options=self.storage_options,
            token_settings=settings,
            about=small,
            kind=about["dtype"],
            name=self.name,
        )
        order = Shuffle(seed=self.seed, id_field=_KEY, name=f"{self.name}_order")
        cut: list[Stage] = [CutWindows(name=f"{self.name}_pieces")] if self.unit == "window" else []
        return [reader, order, *cut, TokenBarrier(settings, name=f"{self.name}_shards"), writer]


@dataclass
class StoredTokens(SourceStage[FileGroup, DocumentBatch]):
    """Reads rows of tokens from folders: a row for each document or window.

    Args:
        file_paths: the folders.
        about: what they share.
        unit: what a row is.
        options: fsspec's ``storage_options``.
    """

    file_paths: list[str]
    about: Mapping[str, Any] = field(repr=False)
    unit: str
    options: dict[str, Any] = field(default_factory=dict)
    name: str = "stored_tokens"

    def settings(self) -> dict[str, Any]:
        return {"unit": self.unit}

    def outputs(self) -> Spec:
        return [], [_KEY, DOC, SOURCE, ROW, EPOCH, FIRST, IDS]

    def roots(self) -> list[str]:
        return [Directory(url, self.options).address for url in self.file_paths]

    def splits(self) -> Iterator[FileGroup]:
        for number, url in enumerate(self.file_paths):
            folder = TokenFolder(url, self.options)
            for shard in folder.shards:
                part = stored_part(folder, shard)
                units = shard["documents"] if self.unit == "document" else shard["sequences"]
                pieces = min(max(1, -(-shard["tokens"] // _SPLIT)), max(units, 1))
                bounds = [place * units // pieces for place in range(pieces + 1)]
                for piece, (start, stop) in enumerate(pairwise(bounds)):
                    file_range = FilePart(part.path, size=part.size, version=part.version, rows=(start, stop))
                    yield FileGroup(key=BatchKey(f"{number}/{shard['shard']}@{piece:05}"), parts=(file_range,))

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """Return the rows of a split.

        Raises:
            DataError: the files cannot be read.
        """
        assert task.key is not None
        stored = StoredDocuments(self.about, self.options, self.about["dtype"])
        [part] = task.parts
        if self.unit == "document":
            documents = list(stored.documents(part))
            return DocumentBatch(data=_documents(joined(documents)), key=task.key) if documents else None
        if part.rows == (0, 0):
            return None
        return DocumentBatch(data=self._windows(stored, part, task.key), key=task.key)

    def _windows(self, stored: StoredDocuments, part: FilePart, key: BatchKey) -> Any:
        folder, shard = stored_place(part, self.about, self.options)
        window = self.about["sequence_length"]
        first, last = part.rows or (0, 0)
        ids, loss = folder.stretch(shard, first * window, last * window)
        pieces = stored.within(part, first * window, last * window)
        cuts = np.arange(first, last + 1) * window
        starts = np.unique(np.concatenate([cuts, pieces.start, pieces.end]))
        starts = starts[(starts >= cuts[0]) & (starts <= cuts[-1])]
        lengths = np.diff(starts)
        owners = np.searchsorted(pieces.start, starts[:-1], "right") - 1
        held = (owners >= 0) & (starts[:-1] < pieces.end[np.maximum(owners, 0)])
        owners = np.where(held, owners, 0)
        known = pieces.known(owners)
        bounds = np.searchsorted(starts, cuts)
        lists: dict[str, Ints] = {
            _LENGTHS: lengths,
            ROW: known.row,
            EPOCH: known.epoch,
            FIRST: known.first + starts[:-1] - pieces.start[owners],
        }
        doc = [identifier if real else None for identifier, real in zip(known.doc, held.tolist(), strict=True)]
        names = [f"{key.split.partition('@')[0]}:{window}" for window in range(first, last)]
        table = table_of({_KEY: names})
        texts: dict[str, list[Any]] = {DOC: doc, SOURCE: known.source}
        for name, entries in texts.items():
            table = with_texts_each(table, name, [entries[low:high] for low, high in pairwise(bounds.tolist())])
        for name, column in lists.items():
            table = with_lists(table, name, bounds, column)
        table = with_lists(table, IDS, cuts - cuts[0], ids)
        return table if loss is None else with_lists(table, LOSS, cuts - cuts[0], loss)


def _documents(documents: Documents) -> Any:
    """A row for each document, with a key that does not depend on the shard that it was in."""
    made: dict[str, Any] = {DOC: documents.doc, SOURCE: documents.source, ROW: documents.row, EPOCH: documents.epoch}
    keys = ["\0".join(map(str, row)) for row in zip(*made.values(), strict=True)]
    table = table_of({_KEY: keys, **made, FIRST: documents.first})
    table = with_lists(table, IDS, documents.bounds, documents.ids)
    return table if documents.loss is None else with_lists(table, LOSS, documents.bounds, documents.loss)


@dataclass
class CutWindows(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Makes a row of each piece of a document, or of padding, of rows that are windows."""

    name: str = "cut_windows"

    def inputs(self) -> Spec:
        return [], [DOC, SOURCE, ROW, EPOCH, FIRST, IDS, _LENGTHS]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        bounds = np.concatenate([[0], np.cumsum(lists_of(table, _LENGTHS)[1])])
        texts = {name: [text for row in values(table, name) for text in row] for name in (DOC, SOURCE)}
        counted = {name: lists_of(table, name)[1] for name in (ROW, EPOCH, FIRST)}
        made = with_lists(table_of({**texts, **counted}), IDS, bounds, lists_of(table, IDS)[1])
        if LOSS in table.column_names:
            made = with_lists(made, LOSS, bounds, lists_of(table, LOSS)[1])
        return task.with_data(made)
