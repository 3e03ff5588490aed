"""Rows with a sample each, its texts and images in lists, and interleaved rows: one made of the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import orjson
import pyarrow as pa

from dcurate.core.batch import Rejection
from dcurate.core.stage import Spec
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.images.interleaved.samples import NUMBER, NamedPicture, Record, Row, SampleColumns, rows_of_record
from dcurate.images.interleaved.stage import InterleavedStage
from dcurate.images.interleaved.write import Materialised, OnError, check_on_error
from dcurate.isolate.errors import MediaError
from dcurate.media.faults import FAULT
from dcurate.media.interleaved.materialise import source_of
from dcurate.media.interleaved.schema import BEFORE, RESERVED, SCHEMA, SourceRef, aligned, rows_of

Form = Literal["obelics", "mmc4"]

_MMC4 = ("text_list", "image_info")
#: What Hugging Face's Parquet files have for a picture.
_PICTURE = pa.struct([("bytes", pa.large_binary()), ("path", pa.string())])


def mmc4_record(record: Mapping[str, Any]) -> Record:
    """Return a sample of mmC4 with lists of texts and images: an image goes before the text that it is matched to.

    Examples:
        >>> info = [{"image_name": "a.png", "matched_text_index": 1, "matched_sim": 0.3}]
        >>> made = mmc4_record({"text_list": ["Hi", "there"], "image_info": info, "url": "u"})
        >>> made["texts"], made["images"], made["url"]
        (['Hi', None, 'there'], [None, 'a.png', None], 'u')
    """
    remaining = {name: value for name, value in record.items() if name not in _MMC4}
    texts: list[Any] = []
    images: list[Any] = []
    about: list[Any] = []
    waiting = sorted(record.get("image_info") or [], key=lambda info: int(info.get("matched_text_index") or 0))
    for number, text in enumerate(record.get("text_list") or []):
        while waiting and int(waiting[0].get("matched_text_index") or 0) <= number:
            info = waiting.pop(0)
            texts.append(None)
            images.append(info.get("raw_url") or info.get("image_name") or "")
            about.append(info)
        texts.append(text)
        images.append(None)
        about.append(None)
    for info in waiting:
        texts.append(None)
        images.append(info.get("raw_url") or info.get("image_name") or "")
        about.append(info)
    return {"texts": texts, "images": images, "metadata": about, **remaining}


@dataclass
class ToInterleaved(InterleavedStage):
    """Make interleaved rows of rows that hold a sample each, as OBELICS and mmC4 have them in Parquet and JSON Lines.

    The columns that are no lists of the sample stay columns, of their types, on its metadata row. Images are addresses
    or bytes: text, or Hugging Face's ``{bytes, path}``. What is no sample goes to quarantine.

    Args:
        form: ``"obelics"``: ``texts`` and ``images``, with null in one where the other has a value, and ``metadata``
            with a value for each place; ``"mmc4"``: ``text_list`` and ``image_info``.
        sample_id_field: the column with the id of a sample; by default made of the batch's key and the row's number.
        texts_field, images_field: the lists, for ``"obelics"``.
        position_fields: lists, also as JSON text, with a value for each place: each becomes one of its row, as JSON.

    Raises:
        PipelineError: the form is not known.

    Examples:
        >>> table = pa.table({"texts": [["Hi", None]], "images": [[None, "https://example.org/a.png"]], "n": [7]})
        >>> rows = ToInterleaved().process(DocumentBatch(data=table)).to_arrow()
        >>> rows["modality"].to_pylist(), rows["n"].to_pylist()
        (['metadata', 'text', 'image'], [7, None, None])
    """

    form: Form = "obelics"
    sample_id_field: str | None = None
    texts_field: str = "texts"
    images_field: str = "images"
    position_fields: list[str] = field(default_factory=lambda: ["metadata"])
    name: str = "to_interleaved"

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise PipelineError(f"{self.name}: form={self.form!r} is not one of {listed(get_args(Form))}")

    @property
    def _layout(self) -> SampleColumns:
        if self.form == "mmc4":
            return SampleColumns(by_position=("metadata",))
        return SampleColumns(self.texts_field, self.images_field, tuple(self.position_fields))

    @property
    def _lists(self) -> tuple[str, ...]:
        if self.form == "mmc4":
            return _MMC4
        return (self.texts_field, self.images_field, *self.position_fields)

    def inputs(self) -> Spec:
        needed = _MMC4 if self.form == "mmc4" else (self.texts_field, self.images_field)
        return ["data"], [*needed, *([self.sample_id_field] if self.sample_id_field is not None else [])]

    def optional_inputs(self) -> Sequence[str]:
        return self._lists

    def outputs(self) -> Spec:
        return ["data"], [*SCHEMA.names, *self._layout.columns]

    def dropped_columns(self) -> Sequence[str]:
        return [*self._lists, *([self.sample_id_field] if self.sample_id_field is not None else [])]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        taken = [name for name in self._lists if name in table.column_names]
        kept = [name for name in table.column_names if name not in taken]
        reserved = [name for name in kept if name in RESERVED and name != self.sample_id_field]
        if reserved:
            raise DataError(f"{self.name}: column {listed(reserved)} is one of interleaved rows; rename it first")
        rows: list[Row] = []
        faults: list[tuple[int, MediaError]] = []
        origin: list[int | None] = []
        ids = table[self.sample_id_field].to_pylist() if self.sample_id_field is not None else None
        digest = task.key.digest if task.key is not None else "0"
        for number, record in enumerate(table.select(taken).to_pylist()):
            name = f"{digest}-{number}" if ids is None else ids[number]
            try:
                if name is None:
                    raise MediaError("not an interleaved sample", f"{self.sample_id_field!r} is null")
                made = self._rows(str(name), record)
            except MediaError as error:
                faults.append((number, error))
                continue
            rows += made
            origin += [number if row["position"] == BEFORE else None for row in made]
        extra = [pa.field(name, pa.string()) for name in self._layout.columns]
        result = rows_of(rows, extra)
        passed = table.select([name for name in kept if name != self.sample_id_field])
        for name, column in zip(passed.column_names, passed.take(pa.array(origin, pa.int64())).columns, strict=True):
            result = result.append_column(passed.schema.field(name).with_nullable(True), column)
        return replace(task.with_data(result), rejections=tuple(_rejections(self.name, table, faults)))

    def _rows(self, name: str, record: Mapping[str, Any]) -> list[Row]:
        try:
            made = mmc4_record(record) if self.form == "mmc4" else record
            rows = rows_of_record(name, made, _locate, self._layout)
        except (TypeError, ValueError, AttributeError) as error:
            raise MediaError("not an interleaved sample", str(error)) from error
        rows[0]["text_content"] = None if rows[0]["text_content"] == "{}" else rows[0]["text_content"]
        return rows


def _locate(value: Any) -> NamedPicture:
    if isinstance(value, Mapping):
        path = value.get("path")
        return NamedPicture(SourceRef(path), value.get("bytes"))
    if isinstance(value, bytes):
        return NamedPicture(SourceRef(), value)
    return NamedPicture(SourceRef(str(value)))


def _rejections(stage: str, table: pa.Table, faults: Sequence[tuple[int, MediaError]]) -> Iterator[Rejection]:
    for reason in dict.fromkeys(error.fault.reason for _, error in faults):
        mine = [(row, error) for row, error in faults if error.fault.reason == reason]
        gone = table.take(pa.array([row for row, _ in mine], pa.int64()))
        gone = gone.append_column(FAULT, pa.array([error.fault.detail for _, error in mine], pa.string()))
        yield Rejection(stage, reason, gone.num_rows, gone.nbytes, gone, fault=True)


@dataclass
class FromInterleaved(InterleavedStage):
    """Make rows that hold a sample each, with lists of texts and images, of interleaved rows: OBELICS' columns.

    Columns of metadata rows are columns of the samples. Rows that are neither text, image nor metadata go to
    quarantine with their sample.

    Args:
        sample_id_field: the column for the id of a sample, or None for none.
        images: what the list of images holds: ``"addresses"``, text; or ``"bytes"``, Hugging Face's ``{bytes, path}``:
            images that the rows only refer to are fetched.
        on_materialize_error: same setting as in `InterleavedWebDatasetWriter`, where an image cannot be fetched.
        texts_field, images_field: the lists.
        position_fields: columns that become JSON text, a list with a value for each place.
        storage_options: for fsspec.

    Raises:
        PipelineError: the form of images is not known.

    Examples:
        >>> table = pa.table({"texts": [["Hi", None]], "images": [[None, "https://example.org/a.png"]], "n": [7]})
        >>> rows = ToInterleaved().process(DocumentBatch(data=table))
        >>> FromInterleaved(sample_id_field=None).process(rows).to_arrow().equals(table)
        True
    """

    sample_id_field: str | None = "sample_id"
    images: Literal["addresses", "bytes"] = "addresses"
    texts_field: str = "texts"
    images_field: str = "images"
    position_fields: list[str] = field(default_factory=lambda: ["metadata"])
    on_materialize_error: OnError = "drop_sample"
    storage_options: dict[str, Any] | None = None
    name: str = "from_interleaved"

    def __post_init__(self) -> None:
        if self.images not in ("addresses", "bytes"):
            raise PipelineError(f"{self.name}: images={self.images!r} must be 'addresses' or 'bytes'")
        check_on_error(self.name, self.on_materialize_error)

    def settings(self) -> dict[str, Any]:
        """All settings but those of the storage."""
        return {name: value for name, value in super().settings().items() if name != "storage_options"}

    def inputs(self) -> Spec:
        return ["data"], list(SCHEMA.names[:3])

    def outputs(self) -> Spec:
        id_fields = [] if self.sample_id_field is None else [self.sample_id_field]
        return ["data"], [*id_fields, self.texts_field, self.images_field]

    def columns_after(self, columns: Sequence[str]) -> None:
        """Not known: columns of metadata rows become columns of the samples."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = aligned(task.to_arrow())
        extra = [name for name in table.column_names if name not in RESERVED]
        layout = SampleColumns(
            self.texts_field, self.images_field, tuple(n for n in self.position_fields if n in extra)
        ).with_unnamed(table)
        images = Materialised(table, self.on_materialize_error, self.storage_options, self.name)
        records, origin = [], list[int | None]()
        for sample in images.samples(self.images == "bytes"):
            try:
                record = sample.record(layout, lambda row, _: self._image(row), columns=False)
            except MediaError as error:
                images.lose(sample.rows, error.fault.reason)
                continue
            records.append({"sample_id": sample.name, **record})
            before = [row[NUMBER] for row in sample.rows if row["position"] == BEFORE]
            origin.append(before[0] if before else None)
        made = self._table(records, layout)
        passed = table.select([name for name in extra if name not in layout.columns])
        for name, column in zip(passed.column_names, passed.take(pa.array(origin, pa.int64())).columns, strict=True):
            made = made.append_column(passed.schema.field(name), column)
        return replace(task.with_data(made), rejections=images.rejections)

    def _image(self, row: Row) -> Any:
        ref = source_of(row["source_ref"])
        address = ref.path if ref.member is None else ref.member
        return address or "" if self.images == "addresses" else {"bytes": row["binary_content"], "path": address}

    def _table(self, records: Sequence[Record], layout: SampleColumns) -> pa.Table:
        kind = pa.string() if self.images == "addresses" else _PICTURE
        columns: dict[str, pa.Array] = {}
        if self.sample_id_field is not None:
            columns[self.sample_id_field] = pa.array([record["sample_id"] for record in records], pa.string())
        columns[layout.texts] = pa.array([record[layout.texts] for record in records], pa.list_(pa.string()))
        columns[layout.images] = pa.array([record[layout.images] for record in records], pa.list_(kind))
        taken = {"sample_id", layout.texts, layout.images}
        for name in dict.fromkeys(name for record in records for name in record if name not in taken):
            texts = [_as_text(record.get(name)) for record in records]
            columns[name] = pa.array(texts, pa.string())
        return pa.table(columns)


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()
