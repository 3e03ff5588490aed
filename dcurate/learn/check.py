"""Labels held against their schema and against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dcurate.core.stage import CompositeStage, ProcessingStage, Spec, Stage
from dcurate.datasets.row_groups import RowsByKey, first_and_differing, in_groups
from dcurate.endpoints.errors import RequestError
from dcurate.endpoints.generate import quarantined
from dcurate.errors import PipelineError
from dcurate.frames.columns import column_of, rows_at, values
from dcurate.frames.document import DocumentBatch
from dcurate.io.partition import parse_bytes
from dcurate.learn.judge import NO_WORDS, has_words
from dcurate.learn.schema import SCALE, Label, LabelSchema

#: Reasons of rows that are left out.
OUTSIDE, CONTRADICTORY, REPEATED = "label outside the schema", "contradictory labels", "text labelled again"


@dataclass
class CheckLabels(CompositeStage[DocumentBatch, DocumentBatch]):
    """Leave out labels that cannot be learnt from; out of core, in time linear in the number of labels.

    Args:
        schema: a `LabelSchema`, the name of a preset, or a YAML file; each label is a column. Null means no label.
        text_field: the column with the text.
        blocksize: target bytes of a batch in memory.
        name: name of the stage.

    A row with a value that the schema does not have goes to quarantine, with the column and the value. Dropped are
    texts without words (``no words``), all rows of a text whose labels differ (``contradictory labels``), and all but
    the first of a text whose labels are equal (``text labelled again``). Rows come in an order that depends on their
    texts alone.

    Raises:
        PipelineError: a wrong schema.
        DataError: a column is missing.

    Examples:
        >>> [stage.name for stage in CheckLabels("quality").decompose()]
        ['check_labels_values', 'check_labels']
    """

    schema: LabelSchema | str
    text_field: str = "text"
    blocksize: int | str = "128MiB"
    name: str = "check_labels"

    def __post_init__(self) -> None:
        if not isinstance(self.schema, str | LabelSchema):
            raise PipelineError(
                f"{self.name}: schema={self.schema!r} must be a LabelSchema, the name of a preset or a YAML file"
            )
        self.schema = LabelSchema.load(self.schema) if isinstance(self.schema, str) else self.schema
        parse_bytes(self.blocksize, f"{self.name}: blocksize")

    def decompose(self) -> list[Stage]:
        assert isinstance(self.schema, LabelSchema), "it is loaded when the stage is made"
        return [
            CheckLabelValues(self.schema, self.text_field, name=f"{self.name}_values"),
            RowsByKey(
                [self.text_field],
                KeepConsistentLabels(self.schema.columns, name=self.name),
                self.blocksize,
                name=self.name,
            ),
        ]


@dataclass
class CheckLabelValues(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Leaves out rows without words and with values outside the schema."""

    schema: LabelSchema
    text_field: str
    name: str = "check_label_values"

    def inputs(self) -> Spec:
        return [], [self.text_field, *self.schema.columns]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        texts = column_of(task.to_arrow(), self.text_field, text=True).to_pylist()
        kept = task.keep(np.array([bool(text) and has_words(text) for text in texts], np.bool_), self.name, NO_WORDS)
        table = kept.to_arrow()
        failures: dict[int, RequestError] = {}
        for label in self.schema.labels:
            failures |= _outside(table, label)
        aside = tuple(quarantined(self.name, table, failures))
        inside = np.array([row for row in range(table.num_rows) if row not in failures], np.int64)
        checked = kept.with_data(rows_at(table, inside))
        checked.rejections = (*kept.rejections, *aside)
        return checked


def _outside(table: Any, label: Label) -> dict[int, RequestError]:
    """The rows of a table with a value that a label does not have, each with the error."""
    content = values(table, label.name)
    wrong: dict[Any, RequestError] = {}
    for value in {value if isinstance(value, str | int | float | None) else repr(value) for value in content}:
        # A file with a null in the column may hold whole numbers as floats.
        whole = isinstance(value, float) and value.is_integer() and label.type == SCALE
        if value is not None and (problem := label.problem(int(value) if whole else value)):
            wrong[value] = RequestError(f"label {label.name!r} {problem}", OUTSIDE)
    if not wrong:
        return {}
    shown = (value if isinstance(value, str | int | float | None) else repr(value) for value in content)
    return {row: wrong[value] for row, value in enumerate(shown) if value in wrong}


@dataclass
class KeepConsistentLabels(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keeps the first row of each text, if all of its rows have the same labels."""

    columns: list[str]
    name: str = "keep_consistent_labels"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if not task.num_items:
            return task
        table, groups = in_groups(task.to_arrow())
        first, differ = first_and_differing(table, np.arange(table.num_rows), groups, self.columns)
        agreeing = task.with_data(table).keep(~differ[groups], self.name, CONTRADICTORY)
        is_first = (first[groups] == np.arange(table.num_rows))[~differ[groups]]
        kept = agreeing.with_data(agreeing.to_arrow()).keep(is_first, self.name, REPEATED)
        kept.rejections = (*agreeing.rejections, *kept.rejections)
        return kept
