"""Samples as records with lists of texts and images, as MINT-1T and OBELICS have them, and as interleaved rows."""

from __future__ import annotations

import datetime
import json
import math
import mimetypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

import orjson
import pyarrow as pa

from dcurate.errors import PipelineError, listed
from dcurate.isolate.errors import MediaError
from dcurate.media.interleaved.schema import BEFORE, IMAGE, METADATA, RESERVED, TEXT, SourceRef

#: A row of interleaved rows, by column.
Row: TypeAlias = dict[str, Any]
#: A sample as JSON has it.
Record: TypeAlias = dict[str, Any]

#: Where rows keep their number in their table, while a stage works on them.
NUMBER: Final = "__number"

_JSON, _PLAIN, _UNKNOWN = "application/json", "text/plain", "application/octet-stream"
#: Positions of a sample that lists may leave empty, about: the last one says how long the lists are.
_MOST_POSITIONS = 1_000_000
_TYPES = {".webp": "image/webp", ".avif": "image/avif", ".jp2": "image/jp2", ".tif": "image/tiff", ".jpg": "image/jpeg"}


def content_type(name: str | None) -> str | None:
    """Return the media type of a picture by the ending of its name; None if that says nothing.

    Examples:
        >>> content_type("a.JPG"), content_type("https://example.org/b.webp?w=3"), content_type("0")
        ('image/jpeg', 'image/webp', None)
    """
    if not name:
        return None
    path = name.lower().partition("?")[0] if "://" in name else name.lower()
    ending = path[path.rfind(".") :] if "." in path.rpartition("/")[2] else ""
    return _TYPES.get(ending) or mimetypes.guess_type(f"a{ending}")[0]


class NamedPicture(NamedTuple):
    """A picture that a sample names: where it is, or the bytes themselves.

    Args:
        ref: its place.
        data: its bytes, where the record holds them.
        kind: its media type, where it is known otherwise than by the name.
        error: why it cannot be had.
    """

    ref: SourceRef
    data: bytes | None = None
    kind: str | None = None
    error: str | None = None


#: Finds the picture that a sample names: by the value in its list of images.
Locate: TypeAlias = Callable[[Any], NamedPicture]


@dataclass(frozen=True)
class SampleColumns:
    """The names of the lists in a record.

    Args:
        texts: the list of texts, null where there is an image.
        images: the list of images, null where there is a text.
        by_position: lists with a value for each place of these two: they go with the rows, so that a row that is
            dropped takes its own along.
        by_image: lists with a value for each image that is not null.
        by_text: lists with a value for each text that is not null.
        fields: values of the record that become columns of the metadata row; all of them are in its ``text_content``.
        by_row: lists with a value for each place, as by_position, of columns that hold values rather than JSON.
        unnamed: columns of these three that nobody named: samples without a value have no list.

    Raises:
        PipelineError: a reserved name among those that become columns.

    Examples:
        >>> SampleColumns(fields=("position",))
        Traceback (most recent call last):
        dcurate.errors.PipelineError: 'position' is a column of interleaved rows; it cannot be one of the sample's
    """

    texts: str = "texts"
    images: str = "images"
    by_position: tuple[str, ...] = ("metadata",)
    by_image: tuple[str, ...] = ()
    by_text: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    by_row: tuple[str, ...] = ()
    unnamed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        reserved = [name for name in self.columns if name in RESERVED]
        if reserved:
            raise PipelineError(f"{listed(reserved)} is a column of interleaved rows; it cannot be one of the sample's")

    @property
    def columns(self) -> list[str]:
        """The columns besides those of all interleaved rows."""
        named = (*self.fields, *self.by_position, *self.by_image, *self.by_text, *self.by_row)
        return list(dict.fromkeys(named))

    def with_unnamed(self, table: pa.Table) -> SampleColumns:
        """Return the layout with the columns of a table that have values for texts or images and are not named.

        Examples:
            >>> rows = {"modality": ["metadata", "text", "image"], "url": ["u", None, None], "score": [None, 0.5, None]}
            >>> layout = SampleColumns().with_unnamed(pa.table({**rows, "size": [None, 3, 4]}))
            >>> layout.by_text, layout.by_image, layout.by_row
            (('score',), (), ('size',))
        """
        kinds_of: dict[str, set[str]] = {}
        modalities = table["modality"].to_numpy(zero_copy_only=False)
        for name in table.column_names:
            if name in RESERVED or name == NUMBER or name in {*self.by_position, *self.by_image, *self.by_text}:
                continue
            valid = table[name].is_valid().to_numpy()
            kinds_of[name] = {kind for kind in (TEXT, IMAGE) if (valid & (modalities == kind)).any()}
        columns = {kind: tuple(name for name, kinds in kinds_of.items() if kinds == {kind}) for kind in (TEXT, IMAGE)}
        both = tuple(name for name, kinds in kinds_of.items() if len(kinds) > 1)
        return replace(
            self,
            by_text=(*self.by_text, *columns[TEXT]),
            by_image=(*self.by_image, *columns[IMAGE]),
            by_row=(*self.by_row, *both),
            unnamed=frozenset([*columns[TEXT], *columns[IMAGE], *both]),
        )


