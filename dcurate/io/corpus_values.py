"""Values of the columns that describe documents: which suit a role, and as what they are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

_INTEGERS, _MILLISECONDS, _FLAGS = ("tokens", "bytes"), ("duration",), ("synthetic",)
#: More milliseconds of one recording are a mistake.
_LONGEST_MS = 10**12
#: More tokens or bytes of one document are a mistake; sums of them are far from the end of 64 bits.
_LARGEST = 10**12


def is_of_rights(name: str) -> bool:
    """Whether a column says what may be done with a document, by its name; its values are counted.

    Examples:
        >>> [is_of_rights(name) for name in ("rights_train", "opted_out", "url")]
        [True, True, False]
    """
    return name.startswith("rights_") or name == "opted_out"


def has_lengths(kind: pa.DataType) -> bool:
    """Whether the bytes of each value of a column of this type can be read off its offsets."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def suits(role: str, kind: pa.DataType) -> bool:
    """Whether a column of this type can have the role."""
    kind = _value_type(kind)
    if role in _INTEGERS:
        return bool(pa.types.is_integer(kind))
    if role in _MILLISECONDS:
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
    if role in _FLAGS:
        return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind))
    if role == "text":
        return not pa.types.is_integer(kind) and not pa.types.is_floating(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return role == "licence" or is_of_rights(role)
    if is_of_rights(role) and pa.types.is_boolean(kind):
        return True
    if pa.types.is_struct(kind):  # as `LanguageFilter` notes a language and its score
        return role == "language" and any(field.name == role and suits(role, field.type) for field in kind)
    dates = role == "date" and (pa.types.is_timestamp(kind) or pa.types.is_date(kind))
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(is_text or dates)


def type_of(role: str) -> pa.DataType:
    """Return the type that values of a role are counted as."""
    if role in _INTEGERS or role in _MILLISECONDS:
        return pa.int64()
    return pa.bool_() if role in _FLAGS else pa.string()


def as_role(role: str, column: pa.Array) -> pa.Array:
    """A column with the type of its role; values that make no sense are null."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if role in _INTEGERS:
        return numbers_of(column)
    if role in _MILLISECONDS:
        return _milliseconds(column)
    if role in _FLAGS:
        return pc.cast(column, pa.bool_())
    if pa.types.is_struct(column.type):
        return as_role(role, pc.struct_field(column, role))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return pa.array([plain_value(role, value) for value in column.to_pylist()], pa.string())
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return pc.cast(pc.cast(column, pa.date32(), safe=False), pa.string())
    return pc.cast(column, pa.string())


def numbers_of(column: pa.Array) -> pa.Array:
    """Return whole numbers as int64; those below 0 or above 10^12 are null."""
    column = pc.cast(column, pa.int64(), safe=False)
    return pc.if_else(pc.and_(pc.greater_equal(column, 0), pc.less_equal(column, _LARGEST)), column, None)


def _milliseconds(column: pa.Array) -> pa.Array:
    column = pc.round(pc.multiply(pc.cast(column, pa.float64(), safe=False), 1000.0))
    right = pc.and_(pc.greater_equal(column, 0.0), pc.less_equal(column, float(_LONGEST_MS)))
    return pc.cast(pc.if_else(right, column, None), pa.int64())


def plain_value(role: str, value: Any) -> Any:
    """A value of JSON with the type of its role; None if it has another."""
    if role in _FLAGS:
        return bool(value) if isinstance(value, int) else None
    if role in _INTEGERS:
        return value if type(value) is int and 0 <= value <= _LARGEST else None
    if role in _MILLISECONDS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        milliseconds = np.rint(value * 1000.0) if abs(value) <= _LONGEST_MS else -1
        return int(milliseconds) if 0 <= milliseconds <= _LONGEST_MS else None
    if role == "licence" and isinstance(value, list):
        return _text(" AND ".join(sorted({entry for entry in value if isinstance(entry, str)}))) or None
    if is_of_rights(role) and isinstance(value, list):
        return _text(", ".join(sorted({str(entry) for entry in value})))
    if is_of_rights(role) and isinstance(value, bool):
        return str(value).lower()
    if role == "language" and isinstance(value, dict):
        value = value.get(role)
    return _text(value) if isinstance(value, str) else None


def _text(value: str) -> str:
    """Text that is UTF-8."""
    return value.encode("utf-8", "replace").decode()


def length_of(value: Any) -> int | None:
    """Bytes of a text; of another value, of its JSON."""
    if value is None:
        return None
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else len(orjson.dumps(value))


def kind_of(value: Any) -> str:
    """Return what a value of JSON is, in the words of `simple_type`; ``"null"`` for none."""
    if value is None:
        return "null"
    names = {bool: "flag", int: "integer", float: "float", str: "text"}
    return names.get(type(value), "nested")


def simple_type(kind: pa.DataType) -> str:
    """Return what a column holds: ``"text"``, ``"integer"``, ``"float"``, ``"flag"``, ``"date"``, ``"binary"``, ``"nested"``.

    Examples:
        >>> simple_type(pa.large_string()), simple_type(pa.list_(pa.int8()))
        ('text', 'nested')
    """  # noqa: E501
    kind = _value_type(kind)
    tests = {
        "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        "flag": (pa.types.is_boolean,),
        "integer": (pa.types.is_integer,),
        "float": (pa.types.is_floating,),
        "date": (pa.types.is_timestamp, pa.types.is_date),
        "binary": (pa.types.is_binary, pa.types.is_large_binary),
    }
    return next((name for name, checks in tests.items() if any(check(kind) for check in checks)), "nested")
