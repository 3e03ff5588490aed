"""Ids of any type as sortable numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError
from dcurate.frames.columns import column_of
from dcurate.frames.hashes import content_hashes

#: Kinds of ids; ids of different kinds are never equal.
TEXT, NUMBERS, NONE = "text", "whole numbers", "nothing"

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class IdKeys(NamedTuple):
    """Hash ids to 128-bit numbers: equal ids have equal numbers, and others (practically) never.

    Attributes:
        kind: `TEXT`, `NUMBERS`, or `NONE` where all are null.
        rows: numbers of the rows with an id.
        keys: keys of these, shape (rows, 2).
    """

    kind: str
    rows: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]


def id_keys(table: pa.Table, name: str) -> IdKeys:
    """The ids in a column; rows without one are left out.

    Numbers of different types compare equal: 3 in int64, in uint8, and 3.0 where nulls turned a column into floats.

    Raises:
        DataError: the column does not exist, or holds neither text nor whole numbers.

    Examples:
        >>> one, other = pa.table({"id": [7, None, 8]}), pa.table({"id": pa.array([8.0, 7.0])})
        >>> id_keys(one, "id").rows.tolist(), id_keys(one, "id").kind
        ([0, 2], 'whole numbers')
        >>> bool((id_keys(one, "id").keys == id_keys(other, "id").keys[::-1]).all())
        True
    """
    column = column_of(table, name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    column = column.drop_null()
    if not len(rows):
        return IdKeys(NONE, rows, np.zeros((0, 2), np.uint64))
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return IdKeys(NUMBERS, rows, _number_keys(column, name))
    if pa.types.is_fixed_size_binary(kind):
        column, kind = column.cast(pa.binary()), pa.binary()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        column = column.view(pa.large_string() if pa.types.is_large_binary(kind) else pa.string())
    elif not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise DataError(f"column {name!r} holds {kind}; ids are text or whole numbers: name the column that holds them")
    return IdKeys(TEXT, rows, content_hashes(pa.table({name: column}), name).hashes)


def _number_keys(column: pa.Array, name: str) -> npt.NDArray[np.uint64]:
    """Mix whole numbers, so that they are evenly distributed: a bijection."""
    signed = not pa.types.is_unsigned_integer(column.type)
    try:
        values = pc.cast(column, pa.int64() if signed else pa.uint64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise DataError(f"column {name!r} holds fractions; ids are text or whole numbers") from error
    keys = np.empty((len(values), 2), np.uint64)
    keys[:, 1] = values < 0 if signed else 0
    stirred = values.view(np.uint64) * _STEP
    stirred = (stirred ^ (stirred >> np.uint64(30))) * _FIRST
    stirred = (stirred ^ (stirred >> np.uint64(27))) * _SECOND
    keys[:, 0] = stirred ^ (stirred >> np.uint64(31))
    return keys
