"""`LakeTable`: a table as its library sees it, and what a writer asks of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dcurate.errors import DataError, listed
from dcurate.io.lakehouse.deleted import DeletedRows
from dcurate.io.lakehouse.fields import NamedId, nulls_in_required
from dcurate.io.row_filter import Bounds


@dataclass(frozen=True)
class DataFile:
    """A file of rows that a commit adds.

    Args:
        name: relative to the folder of the table.
        rows: how many it has.
        size: in bytes.
        schema: schema of its rows.
        note: what the format needs beside these.
        values: values of the columns by which the table is partitioned, as text; None for null.
    """

    name: str
    rows: int
    size: int
    schema: pa.Schema
    note: Any = None
    values: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredFile:
    """A file of rows that a table has at a version.

    Args:
        address: where it is.
        constants: values of columns that the file itself lacks, for all of its rows.
        ids: ids of its columns by their names, for a file that does not have them in its own schema.
        unclear: names of columns whose ids at the time of the file are not known.
        size: size in bytes, as the table has it.
        bounds: what the table knows of the values of its columns, by name.
        deleted: rows of it that the table does not have any more; None if it has all.
    """

    address: str
    constants: Mapping[str, Any] = field(default_factory=dict)
    ids: Mapping[str, NamedId] = field(default_factory=dict)
    unclear: frozenset[str] = frozenset()
    size: int = 0
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    deleted: DeletedRows | None = None


@dataclass(frozen=True)
class TableVersion:
    """What a table has at a version.

    Args:
        schema: schema of its rows.
        files: in any order.
        by_id: the schema with the ids of fields in its metadata, for a format whose columns have ids.
        number: version of Delta Lake, or id of the snapshot of Iceberg; None for a table without rows.
    """

    schema: pa.Schema
    files: Sequence[StoredFile]
    by_id: pa.Schema | None = None
    number: int | None = None


@dataclass(frozen=True)
class Commit:
    """What is added to a table at once.

    Args:
        run: the id of the run.
        number: number of the commit of this run, growing; with the id it says whether the commit was made.
        files: in order.
        schema: common schema of all files.
        replace: whether the rows that are there go.
        base: the version that the run saw when it began; None if there was no table.
        partition: names of the columns by which the table is partitioned.
        removed: names of files of the table that go, as the table is when it is called.
        label: label of the rows: only one commit of a label at a time is made, so that none misses another.
    """

    run: str
    number: int
    files: Sequence[DataFile]
    schema: pa.Schema
    replace: bool
    base: int | None
    partition: Sequence[str] = ()
    removed: Callable[[], Sequence[str]] = tuple
    label: str | None = None

    @property
    def marker(self) -> str:
        """The text by which the commit is found again."""
        return f"{self.run}-{self.number}"


@dataclass
class LakeTable(ABC):
    """A table of one format; made where it is used.

    Args:
        path: its address, or its identifier in a catalog.
        options: fsspec's ``storage_options``.
        catalog: settings of the catalog that knows the table, for formats that have one.
    """

    path: str
    options: Mapping[str, Any] = field(default_factory=dict)
    catalog: Mapping[str, Any] | None = None

    #: What the format is called in sentences, and the library that knows it.
    title = ""
    library = ""
    #: The folder of data files in the table.
    folder = ""
    #: Whether it has lists of a fixed size.
    fixed_lists = False
    #: Whether tables can be partitioned, and whether files have the columns by which they are.
    has_partitions = True
    #: Whether a commit can take out files.
    removes_files = True
    keeps_partition_columns = True

    @abstractmethod
    def address(self) -> str:
        """Return the folder of the table."""

    @abstractmethod
    def version(self) -> int | None:
        """Return the newest version, which grows with each commit; None if there is no table."""

    def snapshot(self) -> int | None:
        """Return the newest version as `TableVersion.number` has it; None if there is no table."""
        return self.version()

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the schema of the newest version."""

    def required(self) -> pa.Schema:
        """Return the schema of the newest version, with what must not be null."""
        return self.schema()

    def check_writable(self, mode: str, partition: Sequence[str] = ()) -> None:  # noqa: B027 - Lance refuses none
        """Refuse a table to which files cannot be added.

        Args:
            mode: mode of the writer.
            partition: names of the columns by which the files are partitioned.

        Raises:
            DataError: they cannot.
        """

    def accepted(self, rows: pa.Table, required: pa.Schema) -> pa.Table:
        """Return rows as a file of the table has them.

        Args:
            rows: in the types of the table.
            required: what `required` returned.

        Raises:
            DataError: a value is null that must not be.
        """
        for column in required:
            chunks = rows[column.name].chunks if column.name in rows.column_names else [pa.nulls(rows.num_rows)]
            path = next(filter(None, (nulls_in_required(chunk, column) for chunk in chunks)), "")
            if path:
                raise DataError(
                    f"column {path!r} of table {self.path!r} is not nullable, and a row has no value for it; give it "
                    "one, drop the row, or change the table first"
                )
        return rows

    @abstractmethod
    def has(self, run: str, number: int) -> bool:
        """Return whether the table has a commit of a run."""

    @abstractmethod
    def commit(self, commit: Commit) -> None:
        """Make the commit.

        Raises:
            DataError: it is refused.
        """

    @abstractmethod
    def stored(self, kind: pa.DataType) -> pa.DataType | None:
        """Return the type in which the format holds values of a type that is not nested; None if it cannot."""

    def check_partition(self, there: Sequence[str], partition: Sequence[str]) -> None:
        """Refuse files that are not partitioned as the table is.

        Args:
            there: names of the columns by which the table is partitioned.
            partition: names of those by which the files are.

        Raises:
            DataError: they differ.
        """
        if list(there) != list(partition):
            how = f"is partitioned by {listed(there)}" if there else "is not partitioned"
            advice = f"give partition_cols={list(there)!r}" if there else "leave out partition_cols="
            raise DataError(f"table {self.path!r} {how}; {advice}, or name another table")

    def conflict(self, commit: Commit) -> DataError:
        """Return the error for a table that changed while the run wrote."""
        before = "there was no such table" if commit.base is None else f"its version was {commit.base}"
        return DataError(
            f"another program wrote to table {self.path!r}: it is at version {self.version()} now, and when the run "
            f"began {before}; nothing was committed: go on with resume=True to commit to what is there now"
        )

    def check_present(self, removed: Sequence[str], present: Container[str]) -> None:
        """Refuse to take out files that the table does not have.

        Args:
            removed: names of the files to take out.
            present: names of the files that it has.

        Raises:
            DataError: another program has rewritten or deleted some.
        """
        gone = [name for name in removed if name not in present]
        if gone:
            raise DataError(
                f"another program rewrote or deleted {len(gone):,} files of table {self.path!r} with rows of this "
                f"label (first: {gone[0]!r}), so it is not known which rows to replace; delete these with its library, "
                "and write the new ones under another label"
            )

    def refused(self, error: Exception) -> DataError:
        """Return the error for a commit that the library refuses."""
        message = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return DataError(f"{self.title} refuses the commit to {self.path!r}: {message}")