def as_column(value: Any) -> str | None:
    """Return a value of a record as text for a column: text as it is, anything else as JSON.

    Examples:
        >>> as_column("a"), as_column([1, None]), as_column(None)
        ('a', '[1, null]', None)
    """
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def rows_of_record(
    sample: str, record: Mapping[str, Any], locate: Locate, layout: SampleColumns, source: SourceRef | None = None
) -> list[Row]:
    """Return the rows of a sample: the one of metadata, then texts and images in order.

    Args:
        sample: its id.
        record: the sample.
        locate: finds a picture.
        layout: the names of its lists.
        source: where the record is.

    Raises:
        MediaError: the lists are none, or are not of one length.

    Examples:
        >>> record = {"texts": ["Hi", None], "images": [None, "a.png"], "url": "u"}
        >>> rows = rows_of_record("s", record, lambda name: NamedPicture(SourceRef(name)), SampleColumns())
        >>> [(row["position"], row["modality"], row.get("text_content")) for row in rows]
        [(-1, 'metadata', '{"url": "u"}'), (0, 'text', 'Hi'), (1, 'image', None)]
    """
    texts, images = _lists(record, layout)
    full = [text is not None or image is not None for text, image in zip(texts, images, strict=True)]
    aligned = {name: values for name in layout.by_position if (values := _aligned(record.get(name), full))}
    by_modality = {
        TEXT: _each(record, layout.by_text, texts),
        IMAGE: _each(record, layout.by_image, images),
    }
    taken = {layout.texts, layout.images, *aligned, *by_modality[TEXT], *by_modality[IMAGE]}
    remaining = {name: value for name, value in record.items() if name not in taken}
    about = None if source is None or source.path is None else source.json
    rows: list[Row] = [
        {
            "sample_id": sample,
            "position": BEFORE,
            "modality": METADATA,
            "content_type": _JSON,
            "text_content": json.dumps(remaining, ensure_ascii=False),
            "source_ref": about,
            **{name: as_column(record.get(name)) for name in layout.fields},
        }
    ]
    frames: dict[tuple[str | None, str | None], int] = {}
    counts = {TEXT: 0, IMAGE: 0}
    for place, (text, image) in enumerate(zip(texts, images, strict=True)):
        for modality, value in ((TEXT, text), (IMAGE, image)):
            if value is None:
                continue
            row: Row = {"sample_id": sample, "position": place, "modality": modality}
            row |= _text(value, about) if modality == TEXT else _image(locate(value), frames)
            row |= {name: _as_json(values[place]) for name, values in aligned.items()}
            row |= {name: values[counts[modality]] for name, values in by_modality[modality].items()}
            counts[modality] += 1
            rows.append(row)
    return rows


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _text(value: Any, about: str | None) -> Row:
    return {"content_type": _PLAIN, "text_content": str(value), "source_ref": about}


def _image(picture: NamedPicture, frames: dict[tuple[str | None, str | None], int]) -> Row:
    ref = picture.ref
    kind = picture.kind or content_type(ref.member or ref.path)
    if kind == "image/tiff" and ref.path is not None and ref.frame_index is None and picture.error is None:
        # A file of several pages is named once for each of its pages.
        page = frames.get((ref.path, ref.member), 0)
        frames[ref.path, ref.member] = page + 1
        ref = SourceRef(ref.path, ref.member, ref.byte_offset, ref.byte_size, page)
    return {
        "content_type": kind or _UNKNOWN,
        "binary_content": picture.data,
        "source_ref": ref.json,
        "materialize_error": picture.error,
    }


