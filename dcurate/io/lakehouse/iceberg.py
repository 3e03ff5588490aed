"""Iceberg through `pyiceberg`."""

from __future__ import annotations

import importlib
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.schema import with_fields
from dcurate.fs.stores import Directory
from dcurate.io.lakehouse.fields import NamedId, as_required, ids_by_name
from dcurate.io.lakehouse.table import Commit, LakeTable, StoredFile, TableVersion, as_stored, object_store_options
from dcurate.io.row_filter import Bounds
from dcurate.redaction import redacted

#: The property of a snapshot, or of a table that was made without rows, that says which commit of which run it is.
_MARK = "dcurate.commit"
#: How often a commit is tried on what another program has committed meanwhile.
_TRIES = 10
_WAIT_S = 0.1
#: Settings of pyiceberg for S3, and what libraries written in Rust call them.
_STORE = {
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.endpoint": "aws_endpoint_url",
    "s3.region": "aws_region",
}


@dataclass
class IcebergTable(LakeTable):
    """A table of Iceberg: by its identifier in a catalog, or for reading alone by its folder or metadata file."""

    title = "Iceberg"
    library = "pyiceberg"
    folder = "data/"

    def address(self) -> str:
        table = self.found()
        if table is not None:
            return Directory(table.location(), dict(self.options)).address
        empty = pa.schema([("a", pa.string())])
        try:
            with self._catalog() as catalog:
                made = catalog.create_table_transaction(self.path, empty)
        except self._errors().NoSuchNamespaceError as error:
            raise DataError(
                f"the catalog has no namespace for table {self.path!r}; make it with create_namespace of the "
                "catalog, or name one that it has"
            ) from error
        except ValueError as error:
            raise DataError(
                f"table {self.path!r} cannot be made ({error}); say in catalog= where new tables go, as in "
                "{..., 'warehouse': 's3://bucket/lake'}"
            ) from error
        return Directory(made.table_metadata.location, dict(self.options)).address

    def found(self) -> Any | None:
        """Open the table; None if there is none."""
        if self.catalog is None:
            try:
                static = importlib.import_module("pyiceberg.table").StaticTable
                return static.from_metadata(self.path, store_settings(self.options))
            except (OSError, ValueError) as error:
                raise DataError(
                    f"{self.path!r} is not a table of Iceberg that can be read without a catalog ({error}); give its "
                    "newest metadata file (metadata/....metadata.json), or catalog="
                ) from error
        with self._catalog() as catalog:
            return self._loaded(catalog)

    def snapshot(self) -> int | None:
        table = self.found()
        newest = None if table is None else table.current_snapshot()
        return None if newest is None else int(newest.snapshot_id)

    def version(self) -> int | None:
        table = self.found()
        if table is None:
            return None
        # Tables of format 1 do not number their snapshots.
        first = table.format_version == 1
        return len(table.metadata.snapshot_log) if first else int(table.metadata.last_sequence_number)

    def schema(self) -> pa.Schema:
        table = self.found()
        assert table is not None
        return self._plain(table.schema().as_arrow())

    def required(self) -> pa.Schema:
        table = self.found()
        assert table is not None
        return table.schema().as_arrow()

    def check_writable(self, mode: str, partition: Sequence[str] = ()) -> None:
        table = self.found()
        assert table is not None
        fields = [field for field in table.spec().fields if str(field.transform) != "void"]
        rules = [f"{field.transform} of {field.name}" for field in fields if str(field.transform) != "identity"]
        if rules or table.format_version > 2:
            reason = f"is partitioned by {listed(rules)}" if rules else f"has format {table.format_version}"
            raise DataError(
                f"{self.path!r} {reason}, which is not written here; write another table, and add its rows with "
                "pyiceberg"
            )
        self.check_partition([table.schema().find_column_name(field.source_id) for field in fields], partition)

    def accepted(self, rows: pa.Table, required: pa.Schema) -> pa.Table:
        rows = super().accepted(rows, required)
        return with_fields(rows, list(as_required(rows.schema, required)))

    def has(self, run: str, number: int) -> bool:
        table = self.found()
        if table is None:
            return False
        made = [snapshot.summary.get(_MARK) for snapshot in table.snapshots() if snapshot.summary is not None]
        return f"{run}-{number}" in [*made, table.properties.get(_MARK)]

    def at(self, version: int | None) -> TableVersion:
        """Return what the table has at a snapshot, by its id or its sequence number.

        Raises:
            DataError: there is no table or no such snapshot, or the files alone do not say which rows it has.
        """
        table = self.found()
        if table is None:
            raise DataError(f"the catalog has no table {self.path!r}; check its name")
        ids = {snapshot.snapshot_id for snapshot in table.snapshots()}
        ids_of = {snapshot.sequence_number: snapshot.snapshot_id for snapshot in table.snapshots()}
        snapshot = version if version is None or version in ids else ids_of.get(version)
        if version is not None and snapshot is None:
            raise DataError(f"table {self.path!r} has no version {version}; it has {sorted(ids_of)}")
        scan = table.scan(snapshot_id=snapshot)
        tasks = list(scan.plan_files())
        formats = {task.file.file_format.value for task in tasks} - {"PARQUET"}
        if formats or any(task.delete_files for task in tasks):
            reason = f"files of {listed(formats)}" if formats else "files of deleted rows"
            raise DataError(
                f"{self.path!r} is a table of Iceberg with {reason}, so its files alone do not say which rows it has; "
                "give its rows as initial_tasks"
            )
        schema = scan.projection()
        defaults = {field.name: field.initial_default for field in schema.fields if field.initial_default is not None}
        read = scan.snapshot()
        names = _Names.of(table, read)
        files = [
            StoredFile(
                task.file.file_path,
                defaults | _partition_values(table, schema, task.file),
                *names.of_file(task.file),
                task.file.file_size_in_bytes,
                _bounds(schema, task.file),
            )
            for task in tasks
        ]
        number = None if read is None else read.snapshot_id
        return TableVersion(self._plain(schema.as_arrow()), files, schema.as_arrow(), number)

    def commit(self, commit: Commit) -> None:
        directory = Directory(self.address(), dict(self.options))
        paths = [directory.path(file.name) for file in commit.files]
        base = commit.base
        for number in range(_TRIES):
            time.sleep(number * _WAIT_S)
            if (commit.replace or base is None) and self.version() != commit.base:
                raise self.conflict(commit)
            seen = self.version()
            try:
                return self._commit(commit, directory, paths)
            except DataError:  # of another run with the label, the table as it was loaded may not have all files yet
                if number + 1 == _TRIES or self.version() == seen:
                    raise
            except (self._errors().CommitFailedException, self._errors().TableAlreadyExistsError):
                if self.has(commit.run, commit.number):
                    return None
            except (ValueError, OverflowError, self._errors().ValidationError, NotImplementedError) as error:
                raise self.refused(error) from error
        raise self.conflict(commit)

    def _commit(self, commit: Commit, directory: Directory, paths: list[str]) -> None:
        marks = {_MARK: commit.marker}
        with self._catalog() as catalog:
            table = self._loaded(catalog)
            if table is None:
                work = catalog.create_table_transaction(
                    self.path, commit.schema, self._location(directory), properties={} if paths else marks
                )
                if commit.partition:
                    with work.update_spec() as spec:
                        for name in commit.partition:
                            spec.add_identity(name)
            else:
                work = table.transaction()
                if commit.replace:
                    with work.update_schema() as change:
                        change.union_by_name(as_required(commit.schema, self.required()))
                if commit.replace and table.current_snapshot() is not None:
                    every = importlib.import_module("pyiceberg.expressions").AlwaysTrue()
                    work.delete(every, snapshot_properties=marks)
            if commit.label is not None:
                # The files to take out are those of this table: pyiceberg must not add them to a later one by itself.
                work._table.metadata.properties["commit.retry.num-retries"] = "0"
            gone = commit.removed()
            if gone:
                self._exchange(work, commit, gone, directory, paths)
            elif paths:
                work.add_files(paths, snapshot_properties=marks, check_duplicate_files=False)
            work.commit_transaction()

    def _exchange(
        self, work: Any, commit: Commit, gone: Sequence[str], directory: Directory, paths: Sequence[str]
    ) -> None:
        """Take out files and add others in one snapshot."""
        made = importlib.import_module("pyiceberg.io.pyarrow").parquet_file_to_data_file
        table = work._table
        files = {task.file.file_path: task.file for task in table.scan().plan_files()}
        names = {path.removeprefix("file://"): path for path in files}
        present = {name: names[directory.path(name)] for name in gone if directory.path(name) in names}
        self.check_present(gone, present)
        with work.update_snapshot(snapshot_properties={_MARK: commit.marker}).overwrite() as snapshot:
            for path in present.values():
                snapshot.delete_data_file(files[path])
            for path in paths:
                snapshot.append_data_file(made(table.io, work.table_metadata, path))

    def stored(self, kind: pa.DataType) -> pa.DataType | None:
        is_ = pa.types
        if is_.is_integer(kind):
            return pa.int32() if kind.bit_width < 32 or kind == pa.int32() else pa.int64()
        if is_.is_timestamp(kind):
            return pa.timestamp("us", None if kind.tz is None else "UTC")
        if is_.is_time(kind):
            return pa.time64("us")
        if is_.is_float16(kind):
            return pa.float32()
        if is_.is_date(kind):
            return pa.date32()
        if is_.is_large_string(kind) or is_.is_string_view(kind):
            return pa.string()
        if is_.is_large_binary(kind) or is_.is_binary_view(kind):
            return pa.binary()
        plain = is_.is_floating(kind) or is_.is_boolean(kind) or is_.is_decimal128(kind)
        plain = plain or is_.is_string(kind) or is_.is_binary(kind) or is_.is_fixed_size_binary(kind)
        return kind if plain else None

    def _plain(self, schema: pa.Schema) -> pa.Schema:
        """The schema with text as text, which pyiceberg gives as large text."""
        return pa.schema([(field.name, as_stored(self, field.type) or field.type) for field in schema])

    def _location(self, directory: Directory) -> str:
        return f"file://{directory.address}" if directory.local else directory.address

    def _loaded(self, catalog: Any) -> Any | None:
        """Load the table from its catalog; None if there is none."""
        errors = self._errors()
        with suppress(errors.NoSuchTableError, errors.NoSuchNamespaceError):
            return catalog.load_table(self.path)
        return None

    @contextmanager
    def _catalog(self) -> Iterator[Any]:
        """Open the catalog, and close its connections afterwards."""
        if self.catalog is None:
            raise PipelineError(
                f"table {self.path!r} of Iceberg is known by its catalog; give catalog={{'type': 'rest', 'uri': ...}}"
            )
        settings = store_settings(self.options) | dict(self.catalog)
        name = settings.pop("name", "default")
        load_catalog = importlib.import_module("pyiceberg.catalog").load_catalog
        try:
            catalog = load_catalog(name, **settings)
        except Exception as error:  # each kind of catalog has its own errors
            reason = redacted(str(error).partition("\n")[0])
            raise DataError(f"catalog of table {self.path!r} cannot be opened ({reason}); check catalog=") from error
        try:
            yield catalog
        finally:
            catalog.close()

    def _errors(self) -> Any:
        return importlib.import_module("pyiceberg.exceptions")


