"""Call stages that do not know of the lines of rows, and find the line of each row that they return.

The same for values that pandas does not have: NaN beside null. pandas has one of both.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.batch import Batch, Rejection
from dcurate.frames import convert
from dcurate.frames.document import DocumentBatch
from dcurate.frames.libraries import pd
from dcurate.rows.lines import LINE, with_lines_at, without_lines

_Rows = npt.NDArray[np.int64]


def without_seeing_lines(process: Callable[[list[Batch]], Any], batches: list[Batch]) -> Any:
    """Call a function of a stage with batches without the lines of their rows; return its answers with them."""
    bare_batches = [_bare(batch) for batch in batches]
    answers = process(bare_batches)
    if not isinstance(answers, list | tuple) or len(answers) != len(batches):
        return answers
    with_nan = [
        _with_nan(answer, bare, lost) if (lost := _with_nan_in(bare)) else answer
        for answer, bare in zip(answers, bare_batches, strict=True)
    ]
    return [
        answer if bare is batch else _with_lines(answer, batch)
        for answer, bare, batch in zip(with_nan, bare_batches, batches, strict=True)
    ]


def _bare(batch: Batch) -> Batch:
    if isinstance(batch, DocumentBatch) and isinstance(batch.data, pa.Table) and LINE in batch.data.column_names:
        return replace(batch, data=without_lines(batch.data))
    return batch


def _with_lines(answer: Any, batch: Batch) -> Any:
    if isinstance(answer, list):
        return [_with_lines(element, batch) for element in answer]
    if not isinstance(answer, DocumentBatch) or not isinstance(batch, DocumentBatch):
        return answer
    restored = with_own_lines(answer, batch.data)
    restored.rejections = tuple(_rejected(rejection, batch.data) for rejection in restored.rejections)
    return restored


def _rejected(rejection: Rejection, source: pa.Table) -> Rejection:
    if not isinstance(rejection.data, pa.Table):
        return rejection
    return replace(rejection, data=with_own_lines(DocumentBatch(data=rejection.data), source).data)


def _with_nan_in(batch: Batch) -> list[str]:
    """The columns of an Arrow table with a NaN, which becomes null on its way through pandas."""
    if not isinstance(batch, DocumentBatch) or not isinstance(batch.data, pa.Table):
        return []
    columns = zip(batch.data.column_names, batch.data.columns, strict=True)
    return [name for name, column in columns if any(map(_holds_nan, column.chunks))]


def _holds_nan(values: pa.Array) -> bool:
    kind = values.type
    if pa.types.is_floating(kind):
        return bool(pc.any(pc.is_nan(values)).as_py())
    if pa.types.is_map(kind):
        return _holds_nan(values.items)
    if pa.types.is_struct(kind):
        return any(map(_holds_nan, values.flatten()))
    return pa.types.is_nested(kind) and _holds_nan(values.flatten())


def _with_nan(answer: Any, source: Batch, names: Sequence[str]) -> Any:
    """The rows that a stage returned as pandas, with the NaN of columns that hold nothing new."""
    if isinstance(answer, list):
        return [_with_nan(element, source, names) for element in answer]
    if not isinstance(answer, DocumentBatch) or not isinstance(source, DocumentBatch):
        return answer
    columns = convert.columns(answer.data)
    present = [name for name in names if columns.count(name) == 1]
    if not isinstance(answer.data, pd.DataFrame) or not present or not answer.num_items:
        return answer
    table = answer.to_arrow()
    rows = source_rows(answer.data, table, source.data)
    if rows is None:
        return answer
    for name in present:
        before = source.data.select([name]).take(pa.array(rows))
        seen = convert.to_arrow(convert.to_pandas(before), before.schema)
        if seen.column(0).equals(table.column(name)):
            table = table.set_column(table.column_names.index(name), before.schema.field(0), before.column(0))
    return _with_rows(answer, table)


def _with_rows(batch: DocumentBatch, table: pa.Table) -> DocumentBatch:
    updated = batch.with_data(table)
    updated.rejections, updated.found, updated.scored = batch.rejections, batch.found, batch.scored
    return updated


def with_own_lines(made: DocumentBatch, source: pa.Table) -> DocumentBatch:
    """The batch that a stage made, with the lines of its rows; unchanged if they cannot be found.

    Rows of a pandas frame are known by their index, which selecting and sorting keep. Other rows are known if they are
    a part of the rows before, in their order, by the columns that hold nothing new.

    Args:
        made: the batch.
        source: the rows that the stage was given, with their lines.

    Examples:
        >>> from dcurate.rows.lines import with_lines
        >>> texts = pa.table({"n": [1, 2, 3]})
        >>> source = with_lines(texts, pa.array([b"a", b"b", b"c"], pa.large_binary()), ["n"])
        >>> frame = texts.to_pandas()
        >>> with_own_lines(DocumentBatch(data=frame[frame.n != 2]), source).to_arrow().column(LINE).to_pylist()
        [b'a', b'c']
    """
    if not isinstance(made.data, pa.Table | pd.DataFrame) or not made.num_items or LINE in convert.columns(made.data):
        return made
    table = made.to_arrow()
    rows = source_rows(made.data, table, source)
    if rows is None:
        return made
    return _with_rows(made, with_lines_at(table, source, rows))


def source_rows(frame: Any, table: pa.Table, source: pa.Table) -> _Rows | None:
    """The number of the source's row for each row that a stage made of them; None if they cannot be found.

    Args:
        frame: the rows that the stage made, as it returned them: a pandas frame or an Arrow table.
        table: the same rows as an Arrow table.
        source: the rows that the stage was given.
    """
    rows = _by_index(frame, table, source) if isinstance(frame, pd.DataFrame) else None
    return _by_values(table, source) if rows is None else rows


def _by_index(frame: pd.DataFrame, table: pa.Table, source: pa.Table) -> _Rows | None:
    """The source rows by the index of a pandas frame; None if it is a fresh one."""
    index = frame.index
    if not pd.api.types.is_integer_dtype(index.dtype) or index.hasnans:
        return None
    numbers = index.to_numpy(np.int64)
    if numbers.min() < 0 or numbers.max() >= source.num_rows:
        return None
    fresh = isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1
    return None if fresh and not _is_same_rows(table, source) else numbers


def _by_values(table: pa.Table, source: pa.Table) -> _Rows | None:
    """The source rows whose values are those of the table, each after the one before; None if there are none."""
    if _is_same_rows(table, source):
        return np.arange(table.num_rows)
    known = _unchanged(table, source, _comparable(table, source))
    before = list(_keys(source, known)) if known else []
    if len(set(before)) < source.num_rows:  # other columns may tell equal rows apart
        known += _unchanged(table, source, _comparable(table, source, as_text=True))
        before = list(_keys(source, known)) if known else []
    if not known:
        return None
    waiting: defaultdict[Any, deque[int]] = defaultdict(deque)
    for number, values in enumerate(before):
        waiting[values].append(number)
    rows, last = np.empty(table.num_rows, np.int64), -1
    for place, values in enumerate(_keys(table, known)):
        candidates = waiting[values]
        while candidates and candidates[0] <= last:
            candidates.popleft()
        if not candidates:
            return None
        rows[place] = last = candidates.popleft()
    return rows


def _is_same_rows(table: pa.Table, source: pa.Table) -> bool:
    """Whether there are as many rows in both, and the same values in a column of both, if there is one."""
    if table.num_rows != source.num_rows:
        return False
    names = _comparable(table, source)
    return not names or any(table.column(name).equals(source.column(name)) for name in names)


def _comparable(table: pa.Table, source: pa.Table, *, as_text: bool = False) -> list[str]:
    """The columns of both, of one type, whose values can be compared; or those that can only be compared as text."""
    return [
        field.name
        for field in table.schema
        if field.name in source.column_names
        and source.schema.field(field.name).type == field.type
        and _is_text_only(field.type) is as_text
    ]


def _is_text_only(kind: pa.DataType) -> bool:
    """Whether equal values of a type are equal as text alone: lists and objects, and floats, which may be NaN."""
    return bool(pa.types.is_nested(kind) or pa.types.is_floating(kind))


def _unchanged(table: pa.Table, source: pa.Table, names: Sequence[str]) -> list[str]:
    """The columns that hold nothing new."""
    return [name for name in names if set(_values(table.column(name))) <= set(_values(source.column(name)))]


def _values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return list(map(repr, values)) if _is_text_only(column.type) else values


def _keys(table: pa.Table, columns: Sequence[str]) -> Any:
    return zip(*(_values(table.column(name)) for name in columns), strict=True)