def _lists(record: Mapping[str, Any], layout: SampleColumns) -> tuple[list[Any], list[Any]]:
    """The lists of texts and images, the shorter one filled up with nulls."""
    lists = []
    for name in (layout.texts, layout.images):
        value = record.get(name)
        if value is not None and not isinstance(value, list):
            raise MediaError("not an interleaved sample", f"{name!r} is {type(value).__name__}, not a list")
        lists.append(value or [])
    if not any(name in record for name in (layout.texts, layout.images)):
        raise MediaError("not an interleaved sample", f"no list {layout.texts!r} or {layout.images!r}")
    size = max(map(len, lists))
    texts, images = ([*values, *[None] * (size - len(values))] for values in lists)
    return texts, images


def _aligned(value: Any, full: Sequence[bool]) -> list[Any] | None:
    """A list with a value for each place, also as JSON text, in which OBELICS has it; None for anything else.

    Values at places without text and image would be lost: such a list stays with the sample as a whole.
    """
    if isinstance(value, str) and value.startswith("["):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    if not isinstance(value, list) or len(value) != len(full):
        return None
    return value if all(here or entry is None for here, entry in zip(full, value, strict=True)) else None


def _each(record: Mapping[str, Any], names: Sequence[str], values: Sequence[Any]) -> dict[str, list[Any]]:
    """Lists with a value for each text or image; one of another length stays with the sample as a whole."""
    count = sum(value is not None for value in values)
    return {name: record[name] for name in names if isinstance(record.get(name), list) and len(record[name]) == count}


#: Marks a column in which some values are JSON.
_JSON_VALUES = {b"dcurate.values": b"json"}


def with_types(rows: Sequence[Row], names: Sequence[str]) -> list[pa.Field]:
    """Return columns for values of rows: of their type, if one type holds all of them unchanged, else JSON.

    In a column of JSON a text is unchanged, unless it could be read as JSON.

    Args:
        rows: interleaved rows, in which values that become JSON are replaced.
        names: names of the columns.

    Examples:
        >>> rows = [{"n": 1, "mixed": "a"}, {"n": None, "mixed": {"k": 2}}, {"n": 0.5, "mixed": "7"}]
        >>> [str(column.type) for column in with_types(rows, ["n", "mixed"])], [row["mixed"] for row in rows]
        (['double', 'string'], ['a', '{"k": 2}', '"7"'])
    """
    fields = []
    for name in names:
        values = [row.get(name) for row in rows]
        kind = _type_of(values)
        fields.append(pa.field(name, pa.string(), metadata=_JSON_VALUES) if kind is None else pa.field(name, kind))
        for row in rows if kind is None else ():
            if row.get(name) is not None:
                row[name] = _json_value(row[name])
    return fields


def _type_of(values: Sequence[Any]) -> pa.DataType | None:
    """The type of a column that returns the same values."""
    try:
        column = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return None
    flat = column.type.value_type if pa.types.is_list(column.type) else column.type
    if pa.types.is_nested(flat):  # objects: each would get the keys of the others
        return None
    if not pa.types.is_boolean(flat) and any(_holds_bool(value) for value in values):  # pyarrow makes 0.0 of false
        return None
    return column.type if column.to_pylist() == list(values) else None


def _holds_bool(value: Any) -> bool:
    return any(map(_holds_bool, value)) if isinstance(value, list) else isinstance(value, bool)


def _json_value(value: Any) -> str:
    if isinstance(value, str):
        try:
            orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return json.dumps(value, ensure_ascii=False)