def as_stored(table: LakeTable, kind: pa.DataType, final: bool = True) -> pa.DataType | None:
    """Return the type in which a table holds values of a type, also within nested types; None if it cannot.

    Args:
        table: the table.
        kind: type of a column.
        final: whether no more is to come: a type that no value has said is text then.
    """
    is_ = pa.types
    if is_.is_null(kind):
        return pa.string() if final else kind
    if is_.is_dictionary(kind):
        return as_stored(table, kind.value_type, final)
    if is_.is_struct(kind):
        inner = [(child.name, as_stored(table, child.type, final)) for child in kind]
        return pa.struct(inner) if inner and all(inner_type is not None for _, inner_type in inner) else None
    if is_.is_map(kind):
        key, item = as_stored(table, kind.key_type, final), as_stored(table, kind.item_type, final)
        return None if key is None or item is None else pa.map_(key, item)
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        value = as_stored(table, kind.value_type, final)
        fixed = is_.is_fixed_size_list(kind) and table.fixed_lists
        return None if value is None else pa.list_(value, kind.list_size if fixed else -1)
    return table.stored(kind)


def object_store_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return fsspec's options for S3 as libraries written in Rust name them.

    Examples:
        >>> object_store_options({"key": "me", "client_kwargs": {"endpoint_url": "http://host"}})
        {'aws_access_key_id': 'me', 'aws_endpoint_url': 'http://host', 'aws_allow_http': 'true'}
        >>> object_store_options({"aws_region": "eu-central-1"})
        {'aws_region': 'eu-central-1'}
    """
    flat = {**options, **options.get("client_kwargs", {})}
    names = {
        "key": "aws_access_key_id",
        "secret": "aws_secret_access_key",
        "token": "aws_session_token",
        "endpoint_url": "aws_endpoint_url",
        "region_name": "aws_region",
    }
    settings = {rust_name: str(flat[name]) for name, rust_name in names.items() if flat.get(name)}
    if options.get("anon"):
        settings["aws_skip_signature"] = "true"
    if settings.get("aws_endpoint_url", "").startswith("http://"):
        settings["aws_allow_http"] = "true"
    native = {
        name: str(value) for name, value in options.items() if name.lower().startswith(("aws_", "azure_", "google_"))
    }
    return settings | native
