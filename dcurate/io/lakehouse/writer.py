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
from dcurate.core.extras import missing, missing_dependency
from dcurate.core.stage import TableAt
from dcurate.errors import DataError, PipelineError, listed, nearest
from dcurate.frames.schema import ColumnTypes, TypeConflict, declared, fitted
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import META_DIR, RUNS, TMP, Directory
from dcurate.io import output
from dcurate.io.lakehouse.delta import DeltaTable
from dcurate.io.lakehouse.iceberg import IcebergTable
from dcurate.io.lakehouse.labels import replaced_runs, runs_to_replace
from dcurate.io.lakehouse.lance import LanceTable
from dcurate.io.lakehouse.table import Commit, DataFile, LakeTable, as_stored
from dcurate.io.ledger import recorded_files
from dcurate.io.parquet import ParquetWriter
from dcurate.rows import columns_listed

FORMATS: dict[str, type[LakeTable]] = {"delta": DeltaTable, "iceberg": IcebergTable, "lance": LanceTable}
#: What the run has committed and is about to commit, among its records.
_RECORD = f"{META_DIR}/output.json"
#: Key of the metadata of a file with the values of the partition that it is of.
_PARTITION = b"partition-dcurate"
#: The longest value of a column to partition by: Parquet files have no statistics of much longer ones.
_PARTITION_BYTES = 1_024
#: Names of types by those that Arrow prints, where these differ.
_ALIASES = {"date32[day]": "date32"}
#: Files that are looked at together before the commit.
_READERS = 16


def table_of(kind: str, path: str, options: Mapping[str, Any], catalog: Any, asks: str) -> LakeTable:
    """Return the table of a format.

    Args:
        kind: the name of the format.
        path: path of the table.
        options: fsspec's ``storage_options``.
        catalog: properties of the Iceberg catalog.
        asks: what needs it, for the error.

    Raises:
        PipelineError: there is no such format, or a catalog where there is none.
    """
    if kind not in FORMATS:
        raise PipelineError(f"{asks}: format={kind!r} is no format of a table{nearest(str(kind), FORMATS)}")
    if catalog is not None and kind != "iceberg":
        raise PipelineError(f"{asks}: only tables of Iceberg are in a catalog; leave out catalog= with {kind!r}")
    return FORMATS[kind](path, options, catalog)


