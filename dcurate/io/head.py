"""Read the first rows of a source, and no more of its files than these need."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from dcurate.core.batch import Batch, FileGroup, FilePart, FileRows
from dcurate.core.stage import SourceStage
from dcurate.errors import DataError
from dcurate.frames.document import DocumentBatch
from dcurate.fs.compression import ending_of
from dcurate.io.csv import CsvReader
from dcurate.io.document_reader import DocumentReader
from dcurate.io.jsonl_reader import JsonlReader
from dcurate.io.source import FileReader

#: Lines that are looked at in a part of a file whose first lines hold too few rows: blank lines are no rows.
_MORE = 64


@dataclass
class AmountRead:
    """How much was read of a source.

    Attributes:
        rows: rows, with those that could not be read; ``nbytes`` their bytes in memory.
        ended: whether the source has no more.
    """

    rows: int = 0
    nbytes: int = 0
    ended: bool = False


@dataclass
class FirstRows(SourceStage[Batch, Batch]):
    """The first rows of another source, read on the driver, under the keys of their splits.

    Args:
        source: the source.
        rows: the number of rows, over all splits. Rows that cannot be read count.
        amount: what has been read so far; copies of the stage share it.
    """

    source: SourceStage[Any, Any]
    rows: int
    amount: AmountRead = field(default_factory=AmountRead)
    name: str = "first_rows"

    takes_rows: ClassVar[bool] = True

    def splits(self) -> Iterator[Batch]:
        """The first splits, each as a batch of its rows.

        Raises:
            DataError: nothing to read, or a file or row that cannot be read.
        """
        amount = self.amount
        for split in self.source.splits():
            for batch in self._batches(split):
                first = batch.rows(0, self.rows - amount.rows) if isinstance(batch, DocumentBatch) else batch
                amount.nbytes += first.nbytes
                amount.rows += first.num_items + _count(batch) - batch.num_items
                yield replace(first, rejections=batch.rejections)
                if amount.rows >= self.rows:
                    return
        amount.ended = True

    def columns(self) -> list[str] | None:
        return self.source.columns()

    def settings(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def process(self, task: Batch) -> Batch:
        return task

    def _batches(self, split: Batch) -> list[Batch]:
        """The batches of a split, or of its first rows where the source can read these alone."""
        if isinstance(self.source, FileReader) and isinstance(split, FileGroup) and not isinstance(split, FileRows):
            made: Any = _first_rows(self.source, split, self.rows - self.amount.rows)
        else:
            made = self.source.process(split)
        if isinstance(made, list):
            return [replace(batch, key=split.key and split.key.child(number)) for number, batch in enumerate(made)]
        return [] if made is None else [replace(made, key=split.key)]


def _first_rows(reader: FileReader, split: FileGroup, rows: int) -> Any:
    """What a reader makes of the first rows of a split."""
    windows: list[FilePart] = []
    made: Any = None
    for part in split.parts:
        if rows <= 0:
            break
        window, made = _window(reader, split, part, rows)
        windows.append(window)
        rows -= _rows_in(made)
    return made if len(windows) == 1 else _read(reader, split, windows)


def _window(reader: FileReader, split: FileGroup, part: FilePart, rows: int) -> tuple[FilePart, Any]:
    """The beginning of a part that holds so many rows, or all that it has, and what a reader makes of it."""
    last, total = rows, None
    while True:
        window = replace(part, rows=(0, last))
        made = _read(reader, split, [window])
        if _rows_in(made) >= rows or (total is not None and last >= total):
            return window, made
        if last > rows and total is None:  # the part is short, or most of its lines are no rows
            counted = reader.divided(replace(split, parts=(part,)))
            total = 0 if counted is None else counted.num_items
        last = 8 * last + _MORE


def _read(reader: FileReader, split: FileGroup, parts: Sequence[FilePart]) -> Any:
    """What a reader makes of parts of a split."""
    task = FileRows(key=split.key, parts=tuple(parts))
    if isinstance(reader, JsonlReader | CsvReader | DocumentReader) and any(ending_of(part.path) for part in parts):
        strict = copy.copy(reader)
        strict.on_bad_line = "raise"  # else a compressed file is first searched to its end for damage
        try:
            return strict.process(task)
        except DataError:
            pass
    return reader.process(task)


def _rows_in(made: Any) -> int:
    batches = made if isinstance(made, list) else [] if made is None else [made]
    return sum(map(_count, batches))


def _count(batch: Batch) -> int:
    """The rows of a batch, and those that could not be read."""
    return batch.num_items + sum(rejection.rows for rejection in batch.rejections)
