"""Delta Lake through `deltalake`."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from dcurate.errors import DataError, PipelineError
from dcurate.fs.paths import is_address
from dcurate.fs.stores import Directory
from dcurate.io.lakehouse.deleted import DeletedRows
from dcurate.io.lakehouse.fields import as_required
from dcurate.io.lakehouse.table import Commit, LakeTable, StoredFile, TableVersion, object_store_options
from dcurate.io.row_filter import Bounds
from dcurate.io.tables import DELETION_VECTORS, check_plain

#: Features of tables that allow to commit added files; rules are found in the schema and the configuration.
_WRITTEN = {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "generatedColumns",
    "invariants",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
#: How often a commit with a label is tried while others with this label are made.
_TRIES = 10
_CHECK = "delta.constraints."
#: Rules for values in the metadata of a column.
_RULES = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "a generated value",
    "delta.identity.start": "an identity",
    "CURRENT_DEFAULT": "a default",
}


@dataclass
class DeltaTable(LakeTable):
    """A table of Delta Lake in a folder."""

    title = "Delta Lake"
    library = "deltalake"
    keeps_partition_columns = False

    def address(self) -> str:
        return Directory(self.path, dict(self.options)).address

    def opened(self, version: int | None = None) -> Any:
        """Open the table, at a version or the newest.

        Raises:
            DataError: it cannot be opened, or has no such version.
        """
        try:
            return self._library().DeltaTable(self.address(), version=version, storage_options=self._options())
        except self.errors().DeltaError as error:
            at = "" if version is None else f" at version {version}"
            raise DataError(f"table {self.path!r}{at} cannot be opened: {error}; give another") from error

    def version(self) -> int | None:
        if not self._library().DeltaTable.is_deltatable(self.address(), self._options()):
            return None
        return int(self.opened().version())

    def schema(self) -> pa.Schema:
        return pa.schema(self.opened().schema().to_arrow())

    def has(self, run: str, number: int) -> bool:
        if self.version() is None:
            return False
        made = self.opened().transaction_version(f"dcurate-{run}")
        return made is not None and made >= number

    def check_writable(self, mode: str, partition: Sequence[str] = ()) -> None:
        table = self.opened()
        check_plain(table, self.path)
        metadata = table.metadata()
        self.check_partition(metadata.partition_columns, partition)
        unknown = sorted(set(table.protocol().writer_features or ()) - _WRITTEN)
        rules = [f"the table feature {name}" for name in unknown]
        checks = [name.removeprefix(_CHECK) for name in metadata.configuration if name.startswith(_CHECK)]
        rules += [f"the CHECK constraint {name}" for name in checks]
        rules += _rules(json.loads(table.schema().to_json())["fields"])
        if rules:
            raise DataError(
                f"{self.path!r} is a table of Delta Lake with {', '.join(rules)}, which is not applied to rows here; "
                "write another table, and add its rows with deltalake"
            )
        if mode == "overwrite" and metadata.configuration.get("delta.appendOnly", "").lower() == "true":
            raise DataError(
                f"{self.path!r} is append-only (delta.appendOnly); give mode='append', or name another table"
            )

    def at(self, version: int | None) -> TableVersion:
        """Return what the table has at a version.

        Raises:
            DataError: there is no table or no such version, or its rows are not known from the files alone.
        """
        if self.version() is None:
            raise DataError(f"{self.path!r} is not a table of Delta Lake; check the path")
        try:
            table = self.opened(version)
        except self.errors().DeltaError as error:
            raise DataError(
                f"table {self.path!r} at version {version} cannot be read: {error}; give another"
            ) from error
        check_plain(table, self.path, applied=[DELETION_VECTORS])
        schema = pa.schema(table.schema().to_arrow())
        files = _files(table, self.address(), schema, self._deleted(table))
        return TableVersion(schema, files, number=int(table.version()))

    def _deleted(self, table: Any) -> dict[str, DeletedRows]:
        """The deleted rows of files that have any, by their paths in the log.

        Raises:
            DataError: the library cannot say.
        """
        if DELETION_VECTORS not in (table.protocol().reader_features or ()):
            return {}
        if not hasattr(self._library().DeltaTable, "deletion_vectors"):  # a version of the library before 1.6
            raise DataError(f"{self.path!r} is a table of Delta Lake with deletion vectors; pip install -U deltalake")
        deleted = {}
        root = f"{table.table_uri.rstrip('/')}/"
        for batch in table.deletion_vectors():
            vectors = pa.record_batch(batch)
            masks = vectors["selection_vector"]
            for row, path in enumerate(vectors["filepath"].to_pylist()):
                deleted[path.removeprefix(root)] = DeletedRows.of(masks[row].values.to_numpy(zero_copy_only=False))
        return deleted

    def commit(self, commit: Commit) -> None:
        transaction = importlib.import_module("deltalake.transaction")
        errors = self.errors()
        now = int(time.time() * 1000)
        adds = [
            transaction.AddAction(file.name, file.size, file.values, now, True, json.dumps({"numRecords": file.rows}))
            for file in commit.files
        ]
        if (commit.replace or commit.base is None) and self.version() != commit.base:
            raise self.conflict(commit)
        kept = commit.replace and commit.base is not None
        schema = as_required(commit.schema, self.schema()) if kept else commit.schema
        schema = self._library().Schema.from_arrow(schema)
        for left in reversed(range(1 if commit.label is None else _TRIES)):
            table = None if commit.base is None else self.opened()
            try:
                if table is None:
                    return self._create(commit, schema, adds)
                gone = commit.removed()
                removes = self._removes(table, gone, now) if gone else []
                table.create_write_transaction(
                    [*adds, *removes],
                    mode="overwrite" if commit.replace else "append",
                    schema=schema,
                    partition_by=list(commit.partition),
                    commit_properties=self._mark(commit, table),
                )
                return None
            except DataError:  # of another run with the label, the table as it was opened may not have all files yet
                if table is None or not left or self.version() == table.version():
                    raise
            except errors.DeltaError as error:
                if self.version() == (None if table is None else table.version()):
                    raise self.refused(error) from error
                if table is None or not left:
                    raise self.conflict(commit) from error
        return None

    def _create(self, commit: Commit, schema: Any, adds: Sequence[Any]) -> None:
        """Make the table; of two programs that do so at once, deltalake would let the second one change it."""
        with Directory(self.address(), dict(self.options)).locked():
            if self.version() is not None:
                raise self.conflict(commit)
            importlib.import_module("deltalake.transaction").create_table_with_add_actions(
                self.address(),
                schema,
                adds,
                mode="error",
                partition_by=list(commit.partition),
                storage_options=self._options(),
                commit_properties=self._mark(commit, None),
            )

    def _mark(self, commit: Commit, table: Any | None) -> Any:
        """What a commit notes of itself; a commit that notes the same label meanwhile is refused by the library."""
        transaction = importlib.import_module("deltalake.transaction")
        marks = [transaction.Transaction(f"dcurate-{commit.run}", commit.number)]
        if commit.label is not None:
            name = f"dcurate-label-{commit.label}"
            last = None if table is None else table.transaction_version(name)
            marks.append(transaction.Transaction(name, (last or 0) + 1))
        return transaction.CommitProperties(app_transactions=marks)

    def _removes(self, table: Any, gone: Sequence[str], now: int) -> list[Any]:
        """What takes files out of the table.

        Raises:
            PipelineError: the library cannot.
        """
        transaction = importlib.import_module("deltalake.transaction")
        if "RemoveAction" not in vars(transaction):
            raise PipelineError("label= of tables needs deltalake 1.6; pip install -U deltalake")
        actions = pa.table(table.get_add_actions(flatten=True))
        sizes = dict(zip(map(unquote, actions["path"].to_pylist()), actions["size_bytes"].to_pylist(), strict=True))
        self.check_present(gone, sizes)
        return [transaction.RemoveAction(name, True, now, size=sizes[name]) for name in gone]

    def stored(self, kind: pa.DataType) -> pa.DataType | None:
        is_ = pa.types
        wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.int64()}
        if is_.is_timestamp(kind):
            return pa.timestamp("us", None if kind.tz is None else "UTC")
        if kind in wider:
            return wider[kind]
        if is_.is_float16(kind):
            return pa.float32()
        if is_.is_date(kind):
            return pa.date32()
        if is_.is_large_string(kind) or is_.is_string_view(kind):
            return pa.string()
        if is_.is_large_binary(kind) or is_.is_binary_view(kind) or is_.is_fixed_size_binary(kind):
            return pa.binary()
        plain = is_.is_integer(kind) or is_.is_floating(kind) or is_.is_boolean(kind) or is_.is_decimal128(kind)
        return kind if plain or is_.is_string(kind) or is_.is_binary(kind) else None

    def errors(self) -> Any:
        """Return the module with the errors of the library."""
        return importlib.import_module("deltalake.exceptions")

    def _options(self) -> dict[str, str]:
        return object_store_options(self.options)

    def _library(self) -> Any:
        return importlib.import_module("deltalake")


def _files(table: Any, root: str, schema: pa.Schema, deleted: Mapping[str, DeletedRows]) -> list[StoredFile]:
    """The files of a table in a folder, with the values of the columns by which it is partitioned.

    Args:
        table: as the library opened it.
        root: address of the folder.
        schema: schema of the table.
        deleted: deleted rows of files, by their paths in the log.

    Raises:
        DataError: rows are deleted of a file that is not in the table.
    """
    columns = table.metadata().partition_columns
    actions = pa.table(table.get_add_actions(flatten=True))
    values: list[dict[str, Any]] = [{} for _ in range(actions.num_rows)]
    if columns:
        values = actions.select([f"partition.{name}" for name in columns]).rename_columns(columns).to_pylist()
    paths = actions["path"].to_pylist()
    lost = sorted(set(deleted) - set(paths))
    if lost:
        raise DataError(f"table {root!r} has a deletion vector for {lost[0]!r}, which is not one of its files")
    names = map(unquote, paths)
    addresses = [name if is_address(name) else f"{root.rstrip('/')}/{name}" for name in names]
    sizes = actions["size_bytes"].to_pylist()
    return [
        StoredFile(address, constants, size=size, bounds=bounds, deleted=deleted.get(path))
        for address, constants, size, bounds, path in zip(
            addresses, values, sizes, _bounds(actions, schema), paths, strict=True
        )
    ]


def _bounds(actions: pa.Table, schema: pa.Schema) -> list[dict[str, Bounds]]:
    """What the log of a table knows of the values of columns in each file; nothing of nested ones."""
    bounds: list[dict[str, Bounds]] = [{} for _ in range(actions.num_rows)]
    rows = actions["num_records"].to_pylist()
    for column in schema:
        kinds = (f"min.{column.name}", f"max.{column.name}", f"null_count.{column.name}")
        if pa.types.is_nested(column.type) or any(kind not in actions.column_names for kind in kinds):
            continue
        for place, (low, high, nulls) in enumerate(zip(*(actions[kind] for kind in kinds), strict=True)):
            number = nulls.as_py()
            has_bounds = low.is_valid and high.is_valid and low.type == column.type
            bounds[place][column.name] = Bounds(
                low if has_bounds else None,
                high if has_bounds else None,
                has_nulls=number != 0,
                all_null=number is not None and number == rows[place],
            ).widened()
    return bounds


def _rules(fields: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rules for values, besides types, of the fields of a schema of Delta Lake and of the fields within them."""
    rules = []
    for field in fields:
        rules += [f"{rule} of column {field['name']}" for key, rule in _RULES.items() if key in field["metadata"]]
        kinds = [field["type"]]
        while kinds:
            kind = kinds.pop()
            if isinstance(kind, dict):
                rules += _rules(kind.get("fields", ()))
                kinds += [kind[name] for name in ("elementType", "keyType", "valueType") if name in kind]
    return rules
