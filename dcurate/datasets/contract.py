"""`CheckSchema`: rows that do not conform to a schema go to quarantine, each with its column and check."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dcurate.core.batch import Rejection
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError, listed, shown
from dcurate.frames.document import DocumentBatch
from dcurate.frames.schema import declared, nested_fields
from dcurate.io.lakehouse.fields import nulls_in_required

_NULL = "null"


@dataclass
class CheckSchema(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Send rows that do not conform to a schema to quarantine, each with the first column and check that it fails.

    Rows that conform leave as they came. A value conforms to a type of Arrow if it is of the same kind and the type
    holds it exactly: ``3`` conforms to ``int8`` and ``float32``, ``300`` not to ``int8``, and text to no number. Null
    conforms, unless the field is not nullable. Columns that the schema does not name may hold anything.

    Args:
        schema: types of columns by name, as readers take them, such as ``{"id": "int64"}``; a schema of Arrow, of which
            ``nullable=False`` counts, also within nested types; or a schema or model of pandera, which checks each
            batch as a pandas frame.
        name: name of the stage.

    Raises:
        PipelineError: no such schema, or an unknown type.
        DataError: a batch does not have a column of the schema.

    Examples:
        >>> import pandas as pd
        >>> import pyarrow as pa
        >>> from dcurate import InlineExecutor, Pipeline
        >>> schema = pa.schema([pa.field("id", pa.int8(), nullable=False), pa.field("text", pa.string())])
        >>> rows = pd.DataFrame({"id": [1, 300, None], "text": ["one", "two", None]})
        >>> pipeline = Pipeline("check", stages=[CheckSchema(schema)])
        >>> result = pipeline.run(InlineExecutor(), rows, observers=[])
        >>> result.to_pandas().text.tolist(), sorted(result.dropped.reason)
        (['one'], ['id: not int8', 'id: null'])
    """

    schema: Any
    name: str = "check_schema"

    def __post_init__(self) -> None:
        if self._by_pandera:
            if isinstance(self.schema, type):
                self.schema = self.schema.to_schema()
        elif not isinstance(self.schema, pa.Schema | Mapping) or not self._fields():
            raise PipelineError(
                f"{self.name}: schema={shown(self.schema)} is no schema; give types by name, such as "
                "{'id': 'int64'}, a schema of Arrow, or one of pandera"
            )

    def inputs(self) -> Spec:
        if self._by_pandera:
            return [], [name for name, column in self.schema.columns.items() if column.required and not column.regex]
        return [], [field.name for field in self._fields()]

    def settings(self) -> dict[str, Any]:
        if self._by_pandera:
            return {"schema": repr(self.schema)}
        return {"schema": [[field.name, str(field), field.nullable] for field in self._fields()]}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the rows that conform, with a rejection for each column and check.

        Raises:
            DataError: the batch does not have a column of the schema.
        """
        table = task.to_arrow()
        reasons = self._by_frame(task) if self._by_pandera else self._by_type(table)
        if not reasons:
            return task
        kept = np.ones(table.num_rows, bool)
        kept[list(reasons)] = False
        places: dict[str, list[int]] = {}
        for row in sorted(reasons):
            places.setdefault(reasons[row], []).append(row)
        rejections = []
        for reason, numbers in places.items():
            rows = table.take(pa.array(numbers, pa.int64()))
            rejections.append(Rejection(self.name, reason, rows.num_rows, rows.nbytes, rows, fault=True))
        conforming = table.take(pa.array(np.flatnonzero(kept)))
        return replace(task.with_data(conforming), rejections=tuple(rejections))

    @property
    def _by_pandera(self) -> bool:
        kind = self.schema if isinstance(self.schema, type) else type(self.schema)
        return any(base.__module__.partition(".")[0] == "pandera" for base in kind.__mro__)

    def _fields(self) -> list[pa.Field]:
        if isinstance(self.schema, pa.Schema):
            return list(self.schema)
        return [pa.field(name, kind) for name, kind in declared(self.schema, f"{self.name}: schema").items()]

    def _by_type(self, table: pa.Table) -> dict[int, str]:
        """The rows that do not conform, with their reasons."""
        reasons: dict[int, str] = {}
        fields = self._fields()
        missing = [field.name for field in fields if field.name not in table.column_names]
        if missing:
            raise DataError(f"{self.name}: the rows have no column {listed(missing)}, which the schema has; add it")
        for field in fields:
            for row, problem in _failing(table[field.name], field, 0):
                reasons.setdefault(row, f"{field.name}: {problem}")
        return reasons

    def _by_frame(self, task: DocumentBatch) -> dict[int, str]:
        """The rows in which pandera finds a fault, with their reasons; all of them for one of a whole column."""
        frame = task.to_pandas().reset_index(drop=True)
        try:
            self.schema.validate(frame, lazy=True)
        except importlib.import_module("pandera.errors").SchemaErrors as errors:
            reasons: dict[int, str] = {}
            cases = errors.failure_cases
            columns = cases["column"].where(cases["check"] != "column_in_dataframe", cases["failure_case"])
            of_column = cases["index"].isna()
            for column, check, row, is_whole in zip(columns, cases["check"], cases["index"], of_column, strict=True):
                for place in range(len(frame)) if is_whole else [int(row)]:
                    reasons.setdefault(place, f"{column}: {check}")
            return reasons
        return {}


def _failing(values: pa.ChunkedArray, field: pa.Field, first: int) -> Iterator[tuple[int, str]]:
    """The numbers of the values that do not conform to a field, each with the problem; found by halving."""
    problem = _problem(values, field)
    if not problem:
        return
    if len(values) == 1:
        yield first, problem
        return
    half = len(values) // 2
    yield from _failing(values.slice(0, half), field, first)
    yield from _failing(values.slice(half), field, first + half)


def _problem(values: pa.ChunkedArray, field: pa.Field) -> str:
    """What is wrong with one of the values; empty if nothing is."""
    if any(nulls_in_required(chunk, field) for chunk in values.chunks):
        return _NULL
    if values.null_count == len(values):
        return ""
    if not _is_alike(values.type, field.type):
        return f"not {field.type}"
    try:
        values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return f"not {field.type}"
    return ""


def _is_alike(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether types are of the same kind, also within nested types.

    Examples:
        >>> _is_alike(pa.int64(), pa.float32()), _is_alike(pa.string(), pa.int64())
        (True, False)
        >>> _is_alike(pa.list_(pa.int8()), pa.list_(pa.int64())), _is_alike(pa.list_(pa.string()), pa.list_(pa.int64()))
        (True, False)
    """
    is_ = pa.types
    if is_.is_dictionary(kind) or is_.is_dictionary(wanted):
        return _is_alike(_plain(kind), _plain(wanted))
    if is_.is_null(kind) or kind == wanted:
        return True
    inner, wanted_inner = nested_fields(kind), nested_fields(wanted)
    if inner or wanted_inner:
        names = {field.name: field.type for field in inner}
        if is_.is_struct(kind) and is_.is_struct(wanted):
            return all(field.name in names and _is_alike(names[field.name], field.type) for field in wanted_inner)
        alike = len(inner) == len(wanted_inner) and is_.is_map(kind) == is_.is_map(wanted)
        structs = is_.is_struct(kind) or is_.is_struct(wanted)
        pairs = zip(inner, wanted_inner, strict=False)
        return alike and not structs and all(_is_alike(field.type, target.type) for field, target in pairs)
    return _group(kind) == _group(wanted) != ""


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _group(kind: pa.DataType) -> str:
    is_ = pa.types
    groups = {
        "number": is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind),
        "text": is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind),
        "bytes": is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind),
        "moment": is_.is_timestamp(kind) or is_.is_date(kind),
        "time": is_.is_time(kind),
    }
    return next((name for name, is_one in groups.items() if is_one), "")