def check_library(table: LakeTable, asks: str) -> None:
    """Refuse a table whose library is not installed.

    Raises:
        ResourceError: it is not.
    """
    if missing([table.library]):
        raise missing_dependency(asks, f"No module named {table.library!r}", "tables")


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
        records = [(self._record(run), run) for run in self._runs()]
        label = self.label or ""
        runs = [(record, run) for record, run in records if record is not None and record.get("label", "") == label]
        gone = replaced_runs(self._table(), {run.run: record for record, run in runs}) if label else set()
        return [run for _, run in sorted(runs, key=_began, reverse=True) if run.run not in gone]

    def sample_paths(self) -> list[str]:
        return super().sample_paths() if self.mode == "append" else []

    def go_on_with(self, run: Directory) -> None:
        self._run = run.run

    def is_final(self, run: Directory) -> bool:
        record = self._record(run)
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
        if self.mode == "error" and other_files and not self._runs():
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
        record = self._record() if resume and self._run else None
        version = table.version()
        if record is not None:
            self.directory.remove([name for name in self.directory.files(META_DIR) if name.startswith(f"{TMP}/")])
            if table.has(record["run"], record["generation"]):
                self._note_committed(record)
            elif self.mode == "error" and version is not None and not record["begun"]:
                raise DataError(
                    f"another program made table {self.path!r} meanwhile; name another, or give mode='append'"
                )
        else:
            self.check()
            self._run = uuid.uuid4().hex[:12]
            record = {"run": self._run, "generation": 1, "begun": False, "committed": [], "pending": []}
            record |= {"finished": self._finished(version), "began": time.time()}
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
        directory, record = self.directory, self._record()
        if record is None:
            raise DataError(f"the records of the run that writes to {self.path!r} were deleted meanwhile; run again")
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
        self._note_committed(record)
        self._keep(record)

    def is_empty(self) -> bool:
        return self._table().version() is None

    def write_without_rows(self, rows: pa.Table | None) -> None:
        """Make the table, with its columns and no rows.

        Raises:
            DataError: another program made it meanwhile, or the types of its columns are not known.
        """
        record = self._record()
        if record is None:
            raise DataError(f"the records of the run that writes to {self.path!r} were deleted meanwhile; run again")
        assert rows is not None, "tables have columns"
        stored = self._stored(self._chosen(rows)).schema
        unknown = [column.name for column in stored if pa.types.is_null(column.type)]
        if unknown:
            raise DataError(f"the types of columns {listed(unknown)} are not known without rows, so no table is made")
        kinds = [(column.name, as_stored(self._table(), column.type)) for column in stored]
        self._check_partition(pa.schema(kinds))
        self._table().commit(
            Commit(record["run"], record["generation"], [], pa.schema(kinds), False, None, self._partition)
        )
        self._note_committed(record)
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
        schema = self._joined(files)
        for place, file in enumerate(files):
            if not self._fits(file, schema):
                files[place] = self._written_again(file, schema)
        self._check_partition(schema)
        replaced = self._replaced(record)
        record["pending"] = names
        record |= {"replaces": [*record.get("replaces", ()), *replaced]} if replaced else {}
        self._keep(record)
        removed = [name for committed in replaced.values() for name in committed]
        about = (record["run"], record["generation"], files, schema, replaces, self._base, self._partition)
        self._table().commit(Commit(*about, removed))

    def _replaced(self, record: Mapping[str, Any]) -> Mapping[str, list[str]]:
        """The files of earlier runs with the label of this one, by the run, that its commit takes out."""
        if self.label is None:
            return {}
        records = {run.run: known for run in self._runs() if (known := self._record(run)) is not None}
        return runs_to_replace(self._table(), records, record["run"], self.label)

    def _look_again(self) -> None:
        """Take the version and the types of the table as it is now."""
        table = self._table()
        table.check_writable(self.mode, self._partition)
        self._base, self._types, self._required = table.version(), table.schema(), table.required()

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        rows = self._stored(table)
        pieces = (piece for part in self._partitions(rows) for piece in self._pieces(part))
        for number, piece in enumerate(pieces):
            name = output.file_name(key, "", number=number)
            yield self._put_file(f"{self._table().folder}{name}-{self._run}-{self._generation}{self._suffix}", piece)

    @property
    def _partition(self) -> Sequence[str]:
        return tuple(self.partition_cols or ())

    def _partitions(self, rows: pa.Table) -> Iterator[pa.Table]:
        """The rows of each partition, in the order in which its first row comes."""
        names = list(self._partition)
        if not names:
            yield rows
            return
        self._check_partition(rows.schema)
        place = "\1place"
        keys = rows.select(names).append_column(place, pa.array(range(rows.num_rows), pa.int64()))
        groups = keys.group_by(names, use_threads=False).aggregate([(place, "list")])
        for places in groups[f"{place}_list"].to_pylist():
            yield rows.take(pa.array(sorted(places)))

    def _check_partition(self, schema: pa.Schema) -> None:
        """Refuse columns to partition by that are missing or all, or whose values have no one text in both formats."""
        missing = [name for name in self._partition if name not in schema.names]
        if missing or len(self._partition) == len(schema):
            raise DataError(
                f"{self.name}: partition_cols {listed(self._partition)} must be some of the columns, and not all: "
                f"{columns_listed(schema.names)}"
            )
        is_ = pa.types
        for name in self._partition:
            kind = schema.field(name).type
            plain = is_.is_string(kind) or is_.is_integer(kind) or is_.is_date32(kind) or is_.is_boolean(kind)
            if not plain and not is_.is_null(kind):
                raise DataError(
                    f"{self.name}: column {name!r} of partition_cols holds {kind}; partition by columns of text, whole "
                    "numbers, dates or booleans"
                )

    def _without_partition(self, rows: pa.Table) -> pa.Table:
        """The rows of a partition as its file has them: values that the file does not have are in its metadata."""
        values = {name: rows[name][:1].cast(pa.string())[0].as_py() for name in self._partition}
        long = [name for name, value in values.items() if len((value or "").encode()) > _PARTITION_BYTES]
        if long:
            raise DataError(
                f"{self.name}: a value of column {long[0]!r} has more than {_PARTITION_BYTES:,} bytes, too long for "
                "the name of a partition; partition by other columns"
            )
        if not self._partition or self._table().keeps_partition_columns:
            return rows
        empty = [name for name, value in values.items() if value == ""]
        if empty:
            raise DataError(
                f"{self.name}: a value of column {empty[0]!r} is an empty text, which Delta Lake reads as null in a "
                "partition; replace it, or partition by other columns"
            )
        kinds = {column.name: str(column.type) for column in rows.schema}
        note = orjson.dumps({"columns": kinds, "values": values})
        return rows.drop_columns(list(self._partition)).replace_schema_metadata({_PARTITION: note})

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
                self._put(self._without_partition(rows), file)
            size = file.tell()
        return FilePart(self.directory.path(name), size=size)

    def _stored(self, rows: pa.Table) -> pa.Table:
        """The rows in types that the format has; those of the table, if it is known."""
        known = {column.name: column.type for column in self._types or ()}
        extra = [name for name in rows.column_names if self._types is not None and name not in known]
        if extra:
            raise DataError(
                f"{self.name}: table {self.path!r} has no column {listed(extra)}; add it to the table first, or "
                "leave it out with fields="
            )
        for column in rows.schema if known else ():
            problem = _what_is_lost(column.type, known[column.name])
            if problem:
                raise DataError(
                    f"{self.name}: column {column.name!r} of table {self.path!r} has {problem}, which rows have; "
                    "change the table first, or the rows"
                )
        kinds = known or {column.name: column.type for column in rows.schema} | {
            name: kind for name, kind in self._declared().items() if name in rows.column_names
        }
        return self._cast(rows, pa.schema([(name, self._kind(name, kind)) for name, kind in kinds.items()]))

    def _kind(self, name: str, kind: pa.DataType) -> pa.DataType:
        # What is null stays without a type until those of other files are known.
        stored = as_stored(self._table(), kind, final=False)
        if stored is None:
            raise DataError(
                f"{self.name}: {self._table().title} has no type for column {name!r}, which is {kind}; give it another "
                f"with schema={{{name!r}: 'string'}}, or leave it out with fields="
            )
        return stored

    def _cast(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        try:
            return fitted(rows, schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"{self.name}: rows do not fit the types of table {self.path!r}: {error}; give other types with schema="
            ) from error

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
            size, schema = store.size(path), about.schema_arrow
            if self._partition and not table.keeps_partition_columns:
                schema, values = _with_partition(schema)
                return DataFile(name, about.metadata.num_rows, size, schema, values=values)
            return DataFile(name, about.metadata.num_rows, size, schema)

    def _joined(self, files: Sequence[DataFile]) -> pa.Schema:
        """The schema of the table."""
        if self._types is not None:
            return self._types
        shape = ColumnTypes({name: self._kind(name, kind) for name, kind in self._declared().items()})
        for file in files:
            try:
                shape = shape.joined(file.schema, file.name)
            except TypeConflict as conflict:
                raise DataError(
                    f"column {conflict.column!r} is {conflict.here} in {file.name} but {conflict.before} in "
                    f"{conflict.origin or 'schema='}; give the type with schema={{{conflict.column!r}: 'string'}}, "
                    "and run again without resume=True"
                ) from conflict
        if not files and self._base is not None:
            return self._table().schema()
        kinds = {name: as_stored(self._table(), kind) for name, kind in shape.types.items()}
        return pa.schema(list(kinds.items()))

    def _fits(self, file: DataFile, wanted: pa.Schema) -> bool:
        if self.format == "lance":
            # Numbers of columns are those of the table only in fragments that were written for it.
            numbered = self._types is None or file.note["mode"] == "append"
            return numbered and list(zip(file.schema.names, file.schema.types, strict=True)) == list(
                zip(wanted.names, wanted.types, strict=True)
            )
        table = self._table()
        return all(
            field.name in wanted.names
            and as_stored(table, wanted.field(field.name).type) == as_stored(table, field.type, final=False)
            for field in file.schema
        )

    def _written_again(self, file: DataFile, schema: pa.Schema) -> DataFile:
        """A file with its columns in the types of the table, under the same name."""
        table = self._table()
        if isinstance(table, LanceTable):
            rows = table.read(file.note["fragments"])
        else:
            store, path = open_store(self.directory.path(file.name), self.directory.options)
            with storage_errors("read", self.directory.path(file.name)), store.open(path) as data:
                rows = pq.read_table(data)
            for column in self._partition:
                if column not in rows.column_names:
                    values = pa.array([file.values[column]], pa.string()).cast(schema.field(column).type)
                    rows = rows.append_column(column, values.take(pa.repeat(0, rows.num_rows)))
            rows = rows.select(file.schema.names)
        self._put_file(file.name, self._cast(rows, schema) if self._types is None else self._stored(rows))
        return self._looked_at(file.name)

    def _appends(self, record: Mapping[str, Any]) -> bool:
        return self.mode == "append" or bool(record["begun"])

    def _note_committed(self, record: dict[str, Any]) -> None:
        record["committed"], record["pending"] = record["committed"] + record["pending"], []
        record["begun"] = True  # what comes later is added
        record["generation"] += 1

    def _finished(self, version: int | None) -> int:
        """Return a number that grows with each finished run; see `output.name_in_indexes`."""
        runs = self._runs()
        with ThreadPoolExecutor(_READERS) as pool:
            records = list(pool.map(self._record, runs))
        ended = set(output.ended_runs(replace(self.directory, run="")))
        counts = [record["finished"] + (run.run in ended) for run, record in zip(runs, records, strict=True) if record]
        return max(counts, default=0 if version is None else version + 1)

    def _runs(self) -> list[Directory]:
        """The table with the records of each run that has written to it, or writes to it."""
        top = replace(self.directory, run="")
        names = top.files(f"{META_DIR}/{RUNS}")
        return [replace(top, run=run) for run in sorted({name.split("/")[2] for name in names})]

    def _record(self, run: Directory | None = None) -> dict[str, Any] | None:
        data = (run or self.directory).read(_RECORD)
        return None if data is None else dict(orjson.loads(data))

    def _keep(self, record: Mapping[str, Any]) -> None:
        self.directory.write(_RECORD, orjson.dumps(record))

    def _declared(self) -> dict[str, pa.DataType]:
        return declared(self.schema or {}, f"{self.name}: schema")

    def _table(self) -> LakeTable:
        return table_of(self.format, str(self.path), self.storage_options or {}, self.catalog, self.name)


def _with_partition(schema: pa.Schema) -> tuple[pa.Schema, Mapping[str, str | None]]:
    """The schema of a file with the columns of its partition, and their values as text, from its metadata."""
    about = orjson.loads(schema.metadata[_PARTITION])
    fields = [
        pa.field(name, pa.type_for_alias(_ALIASES.get(kind, kind))) if name in about["values"] else schema.field(name)
        for name, kind in about["columns"].items()
    ]
    return pa.schema(fields), about["values"]


def _began(run: tuple[Mapping[str, Any] | None, Directory]) -> float:
    record, _ = run
    return float(record["began"]) if record else 0.0


def _what_is_lost(kind: pa.DataType, wanted: pa.DataType) -> str:
    """What a type has, also within nested types, that the other has not; empty if there is nothing.

    Examples:
        >>> _what_is_lost(pa.struct({"a": pa.int8(), "b": pa.int8()}), pa.struct({"a": pa.int8()}))
        "no field 'b'"
    """
    is_ = pa.types
    text = is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind)
    if text and (is_.is_integer(wanted) or is_.is_floating(wanted) or is_.is_decimal(wanted) or is_.is_boolean(wanted)):
        return "no text"  # "007" would become 7
    if is_.is_timestamp(kind) and is_.is_timestamp(wanted) and (kind.tz is None) is not (wanted.tz is None):
        return "no time zone" if wanted.tz is None else "a time zone and not times without one"
    if is_.is_struct(kind) and is_.is_struct(wanted):
        wanted_types = {child.name: child.type for child in wanted}
        extra = [child.name for child in kind if child.name not in wanted_types]
        inner = [_what_is_lost(child.type, wanted_types[child.name]) for child in kind if child.name in wanted_types]
        return f"no field {listed(extra)}" if extra else next(filter(None, inner), "")
    if is_.is_map(kind) and is_.is_map(wanted):
        return _what_is_lost(kind.key_type, wanted.key_type) or _what_is_lost(kind.item_type, wanted.item_type)
    lists = is_.is_nested(kind) and is_.is_nested(wanted) and kind.num_fields == wanted.num_fields == 1
    return _what_is_lost(kind.field(0).type, wanted.field(0).type) if lists else ""
