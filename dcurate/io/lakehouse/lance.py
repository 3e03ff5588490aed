"""Lance through `pylance`."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dcurate.errors import DataError
from dcurate.frames.schema import with_fields
from dcurate.fs.stores import Directory
from dcurate.io.lakehouse.fields import as_required
from dcurate.io.lakehouse.table import Commit, LakeTable, object_store_options

_MESSAGE = "__lance_commit_message"


@dataclass
class LanceTable(LakeTable):
    """A table of Lance in a folder.

    Lance names data files itself. A split writes these, and then a small file in ``_dcurate_fragments`` that says which
    they are; what a killed run left behind has none, and is deleted by `cleanup_old_versions` of Lance.
    """

    title = "Lance"
    library = "lance"
    folder = "_dcurate_fragments/"
    fixed_lists = True
    has_partitions = False
    removes_files = False

    def address(self) -> str:
        return Directory(self.path, dict(self.options)).address

    def opened(self, version: int | None = None) -> Any:
        """Open the table, at a version or the newest."""
        return self._library().dataset(self.address(), version=version, storage_options=self._options())

    def version(self) -> int | None:
        directory = Directory(self.address(), dict(self.options))
        return int(self.opened().version) if directory.files("_versions") else None

    def schema(self) -> pa.Schema:
        return self.opened().schema

    def accepted(self, rows: pa.Table, required: pa.Schema) -> pa.Table:
        rows = super().accepted(rows, required)
        return with_fields(rows, list(as_required(rows.schema, required)))

    def has(self, run: str, number: int) -> bool:
        if self.version() is None:
            return False
        dataset = self.opened()
        made = dataset.get_transactions(len(dataset.versions()))
        return any(
            transaction is not None
            and (transaction.transaction_properties or {}).get(_MESSAGE) == f"dcurate {run}-{number}"
            for transaction in made
        )

    def write(self, rows: pa.Table, mode: str) -> bytes:
        """Write rows as fragments that no version has yet; return what is to be known of them.

        Args:
            rows: in the types of the table.
            mode: what is to come of them: ``"create"``, ``"append"`` or ``"overwrite"``.

        Raises:
            DataError: another run created the table meanwhile.
        """
        write = self._library().fragment.write_fragments
        try:
            fragments = write(rows, self.address(), mode=mode, storage_options=self._options())
        except OSError as error:
            if mode == "create" and self.version() is not None:
                raise DataError(
                    f"another program made table {self.path!r} meanwhile; nothing was committed: go on with "
                    "resume=True to commit to what is there now"
                ) from error
            raise
        return json.dumps({"mode": mode, "fragments": [fragment.to_json() for fragment in fragments]}).encode()

    def read(self, fragments: Sequence[Any]) -> pa.Table:
        """Read the rows of fragments that no version has yet."""
        file = importlib.import_module("lance.file")
        paths = [
            f"{self.address()}/data/{data_file['path']}" for fragment in fragments for data_file in fragment["files"]
        ]
        readers = [file.LanceFileReader(path, storage_options=self._options()) for path in paths]
        return pa.concat_tables([reader.read_all().to_table() for reader in readers])

    def schema_of(self, fragments: Sequence[Any]) -> pa.Schema:
        """Return the schema of fragments that no version has yet."""
        file = importlib.import_module("lance.file")
        path = f"{self.address()}/data/{fragments[0]['files'][0]['path']}"
        return file.LanceFileReader(path, storage_options=self._options()).metadata().schema

    def commit(self, commit: Commit) -> None:
        library = self._library()
        made = [
            library.FragmentMetadata.from_json(json.dumps(fragment))
            for file in commit.files
            for fragment in file.note["fragments"]
        ]
        replaces = commit.replace or commit.base is None
        kept = replaces and commit.base is not None
        schema = as_required(commit.schema, self.schema()) if kept else commit.schema
        operation = library.LanceOperation
        with ExitStack() as stack:
            if replaces:  # Lance lets the last of two such commits win
                stack.enter_context(Directory(self.address(), dict(self.options)).locked())
                if self.version() != commit.base:
                    raise self.conflict(commit)
            try:
                library.LanceDataset.commit(
                    self.address(),
                    operation.Overwrite(schema, made) if replaces else operation.Append(made),
                    read_version=self.version(),
                    storage_options=self._options(),
                    commit_message=f"dcurate {commit.marker}",
                )
            except (OSError, ValueError, RuntimeError) as error:
                raise self.refused(error) from error

    def stored(self, kind: pa.DataType) -> pa.DataType | None:
        is_ = pa.types
        if is_.is_string_view(kind):
            return pa.string()
        if is_.is_binary_view(kind):
            return pa.binary()
        if isinstance(kind, pa.JsonType):  # which Lance would read as bytes of its own
            return self.stored(kind.storage_type)
        refused = (is_.is_list_view, is_.is_large_list_view, is_.is_run_end_encoded, is_.is_interval, is_.is_union)
        narrow = is_.is_decimal(kind) and kind.bit_width < 128
        return None if narrow or any(is_refused(kind) for is_refused in refused) else kind

    def _options(self) -> dict[str, str]:
        return object_store_options(self.options)

    def _library(self) -> Any:
        return importlib.import_module("lance")