@dataclass(frozen=True)
class _Names:
    """Ids of columns by name, for files that do not have them: as they were when each file was added.

    The mapping of names that the table has now gives the values of a dropped column to a new one of its name.

    Args:
        mapping: ids of the table's name mapping, by name.
        reused: names that several columns have had.
        schemas: the ids in each schema that the table has had, by the schema's id.
        added: the id of the schema with which a file was added, by the file's path; for a table that has had several.
    """

    mapping: Mapping[str, NamedId]
    reused: frozenset[str]
    schemas: Mapping[int, Mapping[str, NamedId]]
    added: Mapping[str, int]

    @classmethod
    def of(cls, table: Any, snapshot: Any) -> _Names:
        mapping = table.name_mapping()
        schemas = {number: ids_by_name(schema.as_arrow()) for number, schema in table.schemas().items()}
        ids: dict[str, set[int]] = {}
        for schema in table.schemas().values():
            for name in schema.column_names:
                ids.setdefault(name, set()).add(schema.find_field(name).field_id)
        reused = frozenset(name.partition(".")[0] for name, numbers in ids.items() if len(numbers) > 1)
        added = {}
        if len(schemas) > 1 and snapshot is not None:
            schema_of = {snap.snapshot_id: snap.schema_id for snap in table.snapshots()}
            for manifest in snapshot.manifests(table.io):
                for entry in manifest.fetch_manifest_entry(table.io):
                    number = schema_of.get(entry.snapshot_id)
                    if number is not None:
                        added[entry.data_file.file_path] = number
        mapped = {} if mapping is None else _mapped(mapping.root)
        return cls(mapped, reused, schemas, added)

    def of_file(self, file: Any) -> tuple[Mapping[str, NamedId], frozenset[str]]:
        """Return the ids by name for a file, and the names whose ids are not known."""
        if len(self.schemas) == 1:
            return self.mapping, frozenset()
        known = self.added.get(file.file_path)
        if known is None:
            return self.mapping, self.reused
        return {**self.mapping, **self.schemas[known]}, frozenset()


