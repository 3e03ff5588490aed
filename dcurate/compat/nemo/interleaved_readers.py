"""Readers of interleaved documents with NeMo Curator's names and arguments."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.compat.nemo.interleaved import InterleavedBatch, materialize_task_binary_content
from dcurate.compat.nemo.partitioning import FilePartitioningStage
from dcurate.compat.nemo.stages import CompositeStage, ProcessingStage, Spec
from dcurate.compat.nemo.tasks import EmptyTask, FileGroupTask
from dcurate.images.interleaved import parquet, webdataset
from dcurate.images.interleaved.samples import as_column
from dcurate.media.containers import LostPart
from dcurate.media.interleaved.schema import METADATA, RESERVED, SCHEMA, SourceRef, aligned

DEFAULT_WEBDATASET_EXTENSIONS = (".tar", ".tar.gz", ".tgz")
DEFAULT_JSON_EXTENSIONS = (".json",)
DEFAULT_IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".gif")

_log = logging.getLogger("dcurate.compat.nemo")
_NO_LIMIT = 2**62


class _InterleavedReader(webdataset.InterleavedWebDatasetReader):
    """dcurate's reader, in which a sample is called after its file unless a field says otherwise."""

    def _id(self, record: dict[str, Any], key: str) -> str:
        sample_id = record.get(self.sample_id_field) if self.sample_id_field else None
        return key.rpartition("/")[2] if sample_id is None else str(sample_id)

    def _sample(self, document: Any, archive: Any) -> Any:
        made = super()._sample(document, archive)
        return made if isinstance(made, LostPart) else made._replace(nbytes=made.nbytes + document.size)


@dataclass
class BaseInterleavedReader(ProcessingStage[FileGroupTask, InterleavedBatch]):
    """The base of stages that read the files of a task.

    Args:
        read_kwargs: ``storage_options`` for fsspec.
        schema: the columns, to which all rows are made to fit.
        schema_overrides: types of columns, besides those of all interleaved rows.
    """

    read_kwargs: dict[str, Any] = field(default_factory=dict)
    schema: Any = None
    schema_overrides: dict[str, Any] | None = None
    name: str = "base_interleaved_reader"

    def __post_init__(self) -> None:
        self.schema = resolve_schema(self.schema, self.schema_overrides)

    @property
    def _options(self) -> dict[str, Any]:
        return dict((self.read_kwargs or {}).get("storage_options") or {})

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], ["sample_id", "position", "modality"]

    def _batches(self, task: FileGroupTask, tables: list[tuple[list[str], pa.Table]], more: Sequence[str] = ()) -> Any:
        """Return a batch for each table, or an empty one.

        Args:
            tables: each with the files that its rows are from; all of the task if empty.
            more: columns of an empty batch.
        """
        made = []
        none = pa.schema([*SCHEMA, *(pa.field(name, pa.null()) for name in more if name not in RESERVED)])
        for number, (paths, table) in enumerate(tables or [([], none.empty_table())]):
            mark = f"::split_{number:05d}" if len(tables) > 1 else ""
            about = {**task._metadata, "source_files": [f"{path}{mark}" for path in paths or task.data]}
            if self._options:
                about["source_storage_options"] = self._options
            rows = align_interleaved_table(table, self.schema)
            made.append(InterleavedBatch(dataset_name=task.dataset_name, data=rows, _metadata=about))
        return made if len(made) != 1 else made[0]


def resolve_schema(schema: Any, overrides: dict[str, Any] | None) -> Any:
    """The columns that rows are made to fit: `schema`, or those of interleaved rows with `overrides`; or None."""
    if schema is not None and overrides:
        _log.warning("schema_overrides ignored because schema= is given; use one of the two")
    if schema is not None or not overrides:
        return schema
    fields = {column.name: column for column in SCHEMA}
    for name, kind in overrides.items():
        fields[name] = fields[name].with_type(kind) if name in fields else pa.field(name, kind)
    return pa.schema(list(fields.values()))


def align_table(table: pa.Table, target: pa.Schema) -> pa.Table:
    """Make a table fit a schema: columns that it does not have are null, others are left out."""
    columns = [
        table[column.name].cast(column.type) if column.name in table.column_names else pa.nulls(len(table), column.type)
        for column in target
    ]
    return pa.table(columns, schema=target)


def reconcile_schema(inferred: pa.Schema) -> pa.Schema:
    """The schema with the reserved columns of their types; others as they are, but for dictionaries."""
    table = aligned(inferred.empty_table())
    return pa.schema([_unwrapped(table.schema.field(name)) for name in inferred.names])


