"""Rows of documents, in a frame of any supported library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.core.batch import Batch, Rejection
from dcurate.errors import DataError
from dcurate.frames import convert
from dcurate.frames.libraries import pd
from dcurate.frames.versions import version_of_frame
from dcurate.rows import joined, visible

#: Rows that a notebook shows of a batch.
_SHOWN = 10


@dataclass
class DocumentBatch(Batch):
    """Rows of any kind, usually one per document, with its text in a column.

    Args:
        data: an Arrow table, a pandas frame or a cuDF frame; it is kept as given and never changed in place
            by dcurate's own stages. Rows of other libraries become an Arrow table: a Polars frame, a DuckDB relation,
            an Arrow reader or dataset, or any object with ``__arrow_c_stream__``.
        dataset_name: free text that travels along.

    Examples:
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["one", "two"]}))
        >>> batch.num_items, batch.get_columns()
        (2, ['text'])
        >>> batch.with_data(batch.to_pandas().head(1)).num_items
        1
    """

    data: Any = field(default_factory=lambda: pa.table({}))
    dataset_name: str = ""
    _metadata: dict[str, Any] = field(default_factory=dict)
    _stage_perf: list[Any] = field(default_factory=list)
    _types: pa.Schema | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        frame = convert.as_frame(self.data)
        if frame is None:
            raise DataError(
                f"a batch holds an Arrow table or a pandas, Polars or cuDF frame, not {type(self.data).__name__}; "
                "name what it is given: DocumentBatch(data=frame, dataset_name='name')"
            )
        self.data = frame
        if not isinstance(self.dataset_name, str):
            raise DataError(f"dataset_name must be text, not {type(self.dataset_name).__name__}")

    def __getitem__(self, key: object) -> NoReturn:
        """Refuse an index: a batch may hold rows of several libraries.

        Raises:
            DataError: says how to look at the rows.
        """
        shown = repr(key) if isinstance(key, str) else "..."
        raise DataError(f"a batch has no items; take columns of its rows: batch.to_pandas()[{shown}], or to_arrow()")

    def _repr_html_(self) -> str:
        """The first rows as a table, for a notebook."""
        frame = self.rows(0, min(self.num_items, _SHOWN)).to_pandas()[self.get_columns()]
        return f"<p>{self.num_items:,} rows</p>{frame.to_html(max_cols=20, notebook=True)}"

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table; no copy if they already are one."""
        return convert.to_arrow(self.data, self._types)

    def to_pyarrow(self) -> pa.Table:
        """The same as `to_arrow`, under NeMo Curator's name."""
        return self.to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """The rows as ordinary pandas with default dtypes, whole numbers with gaps as ``Int64``; safe to change."""
        return convert.to_pandas(self.data)

    def to_cudf(self) -> Any:
        """The rows as a cuDF frame; needs cuDF and a GPU."""
        return convert.to_cudf(self.data)

    @property
    def num_items(self) -> int:
        return len(self.data)

    @property
    def nbytes(self) -> int:
        return convert.nbytes(self.data)

    @cached_property
    def version(self) -> str:
        """A hash of the rows: of their columns, types and values."""
        return version_of_frame(self.data, self._types)

    def get_columns(self) -> list[str]:
        return visible(convert.columns(self.data))

    def rows(self, start: int, stop: int) -> Self:
        """The rows from ``start`` to ``stop`` under the same key; without a copy for an Arrow table.

        Examples:
            >>> DocumentBatch(data=pa.table({"text": ["a", "b", "c"]})).rows(1, 3).to_arrow()["text"].to_pylist()
            ['b', 'c']
        """
        if isinstance(self.data, pa.Table):
            return self.with_data(self.data.slice(start, stop - start))
        return self.with_data(self.data.iloc[start:stop].reset_index(drop=True))

    @classmethod
    def given(cls, task: Any) -> Self:
        """Check that the argument of a stage is a batch, and return it.

        Raises:
            DataError: it is not.

        Examples:
            >>> DocumentBatch.given(pd.DataFrame({"text": ["a"]}))
            Traceback (most recent call last):
            dcurate.errors.DataError: a stage takes a batch, not pandas.DataFrame; make one: DocumentBatch(data=frame)
        """
        if not isinstance(task, cls):
            kind = f"{type(task).__module__.partition('.')[0]}.{type(task).__name__}"
            raise DataError(f"a stage takes a batch, not {kind}; make one: DocumentBatch(data=frame)")
        return task

    @classmethod
    def joined(cls, batches: Sequence[Self]) -> Self | None:
        """One batch of all rows in order, under the first one's key; column types are widened to hold all values.

        Rejections are left behind. None where there is no batch, or a column holds what no one type can.

        Examples:
            >>> parts = [DocumentBatch(data=pa.table({"n": [1]})), DocumentBatch(data=pa.table({"n": [2.5]}))]
            >>> DocumentBatch.joined(parts).to_arrow()["n"].to_pylist()
            [1.0, 2.5]
        """
        if not batches:
            return None
        full = [batch.data for batch in batches if batch.num_items] or [batches[0].data]
        if all(isinstance(frame, pd.DataFrame) for frame in full) or all(map(convert.is_cudf, full)):
            return batches[0].with_data(convert.stacked(full))
        try:
            table = joined([convert.to_arrow(frame) for frame in full])
        except (pa.ArrowInvalid, pa.ArrowTypeError, DataError):
            return None
        return batches[0].with_data(table)

    def with_data(self, data: Any) -> Self:
        """The same batch with other rows: key and name are kept; rejections, scores, and counts are not.

        A pandas frame made of Arrow data keeps the types that pandas does not have, such as decimals of a precision.
        """
        types = self.data.schema if isinstance(self.data, pa.Table) else self._types
        return replace(self, data=data, rejections=(), found={}, scored=(), _types=types)

    def keep(self, mask: npt.NDArray[np.bool_], stage: str, reason: str) -> Self:
        """Keep the rows where ``mask`` is true; record the others as rejected by ``stage`` for ``reason``.

        Examples:
            >>> batch = DocumentBatch(data=pa.table({"text": ["long enough", "no"]}))
            >>> kept = batch.keep(np.array([True, False]), "length", "too short")
            >>> kept.num_items, kept.rejections[0].reason, kept.rejections[0].rows
            (1, 'too short', 1)
        """
        if mask.all():
            return self.with_data(self.data)
        if convert.is_cudf(self.data):
            gone = convert.to_arrow(convert.rows_at(self.data, np.flatnonzero(~mask)))
            rejection = Rejection(stage, reason, gone.num_rows, gone.nbytes, gone)
            return replace(self, data=convert.rows_at(self.data, np.flatnonzero(mask)), rejections=(rejection,))
        table = self.to_arrow()
        dropped = table.filter(pa.array(~mask))
        rejection = Rejection(stage, reason, dropped.num_rows, dropped.nbytes, dropped)
        return replace(self, data=table.filter(pa.array(mask)), rejections=(rejection,))
