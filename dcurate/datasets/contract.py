"""`CheckSchema`: rows that do not conform to a schema go to quarantine, each with its column and check."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from dcurate.core.batch import Rejection
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError, listed, shown
from dcurate.frames.document import DocumentBatch
from dcurate.io.conforming import failing_rows, frame_for, schema_fields


@dataclass
class CheckSchema(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Send rows that do not conform to a schema to quarantine, each with the first column and check that it fails.

    Rows that conform leave as they came. A value conforms to a type of Arrow if it is of the same kind and the type
    holds it: ``3`` conforms to ``int8`` and ``float32``, ``300`` not to ``int8``, and text to no number. A float may be
    rounded to a smaller type of floats that has its range. Null conforms, unless the field is not nullable. Columns
    that the schema does not name may hold anything.

    Args:
        schema: types of columns by name, as readers take them, such as ``{"id": "int64"}``; a schema of Arrow, of which
            ``nullable=False`` counts, also within nested types; or a schema or model of pandera, which checks each
            batch as a pandas frame. There, null in a column of whole numbers or booleans conforms to the nullable
            types of pandas alone, such as ``Int64``.
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
                self.schema = cast(Any, self.schema).to_schema()
            if self.schema.drop_invalid_rows:
                raise PipelineError(
                    f"{self.name}: a schema with drop_invalid_rows=True names no row that it drops; leave that out"
                )
        elif not self._fields():
            raise PipelineError(
                f"{self.name}: schema={shown(self.schema)} is not a schema; give types by name, such as "
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
        missing = [name for name in self.inputs()[1] if name not in table.column_names]
        if missing and not self._by_pandera:
            raise DataError(f"{self.name}: the rows have no column {listed(missing)}, which the schema has; add it")
        reasons = self._by_frame(task) if self._by_pandera else failing_rows(table, self._fields())
        if not reasons:
            return task
        kept = np.ones(table.num_rows, bool)
        kept[list(reasons)] = False
        places: dict[str, list[int]] = {}
        for row in sorted(reasons):
            places.setdefault(reasons[row], []).append(row)
        rejections = []
        for reason, numbers in places.items():
            rows = table.take(numbers)
            rejections.append(Rejection(self.name, reason, rows.num_rows, rows.nbytes, rows, fault=True))
        conforming = table.take(np.flatnonzero(kept))
        return replace(task.with_data(conforming), rejections=tuple(rejections))

    @property
    def _by_pandera(self) -> bool:
        kind = self.schema if isinstance(self.schema, type) else type(self.schema)
        return any(base.__module__.partition(".")[0] == "pandera" for base in kind.__mro__)

    def _fields(self) -> list[Any]:
        return schema_fields(self.schema, f"{self.name}: schema")

    def _by_frame(self, task: DocumentBatch) -> dict[int, str]:
        """The rows in which pandera finds a fault, with their reasons; all of them for one of a whole column."""
        columns = self.schema.columns.items()
        frame, nulls = frame_for(
            task.to_arrow(), {name: getattr(column.dtype, "type", None) for name, column in columns}
        )
        reasons = {row: f"{name}: not_nullable" for row, name in nulls.items()}
        try:
            self.schema.validate(frame, lazy=True)
        except importlib.import_module("pandera.errors").SchemaErrors as errors:
            cases = errors.failure_cases
            names = cases["column"].where(cases["check"] != "column_in_dataframe", cases["failure_case"])
            of_column = cases["index"].isna()
            for column, check, row, is_whole in zip(names, cases["check"], cases["index"], of_column, strict=True):
                for place in frame.index if is_whole else [row]:
                    reasons.setdefault(int(place), f"{column}: {check}")
        return reasons