def _unwrapped(column: pa.Field) -> pa.Field:
    return column.with_type(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def align_interleaved_table(table: pa.Table, schema: pa.Schema | None = None) -> pa.Table:
    """Make a table fit a schema, or the reserved columns theirs."""
    return aligned(table) if schema is None else align_table(table, schema)


@dataclass
class InterleavedWebdatasetReaderStage(BaseInterleavedReader):
    """Read the tars of a task.

    The values of a sample are columns of its metadata row; its ``text_content`` has them all as JSON, so that a writer
    loses no types. An image whose name is no member of the tar has an error, where NeMo Curator takes another one.
    """

    materialize_on_read: bool = False
    max_batch_bytes: int | None = None
    json_extensions: tuple[str, ...] = DEFAULT_JSON_EXTENSIONS
    image_extensions: tuple[str, ...] = DEFAULT_IMAGE_EXTENSIONS
    sample_id_field: str | None = None
    texts_field: str = "texts"
    images_field: str = "images"
    image_member_field: str | None = None
    fields: tuple[str, ...] | None = None
    per_image_fields: tuple[str, ...] = ()
    per_text_fields: tuple[str, ...] = ()
    name: str = "webdataset_reader"

    def process(self, task: FileGroupTask) -> InterleavedBatch | list[InterleavedBatch]:
        """Return the samples of the tars, in batches.

        Raises:
            ValueError: ``fields`` names a column of all interleaved rows.
            TypeError: a value for each image or text is not a list.
        """
        reserved = sorted(RESERVED.intersection(self.fields or ()))
        if reserved:
            raise ValueError(f"fields contains reserved keys: {reserved}")
        reader = _InterleavedReader(
            [str(path) for path in task.data],
            files_per_partition=max(len(task.data), 1),
            storage_options=self._options or None,
            sample_id_field=self.sample_id_field,
            texts_field=self.texts_field,
            images_field=self.images_field,
            image_member_field=self.image_member_field,
            position_fields=[],
            per_image_fields=list(self.per_image_fields),
            per_text_fields=list(self.per_text_fields),
            json_extensions=list(self.json_extensions),
            max_batch_bytes=self.max_batch_bytes or _NO_LIMIT,
        )
        tables = []
        for split in reader.splits():
            made = reader.process(split)
            for batch in made if isinstance(made, list) else [made] if made is not None else []:
                for gone in batch.rejections:
                    _log.warning("%s: %d samples or members cannot be read: %s", split.key, gone.rows, gone.reason)
                if batch.num_items:
                    tables.append(self._with_values(batch.to_arrow()))
        fields = (*(self.fields or ()), *self.per_image_fields, *self.per_text_fields)
        batches = self._batches(task, [(_files_of(table), table) for table in tables], fields)
        if not self.materialize_on_read:
            return batches  # type: ignore[no-any-return]
        every = batches if isinstance(batches, list) else [batches]
        filled = [materialize_task_binary_content(batch, io_kwargs=self.read_kwargs) for batch in every]
        return filled if isinstance(batches, list) else filled[0]

    def _with_values(self, table: pa.Table) -> pa.Table:
        """The rows with the values of samples as columns."""
        texts = table["text_content"].to_pylist()
        records = [
            orjson.loads(text) if kind == METADATA and text else {}
            for kind, text in zip(table["modality"].to_pylist(), texts, strict=True)
        ]
        per_row = (*self.per_image_fields, *self.per_text_fields)
        self._check(records, {name for name in per_row if table[name].null_count < len(table)})
        for name in per_row:
            if pa.types.is_list(table.schema.field(name).type):
                texts = pa.array([as_column(value) for value in table[name].to_pylist()], pa.string())
                table = table.set_column(table.schema.get_field_index(name), name, texts)
        taken = {*RESERVED, *self.per_image_fields, *self.per_text_fields, self.sample_id_field or ""}
        metadata_names = dict.fromkeys(name for record in records for name in record if name not in taken)
        for name in metadata_names if self.fields is None else self.fields:
            values = [record.get(name) for record in records]
            values = [as_column(value) if isinstance(value, dict | list) else value for value in values]
            try:
                column = pa.array(values)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                column = pa.array([None if value is None else str(value) for value in values], pa.string())
            table = table.append_column(name, column)
        return table

    def _check(self, records: list[dict[str, Any]], listed: set[str]) -> None:
        """Refuse values that are not lists, and log fields that samples do not have.

        Args:
            records: the values of samples that no row of a text or image has.
            listed: fields that such rows have.
        """
        for record in filter(None, records):
            missing = [name for name in self.fields or () if name not in record]
            if missing:
                _log.warning("Requested fields not found in source sample: %s", missing)
            for name in (*self.per_image_fields, *self.per_text_fields):
                if name not in record and name not in listed:
                    _log.warning("per-modality field %r not found in source sample", name)
                elif name in record and not isinstance(record[name], list):
                    raise TypeError(f"per-modality field {name!r} must be a list, got {type(record[name]).__name__}")


def _files_of(table: pa.Table) -> list[str]:
    """The tars that rows are from."""
    of_samples = table.filter(pc.equal(table["modality"], METADATA))["source_ref"].to_pylist()
    paths = (SourceRef.of(text).path for text in of_samples)
    return list(dict.fromkeys(path for path in paths if path is not None))


@dataclass
class InterleavedParquetReaderStage(BaseInterleavedReader):
    """Read the Parquet files of a task."""

    fields: tuple[str, ...] | None = None
    max_batch_bytes: int | None = None
    name: str = "interleaved_parquet_reader"

    def process(self, task: FileGroupTask) -> InterleavedBatch | list[InterleavedBatch]:
        """Return the rows of the files, in batches of whole samples."""
        paths = [str(path) for path in task.data]
        tables: list[tuple[list[str], pa.Table]] = []
        for group in [paths] if self.max_batch_bytes is None else [[path] for path in paths]:
            tables += [(group, self._chosen(table)) for table in self._read(group)]
        return self._batches(task, tables, self.fields or ())  # type: ignore[no-any-return]

    def _read(self, paths: list[str]) -> Iterator[pa.Table]:
        if not paths:
            return
        reader = parquet.InterleavedParquetReader(
            paths,
            files_per_partition=len(paths),
            storage_options=self._options or None,
            max_batch_bytes=self.max_batch_bytes,
        )
        for split in reader.splits():
            made = reader.process(split)
            for batch in made if isinstance(made, list) else [made] if made is not None else []:
                yield batch.to_arrow()

    def _chosen(self, table: pa.Table) -> pa.Table:
        if self.fields is None:
            return table
        reserved = [column for column in table.schema if column.name in RESERVED]
        names = [name for name in self.fields if name not in RESERVED]
        return align_table(table, pa.schema([*reserved, *(_field(table, name) for name in names)]))


def _field(table: pa.Table, name: str) -> pa.Field:
    return table.schema.field(name) if name in table.column_names else pa.field(name, pa.null())


@dataclass
class InterleavedWebdatasetReader(CompositeStage[EmptyTask, InterleavedBatch]):
    """List tars, and read them."""

    file_paths: str | list[str]
    files_per_partition: int | None = None
    blocksize: int | str | None = None
    max_batch_bytes: int | None = None
    read_kwargs: dict[str, Any] = field(default_factory=dict)
    materialize_on_read: bool = False
    file_extensions: list[str] = field(default_factory=lambda: list(DEFAULT_WEBDATASET_EXTENSIONS))
    json_extensions: list[str] = field(default_factory=lambda: list(DEFAULT_JSON_EXTENSIONS))
    image_extensions: list[str] = field(default_factory=lambda: list(DEFAULT_IMAGE_EXTENSIONS))
    sample_id_field: str | None = None
    texts_field: str = "texts"
    images_field: str = "images"
    image_member_field: str | None = None
    fields: tuple[str, ...] | None = None
    per_image_fields: tuple[str, ...] = ()
    per_text_fields: tuple[str, ...] = ()
    name: str = "interleaved_webdataset_reader"

    def decompose(self) -> list[Any]:
        """Return the stage that lists and the stage that reads."""
        known = {setting.name for setting in dataclasses.fields(InterleavedWebdatasetReaderStage)} - {"name"}
        settings: dict[str, Any] = {name: value for name, value in vars(self).items() if name in known}
        settings |= {name: tuple(settings[name]) for name in ("json_extensions", "image_extensions")}
        return [_partitioning(self), InterleavedWebdatasetReaderStage(**settings)]


@dataclass
class InterleavedParquetReader(CompositeStage[EmptyTask, InterleavedBatch]):
    """List Parquet files, and read them."""

    file_paths: str | list[str]
    files_per_partition: int | None = None
    blocksize: int | str | None = None
    fields: tuple[str, ...] | None = None
    max_batch_bytes: int | None = None
    read_kwargs: dict[str, Any] = field(default_factory=dict)
    schema: Any = None
    schema_overrides: dict[str, Any] | None = None
    file_extensions: list[str] = field(default_factory=lambda: [".parquet"])
    name: str = "interleaved_parquet_reader"

    def decompose(self) -> list[Any]:
        """Return the stage that lists and the stage that reads."""
        names = ("read_kwargs", "fields", "max_batch_bytes", "schema", "schema_overrides")
        return [_partitioning(self), InterleavedParquetReaderStage(**{name: getattr(self, name) for name in names})]


def _partitioning(stage: Any) -> FilePartitioningStage:
    return FilePartitioningStage(
        file_paths=stage.file_paths,
        files_per_partition=stage.files_per_partition,
        blocksize=stage.blocksize,
        file_extensions=stage.file_extensions,
        storage_options=dict((stage.read_kwargs or {}).get("storage_options") or {}),
    )
