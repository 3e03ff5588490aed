"""The Arrow layout of a text column: offsets and UTF-8 bytes, as the kernels read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError
from dcurate.rows import columns_listed

#: What an Arrow array of type string can hold; one of large strings holds any amount.
_MAX_BYTES = 2**31 - 1


class TextColumn(NamedTuple):
    """Texts for kernels: text ``i`` is ``data[offsets[i]:offsets[i + 1]]``, UTF-8.

    ``offsets`` is int64 of length rows + 1 and need not begin at 0; ``data`` is uint8. A null text is an empty one.
    """

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.offsets) - 1


def text_array(column: pa.Array, name: str) -> pa.Array:
    """Return a text column in one of the two supported layouts.

    Raises:
        DataError: it does not hold text.

    Examples:
        >>> text_array(pa.array(["a"]).dictionary_encode(), "text").type, text_array(pa.nulls(2), "text").type
        (DataType(string), DataType(string))
    """
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise DataError(f"column {name!r} holds {column.type}, not text; name the column that holds the text")
    return column


def text_column(table: pa.Table, name: str) -> TextColumn:
    """The layout of one text column, without copying the text.

    Raises:
        DataError: the column does not exist, or does not hold text.
    """
    if name not in table.column_names:
        raise DataError(f"no column {name!r}; the rows have {columns_listed(table.column_names)}")
    column = table.column(name)
    if column.num_chunks == 1:  # to combine it would copy it
        column = column.chunk(0)
    else:
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks else pa.array([], pa.large_string())
    column = text_array(column, name)
    if column.null_count:
        column = pc.fill_null(column, "")
    _, offsets, data = column.buffers()
    width = np.int64 if pa.types.is_large_string(column.type) else np.int32
    bounds = (
        np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
        if offsets
        else np.zeros(1, width)
    )
    bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return TextColumn(bounds.astype(np.int64), bytes_)


def column_of(texts: Iterable[bytes]) -> TextColumn:
    """The layout of texts given as UTF-8.

    Examples:
        >>> column_of([b"one", b"", b"two"]).offsets
        array([0, 3, 3, 6])
    """
    encoded = list(texts)
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return TextColumn(offsets, np.frombuffer(b"".join(encoded), np.uint8))


def encodable(text: str) -> str:
    r"""The text with each lone surrogate replaced by a question mark, so that it can be encoded as UTF-8.

    Examples:
        >>> encodable("a\ud800b")
        'a?b'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def is_utf8(data: bytes) -> bool:
    r"""Return whether bytes are UTF-8, without decoding them.

    Examples:
        >>> is_utf8("naïve".encode()), is_utf8(b"na\xefve")
        (True, False)
    """
    offsets = np.array([0, len(data)], np.int64)
    array = pa.Array.from_buffers(pa.large_string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def from_text(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> pa.Array:
    """An Arrow text array of a kernel's layout; ``offsets`` begin at 0."""
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


def with_layout(table: pa.Table, name: str, column: TextColumn, source: str) -> pa.Table:
    """The table with a text column made of a layout, added or replaced.

    It is null where the column ``source`` is, and has the type of the column that it replaces, if that was text.

    Examples:
        >>> table = pa.table({"text": ["a", None]})
        >>> column = TextColumn(np.array([0, 1, 1]), np.frombuffer(b"b", np.uint8))
        >>> with_layout(table, "text", column, "text")["text"].to_pylist()
        ['b', None]
    """
    texts = from_text(column.offsets, column.data)
    before = table.column(source)
    if before.null_count:
        texts = pc.if_else(before.is_valid().combine_chunks(), texts, pa.scalar(None, texts.type))
    replaced = name in table.column_names
    if not (replaced and pa.types.is_large_string(table.schema.field(name).type)) and len(column.data) < _MAX_BYTES:
        texts = texts.cast(pa.string())
    if not replaced:
        return table.append_column(name, texts)
    return table.set_column(table.column_names.index(name), name, texts)


def with_shorter_texts(table: pa.Table, name: str, column: TextColumn) -> pa.Table:
    """The table with texts from which something was cut; a dictionary stays one, as in batches where nothing was.

    Examples:
        >>> table = pa.table({"text": pa.array(["a", None]).dictionary_encode()})
        >>> column = TextColumn(np.array([0, 1, 1]), np.frombuffer(b"b", np.uint8))
        >>> with_shorter_texts(table, "text", column).schema == table.schema
        True
    """
    field = table.schema.field(name)
    after = with_layout(table, name, column, name)
    if not pa.types.is_dictionary(field.type):
        return after
    texts = after.column(name).cast(field.type.value_type).combine_chunks().dictionary_encode()
    try:
        indices = texts.indices.cast(field.type.index_type)
    except pa.ArrowInvalid:  # more texts than it can number
        indices = texts.indices
    texts = pa.DictionaryArray.from_arrays(indices, texts.dictionary, ordered=field.type.ordered)
    return after.set_column(after.column_names.index(name), field.with_type(texts.type), texts)


def character_places(text: bytes) -> npt.NDArray[np.int64]:
    """The byte offset of each character in the UTF-8 of a text, and of its end.

    Examples:
        >>> character_places("aé!".encode()).tolist()
        [0, 1, 3, 4]
    """
    data = np.frombuffer(text, np.uint8)
    return np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
