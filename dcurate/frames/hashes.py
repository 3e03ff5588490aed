"""RowHashes of rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_128_digest

from dcurate.frames.columns import column_of, only, rows_at
from dcurate.frames.rows import row_keys
from dcurate.frames.text import text_column

#: What may be left aside when texts are compared.
NORMAL_FORMS = ("case", "whitespace", "unicode")


class RowHashes(NamedTuple):
    """128-bit hashes of the rows that can be duplicates.

    Args:
        hashes: hash values, shape (hashed rows, 2).
        rows: the number of the row that each is of, in order.
    """

    hashes: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.int64]


def rows_with_values(table: pa.Table, fields: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows that hold a value in one of some columns: only these can be duplicates.

    A null is not a value. This is the rule of every search for duplicates: a row without any value is kept, and is a
    duplicate of nothing.

    Raises:
        DataError: the column does not exist.

    Examples:
        >>> rows_with_values(pa.table({"text": ["a", None, ""]}), ["text"]).tolist()
        [0, 2]
    """
    filled = np.zeros(table.num_rows, np.bool_)
    for column in only(table, fields).columns:
        filled |= pc.is_valid(column).to_numpy()
    return np.flatnonzero(filled)


def content_hashes(table: pa.Table, text_field: str, normalize: Sequence[str] = ()) -> RowHashes:
    """128-bit hashes (XXH3) of texts, but for rows whose text is null.

    Among a billion texts, two different ones share a hash with a chance of 10**-21.

    Args:
        normalize: differences to ignore, of `NORMAL_FORMS`.

    Raises:
        DataError: the column does not exist, or does not hold text.

    Examples:
        >>> table = pa.table({"text": ["So it  goes", None, "so it goes"]})
        >>> hashes, rows = content_hashes(table, "text", ("case", "whitespace"))
        >>> bool((hashes[0] == hashes[1]).all()), rows.tolist()
        (True, [0, 2])
    """
    rows = rows_with_values(table, [text_field])
    if normalize or len(rows) < table.num_rows:
        texts = column_of(table, text_field, text=True).drop_null()
        table = pa.table({text_field: _normalized(texts, normalize)})
    return RowHashes(np.frombuffer(_digests(table, text_field), np.uint64).reshape(-1, 2), rows)


def row_hashes(table: pa.Table, fields: Sequence[str]) -> RowHashes:
    """128-bit hashes of rows by some columns, but for rows that are null in all of these.

    Examples:
        >>> hashes, rows = row_hashes(pa.table({"url": ["x", None, "x"]}), ["url"])
        >>> bool((hashes[0] == hashes[1]).all()), rows.tolist()
        (True, [0, 2])
    """
    rows = rows_with_values(table, fields)
    return RowHashes(row_keys(rows_at(table, rows), fields, 0), rows)


def _normalized(texts: pa.Array, forms: Sequence[str]) -> pa.Array:
    if "unicode" in forms:
        texts = pc.utf8_normalize(texts, "NFKC")
    if "case" in forms:
        texts = pc.utf8_lower(texts)
    if "whitespace" in forms:
        words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(texts))
        texts = pc.binary_join(words, pa.scalar(" ", texts.type))
    return texts


def _digests(table: pa.Table, text_field: str) -> bytes:
    texts = text_column(table, text_field)
    data = memoryview(texts.data)  # type: ignore[arg-type]  # an array is a buffer; the stubs do not say so
    return b"".join(xxh3_128_digest(data[start:stop]) for start, stop in pairwise(texts.offsets.tolist()))
