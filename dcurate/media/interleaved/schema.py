"""The columns of interleaved rows, as NeMo Curator has them, and where the bytes of a row are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa

from dcurate.errors import DataError, listed

#: The modalities of rows that dcurate reads and writes; a stage may make others, such as ``"table"``.
METADATA: Final = "metadata"
TEXT: Final = "text"
IMAGE: Final = "image"
#: The position of a metadata row.
BEFORE: Final = -1

#: The reserved columns, in order, with NeMo Curator's names and types:
#: https://github.com/NVIDIA-NeMo/Curator/blob/main/nemo_curator/tasks/interleaved.py
SCHEMA: Final = pa.schema(
    [
        pa.field("sample_id", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("modality", pa.string(), nullable=False),
        pa.field("content_type", pa.string()),
        pa.field("text_content", pa.string()),
        pa.field("binary_content", pa.large_binary()),
        pa.field("source_ref", pa.string()),
        pa.field("materialize_error", pa.string()),
    ]
)
RESERVED: Final = frozenset(SCHEMA.names)
REQUIRED: Final = tuple(field.name for field in SCHEMA if not field.nullable)

_WIDER = {(pa.large_string(), pa.string()), (pa.large_binary(), pa.large_binary())}


@dataclass(frozen=True)
class SourceRef:
    """Where the bytes of a row are.

    Args:
        path: the file or the archive, as fsspec opens it; None if nobody knows.
        member: the name within the archive, or None for a file of its own.
        byte_offset: offset of the bytes within the archive, where they are stored as they are.
        byte_size: how many there are.
        frame_index: the page of a TIFF with several.

    Examples:
        >>> ref = SourceRef("shard-0.tar", "a.png", 512, 90)
        >>> ref.json
        '{"path": "shard-0.tar", "member": "a.png", "byte_offset": 512, "byte_size": 90}'
        >>> SourceRef.of(ref.json) == ref, SourceRef.of(None)
        (True, SourceRef(path=None, member=None, byte_offset=None, byte_size=None, frame_index=None))
    """

    path: str | None = None
    member: str | None = None
    byte_offset: int | None = None
    byte_size: int | None = None
    frame_index: int | None = None

    @property
    def json(self) -> str:
        """The text for the column ``source_ref``; ASCII."""
        record = {name: getattr(self, name) for name in ("path", "member", "byte_offset", "byte_size")}
        frame = {} if self.frame_index is None else {"frame_index": self.frame_index}
        return json.dumps(record | frame)

    @classmethod
    def of(cls, text: str | None) -> SourceRef:
        """Read a value of the column ``source_ref``; null and empty text are a row without bytes elsewhere.

        Raises:
            DataError: it is not a JSON object, or a number in it is none.
        """
        if not text:
            return cls()
        try:
            record = orjson.loads(text)
            if not isinstance(record, Mapping):
                raise TypeError(f"it holds {type(record).__name__}")
            names = [_whole(record.get(name), str) for name in ("path", "member")]
            numbers = [_whole(record.get(name), int) for name in ("byte_offset", "byte_size", "frame_index")]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"source_ref must be a JSON object with path and member, not {text[:80]!r}: {error}"
            ) from error
        return cls(*names, *numbers)


def _whole(value: Any, kind: type) -> Any:
    made = None if value is None else kind(value)
    if kind is int and made is not None and not 0 <= made < 2**63:
        raise ValueError(f"{made} is not a place in a file")
    return made


def check(names: Iterable[str]) -> None:
    """Refuse columns that are not those of interleaved rows.

    Raises:
        DataError: names the columns that are missing.

    Examples:
        >>> check(["sample_id", "text"])
        Traceback (most recent call last):
        dcurate.errors.DataError: rows have no column 'position', 'modality'; read them with an interleaved reader
    """
    present = set(names)
    missing = [name for name in REQUIRED if name not in present]
    if missing:
        raise DataError(f"rows have no column {listed(missing)}; read them with an interleaved reader")


def aligned(table: pa.Table) -> pa.Table:
    """Return the rows with all reserved columns, first and in order, of their types; other columns follow as they are.

    Large strings stay large, so that no column is too long for its type.

    Raises:
        DataError: a required column is missing or has nulls, or values do not go with their type.

    Examples:
        >>> rows = pa.table({"position": [0], "sample_id": ["a"], "modality": ["text"], "url": ["u"]})
        >>> aligned(rows).column_names[:3], aligned(rows).column_names[-1]
        (['sample_id', 'position', 'modality'], 'url')
    """
    check(table.column_names)
    fields, columns = [], []
    for field in SCHEMA:
        if field.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, field.type))
            fields.append(field)
            continue
        column = table[field.name]
        if not field.nullable and column.null_count:
            raise DataError(
                f"column {field.name!r} of interleaved rows has {column.null_count} nulls; it must have none"
            )
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        wanted = kind if (kind, field.type) in _WIDER else field.type
        try:
            columns.append(column.cast(wanted))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"column {field.name!r} of interleaved rows must be {wanted}: {error}") from error
        fields.append(field.with_type(wanted))
    for field in table.schema:
        if field.name not in RESERVED:
            columns.append(table[field.name])
            fields.append(field)
    return pa.table(columns, schema=pa.schema(fields, table.schema.metadata))


def rows_of(records: Iterable[Mapping[str, Any]], extra: Iterable[pa.Field] = ()) -> pa.Table:
    """Make a table of rows given as mappings; what a row does not have is null.

    Args:
        records: the rows, with reserved names and those of `extra`.
        extra: further columns.

    Raises:
        DataError: a value does not go with its column.

    Examples:
        >>> rows_of([{"sample_id": "a", "position": 0, "modality": "text", "text_content": "Hi"}]).num_columns
        8
    """
    schema = pa.schema([*SCHEMA, *extra])
    try:
        return pa.Table.from_pylist([dict(record) for record in records], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(f"a row does not go with the columns of interleaved rows: {error}") from error
