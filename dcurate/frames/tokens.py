"""Columns of token ids: lists of int32, as one flat array with row offsets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.errors import DataError
from dcurate.frames.columns import column_of
from dcurate.frames.vectors import with_vectors
from dcurate.rows import columns_listed

_INT32_MAX = 2**31 - 1


class Tokens(NamedTuple):
    """Token ids of many rows.

    Args:
        bounds: int64 of length rows + 1; the ids of row ``i`` are ``ids[bounds[i]:bounds[i + 1]]``.
        ids: int32.
    """

    bounds: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int32]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each row."""
        return np.diff(self.bounds)


def with_tokens(table: pa.Table, name: str, tokens: Tokens) -> pa.Table:
    """The table with a column of int32 lists added or replaced.

    Examples:
        >>> tokens = Tokens(np.array([0, 2, 2]), np.array([5, 7], np.int32))
        >>> with_tokens(pa.table({"id": [1, 2]}), "input_ids", tokens)["input_ids"].to_pylist()
        [[5, 7], []]
    """
    ids = pa.array(np.ascontiguousarray(tokens.ids, np.int32))
    if tokens.bounds[-1] > _INT32_MAX:
        content: Any = pa.LargeListArray.from_arrays(pa.array(tokens.bounds), ids)
    else:
        content = pa.ListArray.from_arrays(pa.array(tokens.bounds.astype(np.int32)), ids)
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, content)
    return table.append_column(name, content)


def tokens_of(table: pa.Table, name: str) -> Tokens:
    """The token ids in a column of lists of whole numbers; a null is a row without tokens.

    Raises:
        DataError: the column does not exist, or holds something else.

    Examples:
        >>> tokens = tokens_of(pa.table({"input_ids": [[5, 7], None, [3]]}), "input_ids")
        >>> tokens.bounds.tolist(), tokens.ids.tolist()
        ([0, 2, 2, 3], [5, 7, 3])
    """
    if name not in table.column_names:
        raise DataError(
            f"no column {name!r}; the rows have {columns_listed(table.column_names)}; put a Tokenize before"
        )
    column = column_of(table, name)
    kind = column.type
    if pa.types.is_null(kind):
        return Tokens(np.zeros(len(column) + 1, np.int64), np.zeros(0, np.int32))
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not lists or not (pa.types.is_integer(kind.value_type) or pa.types.is_null(kind.value_type)):
        raise DataError(f"column {name!r} holds {kind}, not lists of token ids; name the column that a tokenizer made")
    lengths = np.asarray(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    flat = column.flatten()  # skips values under nulls
    if flat.null_count:
        raise DataError(f"column {name!r} has a null among the token ids of a row; tokenize the texts again")
    try:
        ids = flat.cast(pa.int32()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise DataError(f"column {name!r} holds a number that is not a token id: {error.args[0]}") from error
    return Tokens(np.concatenate(([0], np.cumsum(lengths))), ids)


def with_results(table: pa.Table, name: str, values: npt.NDArray[Any]) -> pa.Table:
    """The table with a column added or replaced: a number per row, or a vector if there are two axes.

    Raises:
        DataError: not one value for each row.

    Examples:
        >>> with_results(pa.table({"id": [1, 2]}), "score", np.array([0.5, 1.0]))["score"].to_pylist()
        [0.5, 1.0]
    """
    if len(values) != table.num_rows:
        raise DataError(f"column {name!r} would have {len(values)} values for {table.num_rows} rows; give one for each")
    if values.ndim > 1:
        return with_vectors(table, name, values)
    content = pa.array(values)
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, content)
    return table.append_column(name, content)
