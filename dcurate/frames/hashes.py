"""Hashes of rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_128_digest

from dcurate.frames.columns import column_of, rows_at
from dcurate.frames.rows import row_keys
from dcurate.frames.text import text_column

#: What may be left aside when texts are compared.
NORMAL_FORMS = ("case", "whitespace", "unicode")


def content_hashes(table: pa.Table, text_field: str, normalize: Sequence[str] = ()) -> npt.NDArray[np.uint64]:
    """128-bit hashes (XXH3) of texts, as an array of shape (rows, 2); a null text hashes like an empty one.

    Among a billion texts, two different ones share a hash with a chance of 10**-21.

    Args:
        normalize: differences to ignore, of `NORMAL_FORMS`.

    Raises:
        DataError: there is no such column, or it does not hold text.

    Examples:
        >>> table = pa.table({"text": ["So it  goes", "so it goes"]})
        >>> first, second = content_hashes(table, "text", ("case", "whitespace")).tolist()
        >>> first == second
        True
    """
    if normalize:
        table = pa.table({text_field: _normalized(column_of(table, text_field, text=True), normalize)})
    return np.frombuffer(_digests(table, text_field), np.uint64).reshape(-1, 2)


def row_hashes(table: pa.Table, fields: Sequence[str]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """128-bit hashes of rows by some columns, and the rows that are not empty there.

    Examples:
        >>> hashes, rows = row_hashes(pa.table({"url": ["x", None, "x"]}), ["url"])
        >>> bool((hashes[0] == hashes[1]).all()), rows.tolist()
        (True, [0, 2])
    """
    filled = np.zeros(table.num_rows, np.bool_)
    for name in fields:
        filled |= column_of(table, name).is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(filled)
    return row_keys(rows_at(table, rows), fields, 0), rows


def _normalized(texts: pa.Array, forms: Sequence[str]) -> pa.Array:
    texts = pc.fill_null(texts, "")
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
