"""Delta Lake through `deltalake`."""

from __future__ import annotations

import importlib
import json
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dcurate.errors import DataError, listed
from dcurate.fs.stores import Directory
from dcurate.io.lakehouse.table import Commit, LakeTable, object_store_options
from dcurate.io.tables import check_plain


@dataclass
class DeltaTable(LakeTable):
    """A table of Delta Lake in a folder."""

    title = "Delta Lake"
    library = "deltalake"

    def address(self) -> str:
        return Directory(self.path, dict(self.options)).address

    def opened(self, version: int | None = None) -> Any:
        """Open the table, at a version or the newest."""
        return self._library().DeltaTable(self.address(), version=version, storage_options=self._options())

    def version(self) -> int | None:
        if not self._library().DeltaTable.is_deltatable(self.address(), self._options()):
            return None
        return int(self.opened().version())

    def schema(self, version: int | None = None) -> pa.Schema:
        return pa.schema(self.opened(version).schema().to_arrow())

    def has(self, run: str, number: int) -> bool:
        if self.version() is None:
            return False
        made = self.opened().transaction_version(f"dcurate-{run}")
        return made is not None and made >= number

    def check_writable(self) -> None:
        table = self.opened()
        check_plain(table, self.path)
        partitions = table.metadata().partition_columns
        if partitions:
            raise DataError(
                f"{self.path!r} is partitioned by {listed(partitions)}, which is not written here; write another "
                "table, and add its rows with deltalake"
            )

    def files(self, version: int | None) -> list[str]:
        """Return the addresses of the files at a version.

        Raises:
            DataError: the files alone do not say which rows the table has.
        """
        table = self.opened(version)
        check_plain(table, self.path)
        return sorted(table.file_uris())

    def commit(self, commit: Commit) -> None:
        transaction = importlib.import_module("deltalake.transaction")
        errors = self.errors()
        now = int(time.time() * 1000)
        adds = [
            transaction.AddAction(one.name, one.size, {}, now, True, json.dumps({"numRecords": one.rows}))
            for one in commit.files
        ]
        mark = transaction.CommitProperties(
            app_transactions=[transaction.Transaction(f"dcurate-{commit.run}", commit.number)]
        )
        schema = self._library().Schema.from_arrow(commit.schema)
        if (commit.replace or commit.base is None) and self.version() != commit.base:
            raise self.conflict(commit)
        try:
            if commit.base is None:
                transaction.create_table_with_add_actions(
                    self.address(),
                    schema,
                    adds,
                    mode="error",
                    partition_by=[],
                    storage_options=self._options(),
                    commit_properties=mark,
                )
                return
            self.opened().create_write_transaction(
                adds,
                mode="overwrite" if commit.replace else "append",
                schema=schema,
                partition_by=[],
                commit_properties=mark,
            )
        except errors.CommitFailedError as error:
            raise self.conflict(commit) from error
        except errors.DeltaError as error:
            raise self.refused(error) from error

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
