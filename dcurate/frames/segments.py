"""Split texts into segments, one per row, and join them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError
from dcurate.frames.columns import column_of, rows_at, with_column
from dcurate.frames.schema import with_fields_of


def segmented(table: pa.Table, text_field: str, separator: str, segment_field: str) -> pa.Table:
    """The table with a row for each part of its texts between separators, numbered from 0 within its text.

    Other columns are repeated. A null text gives one row with a null text.

    Raises:
        DataError: the column does not exist, or does not hold text.

    Examples:
        >>> segmented(pa.table({"id": [7], "text": ["a|b"]}), "text", "|", "part").to_pydict()
        {'id': [7, 7], 'text': ['a', 'b'], 'part': [0, 1]}
    """
    texts = column_of(table, text_field, text=True)
    parts = pc.split_pattern(pc.fill_null(texts, ""), separator)
    starts = np.asarray(parts.offsets, np.int64)
    counts = np.diff(starts)
    parents = np.repeat(np.arange(table.num_rows), counts)
    segments = parts.values.slice(starts[0], starts[-1] - starts[0])
    if texts.null_count:
        segments = pc.if_else(pc.take(texts.is_valid(), pa.array(parents)), segments, pa.scalar(None, segments.type))
    columns = {
        name: segments if name == text_field else _repeated(column_of(table, name), counts, parents)
        for name in table.column_names
    }
    rows = with_fields_of(pa.table(columns), table.schema)
    numbers = np.arange(len(parents)) - np.repeat(starts[:-1] - starts[0], counts)
    return with_column(rows, segment_field, numbers)


def _repeated(column: pa.Array, counts: npt.NDArray[np.int64], parents: npt.NDArray[np.int64]) -> pa.Array:
    """Repeat the value of a row for each of its segments; text of 2 GiB and more becomes large text."""
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(column.type)
    if wide is not None and int(pc.fill_null(pc.binary_length(column), 0).to_numpy() @ counts) >= 2**31:
        column = column.cast(wide)
    return column.take(pa.array(parents))


def segment_order(table: pa.Table, document_field: str, segment_field: str) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """The rows grouped by document, by segment number; and the start of each document.

    Documents come in the order of their first rows. A row without a document id is a document of its own.

    Raises:
        DataError: segment numbers are missing or no numbers, or two segments of a document have the same one.
    """
    if not table.num_rows:
        return table, np.zeros(0, np.int64)
    ids = column_of(table, document_field)
    codes = pc.fill_null(ids.dictionary_encode().indices, -1).to_numpy().astype(np.int64)
    first = np.arange(table.num_rows)
    known = codes >= 0
    _, at, which = np.unique(codes[known], return_index=True, return_inverse=True)
    first[known] = first[known][at][which]
    numbers = column_of(table, segment_field)
    if numbers.null_count or not (pa.types.is_integer(numbers.type) or pa.types.is_floating(numbers.type)):
        raise DataError(f"column {segment_field!r} must hold a number in every row; DocumentSplitter adds one")
    order = np.lexsort((numbers.to_numpy(), first))
    ordered, segments = first[order], numbers.to_numpy()[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    twice = np.flatnonzero(~begins[1:] & (segments[1:] == segments[:-1]))
    if len(twice):
        row = int(order[twice[0]])
        raise DataError(
            f"document {ids[row].as_py()!r} has two segments {numbers[row].as_py()!r}; "
            "give each document its own id before it is split, as AddId does"
        )
    return rows_at(table, order), np.flatnonzero(begins)


def joined(table: pa.Table, starts: npt.NDArray[np.int64], text_field: str, separator: str) -> pa.Table:
    """One row for each run of rows that begins at a start: its first row, with the texts of all of them joined.

    Null texts join like empty ones; a run of nothing but nulls stays null.

    Examples:
        >>> table = pa.table({"id": [1, 1, 2], "text": ["a", "b", "c"]})
        >>> joined(table, np.array([0, 2]), "text", "-").to_pydict()
        {'id': [1, 2], 'text': ['a-b', 'c']}
    """
    texts = column_of(table, text_field, text=True)
    bounds = np.append(starts, len(texts))
    filled = pc.fill_null(texts, "").cast(pa.large_string())
    runs = pa.LargeListArray.from_arrays(pa.array(bounds), filled)
    merged = pc.binary_join(runs, pa.scalar(separator, pa.large_string()))
    if texts.null_count and len(starts):
        some = np.add.reduceat(np.asarray(texts.is_valid()), starts) > 0
        merged = pc.if_else(pa.array(some), merged, pa.scalar(None, merged.type))
    if merged.type != texts.type and merged.nbytes < 2**31 - 1:
        merged = merged.cast(texts.type)
    firsts = rows_at(table, starts)
    return firsts.set_column(firsts.column_names.index(text_field), text_field, merged)
