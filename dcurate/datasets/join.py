"""Rows of a dataset with the columns that another dataset has for the same key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import FileGroup, Rejection
from dcurate.core.stage import BarrierStage, CompositeStage, ProcessingStage, SourceStage, Spec, Stage
from dcurate.datasets.blend import Reader, Readers
from dcurate.errors import PipelineError, listed
from dcurate.frames.columns import column_of, numbers, rows_at, with_column, with_values
from dcurate.frames.document import DocumentBatch
from dcurate.frames.rows import row_keys
from dcurate.fs.stores import Directory
from dcurate.io.files import is_names
from dcurate.io.partition import parse_bytes
from dcurate.shuffle.chunks import Ints
from dcurate.shuffle.keyed import DATASET
from dcurate.shuffle.merge import with_merged_files
from dcurate.shuffle.ranges import FILE, ShuffleIndex
from dcurate.shuffle.writer import ShuffleWriter

#: Reasons of rows that are left out.
NO_KEY, NO_MATCH, ANNOTATION, CONTRADICTORY = "no key", "no annotation", "annotation", "contradictory annotations"

_HIGH, _LOW = "_dcurate_join_high", "_dcurate_join_low"


@dataclass
class JoinAnnotations(CompositeStage[FileGroup, DocumentBatch]):
    """Start a pipeline with the documents that a dataset of annotations names, with its columns; out of core.

    Args:
        documents: a reader of the documents.
        annotations: a reader of rows with the key and the annotations, such as published labels.
        on: the column that both have, such as ``"id"`` or ``"url"``; keys are equal if their values and types are.
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
        >>> join = JoinAnnotations(JsonlReader("web"), ParquetReader("labels"), on="url", fields=["topic"])
        >>> [stage.name for stage in join.decompose()]
        ['join_annotations_readers', 'join_annotations_keys', 'join_annotations']
    """

    documents: Reader
    annotations: Reader
    on: str
    fields: list[str]
    blocksize: int | str = "128MiB"
    name: str = "join_annotations"

    def __post_init__(self) -> None:
        for argument, reader in (("documents", self.documents), ("annotations", self.annotations)):
            if not isinstance(reader, SourceStage):
                raise PipelineError(
                    f"{self.name}: {argument}={reader!r} is not a reader; give one, such as JsonlReader"
                )
        if not isinstance(self.on, str) or not is_names(self.fields) or self.on in self.fields:
            raise PipelineError(
                f"{self.name}: on={self.on!r} and fields={self.fields!r} must be the column of the key and a list of "
                "other columns"
            )
        parse_bytes(self.blocksize, f"{self.name}: blocksize")

    def decompose(self) -> list[Stage]:
        return [
            Readers([self.documents, self.annotations], name=f"{self.name}_readers"),
            JoinKeys(self.on, list(self.fields), name=f"{self.name}_keys"),
            JoinRows(self.on, list(self.fields), self.blocksize, name=self.name),
        ]


@dataclass
class JoinKeys(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Adds the hash of the key, and leaves out rows without one and columns of annotations that nobody asked for."""

    on: str
    fields: list[str]
    name: str = "join_keys"

    def inputs(self) -> Spec:
        return [], [self.on]

    def outputs(self) -> Spec:
        return [], [_HIGH, _LOW]

    def columns_read(self) -> None:
        """None: of annotations any columns may be asked for, and documents may have none of these."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        annotations = table.num_rows > 0 and int(numbers(table, DATASET)[0]) == 1
        if annotations:
            for column in self.fields:
                column_of(table, column)  # which says that it is missing
            table = table.select([self.on, *self.fields, DATASET])
        elif taken := [name for name in self.fields if name in table.column_names]:
            raise PipelineError(
                f"{self.name}: the documents have {listed(taken)} already; rename the columns of one dataset, or leave "
                "them out of fields="
            )
        keys = row_keys(table, [self.on], 0)
        table = with_column(with_column(table, _HIGH, keys[:, 0]), _LOW, keys[:, 1])
        known = np.asarray(column_of(table, self.on).is_valid())
        return task.with_data(table).keep(known, self.name, NO_KEY)


@dataclass
class JoinRows(BarrierStage[DocumentBatch]):
    """Brings rows of equal keys together, and adds the annotations to documents."""

    on: str
    fields: list[str]
    blocksize: int | str
    name: str = "join_rows"

    uses_columns_again: ClassVar[bool] = False

    def inputs(self) -> Spec:
        return [], [_HIGH, _LOW]

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            ShuffleWriter(url, mode="overwrite", storage_options=dict(options), by=_HIGH, name=f"{self.name}_to_disk")
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        files = ShuffleIndex.written(Directory(url, options), splits)
        partitions = files.partitions_for(parse_bytes(self.blocksize))

        def matched(merged: ShuffleIndex) -> list[Stage]:
            return [
                merged.reader(partitions, _HIGH, f"{self.name}_rows"),
                Match(self.on, list(self.fields), name=self.name),
            ]

        return with_merged_files(files, partitions, _HIGH, self.name, matched)


@dataclass
class Match(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Adds to the documents of a range of keys what annotations of the same key say."""

    on: str
    fields: list[str]
    name: str = "match"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        if not table.num_rows:
            return task
        high, low = numbers(table, _HIGH), numbers(table, _LOW)
        table = rows_at(table, np.lexsort((low, high)))
        keys = np.column_stack([numbers(table, _HIGH), numbers(table, _LOW)])
        groups = np.cumsum(np.append(True, (keys[1:] != keys[:-1]).any(axis=1))) - 1
        is_annotation = numbers(table, DATASET) == 1
        annotations, documents = np.flatnonzero(is_annotation), np.flatnonzero(~is_annotation)
        first, differ = self._annotated(table, annotations, groups)
        source, differs = first[groups[documents]], differ[groups[documents]]
        unwanted = {_HIGH, _LOW, DATASET, FILE, *self.fields} & set(table.column_names)
        content = rows_at(table.drop_columns(sorted(unwanted)), documents)
        rows = rows_at(table, np.maximum(source, 0))
        for name in self.fields if len(annotations) else ():
            content = with_values(content, name, rows, name)
        matched = task.with_data(content).keep(source >= 0, self.name, NO_MATCH)
        agreed = matched.with_data(matched.to_arrow()).keep(~differs[source >= 0], self.name, CONTRADICTORY)
        taken = (Rejection(self.name, ANNOTATION, len(annotations), 0),) if len(annotations) else ()
        agreed.rejections = (*taken, *matched.rejections, *agreed.rejections)
        return agreed

    def _annotated(self, table: Any, annotations: Ints, groups: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """The first annotation of each group, or -1; and whether others of the group differ from it."""
        first, differ = np.full(groups[-1] + 1, -1), np.zeros(groups[-1] + 1, np.bool_)
        if len(annotations):
            own, starts = np.unique(groups[annotations], return_index=True)
            first[own] = annotations[starts]
            values = row_keys(rows_at(table, annotations), self.fields, 0)
            before = np.repeat(starts, np.diff(np.append(starts, len(annotations))))
            differ[groups[annotations][(values != values[before]).any(axis=1)]] = True
        return first, differ
