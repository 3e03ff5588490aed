"""Documents with the same text, over a whole dataset."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import ExchangeStage, ProcessingStage, SourceStage, Spec
from dcurate.frames.document import DocumentBatch
from dcurate.frames.hashes import hashes_of, repeats, with_hashes
from dcurate.io.parquet import ParquetReader, ParquetWriter
from dcurate.io.stores import Directory

#: The column that holds content hashes between the two halves of the run.
HASH = "_dcurate_content_hash"
REASON = "exact_duplicate"


@dataclass
class ExactDuplicates(ExchangeStage[DocumentBatch]):
    """Keeps the first of all documents with the same text, over the whole dataset.

    First means first in the order of the source, so the result is the same for any number of workers. Texts are
    compared by a 128-bit BLAKE2b hash of their UTF-8 bytes; a null text counts as an empty one. What passed the stages
    before this one waits on disk beside the output; only hashes, 16 bytes a document, come together in one process.

    Args:
        text_field: the column to compare.

    Examples:
        >>> ExactDuplicates().inputs()
        ([], ['text'])
    """

    text_field: str = "text"
    name: str = "exact_duplicates"

    def inputs(self) -> Spec:
        return [], [self.text_field]

    def before(self, url: str, options: Mapping[str, Any]) -> list[ProcessingStage[Any, Any]]:
        writer = ParquetWriter(url, compression="lz4", mode="overwrite", storage_options=dict(options))
        return [HashTexts(self.text_field), writer.with_(name=f"{self.name}_to_disk")]

    def exchange(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[ProcessingStage[Any, Any]]:
        staged = [(split, sorted(path.rpartition("/")[2] for path in files)) for split, files in splits if files]
        reader = StagedReader(url, dict(options), staged, name=f"{self.name}_from_disk")
        hashes = (hashes_of(reader.read(group, [HASH]).to_arrow(), HASH) for group in reader.splits())
        marks = Directory(url, options)
        for group, again in zip(reader.splits(), repeats(hashes), strict=True):
            buffer = io.BytesIO()
            np.save(buffer, again)
            marks.write(_marks_of(group), buffer.getvalue())
        return [reader, DropMarked(url, dict(options), name=self.name)]


def _marks_of(batch: FileGroup | DocumentBatch) -> str:
    """Where the marks of the duplicate rows of a split stand."""
    assert batch.key is not None
    return f"_dcurate/duplicates/{batch.key.digest}.npy"


@dataclass
class HashTexts(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Adds the content hash of each text."""

    text_field: str = "text"
    name: str = "hash_texts"

    def inputs(self) -> Spec:
        return [], [self.text_field]

    def outputs(self) -> Spec:
        return [], [HASH]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(with_hashes(task.to_arrow(), self.text_field, HASH))


@dataclass
class StagedReader(SourceStage[FileGroup, DocumentBatch]):
    """Reads back what waited on disk, each split under the key it had."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    staged: list[tuple[str, list[str]]] = field(default_factory=list, repr=False)
    name: str = "from_disk"

    def splits(self) -> Iterator[FileGroup]:
        folder = Directory(self.url, self.options)
        entries = folder.files()
        for split, names in self.staged:
            parts = [
                FilePart(folder.path(name), size=entries[name].size, version=entries[name].version) for name in names
            ]
            yield FileGroup(key=BatchKey(split), parts=tuple(parts))

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: FileGroup) -> DocumentBatch | None:
        return self.read(task)

    def read(self, group: FileGroup, columns: list[str] | None = None) -> DocumentBatch:
        """The rows of a split, or some of their columns."""
        reader = ParquetReader(self.url, fields=columns, storage_options=self.options)
        batch = reader.process(group)
        return batch if batch is not None else DocumentBatch(key=group.key)


@dataclass
class DropMarked(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Drops the rows that were marked as duplicates, and the column of hashes."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    name: str = "exact_duplicates"

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow().drop_columns([HASH])
        marks = Directory(self.url, self.options).read(_marks_of(task))
        assert marks is not None, f"{task.key} has no marks"
        return task.with_data(table).keep(~np.load(io.BytesIO(marks)), self.name, REASON)
