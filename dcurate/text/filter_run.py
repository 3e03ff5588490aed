"""Run scores and filters over one batch."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import DeferredRows, Rejection, Scored
from dcurate.errors import PipelineError
from dcurate.frames import convert
from dcurate.frames.columns import as_series, column_of, nbytes_at, numbers, rows_at, values, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.gpus import texts_on_gpu
from dcurate.frames.text import TextColumn, text_column
from dcurate.kernels.cuda import CudaColumn, on_gpu, usable
from dcurate.rows import left_in_lines
from dcurate.text.column_filter import ColumnFilter
from dcurate.text.filter import DocumentFilter, by_signals
from dcurate.text.number_filter import NumberFilter
from dcurate.text.rules import Rule, kept_by
from dcurate.text.signals import Needs, Signals

#: One value a row: an array, or Python objects of any kind.
Column: TypeAlias = npt.NDArray[Any] | list[Any]

#: Maximum number of scores of a filter per batch that go to the report.
SAMPLED = 256


class Verdict(NamedTuple):
    """The result of a rule: scores, whether each row is kept, and the column it read."""

    scores: Column
    kept: npt.NDArray[np.bool_]
    field: str


class FilterRun:
    """The remaining rows of a batch, the columns added to them, and the rows dropped so far.

    The text is copied only once, at the end, however many filters drop rows.

    Args:
        batch: the batch to score and filter.
        needs: the signals of all built-in filters that will be asked for scores.
        gpu: measure texts on a GPU, if there is one, and they are there or it pays to copy them: the scores are the
            same.
    """

    def __init__(self, batch: DocumentBatch, needs: Needs, *, gpu: bool = False) -> None:
        self._batch = DocumentBatch.given(batch)
        self._needs = needs
        self._gpu = gpu and usable() and (needs.pays_on_gpu or convert.is_cudf(batch.data))
        #: All rows on the host, with the columns added before they were read; None while they are on a GPU alone.
        self._table = None if convert.is_cudf(batch.data) else batch.to_arrow()
        self._materialized = False
        self._rows = np.arange(batch.num_items, dtype=np.int64)
        self._added: dict[str, Column] = {}
        self._signals: dict[str, Signals] = {}
        self._rejections: list[Rejection] = []
        self._scored: list[Scored] = []

    def scores(self, rule: Rule, field: str) -> Column:
        """Return the scores of a filter or function for the remaining rows of the column."""
        if by_signals(rule):
            return rule.score(self._signals_of(field))
        if isinstance(rule, NumberFilter):
            if rule.made_by and rule.column not in (*self._added, *self._columns()):
                raise PipelineError(
                    f"{rule.name}: the rows have no column {rule.column!r}; add {rule.made_by} before it"
                )
            return self.numbers(rule.column)
        if isinstance(rule, ColumnFilter) and not rule.overrides("score_document", "score_column"):
            return rule.scores(as_series(column_of(self._at_rows(field), field, text=True)))
        texts = self.column(field)
        if isinstance(rule, DocumentFilter):
            strings = ["" if text is None else text for text in texts]
            singly = rule.overrides("score_document", "score_documents")
            return [rule.score_document(text) for text in strings] if singly else rule.score_documents(strings)
        return [rule(text) for text in texts]

    def kept(self, rule: Rule, scores: Column) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows that a filter or function keeps by their scores."""
        return kept_by(rule, scores)

    def column(self, field: str) -> list[Any]:
        """Values of the column for the remaining rows, as Python values."""
        return values(self._at_rows(field), field)

    def numbers(self, field: str) -> npt.NDArray[Any]:
        """Values of a numeric column for the remaining rows."""
        return numbers(self._at_rows(field), field)

    def put(self, field: str, column: Column) -> None:
        """Add a column, or replace it."""
        self._added[field] = column
        self._signals.pop(field, None)

    def record_scores(self, stage: str, name: str, scores: Column, kept: npt.NDArray[np.bool_] | None = None) -> None:
        """Record scores of the remaining rows for the report, sampled at a regular interval if there are many."""
        every = -(-len(scores) // SAMPLED) or 1
        dropped = None if kept is None else ~kept[::every]
        self._scored.append(Scored(stage, name, scores[::every], every, dropped))

    def drop(self, judged: Verdict, stage: str, reason: str) -> None:
        """Drop the rows that are not kept."""
        kept = judged.kept
        if kept.all():
            return
        scores = _narrowed(judged.scores, ~kept)
        rejection = Rejection(stage, reason, *self._gone(~kept), scores=scores, column=judged.field)
        self._rejections.append(rejection)
        self._rows = self._rows[kept]
        self._added = {name: _narrowed(column, kept) for name, column in self._added.items()}
        self._signals = {name: signals.narrowed(kept) for name, signals in self._signals.items()}

    def _gone(self, mask: npt.NDArray[np.bool_]) -> tuple[int, int, Any]:
        """The rows that are dropped, as a rejection has them: their number, bytes and content."""
        table, rows = self._table, self._rows[mask]
        if self._added or table is None or len(rows) == table.num_rows:
            gone = self._frame(mask)
            return gone.num_rows, gone.nbytes, gone
        return len(rows), nbytes_at(table, rows), DeferredRows(lambda most: rows_at(table, rows[:most]), table, rows)

    def result(self, read_later: Collection[str] | None = None) -> DocumentBatch:
        """Return the batch with the remaining rows; dropped rows are in its rejections.

        Args:
            read_later: the columns that later stages look at, if that is known: other texts stay in the lines alone.
        """
        if read_later is not None and self._table is not None:
            self._table = left_in_lines(self._table, {*read_later, *self._added})
            self._materialized = True
        if not (self._added or self._materialized) and len(self._rows) == self._batch.num_items:
            return replace(self._batch.with_data(self._batch.data), scored=tuple(self._scored))
        remaining = self._left_on_gpu() if self._table is None else self._frame(np.ones(len(self._rows), np.bool_))
        return replace(self._batch, data=remaining, rejections=tuple(self._rejections), scored=tuple(self._scored))

    def _frame(self, mask: npt.NDArray[np.bool_]) -> Any:
        """The remaining rows where ``mask`` is true, with the columns added; of rows on a GPU no others are copied."""
        rows = self._rows[mask]
        if self._table is None:
            table = self._on_host(convert.rows_at(self._batch.data, rows))
        else:
            table = self._table if len(rows) == self._table.num_rows else rows_at(self._table, rows)
        for name, column in self._added.items():
            table = with_column(table, name, _narrowed(column, mask))
        return table

    def _on_host(self, frame: Any) -> Any:
        """Copy rows of a GPU to a table."""
        return self._batch.with_data(frame).to_arrow()

    def _columns(self) -> list[str]:
        return convert.columns(self._batch.data if self._table is None else self._table)

    def _whole(self, field: str) -> Any:
        """A table of all rows of the batch with this column, if there is one."""
        if self._table is None:
            return self._on_host(self._batch.data[[field] if field in self._columns() else self._columns()])
        return self._table.select([field]) if field in self._table.column_names else self._table

    def _at_rows(self, field: str) -> Any:
        """A table of the column in its current state, for the remaining rows."""
        if field in self._added:
            self._materialize()
        table = self._whole(field)
        return table if len(self._rows) == table.num_rows else rows_at(table, self._rows)

    def _signals_of(self, field: str) -> Signals:
        if field in self._added:
            self._materialize()
        if field not in self._signals:
            column = cache(lambda: text_column(self._whole(field), field))
            if not (self._gpu and self._table is None):
                column()  # also to refuse a column that is missing or holds no text
            gpu_texts = self._gpu_texts(column, field) if self._gpu else None
            self._signals[field] = Signals(column, self._needs, self._rows, gpu_texts)
        return self._signals[field]

    def _left_on_gpu(self) -> Any:
        """The remaining rows of a cuDF batch, without copying data that never left the GPU."""
        remaining = convert.rows_at(self._batch.data, self._rows)
        for name, column in self._added.items():
            remaining = convert.with_column(remaining, name, column)
        return remaining

    def _gpu_texts(self, column: Callable[[], TextColumn], field: str) -> CudaColumn:
        """The texts on the GPU; those of a cuDF batch are already there."""
        return on_gpu(*column()) if self._table is not None else texts_on_gpu(self._batch.data, field)

    def _materialize(self) -> None:
        """Write the remaining rows and the added columns into the table, so that an added column can be read."""
        self._table = self._frame(np.ones(len(self._rows), np.bool_))
        self._rows = np.arange(self._table.num_rows, dtype=np.int64)
        self._added, self._signals, self._materialized = {}, {}, True


def _narrowed(column: Column, mask: npt.NDArray[np.bool_]) -> Column:
    if isinstance(column, np.ndarray):
        return column[mask]
    return [value for value, wanted in zip(column, mask, strict=True) if wanted]
