"""A reader of plain lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dcurate import BatchKey, DataError, DocumentBatch, SourceStage


@dataclass
class LinesReader(SourceStage[DocumentBatch, DocumentBatch]):
    """Read each line of text files as a document, with a column ``text``; a split is a file.

    Args:
        path: folder with files that end in ``.txt``.
        name: name of the stage.

    Raises:
        DataError: there is no such file.

    Examples:
        >>> LinesReader("in").columns()
        ['text']
    """

    path: str
    name: str = "lines_reader"

    def splits(self) -> Iterator[DocumentBatch]:
        files = sorted(Path(self.path).glob("*.txt"))
        if not files:
            raise DataError(f"{self.name}: no file in {self.path!r} ends in .txt; name a folder with such files")
        for file in files:
            yield DocumentBatch(key=BatchKey(file.name), data=pd.DataFrame({"file": [str(file)]}))

    def columns(self) -> list[str]:
        return ["text"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        [file] = task.to_pandas().file
        return task.with_data(pd.DataFrame({"text": Path(file).read_text("utf-8").splitlines()}, dtype=str))
