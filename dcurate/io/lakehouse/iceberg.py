"""Iceberg through `pyiceberg`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dcurate.errors import DataError, PipelineError
from dcurate.fs.stores import Directory
from dcurate.io.lakehouse.table import Commit, LakeTable, as_stored, object_store_options

#: The property of a snapshot that says which commit of which run it is.
_MARK = "dcurate.commit"
#: How often a commit is tried on what another program has committed meanwhile.
_TRIES = 5
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
        found = self.found()
        if found is not None:
            return Directory(found.location(), dict(self.options)).address
        empty = pa.schema([("a", pa.string())])
        try:
            with self._catalog() as catalog:
                made = catalog.create_table_transaction(self.path, empty)
        except self._errors().NoSuchNamespaceError as error:
            raise DataError(
                f"the catalog has no namespace for table {self.path!r}; make it, or name one that it has"
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
                    f"{self.path!r} is no table of Iceberg that can be read without a catalog ({error}); give its "
                    "newest metadata file (metadata/....metadata.json), or catalog="
                ) from error
        with self._catalog() as catalog:
            return self._loaded(catalog)

    def version(self) -> int | None:
        found = self.found()
        return None if found is None else int(found.metadata.last_sequence_number)

    def schema(self) -> pa.Schema:
        found = self.found()
        assert found is not None
        return self._plain(found.schema().as_arrow())

    def has(self, run: str, number: int) -> bool:
        found = self.found()
        snapshots = [] if found is None else found.snapshots()
        return any(one.summary is not None and one.summary.get(_MARK) == f"{run}-{number}" for one in snapshots)

    def at(self, version: int | None) -> tuple[pa.Schema, list[str]]:
        """Return the schema and the addresses of the files at a snapshot, by its id or its sequence number.

        Raises:
            DataError: there is no table or no such snapshot, or the files alone do not say which rows it has.
        """
        table = self.found()
        if table is None:
            raise DataError(f"the catalog has no table {self.path!r}; check its name")
        ids = {each.snapshot_id for each in table.snapshots()}
        ids_of = {each.sequence_number: each.snapshot_id for each in table.snapshots()}
        snapshot = version if version is None or version in ids else ids_of.get(version)
        if version is not None and snapshot is None:
            raise DataError(f"table {self.path!r} has no version {version}; it has {sorted(ids_of)}")
        scan = table.scan(snapshot_id=snapshot)
        tasks = list(scan.plan_files())
        names: dict[int, set[str]] = {}
        for schema in table.schemas().values():
            for one in schema.fields:
                names.setdefault(one.field_id, set()).add(one.name)
        renamed = [kept for kept in names.values() if len(kept) > 1]
        if renamed or any(task.delete_files for task in tasks):
            reason = f"a renamed column ({', '.join(sorted(renamed[0]))})" if renamed else "files of deleted rows"
            raise DataError(
                f"{self.path!r} is a table of Iceberg with {reason}, so its files alone do not say which rows it has; "
                "give its rows as initial_tasks"
            )
        return self._plain(scan.projection().as_arrow()), sorted(task.file.file_path for task in tasks)

    def commit(self, commit: Commit) -> None:
        directory = Directory(self.address(), dict(self.options))
        paths = [directory.path(one.name) for one in commit.files]
        base = commit.base
        for _ in range(_TRIES):
            if (commit.replace or base is None) and self.version() != commit.base:
                raise self.conflict(commit)
            try:
                return self._commit(commit, directory, paths)
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
                work = catalog.create_table_transaction(self.path, commit.schema, location=self._location(directory))
            else:
                work = table.transaction()
                if commit.replace:
                    with work.update_schema() as change:
                        change.union_by_name(commit.schema)
                if commit.replace and table.current_snapshot() is not None:
                    every = importlib.import_module("pyiceberg.expressions").AlwaysTrue()
                    work.delete(every, snapshot_properties=marks)
            if paths:
                work.add_files(paths, snapshot_properties=marks, check_duplicate_files=False)
            work.commit_transaction()

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
        return pa.schema([(one.name, as_stored(self, one.type) or one.type) for one in schema])

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
        catalog = importlib.import_module("pyiceberg.catalog").load_catalog(name, **settings)
        try:
            yield catalog
        finally:
            catalog.close()

    def _errors(self) -> Any:
        return importlib.import_module("pyiceberg.exceptions")


def store_settings(options: Mapping[str, Any]) -> dict[str, str]:
    """Return fsspec's options for S3 as pyiceberg names them.

    Examples:
        >>> store_settings({"key": "me", "client_kwargs": {"endpoint_url": "http://host"}})
        {'s3.access-key-id': 'me', 's3.endpoint': 'http://host'}
    """
    found = object_store_options(options)
    return {own: found[name] for own, name in _STORE.items() if name in found}