def _mapped(fields: Iterable[Any]) -> dict[str, NamedId]:
    """The ids of a mapping of names."""
    return {
        name: NamedId(field.field_id, _mapped(field.fields))
        for field in fields
        for name in field.names
        if field.field_id
    }


def _bounds(schema: Any, file: Any) -> dict[str, Bounds]:
    """What the table knows of the values of columns in a file; nothing of nested ones."""
    decode = importlib.import_module("pyiceberg.conversions").from_bytes
    bounds = {}
    for column in schema.fields:
        number, kind = column.field_id, column.field_type
        nulls = (file.null_value_counts or {}).get(number)
        lows, highs = file.lower_bounds or {}, file.upper_bounds or {}
        limits: list[pa.Scalar] = []
        if kind.is_primitive and number in lows and number in highs:
            stored = schema.as_arrow().field(column.name).type
            with suppress(ValueError, TypeError, OverflowError, NotImplementedError, struct.error, pa.ArrowException):
                limits = [pa.scalar(decode(kind, value), stored) for value in (lows[number], highs[number])]
        least, greatest = limits or (None, None)
        all_null = nulls is not None and nulls == file.record_count
        bounds[column.name] = Bounds(least, greatest, has_nulls=nulls != 0, all_null=all_null).widened()
    return bounds


def _partition_values(table: Any, schema: Any, file: Any) -> dict[str, Any]:
    """The values of columns by which a table is partitioned as they are, for files that do not have the columns."""
    names = {column.field_id: column.name for column in schema.fields}
    return {
        names[field.source_id]: file.partition[place]
        for place, field in enumerate(table.specs()[file.spec_id].fields)
        if str(field.transform) == "identity" and field.source_id in names
    }


def store_settings(options: Mapping[str, Any]) -> dict[str, str]:
    """Return fsspec's options for S3 as pyiceberg names them.

    Examples:
        >>> store_settings({"key": "me", "client_kwargs": {"endpoint_url": "http://host"}})
        {'s3.access-key-id': 'me', 's3.endpoint': 'http://host'}
    """
    settings = object_store_options(options)
    return {iceberg_name: settings[name] for iceberg_name, name in _STORE.items() if name in settings}
