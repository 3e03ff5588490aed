"""The first rows of a corpus or pipeline, with their schema."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from dcurate.frames.document import DocumentBatch
from dcurate.frames.tables import typed_columns
from dcurate.runs.text import many

#: Characters of a cell, and of a line, where the first rows are printed.
_CELL, _LINE = 60, 120


@dataclass(frozen=True)
class Preview:
    """The first rows of a corpus or pipeline, and their schema; a notebook shows both as tables.

    Attributes:
        rows: the rows.
        rows_read: number of input rows that were read for them.
        notices: sentences about the input, such as of CSV files that look divided by another sign.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch
        >>> from dcurate.runs import Preview
        >>> Preview(DocumentBatch(data=pd.DataFrame({"text": ["one", "two"], "n": [1, 2]})), rows_read=2)
        text: large_string
        n: int64
        <BLANKLINE>
          text  n
        0  one  1
        1  two  2
        <BLANKLINE>
        2 rows, from the first 2 of the input
    """

    rows: DocumentBatch
    rows_read: int
    notices: tuple[str, ...] = ()

    @property
    def schema(self) -> Any:
        """Names and types of the columns, as a schema of pyarrow."""
        return self.to_arrow().schema

    def to_pandas(self) -> Any:
        """The rows as a pandas frame."""
        return self.rows.to_pandas()

    def to_arrow(self) -> Any:
        """The rows as an Arrow table."""
        return self.rows.to_arrow().select(self.rows.get_columns()).replace_schema_metadata(None)

    def __len__(self) -> int:
        return self.rows.num_items

    def __repr__(self) -> str:
        types = [f"{column.name}: {column.type}" for column in self.schema]
        frame = self.to_pandas().to_string(max_colwidth=_CELL, line_width=_LINE)
        return "\n".join([*types, "", frame, "", self._amount, *self.notices])

    def _repr_html_(self) -> str:
        frame = self.to_pandas().astype(object)
        if len(self.schema):
            frame.columns = typed_columns([(column.name, str(column.type)) for column in self.schema])
        about = "".join(f"<p>{escape(line)}</p>" for line in (self._amount, *self.notices))
        return f"{frame.to_html(max_cols=20, notebook=True)}{about}"

    @property
    def _amount(self) -> str:
        return f"{many(len(self), 'row')}, from the first {self.rows_read:,} of the input"
