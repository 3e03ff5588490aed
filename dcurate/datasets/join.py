"""Rows of a dataset with the columns that another dataset has for the same key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dcurate.core.batch import FileGroup, Rejection
from dcurate.core.stage import CompositeStage, ProcessingStage, SourceStage, Spec, Stage
from dcurate.datasets.blend import Reader, Readers
from dcurate.datasets.row_groups import RowsByKey, first_and_differing, in_groups
from dcurate.errors import PipelineError, listed
from dcurate.frames.columns import column_of, numbers, rows_at, with_values
from dcurate.frames.document import DocumentBatch
from dcurate.io.files import is_names
from dcurate.io.partition import parse_bytes
from dcurate.shuffle.keyed import DATASET

#: Reasons of rows that are left out.
NO_KEY, NO_MATCH, ANNOTATION, CONTRADICTORY = "no key", "no annotation", "annotation", "contradictory annotations"


@dataclass
class JoinAnnotations(CompositeStage[FileGroup, DocumentBatch]):
    """Start a pipeline with the documents that a dataset of annotations names, with its columns; out of core.

    Args:
        documents: a reader of the documents.
        annotations: a reader of rows with the key and the annotations, such as published labels.
        key_field: the column that both have, such as ``"id"`` or ``"url"``; keys are equal if their values and types
            are.
        fields: the columns of the annotations to add.
        blocksize: target bytes of a batch in memory.
        name: name of the stage.

    Rows come in an order that depends only on their keys. Documents without an annotation are dropped as ``no
    annotation``, those with several that differ as ``contradictory annotations``, rows without a key as ``no key``.
    Rows of annotations never come out: they are counted as dropped, as ``annotation``.

    Raises:
        PipelineError: not two readers, or not the names of columns.
        DataError: a column is missing, or a document has a column of ``fields`` already.

    Examples:
        >>> from dcurate import JsonlReader, ParquetReader
        >>> join = JoinAnnotations(JsonlReader("web"), ParquetReader("labels"), key_field="url", fields=["topic"])
        >>> [stage.name for stage in join.decompose()]
        ['join_annotations_readers', 'join_annotations_selected', 'join_annotations']
    """

    documents: Reader
    annotations: Reader
    key_field: str
    fields: list[str]
    blocksize: int | str = "128MiB"
    name: str = "join_annotations"

    def __post_init__(self) -> None:
        for argument, reader in (("documents", self.documents), ("annotations", self.annotations)):
            if not isinstance(reader, SourceStage):
                raise PipelineError(
                    f"{self.name}: {argument}={reader!r} is not a reader; give one, such as JsonlReader"
                )
        if not isinstance(self.key_field, str) or not is_names(self.fields) or self.key_field in self.fields:
            raise PipelineError(
                f"{self.name}: key_field={self.key_field!r} and fields={self.fields!r} must be the column of the "
                "key and a list of other columns"
            )
        parse_bytes(self.blocksize, f"{self.name}: blocksize")

    def decompose(self) -> list[Stage]:
        return [
            Readers([self.documents, self.annotations], name=f"{self.name}_readers"),
            SelectJoined(self.key_field, list(self.fields), name=f"{self.name}_selected"),
            RowsByKey(
                [self.key_field], MatchAnnotations(list(self.fields), name=self.name), self.blocksize, name=self.name
            ),
        ]


@dataclass
class SelectJoined(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Leaves out rows without a key, and columns of annotations that nobody asked for."""

    key_field: str
    fields: list[str]
    name: str = "select_joined"

    def inputs(self) -> Spec:
        return [], [self.key_field]

    def columns_read(self) -> None:
        """None: of annotations any columns may be asked for, and documents may have none of these."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        annotations = table.num_rows > 0 and int(numbers(table, DATASET)[0]) == 1
        if annotations:
            for column in self.fields:
                column_of(table, column)  # which says that it is missing
            table = table.select([self.key_field, *self.fields, DATASET])
        elif taken := [name for name in self.fields if name in table.column_names]:
            raise PipelineError(
                f"{self.name}: the documents have {listed(taken)} already; rename the columns of one dataset, or leave "
                "them out of fields="
            )
        known = np.asarray(column_of(table, self.key_field).is_valid())
        return task.with_data(table).keep(known, self.name, NO_KEY)


@dataclass
class MatchAnnotations(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Adds to documents what annotations of the same key say."""

    fields: list[str]
    name: str = "match_annotations"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        if not table.num_rows:
            return task
        table, groups = in_groups(table)
        is_annotation = numbers(table, DATASET) == 1
        annotations, documents = np.flatnonzero(is_annotation), np.flatnonzero(~is_annotation)
        first, differ = first_and_differing(table, annotations, groups, self.fields)
        source, differs = first[groups[documents]], differ[groups[documents]]
        unwanted = {DATASET, *self.fields} & set(table.column_names)
        content = rows_at(table.drop_columns(sorted(unwanted)), documents)
        rows = rows_at(table, np.maximum(source, 0))
        for name in self.fields if len(annotations) else ():
            content = with_values(content, name, rows, name)
        matched = task.with_data(content).keep(source >= 0, self.name, NO_MATCH)
        agreed = matched.with_data(matched.to_arrow()).keep(~differs[source >= 0], self.name, CONTRADICTORY)
        taken = (Rejection(self.name, ANNOTATION, len(annotations), 0),) if len(annotations) else ()
        agreed.rejections = (*taken, *matched.rejections, *agreed.rejections)
        return agreed
