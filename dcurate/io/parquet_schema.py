"""What the schema of a Parquet file says besides plain types, and how it reaches the files that are written.

Between a reader and a writer columns are plain: text, where the file has a dictionary or a view of text, because stages
cannot compute with these. What else the file says of a column is noted in the column's metadata, so that it is gone
when a stage drops the column or puts another in its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dcurate.frames.columns import column_of
from dcurate.frames.schema import NOTE, fitted, nested_fields, without, without_notes

_TYPE, _VALUES = NOTE + b"type", NOTE + b"values"
_PANDAS, _HUGGINGFACE, _RANGE = b"pandas", b"huggingface", NOTE + b"range"
#: Bytes of the values of a dictionary up to which their order is kept.
_MOST_VALUES = 2**12

_Pairs = dict[bytes, bytes]
_ENCODING, _PAGE_INDEX = NOTE + b"encoding", NOTE + b"page index"
_NUMBERS = ("INT32", "INT64")
_BYTES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
#: Encodings that pyarrow can write, and the physical types of each.
_ENCODINGS = {
    "PLAIN": (*_NUMBERS, *_BYTES, "INT96", "FLOAT", "DOUBLE", "BOOLEAN"),
    "BYTE_STREAM_SPLIT": (*_NUMBERS, "FLOAT", "DOUBLE", "FIXED_LEN_BYTE_ARRAY"),
    "DELTA_BINARY_PACKED": _NUMBERS,
    "DELTA_BYTE_ARRAY": _BYTES,
    "DELTA_LENGTH_BYTE_ARRAY": ("BYTE_ARRAY",),
}
_MALFORMED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


def unpacked(table: pa.Table, about: pq.FileMetaData | None = None) -> pa.Table:
    """Return a table of plain columns, with notes on the types, descriptions and encodings that its file has for them.

    Args:
        table: table as read.
        about: the footer of the file.

    Examples:
        >>> table = unpacked(pa.table({"lang": pa.array(["en", "de"]).dictionary_encode()}))
        >>> table.schema.field("lang").type, packed(table).schema.field("lang").type
        (DataType(string), DictionaryType(dictionary<values=string, indices=int32, ordered=0>))
    """
    table = without_notes(table)
    notes: dict[str, _Pairs] = {name: {} for name in table.column_names}
    pairs = dict(table.schema.metadata or {})
    _note_pandas(pairs, notes)
    _note_huggingface(pairs, notes)
    if about is not None and about.num_row_groups:
        _note_encodings(pairs, notes, about.row_group(0))
    fields = []
    for column, values in zip(table.schema, table.columns, strict=True):
        plain = without(column.type, "encoding")
        if plain != column.type:
            notes[column.name] |= _type_notes(values)
        metadata = {**(column.metadata or {}), **notes[column.name]}
        fields.append(column.with_type(plain).with_metadata(metadata or None))
    return fitted(table, pa.schema(fields, pairs or None))


def write_options(table: pa.Table) -> dict[str, Any]:
    """Return arguments of `pyarrow.parquet.write_table` for a table that `packed` is given: encodings, page index."""
    encodings: dict[str, str] = {}
    for column in table.schema:
        noted = json.loads((column.metadata or {}).get(_ENCODING, b"{}"))
        encodings |= {path: encoding for path, encoding in noted.items() if _column_of(path) == column.name}
    arguments: dict[str, Any] = {"write_page_index": True} if _PAGE_INDEX in (table.schema.metadata or {}) else {}
    if not encodings:
        return arguments
    if "DELTA_BINARY_PACKED" in encodings.values() and any(_holds_decimal(column.type) for column in table.schema):
        arguments["store_decimal_as_integer"] = True
    buffer = BytesIO()
    pq.write_table(packed(table.slice(0, 0)), buffer, **arguments)
    schema = pq.ParquetFile(buffer).schema
    kinds = {schema.column(number).path: schema.column(number).physical_type for number in range(len(schema.names))}
    encodings = {path: encoding for path, encoding in encodings.items() if kinds.get(path) in _ENCODINGS[encoding]}
    arguments["use_dictionary"] = [path for path in kinds if path not in encodings]
    arguments["column_encoding"] = encodings
    return arguments


def _holds_decimal(kind: pa.DataType) -> bool:
    return pa.types.is_decimal(kind) or any(_holds_decimal(child.type) for child in nested_fields(kind))


def packed(table: pa.Table) -> pa.Table:
    """Return the inverse of `unpacked`, for the rows and columns that are left."""
    fields, columns, notes = [], [], {}
    for column, values in zip(table.schema, table.columns, strict=True):
        metadata = column.metadata or {}
        notes[column.name] = {key: value for key, value in metadata.items() if key.startswith(NOTE)}
        content = _encoded(values, metadata) if _TYPE in metadata else values
        plain_metadata = {key: value for key, value in metadata.items() if not key.startswith(NOTE)}
        nullable = column.nullable or values.null_count > 0
        fields.append(column.with_type(content.type).with_metadata(plain_metadata or None).with_nullable(nullable))
        columns.append(content)
    pairs = {key: value for key, value in (table.schema.metadata or {}).items() if not key.startswith(NOTE)}
    about = {key: value for key, value in (table.schema.metadata or {}).items() if key.startswith(NOTE)}
    pairs |= _pandas(about, notes, table.num_rows) | _huggingface(about, notes)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, pairs or None))


def _type_notes(values: pa.ChunkedArray) -> _Pairs:
    """The type of a column, and the values of its dictionary in order, if they are few and the same in all chunks."""
    notes = {_TYPE: _stream(pa.schema([pa.field("", without(values.type, "order"))]).empty_table())}
    if pa.types.is_dictionary(values.type) and values.num_chunks:
        first = values.chunk(0).dictionary
        alike = all(chunk.dictionary.equals(first) for chunk in values.chunks)
        if alike and first.nbytes <= _MOST_VALUES:
            notes[_VALUES] = _stream(pa.table({"ordered" if values.type.ordered else "": first}))
    return notes


def _stream(table: pa.Table) -> bytes:
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, table.schema) as stream:
        stream.write_table(table)
    return bytes(buffer.getvalue())


def _of_stream(note: bytes) -> tuple[pa.Field, pa.Array]:
    with pa.ipc.open_stream(note) as stream:
        table = stream.read_all()
    field = table.schema.field(0)
    return field, column_of(table, field.name)


def _encoded(values: pa.ChunkedArray, notes: Mapping[bytes, bytes]) -> pa.ChunkedArray:
    """A column in the type that notes give; as it is where pyarrow cannot convert it, or not write it."""
    kind = _of_stream(notes[_TYPE])[0].type
    try:
        if not pa.types.is_dictionary(kind):
            content = values.cast(kind) if _is_writable(kind) else values
            content.validate()  # pyarrow 26 makes a wrong array of lists of nothing but nulls
            return content
        array = column_of(pa.table({"": values}), "")
        encoded = _by_values(array, kind, notes[_VALUES]) if _VALUES in notes else None
        if encoded is None:
            encoded = array.dictionary_encode()
            encoded = _dictionary(encoded.indices, encoded.dictionary, kind, False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return values
    return pa.chunked_array([encoded])


def _by_values(array: pa.Array, kind: pa.DictionaryType, note: bytes) -> pa.DictionaryArray | None:
    """The column with its dictionary in the order that it had; None where it holds other values.

    Values that no row has are left out, so that a text that a filter dropped is not in the output. An ordered
    dictionary, which is a scale, keeps them.
    """
    field, values = _of_stream(note)
    places = pc.index_in(array, values.cast(array.type))
    if places.null_count > array.null_count:
        return None
    if field.name == "ordered":
        return _dictionary(places, values, kind, True)
    used = pc.unique(places.drop_null()).sort()
    if len(used) < len(values):
        places, values = pc.index_in(places, used), values.take(used)
    return _dictionary(places, values, kind, False)


def _dictionary(places: pa.Array, values: pa.Array, kind: pa.DictionaryType, ordered: bool) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(places.cast(kind.index_type), values.cast(kind.value_type), ordered=ordered)


@lru_cache(maxsize=64)
def _is_writable(kind: pa.DataType) -> bool:
    """Whether pyarrow writes a type; views within structs it writes in a single row group only."""
    inner = kind
    while pa.types.is_list(inner) or pa.types.is_large_list(inner):
        inner = inner.value_type
    if pa.types.is_nested(inner) and without(inner, "view") != inner:
        return False
    try:
        pq.write_table(pa.schema([pa.field("", kind)]).empty_table(), BytesIO())
    except pa.ArrowNotImplementedError:
        return False
    return True


def _note_pandas(pairs: _Pairs, notes: Mapping[str, _Pairs]) -> None:
    """Move what pandas says of each column to its notes; the numbers of a range index to a note of their own."""
    try:
        about = json.loads(pairs.pop(_PANDAS))
        columns = {column.get("field_name", column["name"]): column for column in about["columns"]}
        ranges = [index for index in about["index_columns"] if isinstance(index, dict)]
        numbers = [[index[name] for name in ("start", "stop", "step")] for index in ranges]
        _ = (
            [len(range(*bounds)) for bounds in numbers],
            [level["pandas_type"] for level in about.get("column_indexes") or []],
        )
        _ = {index for index in about["index_columns"] if index not in ranges}
    except _MALFORMED:
        return
    about["columns"] = []
    for index in ranges:
        index.update(start=0, stop=0, step=1)
    pairs[NOTE + _PANDAS], pairs[_RANGE] = _json(about), _json(numbers)
    for name in notes.keys() & columns.keys():
        notes[name][NOTE + _PANDAS] = _json(columns[name])


def _pandas(about: _Pairs, notes: Mapping[str, _Pairs], rows: int) -> _Pairs:
    """Return what pandas is to know of the columns that are written; nothing if it could not read their names."""
    if NOTE + _PANDAS not in about:
        return {}
    description = json.loads(about[NOTE + _PANDAS])
    columns = {
        name: json.loads(column_notes[NOTE + _PANDAS])
        for name, column_notes in notes.items()
        if NOTE + _PANDAS in column_notes
    }
    columns = {name: column for name, column in columns.items() if column.get("field_name", column["name"]) == name}
    levels = description.get("column_indexes") or []
    if columns.keys() != notes.keys() and [level.get("pandas_type") for level in levels] not in ([], ["unicode"]):
        return {}
    ranges = [index for index in description["index_columns"] if isinstance(index, dict)]
    numbers = json.loads(about.get(_RANGE, b"[]"))
    if len(numbers) != len(ranges) or any(len(range(*bounds)) != rows for bounds in numbers):
        numbers = [[0, rows, 1] for _ in ranges]
    for index, bounds in zip(ranges, numbers, strict=True):
        index.update(zip(("start", "stop", "step"), bounds, strict=True))
    description["index_columns"] = [
        index for index in description["index_columns"] if isinstance(index, dict) or index in columns
    ]
    description["columns"] = list(columns.values())
    return {_PANDAS: _json(description)}


def _note_huggingface(pairs: _Pairs, notes: Mapping[str, _Pairs]) -> None:
    """Move the features of the library `datasets` to the notes of their columns."""
    try:
        about = json.loads(pairs[_HUGGINGFACE])
        features = dict(about["info"]["features"])
        about["info"]["features"] = {}
    except _MALFORMED:
        return
    del pairs[_HUGGINGFACE]
    pairs[NOTE + _HUGGINGFACE] = _json(about)
    for name in notes.keys() & features.keys():
        notes[name][NOTE + _HUGGINGFACE] = _json(features[name])


def _huggingface(about: _Pairs, notes: Mapping[str, _Pairs]) -> _Pairs:
    if NOTE + _HUGGINGFACE not in about:
        return {}
    description = json.loads(about[NOTE + _HUGGINGFACE])
    key = NOTE + _HUGGINGFACE
    description["info"]["features"] = {
        name: json.loads(column_notes[key]) for name, column_notes in notes.items() if key in column_notes
    }
    return {_HUGGINGFACE: _json(description)}


def _note_encodings(pairs: _Pairs, notes: Mapping[str, _Pairs], group: pq.RowGroupMetaData) -> None:
    """Note how the chunks of a row group are encoded that have no dictionary page; with one is pyarrow's default."""
    by_column: dict[str, dict[str, str]] = {}
    for chunk in map(group.column, range(group.num_columns)):
        encodings = set(chunk.encodings) & _ENCODINGS.keys()
        if len(encodings) == 1 and not chunk.has_dictionary_page and chunk.physical_type != "BOOLEAN":
            by_column.setdefault(_column_of(chunk.path_in_schema), {})[chunk.path_in_schema] = encodings.pop()
        if chunk.has_column_index:
            pairs[_PAGE_INDEX] = b""
    for name in notes.keys() & by_column.keys():
        notes[name][_ENCODING] = _json(by_column[name])


def _column_of(path: str) -> str:
    return path.partition(".")[0]


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