def _value_of(text: Any) -> Any:
    try:
        return text if text is None else orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _plain(value: Any, name: str) -> Any:
    """A value as JSON can hold it.

    Raises:
        MediaError: JSON cannot.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_plain(element, name) for element in value]
    if isinstance(value, dict):
        return {key: _plain(member, name) for key, member in value.items()}
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if value is None or isinstance(value, str | int | float):
        return value
    raise MediaError("a value that JSON cannot hold", f"column {name!r} has {type(value).__name__}; cast it to text")


@dataclass(frozen=True)
class Sample:
    """The rows of one sample.

    Args:
        name: its id.
        rows: the rows, in order of their positions, that of metadata first.
    """

    name: str
    rows: list[Row]

    @property
    def images(self) -> list[Row]:
        """Its images, in order."""
        return [row for row in self.rows if row["modality"] == IMAGE]

    def record(self, layout: SampleColumns, name_of: Callable[[Row, int], Any], columns: bool = True) -> Record:
        """Return the sample as a record, from which `rows_of_record` makes the same rows.

        Args:
            layout: the names of its lists.
            name_of: what the list of images is to hold for an image: called with its row and its number.
            columns: whether columns of the metadata row are values of the record.

        Raises:
            MediaError: a row is neither metadata, text nor image, two of one kind have the same position, positions lie
                too far apart for lists, metadata are not JSON, or a column has values that one list cannot hold.
        """
        before = [row for row in self.rows if row["modality"] == METADATA]
        rows = [row for row in self.rows if row["modality"] != METADATA]
        size = max((row["position"] for row in rows), default=-1) + 1
        if size > max(_MOST_POSITIONS, 2 * len(rows)):
            raise MediaError("positions too far apart", f"{size - 1:,} is the last of {len(rows):,} rows")
        record: Record = {layout.texts: [None] * size, layout.images: [None] * size}
        counts = {TEXT: 0, IMAGE: 0}
        for row in rows:
            kind, place = row["modality"], row["position"]
            if kind not in counts or place < 0:
                raise MediaError("a row of another kind", f"modality {kind!r} at position {place}")
            held = record[layout.texts if kind == TEXT else layout.images]
            if held[place] is not None:
                raise MediaError("two rows at one position", f"{kind} at {place}")
            held[place] = (row["text_content"] or "") if kind == TEXT else name_of(row, counts[IMAGE])
            counts[kind] += 1
        record |= self._rest(before[0] if before else None, layout, columns)
        _add_columns(record, rows, layout, before[0] if before else {})
        return record

    def _rest(self, before: Row | None, layout: SampleColumns, columns: bool) -> Record:
        """The values of the sample as a whole; a column that a stage has changed goes before what was read."""
        if before is None:
            return {}
        text = before.get("text_content")
        metadata = _from_json(text, "metadata") if text else {}
        if not isinstance(metadata, dict):
            raise MediaError("bad metadata", f"it holds {type(metadata).__name__}, not an object")
        for name, value in before.items() if columns else ():
            if name in RESERVED or name == NUMBER or value is None or name in layout.by_position:
                continue
            if as_column(metadata.get(name)) != value:
                metadata[name] = value
        return dict(metadata)


def _from_json(text: Any, label: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise MediaError("bad metadata", f"{label} is not JSON: {error}") from error


def _add_columns(record: Record, rows: Sequence[Row], layout: SampleColumns, before: Row) -> None:
    """Add lists with a value for each place, text or image."""
    for name in (*layout.by_position, *layout.by_row):
        if any(row.get(name) is not None for row in rows):
            if name in layout.by_row:
                _check_free(record, name, before)
            record[name] = values = [None] * len(record[layout.texts])
            for row in rows:
                value = row.get(name)
                is_json = name in layout.by_position and isinstance(value, str)
                _put(values, row["position"], _from_json(value, name) if is_json else _plain(value, name), name)
    for names, kind in ((layout.by_text, TEXT), (layout.by_image, IMAGE)):
        for name in names:
            values = [_plain(row.get(name), name) for row in rows if row["modality"] == kind]
            if any(value is not None for value in values):
                _check_free(record, name, before)
                record[name] = values
            elif name not in layout.unnamed:
                record.setdefault(name, values)


def _check_free(record: Record, name: str, before: Row) -> None:
    """Refuse a column with a value of the sample and values of its texts or images, unless the former is a list."""
    value = record.get(name, before.get(name))
    if value is not None and not str(value).startswith("["):
        raise MediaError("one column for a sample and its parts", f"{name!r} has values of both; rename one of them")


def _put(values: list[Any], place: int, value: Any, name: str) -> None:
    if value is not None and values[place] is not None and values[place] != value:
        raise MediaError("two values at one position", f"column {name!r} at {place}")
    values[place] = values[place] if value is None else value


def numbered(table: pa.Table) -> list[Row]:
    """Return the rows of a table, with their numbers."""
    rows = [{**row, NUMBER: number} for number, row in enumerate(table.to_pylist())]
    for field in table.schema:
        if (field.metadata or {}).items() >= _JSON_VALUES.items():
            for row in rows:
                row[field.name] = _value_of(row[field.name])
    return rows


def samples_of(rows: Sequence[Row]) -> Iterator[Sample]:
    """Yield the samples of rows in the order in which their first rows come, each with its rows by position.

    Examples:
        >>> rows = [{"sample_id": name, "position": place} for name, place in (("b", 1), ("a", 0), ("b", -1))]
        >>> [(sample.name, [row["position"] for row in sample.rows]) for sample in samples_of(rows)]
        [('b', [-1, 1]), ('a', [0])]
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["sample_id"], []).append(row)
    for name, sample_rows in groups.items():
        yield Sample(name, sorted(sample_rows, key=lambda row: int(row["position"])))
