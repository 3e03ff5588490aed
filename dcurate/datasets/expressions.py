"""`AddColumns` and `FilterByExpression`: columns and conditions by expressions of SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dcurate.core.batch import Rejection
from dcurate.core.stage import ProcessingStage, Spec, WorkerMetadata
from dcurate.datasets.sql_check import Expression, checked_expression
from dcurate.errors import DataError, PipelineError, shown
from dcurate.frames.columns import rows_at, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.sql import (
    EXTRA,
    Evaluated,
    RowFault,
    UnsuitableError,
    failed,
    packed,
    put,
    rows_at_a_time,
    selected,
    together,
    truths,
    unpacked,
)
from dcurate.isolate.errors import MediaFault
from dcurate.isolate.sandbox import Sandbox

#: Column of rows in quarantine that says more than the reason.
SQL_ERROR = "sql_error"
#: Limits of the child process: seconds of CPU time for a part of a batch, bytes of its memory and of DuckDB's.
_TIMEOUT_S, _MEMORY, _DUCKDB_MEMORY = 10.0, 2**31, 2**30
#: Parts of a batch that may end the child; those after them are not halved to find the rows at fault.
_MOST_ENDED = 32
_LONGEST_REASON = 100


@dataclass
class _Expressions(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Evaluates expressions in a child process."""

    #: The expressions, by what they are called in errors.
    _checked: dict[str, Expression] = field(default_factory=dict, init=False, repr=False, compare=False)
    _sandbox: Sandbox | None = field(default=None, init=False, repr=False, compare=False)

    def requires(self) -> dict[str, str]:
        return {"duckdb": EXTRA}

    def inputs(self) -> Spec:
        names = (name for expression in self._checked.values() for name in expression.columns)
        return ["data"], list(dict.fromkeys(names))

    def made_by(self, column: str) -> str:
        texts = (expression.text for expression in self._checked.values())
        if any(f'"{column}"' in text for text in texts):
            return f"a stage that makes it; a text is written in single quotes: '{column}'"
        return ""

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if not name.startswith("_")}

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self.teardown()
        options = {
            "expressions": [expression.text for expression in self._checked.values()],
            "memory_bytes": _DUCKDB_MEMORY,
        }
        self._sandbox = Sandbox("dcurate.frames.sql:evaluated", options, timeout_s=_TIMEOUT_S, memory_bytes=_MEMORY)

    def teardown(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _evaluate(self, table: Any) -> Evaluated:
        """Evaluate the expressions for rows.

        Raises:
            DataError: a column is missing, or an expression does not suit the columns.
        """
        try:
            return together(list(self._parts(selected(table, self.inputs()[1]))))
        except UnsuitableError as error:
            advice = "; to change the type of a column, write CAST(column AS type)" if "types" in str(error) else ""
            what, expression = list(self._checked.items())[error.expression]
            raise DataError(
                f"{self.name}: {what}={expression.text!r} does not suit the columns: {str(error).rstrip('.')}{advice}"
            ) from error
        except DataError as error:
            raise DataError(f"{self.name}: {error}") from error

    def _parts(self, rows: Any) -> Iterator[Evaluated]:
        """Yield what the expressions give for parts of rows; a part that ends the child is halved."""
        if self._sandbox is None:
            self.setup()
        assert self._sandbox is not None
        most = size = rows_at_a_time(rows)
        start = ended = 0
        while start < max(1, rows.num_rows):
            part = rows.slice(start, size)
            answer = self._sandbox.call(memoryview(packed(part)))
            if not isinstance(answer, MediaFault):
                yield unpacked(answer.value, answer.blobs, part.num_rows)
            elif not part.num_rows:
                raise DataError(
                    f"the expressions cannot be evaluated even without rows: {answer.reason}; simplify them"
                )
            elif part.num_rows > 1 and ended < _MOST_ENDED:
                ended += 1
                size = part.num_rows // 2
                continue
            else:
                size = most
                yield failed(part, RowFault(-1, answer.reason, answer.detail))
            start += max(1, part.num_rows)

    def _quarantined(self, table: Any, faults: Mapping[int, RowFault]) -> tuple[Any, tuple[Rejection, ...]]:
        """The rows without faults, and the rejections of the others."""
        if not faults:
            return table, ()
        names = list(self._checked)
        reasons: dict[str, list[int]] = {}
        for row, fault in sorted(faults.items()):
            reason = fault.kind if fault.expression < 0 else f"{names[fault.expression]}: {fault.kind}"
            reasons.setdefault(reason, []).append(row)
        rejections = []
        for reason, numbers in reasons.items():
            rows = with_column(
                rows_at(table, np.array(numbers)), SQL_ERROR, [faults[row].detail or None for row in numbers]
            )
            rejections.append(Rejection(self.name, reason, rows.num_rows, rows.nbytes, rows, fault=True))
        good = np.ones(table.num_rows, np.bool_)
        good[list(faults)] = False
        return rows_at(table, np.flatnonzero(good)), tuple(rejections)


@dataclass
class AddColumns(_Expressions):
    """Add columns, or change them, by expressions of SQL, which DuckDB evaluates.

    An expression is a function of the values of one row: operators, ``CASE``, ``CAST``, and functions of DuckDB for
    numbers, texts, times, lists, structures and JSON. Aggregates, windows, subqueries, files, settings, and what is
    random or depends on the time are refused where the stage is made. Names of columns are written as they are, in
    double quotes if they need any, and are those before the stage. Times with a zone are in UTC.

    A row for which an expression fails, as ``CAST('x' AS INTEGER)`` does, goes to quarantine with the kind of error as
    the reason and the message in a column ``sql_error``; ``TRY_CAST`` or ``TRY(...)`` gives null instead. The
    expressions run in a child process, which reads no file, in parts of up to 8,192 rows and about 16 MiB. A part may
    take 10 seconds of CPU time and 2 GiB; one that takes more is halved, up to 32 times in a batch, to find the rows at
    fault, which go to quarantine as ``timed out`` or ``out of memory``.

    Args:
        columns: an expression for each column. A column that the rows have keeps its place; one that its expression
            does not read must be allowed to be replaced, by ``overwrite``.
        overwrite: replace columns that the rows have.
        name: name of the stage.

    Raises:
        PipelineError: not an expression, or one that depends on more than its row.
        ResourceError: DuckDB is not installed; it comes with ``pip install 'dcurate[sql]'``.
        DataError: a batch does not have a column, or not of a type that the expression takes.

    Examples:
        >>> import pandas as pd
        >>> words = "len(string_split(text, ' '))"
        >>> stage = AddColumns({"n_words": words, "text": "lower(text)", "year": "year(day::DATE)"})
        >>> rows = pd.DataFrame({"text": ["A Day", "Night"], "day": ["2026-11-30", "soon"]})
        >>> made = stage.process(DocumentBatch(data=rows))
        >>> made.to_pandas().to_dict("records"), made.rejections[0].reason
        ([{'text': 'a day', 'day': '2026-11-30', 'n_words': 2, 'year': 2026}], 'year: Conversion Error')
        >>> stage.teardown()
    """

    columns: Mapping[str, str]
    overwrite: bool = False
    name: str = "add_columns"

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise PipelineError(
                f"{self.name}: columns={shown(self.columns)} must be expressions by the names of columns, such as "
                "{'n_words': \"len(string_split(text, ' '))\"}"
            )
        for column in self.columns:
            if not isinstance(column, str) or not column:
                raise PipelineError(f"{self.name}: columns has {shown(column)}, which is not the name of a column")
        self.columns = dict(self.columns)
        self._checked = {
            column: checked_expression(text, f"{self.name}: columns[{column!r}]")
            for column, text in self.columns.items()
        }

    def outputs(self) -> Spec:
        return ["data"], list(self.columns)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the rows with the columns, without those for which an expression fails.

        Raises:
            DataError: a column is missing, or an expression does not suit the columns.
        """
        self.check_columns(DocumentBatch.given(task).get_columns())
        table = task.to_arrow()
        values, faults = self._evaluate(table)
        rows, rejections = self._quarantined(table, faults)
        for number, column in enumerate(self.columns):
            rows = put(rows, column, values, number)
        return replace(task.with_data(rows), rejections=rejections)


@dataclass
class FilterByExpression(_Expressions):
    """Keep the rows for which a condition of SQL is true; DuckDB evaluates it.

    The condition is an expression as in `AddColumns`; where it fails for a row, the row goes to quarantine, as there.
    The others are dropped, those for which it is null among them, as by ``WHERE``. The ``filter`` of a reader takes
    simpler conditions, and leaves files unread that cannot match.

    Args:
        condition: the expression.
        name: name of the stage.

    Raises:
        PipelineError: not an expression, or one that depends on more than its row.
        ResourceError: DuckDB is not installed; it comes with ``pip install 'dcurate[sql]'``.
        DataError: a batch does not have a column, or not of a type that the expression takes; or the values are neither
            true nor false.

    Examples:
        >>> import pandas as pd
        >>> stage = FilterByExpression("year(day) >= 2020 AND text NOT LIKE '%lorem ipsum%'")
        >>> rows = pd.DataFrame({"text": ["a", "b"], "day": pd.to_datetime(["2026-11-30", "2019-01-01"])})
        >>> kept = stage.process(DocumentBatch(data=rows))
        >>> kept.to_pandas().text.tolist(), kept.rejections[0].reason
        (['a'], "not year(day) >= 2020 AND text NOT LIKE '%lorem ipsum%'")
        >>> stage.teardown()
    """

    condition: str
    name: str = "filter_by_expression"

    def __post_init__(self) -> None:
        self._checked = {"condition": checked_expression(self.condition, f"{self.name}: condition")}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the rows for which the condition is true.

        Raises:
            DataError: a column is missing, or the condition does not suit the columns or is neither true nor false.
        """
        table = DocumentBatch.given(task).to_arrow()
        values, faults = self._evaluate(table)
        rows, rejections = self._quarantined(table, faults)
        try:
            kept = truths(values)
        except DataError as error:
            raise DataError(f"{self.name}: condition={self.condition!r} {error}") from error
        text = " ".join(self.condition.split())
        reason = f"not {text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + '...'}"
        selected = task.with_data(rows).keep(kept, self.name, reason)
        return replace(selected, rejections=(*selected.rejections, *rejections))
