"""Readers that raise, or end their process, when they read a row whose text says so."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dcurate import (
    CsvReader,
    DocumentBatch,
    DocumentReader,
    FileGroup,
    JsonlReader,
    ParquetReader,
    ProcessingStage,
    WetReader,
)
from dcurate.core.batch import Rejection
from dcurate.io.source import FileReader
from tests.engine.worker.failing import MISCHIEF


def _strike(made: DocumentBatch | None) -> DocumentBatch | None:
    table = made.to_arrow() if made is not None else None
    for text in table["text"].to_pylist() if table is not None and "text" in table.column_names else ():
        if text == "raise":
            raise ValueError("cannot be read")
        if text in MISCHIEF:
            MISCHIEF[text]()
    return made


class _Deadly(FileReader):
    def process(self, task: FileGroup) -> DocumentBatch | None:
        return _strike(super().process(task))  # type: ignore[safe-super]


@dataclass
class DeadlyJsonl(_Deadly, JsonlReader):
    name: str = "deadly_jsonl"


@dataclass
class DeadlyCsv(_Deadly, CsvReader):
    name: str = "deadly_csv"


@dataclass
class DeadlyParquet(_Deadly, ParquetReader):
    name: str = "deadly_parquet"


@dataclass
class DeadlyDocuments(_Deadly, DocumentReader):
    name: str = "deadly_documents"


@dataclass
class DeadlyWet(_Deadly, WetReader):
    name: str = "deadly_wet"


@dataclass
class Undivided(DeadlyJsonl):
    """Cannot read a split in parts."""

    name: str = "undivided"

    def divided(self, task: FileGroup) -> None:
        return None


@dataclass
class ReadsAll(Undivided):
    """Says that it can read parts, and reads all."""

    name: str = "reads_all"

    def divided(self, task: FileGroup) -> None:
        return JsonlReader.divided(self, task)  # type: ignore[return-value]

    def process(self, task: FileGroup) -> DocumentBatch | None:
        made = JsonlReader.process(self, FileGroup(key=task.key, parts=(task.parts[0].__class__(task.data[0]),)))
        return _strike(made) if type(task) is FileGroup else made


@dataclass
class Broken(JsonlReader):
    """Raises on one file as long as a mark is there, and cannot read a split in parts."""

    mark: str = ""
    file: str = "b.jsonl"
    name: str = "broken"

    def divided(self, task: FileGroup) -> None:
        return None

    def process(self, task: FileGroup) -> DocumentBatch | None:
        if task.data[0].endswith(self.file) and Path(self.mark).exists():
            raise ValueError("cannot be read")
        return super().process(task)


@dataclass
class FirstTime(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Raises on a text, or ends its process, the first time that it comes by."""

    folder: str = ""
    text: str = "!"
    dies: bool = False

    def process(self, task: DocumentBatch) -> DocumentBatch:
        mark = Path(self.folder, self.name)
        if self.text in task.to_arrow()["text"].to_pylist() and not mark.exists():
            if self.dies:
                mark.touch()
                os._exit(7)
            if task.num_items == 1:
                mark.touch()
            raise ValueError("the first time")
        return task


@dataclass
class CountsOnly(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Sets all rows aside, and says how many without saying which."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        rejection = Rejection(self.name, "odd", task.num_items, task.nbytes, fault=True)
        return DocumentBatch(data=task.to_arrow().slice(0, 0), key=task.key, rejections=(rejection,))
