"""Rows of a dataset joined with those that a table has for the same key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import numpy as np

from dcurate.core.batch import FileGroup, Rejection
from dcurate.core.stage import CompositeStage, ProcessingStage, SourceStage, Spec, Stage
from dcurate.datasets.blend import Reader, Readers
from dcurate.datasets.row_groups import RowsByKey, first_and_differing, in_groups
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.columns import column_of, numbers, renamed, rows_at, rows_or_nulls, with_values
from dcurate.frames.document import DocumentBatch
from dcurate.frames.schema import unified
from dcurate.io.files import is_names
from dcurate.io.partition import parse_bytes
from dcurate.io.source import FileReader
from dcurate.shuffle.keyed import DATASET

#: Which documents come out.
How = Literal["inner", "left", "anti"]
#: Reasons of rows that are left out.
NO_KEY, NO_MATCH, MATCH = "no key", "no match", "match"
TABLE_ROW, CONTRADICTORY = "row of the table", "contradictory rows of the table"


@dataclass
class JoinTable(CompositeStage[FileGroup, DocumentBatch]):
    """Start a pipeline with documents joined with a table by key, such as labels, a blocklist or licences; out of core.

    Args:
        documents: a reader of the documents.
        table: a reader of rows with the key and the columns to add, such as published labels.
        key_field: the column with the key, such as ``"id"`` or ``"url"``, or a list of several; keys are equal if their
            values and types are.
        fields: the columns of the table to add; none by default.
        how: ``"inner"`` for the documents whose key is in the table; ``"left"`` for all, with nulls where it is not;
            ``"anti"`` for those whose key is not in it, as with a blocklist.
        table_key_field: the same columns as the table calls them, if it does so differently.
        blocksize: target bytes of a batch in memory.
        name: name of the stage.

    Rows come in an order that depends only on their keys. A document comes out once at most: rows of the table with
    one key must agree in ``fields``, or the document is dropped as ``contradictory rows of the table``. Others are
    dropped as ``no match`` or, by ``"anti"``, as ``match``. Rows of the table without a key, and with ``"inner"``
    documents without one, are dropped as ``no key``. Rows of the table never come out: they are counted as dropped, as
    ``row of the table``.

    Raises:
        PipelineError: not two readers, or not the names of columns.
        DataError: a column is missing, or a document has a column of ``fields`` already.

    Examples:
        >>> from dcurate import JsonlReader, ParquetReader
        >>> join = JoinTable(JsonlReader("web"), ParquetReader("labels"), key_field="url", fields=["topic"])
        >>> [stage.name for stage in join.decompose()]
        ['join_table_readers', 'join_table_selected', 'join_table']
        >>> blocked = JoinTable(JsonlReader("web"), ParquetReader("blocked"), "url", how="anti", table_key_field="page")
    """

    documents: Reader
    table: Reader
    key_field: str | list[str]
    fields: list[str] = field(default_factory=list)
    how: How = "inner"
    table_key_field: str | list[str] | None = None
    blocksize: int | str = "128MiB"
    name: str = "join_table"

    several: ClassVar[tuple[str, ...]] = ("key_field", "table_key_field")

    def __post_init__(self) -> None:
        for argument, reader in (("documents", self.documents), ("table", self.table)):
            if not isinstance(reader, SourceStage):
                raise PipelineError(
                    f"{self.name}: {argument}={reader!r} is not a reader; give one, such as JsonlReader"
                )
        if self.how not in get_args(How):
            raise PipelineError(f"{self.name}: how={self.how!r} is not one of {listed(get_args(How))}")
        keys, table_keys = _names(self.key_field), _names(self.table_key_field)
        if not is_names(keys) or not _are_names(self.fields) or set(keys) & set(self.fields):
            raise PipelineError(
                f"{self.name}: key_field={self.key_field!r} and fields={self.fields!r} must be the column of the "
                "key, or a list of several, and a list of other columns"
            )
        if self.table_key_field is not None and (not is_names(table_keys) or len(table_keys) != len(keys)):
            raise PipelineError(
                f"{self.name}: table_key_field={self.table_key_field!r} must name as many columns as "
                f"key_field={self.key_field!r}, in the same order"
            )
        if (self.how == "anti") == bool(self.fields) and self.how != "inner":
            advice = "no document that comes out has a row of the table" if self.fields else "nothing is to be added"
            raise PipelineError(
                f"{self.name}: with how={self.how!r} and fields={self.fields!r} {advice}; "
                f"{'leave fields out' if self.fields else 'name the columns to add'}"
            )
        parse_bytes(self.blocksize, f"{self.name}: blocksize")

    def decompose(self) -> list[Stage]:
        keys, table_keys = _names(self.key_field), _names(self.table_key_field) or _names(self.key_field)
        fields = list(self.fields)
        self._check_types(keys, table_keys)
        select = SelectJoined(keys, table_keys, fields, self.how, name=f"{self.name}_selected")
        return [
            Readers([self.documents, self.table], name=f"{self.name}_readers"),
            select,
            RowsByKey(keys, MatchRows(fields, self.how, name=self.name), self.blocksize, name=self.name),
        ]

    def _check_types(self, keys: list[str], table_keys: list[str]) -> None:
        """Refuse keys that cannot be equal, as 7 and "7" are not, where the types of files are known before the run.

        Raises:
            PipelineError: the types of a key have none in common.
        """
        if not isinstance(self.documents, FileReader) or not isinstance(self.table, FileReader):
            return
        try:
            documents, table = self.documents.schema_read(), self.table.schema_read()
        except DataError:  # which the run says by the reader at fault
            return
        for key, table_key in zip(keys, table_keys, strict=True):
            if key not in documents.names or table_key not in table.names:
                continue
            left, right = documents.field(key).type, table.field(table_key).type
            if unified(left, right) is None:
                raise PipelineError(
                    f"{self.name}: {key!r} of the documents is {left}, and {table_key!r} of the table is {right}, so "
                    f"no key is equal; give one of the readers schema={{{table_key!r}: ...}} with the type of the other"
                )


def _names(given: str | list[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _are_names(fields: list[str]) -> bool:
    return fields == [] or is_names(fields)


@dataclass
class SelectJoined(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Leaves out rows that nothing can match, and columns of the table that nobody asked for."""

    keys: list[str]
    table_keys: list[str]
    fields: list[str]
    how: How
    name: str = "select_joined"

    def inputs(self) -> Spec:
        return [], list(self.keys)

    def columns_read(self) -> None:
        """None: of the table any columns may be asked for, and documents may have none of these."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        of_table = table.num_rows > 0 and int(numbers(table, DATASET)[0]) == 1
        if of_table:
            same = [*self.fields, DATASET]
            table = renamed(table, dict(zip([*self.keys, *same], [*self.table_keys, *same], strict=True)))
        elif taken := [name for name in self.fields if name in table.column_names]:
            raise PipelineError(
                f"{self.name}: the documents have {listed(taken)} already; rename the columns of one dataset, or leave "
                "them out of fields="
            )
        known = np.logical_and.reduce([np.asarray(column_of(table, key).is_valid()) for key in self.keys])
        if self.how != "inner" and not of_table:
            known[:] = True
        return task.with_data(table).keep(known, self.name, NO_KEY)


@dataclass
class MatchRows(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keeps or drops documents by rows of the table with the same key, and adds what these say."""

    fields: list[str]
    how: How
    name: str = "match_rows"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        if not table.num_rows:
            return task
        table, groups = in_groups(table)
        is_of_table = numbers(table, DATASET) == 1
        rows, documents = np.flatnonzero(is_of_table), np.flatnonzero(~is_of_table)
        first, differ = first_and_differing(table, rows, groups, self.fields)
        source, differs = first[groups[documents]], differ[groups[documents]]
        unwanted = {DATASET, *self.fields} & set(table.column_names)
        content = rows_at(table.drop_columns(sorted(unwanted)), documents)
        matches = rows_or_nulls(table, source, self.fields)
        for name in matches.column_names:
            content = with_values(content, name, matches, name)
        has_match = source >= 0
        wanted = {"inner": has_match, "left": np.ones_like(has_match), "anti": ~has_match}[self.how]
        reason = MATCH if self.how == "anti" else NO_MATCH
        matched = task.with_data(content).keep(wanted, self.name, reason)
        agreed = matched.with_data(matched.to_arrow()).keep(~differs[wanted], self.name, CONTRADICTORY)
        taken = (Rejection(self.name, TABLE_ROW, len(rows), 0),) if len(rows) else ()
        agreed.rejections = (*taken, *matched.rejections, *agreed.rejections)
        return agreed
