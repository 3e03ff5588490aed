"""A stage that writes capitals small."""

from __future__ import annotations

from dataclasses import dataclass

from dcurate import DocumentBatch, ProcessingStage


@dataclass
class Quieten(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Write texts in small letters, and add a column with their length.

    Args:
        text_field: column of the texts.
        length_field: column for the number of characters.
        name: name of the stage.

    Examples:
        >>> Quieten().outputs()
        (['data'], ['length'])
    """

    text_field: str = "text"
    length_field: str = "length"
    name: str = "quieten"

    def inputs(self) -> tuple[list[str], list[str]]:
        return ["data"], [self.text_field]

    def outputs(self) -> tuple[list[str], list[str]]:
        return ["data"], [self.length_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        frame = task.to_pandas()
        texts = frame[self.text_field].str.lower()
        frame[self.text_field], frame[self.length_field] = texts, texts.str.len()
        return task.with_data(frame)
