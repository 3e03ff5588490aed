"""`TableWriter`: rows into a table, with one commit when all are written."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.core.batch import BatchKey, FilePart
from dcurate.core.stage import TableAt
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.schema import declared
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import META_DIR, TMP, Directory
from dcurate.io import output
from dcurate.io.lakehouse.column_types import TableTypes
from dcurate.io.lakehouse.commits import TableRuns, note_committed, present_record, read_record, write_record
from dcurate.io.lakehouse.formats import check_library, table_of
from dcurate.io.lakehouse.lance import LanceTable
from dcurate.io.lakehouse.partitions import TablePartitions
from dcurate.io.lakehouse.table import Commit, DataFile, LakeTable, as_stored
from dcurate.io.ledger import recorded_files
from dcurate.io.parquet_writer import ParquetWriter

#: Files that are looked at together before the commit.
_READERS = 16


@dataclass
class TableWriter(ParquetWriter):
    """Write to a table of Delta Lake, Iceberg or Lance, with one commit when all rows are written.

    Files of rows are written as the run goes, and readers of the table see none of them until the commit at the end. A
    run that is killed is resumed like any other: no row is lost, and none committed twice. A run that is resumed with
    more input commits what is new. All rows get one type for each column: that of the table, of ``schema``, or one that
    holds all values. Files of which a column has another type are written again before the commit, on the driver.

    Types that the format does not have become the next larger ones, or values are refused: unsigned integers become
    signed ones, timestamps get microseconds, and of a column without any value it is text.

    Args:
        path: the folder of the table, local or a URL; of a table of Iceberg the identifier, ``"namespace.table"``.
        write_kwargs: for `pyarrow.parquet.write_table`; not for Lance.
        fields: the columns to write, in this order; all by default.
        mode: ``"error"`` makes a table and refuses one that is there, ``"append"`` adds rows, ``"overwrite"`` replaces
            all rows; earlier versions stay. ``"append"`` and ``"overwrite"`` also make a table.
        compression: codec of the Parquet pages.
        max_rows_per_file: split larger batches into several files.
        max_bytes_per_file: the same by bytes in memory.
        storage_options: for fsspec; for S3 they are passed on to the library of the format.
        format: ``"delta"``, ``"iceberg"`` or ``"lance"``.
        catalog: properties of the Iceberg catalog, as `pyiceberg.catalog.load_catalog` takes them, with ``"name"`` for
            its name.
        schema: types of columns by name, where they are not to be taken from the rows: ``{"id": "string"}``.
        label: with ``mode="append"``, a name of the rows, such as ``"2026-11-28"``: the commit of a later run with the
            same label takes these out; for Delta Lake and Iceberg.
        partition_cols: columns by whose values the table is partitioned, for Delta Lake and Iceberg: text, whole
            numbers, dates or booleans. A table that is there must be partitioned by the same.

    Raises:
        PipelineError: settings that mean nothing here.
        DataError: types that do not go together, or another program wrote to the table meanwhile.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> from deltalake import DeltaTable
        >>> from dcurate import DocumentBatch, InlineExecutor, Pipeline
        >>> rows = DocumentBatch(data=pd.DataFrame({"text": ["one", "two"]}))
        >>> folder = tempfile.TemporaryDirectory()
        >>> writer = TableWriter(f"{folder.name}/table", format="delta")
        >>> _ = Pipeline("write", stages=[writer]).run(InlineExecutor(), [rows], observers=[])
        >>> DeltaTable(f"{folder.name}/table").version()
        0
        >>> folder.cleanup()
    """

    format: str = "delta"
    catalog: dict[str, Any] | None = None
    schema: Any = None
    name: str = "table_writer"
    _address: str | None = field(default=None, init=False, repr=False, compare=False)
    _types: pa.Schema | None = field(default=None, init=False, repr=False, compare=False)
    _base: int | None = field(default=None, init=False, repr=False, compare=False)
    _required: pa.Schema | None = field(default=None, init=False, repr=False, compare=False)
    _run: str = field(default="", init=False, repr=False, compare=False)

    replaces_files: ClassVar[bool] = False
    writes_documents: ClassVar[bool] = False
    separates_runs: ClassVar[bool] = True
    takes_label: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._table()
        declared(self.schema or {}, f"{self.name}: schema")
        if self.format == "iceberg" and self.catalog is None:
            raise PipelineError(
                f"{self.name}: a table of Iceberg is written through a catalog; give what pyiceberg asks for, such as "
                "catalog={'name': 'prod', 'type': 'rest', 'uri': 'https://catalog.example'}"
            )
        if self.mode == "ignore":
            raise PipelineError(f"{self.name}: mode='ignore' has no meaning for a table; give 'append' to add rows")
        if self.label is not None and not self._table().removes_files:
            raise PipelineError(
                f"{self.name}: of a table of {self._table().title} no rows are replaced by their label; leave out "
                "label=, or write a table of Delta Lake or Iceberg"
            )
        if self.separate_by is not None:
            raise PipelineError(f"{self.name}: rows of a table are not put into folders; leave out separate_by=")
        if self.partition_cols and not self._table().has_partitions:
            raise PipelineError(
                f"{self.name}: {self._table().title} has no partitions; leave out partition_cols=, or write a table of "
                "Delta Lake or Iceberg"
            )
        statistics = (self.write_kwargs or {}).get("write_statistics", True)
        if self.partition_cols and self._table().keeps_partition_columns and statistics is not True:
            raise PipelineError(
                f"{self.name}: {self._table().title} takes the partition of a file from its statistics; leave out "
                "write_statistics, or partition_cols="
            )

    def requires(self) -> dict[str, str]:
        return {self._table().library: "tables"}

    @property
    def directory(self) -> Directory:
        """The folder of the table, with the records of the run."""
        if self._address is None:
            check_library(self._table(), f"stage {self.name!r}")
            self._address = self._table().address()
        return Directory(self._address, self.storage_options or {}, self._run)

    @property
    def run(self) -> str:
        return self._run

    def earlier_runs(self) -> list[Directory]:
        return self._runs.of_label(self.label or "")

    def go_on_with(self, run: Directory) -> None:
        self._run = run.run

    def is_final(self, run: Directory) -> bool:
        record = read_record(run)
        return record is not None and (
            bool(record["committed"]) or self._table().has(record["run"], record["generation"])
        )

    def settings(self) -> dict[str, Any]:
        settings = super().settings()
        del settings["catalog"]
        return settings | {"schema": {name: str(kind) for name, kind in self._declared().items()}}

    def check(self) -> None:
        """Refuse a table that a new run must not touch.

        Raises:
            DataError: it must not.
        """
        exists = self._table().version() is not None
        if self.mode == "error" and exists:
            raise DataError(
                f"there is a table {self.path!r} already; go on with the run that made it with resume=True, add to it "
                "with mode='append', replace its rows with mode='overwrite', or name another"
            )
        directory = replace(self.directory, run="")
        other_files = [] if exists else [name for name in directory.files() if not name.startswith((".", "_"))]
        if self.mode == "error" and other_files and not self._runs.all():
            raise DataError(f"{directory.url!r} is not a table, and holds {other_files[0]!r}; name an empty folder")

    def prepare(self, resume: bool) -> None:
        """Look at the table, and choose names for new files that it does not have.

        Each run has records of its own, and its id is in the names of its files, so several can append at once.

        Raises:
            DataError: the table must not be written to.
        """
        table = self._table()
        if self.catalog is None:
            self.path = self.directory.address  # workers may run in another directory
        if resume and not self._run:
            self._run = next((run.run for run in self.earlier_runs()), "")
        record = read_record(self.directory) if resume and self._run else None
        version = table.version()
        if record is not None:
            self.directory.remove([name for name in self.directory.files(META_DIR) if name.startswith(f"{TMP}/")])
            if table.has(record["run"], record["generation"]):
                note_committed(record)
            elif self.mode == "error" and version is not None and not record["begun"]:
                raise DataError(
                    f"another program made table {self.path!r} meanwhile; name another, or give mode='append'"
                )
        else:
            self.check()
            self._run = uuid.uuid4().hex[:12]
            record = {"run": self._run, "generation": 1, "begun": False, "committed": [], "pending": []}
            record |= {"finished": self._runs.finished(version), "began": time.time()}
            record |= {"label": self.label} if self.label is not None else {}
        if version is not None:
            table.check_writable(self.mode, self._partition)
            self._required = table.required()
        self._generation, self._base = record["generation"], version
        self._types = table.schema() if version is not None and self._appends(record) else None
        self._keep(record)
        self.directory.create()

    def complete(self, written: Sequence[str]) -> None:
        """Commit the files that were written.

        Raises:
            DataError: types that do not go together, a split that was committed was written again, or the table
                was written to by another program.
        """
        directory, record = self.directory, present_record(self.directory, str(self.path))
        root = directory.address.rstrip("/") + "/"
        committed = set(record["committed"])
        names = [path.removeprefix(root) for path in written if path.removeprefix(root) not in committed]
        gone = committed - recorded_files(directory) if committed else set()
        if gone:
            raise DataError(
                f"{len(gone):,} files that this run committed to {self.path!r} are of input that changed since (first: "
                f"{min(gone)!r}), so the new rows would come twice; add them nevertheless with mode='append' and "
                "without resume=True, or replace all rows with mode='overwrite'"
            )
        replaces = self.mode == "overwrite" and not self._appends(record)
        if not names and not (replaces and self._base is not None) and not self._replaced(record):
            return
        try:
            if not self._table().has(record["run"], record["generation"]):  # another process may go on with the run
                self._commit(record, names, replaces)
        except DataError:
            if self._base is not None or self.mode != "append" or self._table().version() is None:
                raise
            self._look_again()  # another run made the table meanwhile
            self._commit(record, names, replaces)
        note_committed(record)
        self._keep(record)

    def is_empty(self) -> bool:
        return self._table().version() is None

    def write_without_rows(self, rows: pa.Table | None) -> None:
        """Make the table, with its columns and no rows.

        Raises:
            DataError: another program made it meanwhile, or the types of its columns are not known.
        """
        record = present_record(self.directory, str(self.path))
        assert rows is not None, "tables have columns"
        stored = self._column_types.stored(self._chosen(rows)).schema
        unknown = [column.name for column in stored if pa.types.is_null(column.type)]
        if unknown:
            raise DataError(f"the types of columns {listed(unknown)} are not known without rows, so no table is made")
        kinds = [(column.name, as_stored(self._table(), column.type)) for column in stored]
        self._partitions.check(pa.schema(kinds))
        self._table().commit(
            Commit(record["run"], record["generation"], [], pa.schema(kinds), False, None, self._partition)
        )
        note_committed(record)
        self._keep(record)

    def remove_without_rows(self) -> None:
        """Do nothing: a table has no such file."""

    def table_written(self) -> TableAt | None:
        table = self._table()
        version = table.snapshot()
        return None if version is None else TableAt(table.address(), table.title, version)

    def _commit(self, record: dict[str, Any], names: Sequence[str], replaces: bool) -> None:
        with ThreadPoolExecutor(_READERS) as pool:
            files = list(pool.map(self._looked_at, names))
        schema = self._column_types.joined(files, self._base is not None)
        for place, file in enumerate(files):
            if not self._column_types.fits(file, schema):
                files[place] = self._written_again(file, schema)
        self._partitions.check(schema)
        record["pending"], before = names, record.get("replaces", ())
        self._keep(record)

        def removed() -> list[str]:
            replaced = self._replaced(record)
            if replaced:
                record["replaces"] = [*before, *replaced]
                self._keep(record)
            return [name for committed in replaced.values() for name in committed]

        about = (record["run"], record["generation"], files, schema, replaces, self._base, self._partition)
        self._table().commit(Commit(*about, removed, self.label))

    def _replaced(self, record: Mapping[str, Any]) -> Mapping[str, list[str]]:
        """The files of earlier runs with the label of this one, by the run, that its commit takes out."""
        return self._runs.to_replace(record["run"], self.label)

    def _look_again(self) -> None:
        """Take the version and the types of the table as it is now."""
        table = self._table()
        table.check_writable(self.mode, self._partition)
        self._base, self._types, self._required = table.version(), table.schema(), table.required()

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        rows = self._column_types.stored(table)
        pieces = (piece for part in self._partitions.split(rows) for piece in self._pieces(part))
        for number, piece in enumerate(pieces):
            name = output.file_name(key, "", number=number)
            yield self._put_file(f"{self._table().folder}{name}-{self._run}-{self._generation}{self._suffix}", piece)

    @property
    def _partition(self) -> tuple[str, ...]:
        return tuple(self.partition_cols or ())

    @property
    def _partitions(self) -> TablePartitions:
        return TablePartitions(self.name, self._partition, self._table().keeps_partition_columns)

    @property
    def _column_types(self) -> TableTypes:
        return TableTypes(self.name, str(self.path), self._table(), self._types, self._declared())

    @property
    def _runs(self) -> TableRuns:
        return TableRuns(self.directory, self._table())

    @property
    def _suffix(self) -> str:
        return ".json" if self.format == "lance" else ".parquet"

    def _put_file(self, name: str, rows: pa.Table) -> FilePart:
        table = self._table()
        if self._required is not None:
            rows = table.accepted(rows, self._required)
        with self.directory.writing(name) as file:
            if isinstance(table, LanceTable):
                mode = "create" if self._base is None else "overwrite" if self._types is None else "append"
                file.write(table.write(rows, mode))
            else:
                self._put(self._partitions.in_file(rows), file)
            size = file.tell()
        return FilePart(self.directory.path(name), size=size)

    def _looked_at(self, name: str) -> DataFile:
        table, directory = self._table(), self.directory
        if isinstance(table, LanceTable):
            data = directory.read(name) or b""
            note = orjson.loads(data)
            rows = sum(fragment["physical_rows"] for fragment in note["fragments"])
            return DataFile(name, rows, len(data), table.schema_of(note["fragments"]), note)
        store, path = open_store(directory.path(name), directory.options)
        with storage_errors("read", directory.path(name)), store.open(path) as file:
            about = pq.ParquetFile(file)
            schema, values = self._partitions.of_file(about.schema_arrow)
            return DataFile(name, about.metadata.num_rows, store.size(path), schema, values=values)

    def _written_again(self, file: DataFile, schema: pa.Schema) -> DataFile:
        """A file with its columns in the types of the table, under the same name."""
        table = self._table()
        if isinstance(table, LanceTable):
            rows = table.read(file.note["fragments"])
        else:
            store, path = open_store(self.directory.path(file.name), self.directory.options)
            with storage_errors("read", self.directory.path(file.name)), store.open(path) as data:
                rows = pq.read_table(data)
            rows = self._partitions.with_columns(rows, file.values, schema).select(file.schema.names)
        types = self._column_types
        self._put_file(file.name, types.cast(rows, schema) if self._types is None else types.stored(rows))
        return self._looked_at(file.name)

    def _appends(self, record: Mapping[str, Any]) -> bool:
        return self.mode == "append" or bool(record["begun"])

    def _keep(self, record: Mapping[str, Any]) -> None:
        write_record(self.directory, record)

    def _declared(self) -> dict[str, pa.DataType]:
        return declared(self.schema or {}, f"{self.name}: schema")

    def _table(self) -> LakeTable:
        return table_of(self.format, str(self.path), self.storage_options or {}, self.catalog, self.name)
