"""Call stages that make columns which rows have already, so that no null takes the place of a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.batch import Batch, DeferredRows, Rejection
from dcurate.core.stage.base import REPLACED
from dcurate.errors import DataError
from dcurate.frames import convert
from dcurate.frames.document import DocumentBatch

#: Prefix of the columns with the values from before, while the stage runs.
_BEFORE = "_dcurate_before_"


def keeping_values(names: Sequence[str], process: Callable[[list[Batch]], Any], batches: list[Batch]) -> Any:
    """Call a function of a stage; where it makes a null of a column of `names`, a row keeps the value that it had.

    The answers say in ``found`` how many rows had values in such a column.

    Examples:
        >>> def tag(batches):
        ...     return [batch.with_data(batch.data.append_column("tag", pa.array(["new", None]))) for batch in batches]
        >>> [made] = keeping_values(["tag"], tag, [DocumentBatch(data=pa.table({"tag": ["old", "old"], "n": [1, 2]}))])
        >>> made.data.to_pylist(), made.found
        ([{'tag': 'new', 'n': 1}, {'tag': 'old', 'n': 2}], {"replaced 'tag'": 2})
    """
    taken = [_with_values(batch, names) for batch in batches]
    if not any(taken):
        return process(batches)
    answers = process([_aside(batch, held) for batch, held in zip(batches, taken, strict=True)])
    if not isinstance(answers, list | tuple) or len(answers) != len(batches):
        return answers
    return [_answer(answer, held) for answer, held in zip(answers, taken, strict=True)]


def _with_values(batch: Batch, names: Sequence[str]) -> dict[str, int]:
    """The columns of a batch that hold values, with the number of these."""
    if not isinstance(batch, DocumentBatch):
        return {}
    columns = [name for name in names if name in batch.get_columns()]
    counts = {name: _count(batch.data, name) for name in columns}
    return {name: count for name, count in counts.items() if count}


def _count(frame: Any, name: str) -> int:
    if isinstance(frame, pa.Table):
        column = frame.column(name)
        return len(column) - int(column.null_count)
    return int(frame[name].notna().sum())


def _aside(batch: Batch, names: dict[str, int]) -> Batch:
    if not isinstance(batch, DocumentBatch) or not names:
        return batch
    return replace(batch, data=_renamed(batch.data, {name: _BEFORE + name for name in names}))


def _renamed(frame: Any, names: dict[str, str]) -> Any:
    if isinstance(frame, pa.Table):
        return frame.rename_columns([names.get(name, name) for name in frame.column_names])
    return frame.rename(columns=names)


def _answer(answer: Any, names: dict[str, int]) -> Any:
    if isinstance(answer, list):
        first, remaining = answer[:1], answer[1:]
        return [
            *(_answer(batch, names) for batch in first),
            *(_answer(batch, dict.fromkeys(names, 0)) for batch in remaining),
        ]
    if not isinstance(answer, DocumentBatch) or not names:
        return answer
    restored = replace(answer, data=_restored(answer.data, names))
    counts = {f"{REPLACED}{name!r}": count for name, count in names.items() if count}
    restored.found = {**answer.found, **counts}
    restored.rejections = tuple(_rejected(rejection, names) for rejection in answer.rejections)
    return restored


def _rejected(rejection: Rejection, names: dict[str, int]) -> Rejection:
    rows = vars(rejection)["data"]
    if isinstance(rows, DeferredRows):
        return replace(rejection, data=DeferredRows(lambda most: _restored(rows.first(most), names)))
    return rejection if rows is None else replace(rejection, data=_restored(rows, names))


def _restored(frame: Any, names: dict[str, int]) -> Any:
    """The frame with the values of columns from before where there are none now."""
    for name in names:
        before = _BEFORE + name
        columns = convert.columns(frame)
        if before not in columns:
            continue
        frame = _joined(frame, name, before) if name in columns else _renamed(frame, {before: name})
    return frame


def _joined(frame: Any, name: str, before: str) -> Any:
    if not isinstance(frame, pa.Table):
        values = frame[name].where(frame[name].notna(), frame[before])
        return frame.drop(columns=[name]).rename(columns={before: name}).assign(**{name: values})
    field, values = frame.schema.field(name), frame.column(name)
    if values.null_count:
        new = _plain(values)
        values = pc.coalesce(new, _cast(_plain(frame.column(before)), new, name)).cast(field.type)
    remaining = frame.drop_columns([name])
    return remaining.set_column(remaining.column_names.index(before), field, values)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a type whose values Arrow can choose among."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return column.cast(views[kind]) if kind in views else column


def _cast(before: pa.ChunkedArray, new: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The values from before in the type of the new ones, in the rows that have no new one.

    Raises:
        DataError: they cannot have it.
    """
    wanted = pc.if_else(new.is_null(), before, pa.scalar(None, before.type))
    try:
        return wanted.cast(new.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"column {name!r} holds {before.type} and the stage makes {new.type} of it, with no value in some rows "
            f"that have one; rename the column before the stage, or replace it with .with_(overwrite=True)"
        ) from error
