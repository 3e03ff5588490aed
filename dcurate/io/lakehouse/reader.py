"""`TableReader`: the rows of a table at a version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.core.batch import BatchKey, FileGroup, FilePart, limited_version
from dcurate.core.stage import CompositeStage, SourceStage, Stage, TableAt
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.columns import rows_at
from dcurate.frames.document import DocumentBatch
from dcurate.frames.schema import ColumnTypes, without_notes
from dcurate.fs.errors import storage_errors
from dcurate.fs.listing import file_entry
from dcurate.fs.paths import full_address, open_store
from dcurate.io.files import SourceFile, is_names, shown_name
from dcurate.io.lakehouse.delta import DeltaTable
from dcurate.io.lakehouse.fields import current_names, has_ids
from dcurate.io.lakehouse.formats import check_library, table_of
from dcurate.io.lakehouse.iceberg import IcebergTable
from dcurate.io.lakehouse.lance import LanceTable
from dcurate.io.lakehouse.table import LakeTable, StoredFile, TableVersion
from dcurate.io.parquet_reader import ParquetReader, RowGroupPiece
from dcurate.io.partition import LARGE, parse_bytes
from dcurate.io.row_filter import Bounds, RowFilter
from dcurate.io.source import check_limit
from dcurate.rows.origins import Place


@dataclass
class TableReader(CompositeStage[FileGroup, DocumentBatch]):
    """Read a table of Delta Lake, Iceberg or Lance, at its newest version or an earlier one.

    Large files are cut, and small ones packed, as by `ParquetReader`; a table of Lance is read by its fragments. All
    columns have the types of the table. Columns of Iceberg are found by their ids, so they may be renamed. Rows that
    deletion vectors of a Delta table delete are left out. Other tables whose rows are not known from their files alone
    are refused: Delta tables with column mapping, Iceberg tables with files of deletes.

    Args:
        path: the folder of the table, local or a URL. Of a table of Iceberg the identifier in the catalog,
            ``"namespace.table"``, or without ``catalog`` its metadata file, or its folder with a ``version-hint.text``.
        format: ``"delta"``, ``"iceberg"`` or ``"lance"``.
        version: the version to read; of Iceberg a snapshot's id or its sequence number. The newest by default.
        catalog: properties of the Iceberg catalog, as `pyiceberg.catalog.load_catalog` takes them, with ``"name"`` for
            its name.
        fields: the columns to read, in this order; all by default.
        blocksize: split size on disk, as bytes or ``"128MiB"``.
        storage_options: for fsspec; for S3 they are passed on to the library of the format.
        limit: number of rows to read, at most: the first ones in the order of the files, before `filter`.
        filter: rows to read, as an SQL condition or a `pyarrow.compute.Expression`; see `ParquetReader`. Files are left
            unread by their partitions and the statistics of the table. Of a table of Lance the other columns are
            read only where rows match.

    Raises:
        PipelineError: settings that mean nothing here.
        DataError: the table or version does not exist, or it cannot be read file by file.

    Examples:
        >>> import tempfile
        >>> import pyarrow as pa
        >>> from deltalake import write_deltalake
        >>> from dcurate import InlineExecutor, Pipeline
        >>> folder = tempfile.TemporaryDirectory()
        >>> for text in ("old", "new"):
        ...     write_deltalake(folder.name, pa.table({"text": [text]}), mode="overwrite")
        >>> reader = TableReader(folder.name, format="delta", version=0)
        >>> Pipeline("read", stages=[reader]).run(InlineExecutor(), observers=[]).to_arrow()["text"].to_pylist()
        ['old']
        >>> folder.cleanup()
    """

    path: str
    format: str = "delta"
    version: int | None = None
    catalog: dict[str, Any] | None = None
    fields: list[str] | None = None
    blocksize: int | str | None = None
    storage_options: dict[str, Any] | None = None
    limit: int | None = None
    name: str = "table_reader"
    filter: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.version is not None and (isinstance(self.version, bool) or not isinstance(self.version, int)):
            raise PipelineError(f"{self.name}: version={self.version!r} must be a whole number, or None for the newest")
        self.decompose()

    def requires(self) -> dict[str, str]:
        return {self._table().library: "tables"}

    def decompose(self) -> list[Stage]:
        table = self._table()
        if isinstance(table, LanceTable):
            limits = (self.fields, self.blocksize, self.limit)
            return [LanceRows(table, self.version, *limits, name=self.name, filter=self.filter)]
        files = TableFiles(
            table.path,
            fields=self.fields,
            blocksize=self.blocksize,
            storage_options=self.storage_options,
            limit=self.limit,
            name=self.name,
            filter=self.filter,
        )
        files._source, files._version = table, self.version
        return [files]

    def _table(self) -> LakeTable:
        return table_of(self.format, str(self.path), self.storage_options or {}, self.catalog, self.name)


@dataclass
class TableFiles(ParquetReader):
    """Reads the Parquet files of a version of a table."""

    name: str = "table_files"
    has_folder_columns: ClassVar[bool] = False
    _source: LakeTable | None = field(default=None, init=False, repr=False, compare=False)
    _version: int | None = field(default=None, init=False, repr=False, compare=False)
    _read_at: int | None = field(default=None, init=False, repr=False, compare=False)
    _by_id: pa.Schema | None = field(default=None, init=False, repr=False, compare=False)
    _stored: dict[str, StoredFile] = field(default_factory=dict, init=False, repr=False, compare=False)

    def requires(self) -> dict[str, str]:
        return {} if self._source is None else {self._source.library: "tables"}

    def tables_read(self) -> Sequence[TableAt]:
        if self._source is None or self._read_at is None:
            return ()
        return (TableAt(self._source.address(), self._source.title, self._read_at),)

    def splits(self) -> Iterator[FileGroup]:
        """The splits of the table; the version of one also says which rows of its files are deleted.

        Raises:
            DataError: the table or version does not exist, or it cannot be listed.
        """
        return map(self._with_deleted, super().splits())

    def _with_deleted(self, split: FileGroup) -> FileGroup:
        vectors = [self._stored[part.path].deleted for part in split.parts]
        digests = " ".join(vector.digest if vector else "-" for vector in vectors)
        return replace(split, stated_version=f"{digests} {split.version}") if any(vectors) else split

    def _piece(self, part: FilePart, name: str, known: ColumnTypes | None) -> RowGroupPiece:
        deleted = self._stored[part.path].deleted
        if deleted is None:
            return super()._piece(part, name, known)
        begins = self._begins(part)
        if part.rows is None:
            piece = super()._piece(part, name, known)
            return piece._replace(
                table=rows_at(piece.table, np.flatnonzero(deleted.kept(_rows_of(begins, piece.groups))))
            )
        places = np.flatnonzero(deleted.kept(_rows_of(begins, [part.start])))[slice(*part.rows)]
        first, last = (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)
        piece = super()._piece(replace(part, rows=(first, last)), name, known)
        return piece._replace(table=rows_at(piece.table, places - first))

    def _place(self, part: FilePart, piece: RowGroupPiece) -> Place:
        deleted = self._stored[part.path].deleted
        if deleted is None:
            return super()._place(part, piece)
        numbers = _rows_of(self._begins(part), piece.groups)
        numbers = numbers[deleted.kept(numbers)]
        return self._named(part), numbers if part.rows is None else numbers[slice(*part.rows)]

    def _counted(self, part: FilePart) -> list[FilePart]:
        deleted = self._stored[part.path].deleted
        if deleted is None:
            return super()._counted(part)
        begins = self._begins(part)
        counted = super()._counted(part)
        counts = [int(deleted.kept(_rows_of(begins, [group.start])).sum()) for group in counted]
        return [replace(group, rows=(0, count)) for group, count in zip(counted, counts, strict=True)]

    def _begins(self, part: FilePart) -> list[int]:
        """Numbers of the first rows of the row groups of a file, and that after the last row."""
        with self._opened(part.path, self._named(part), part.version) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        return list(accumulate(sizes, initial=0))

    def _files(self) -> list[SourceFile]:
        table = self._source
        assert isinstance(table, DeltaTable | IcebergTable)
        check_library(table, f"stage {self.name!r}")
        version = table.at(self._version)
        self.file_paths, self._by_id, self._read_at = table.address(), version.by_id, version.number
        self.schema = {column.name: column.type for column in version.schema}
        files = []
        for stored in self._possible_files(version):
            store, path = open_store(stored.address, self._options())
            with storage_errors("read", stored.address):
                entry = file_entry(store, path)
            full = full_address(store, path)
            self._stored[full] = replace(stored, bounds={})  # workers do not need them
            files.append(SourceFile(full, shown_name(full, self.file_paths), entry.size, entry.version))
        return sorted(files, key=lambda file: file.name)

    def _possible_files(self, version: TableVersion) -> Sequence[StoredFile]:
        """The files of a version that may hold rows that match the filter."""
        condition, stored, self._notices = self._row_filter(), version.files, ()
        if condition is None:
            return stored
        condition.check(version.schema)
        if self.limit is not None:
            return stored  # the first rows are those of all files
        bounds = [{**file.bounds, **self._bounds_of(file.constants)} for file in stored]
        possible = condition.may_match(bounds, version.schema)
        return self._taken(stored, possible)

    def _bounds_of(self, constants: Mapping[str, Any]) -> dict[str, Bounds]:
        kinds = {name: self.schema[name] for name in constants if name in self.schema}
        return {name: Bounds.of_constant(pa.scalar(constants[name], kind)) for name, kind in kinds.items()}

    def _heads(self, files: Sequence[SourceFile]) -> ColumnTypes:
        return ColumnTypes(self._declared())  # those of the table

    def _columns(self, part: FilePart, name: str, schema: pa.Schema) -> dict[str, pa.Field]:
        if self._by_id is None:
            return {column.name: column for column in schema if column.name in self.schema}
        stored = self._stored[part.path]
        columns = current_names(schema, self._by_id, stored.ids)
        names = self._read_names()
        wanted = {old for old, column in columns.items() if names is None or column.name in names}
        unclear = [] if has_ids(schema) else sorted(wanted & stored.unclear)
        if unclear:
            raise DataError(
                f"{name} of table {self.file_paths!r} has no ids of columns, and the table has had several columns "
                f"{listed(unclear)}; rewrite the file with a library of Iceberg"
            )
        return columns

    def _constants(self, part: FilePart, name: str) -> dict[str, pa.Scalar]:
        return {
            column: pa.scalar(value, self.schema[column]) for column, value in self._stored[part.path].constants.items()
        }


def _rows_of(begins: Sequence[int], groups: Iterable[int]) -> npt.NDArray[np.int64]:
    """Numbers of the rows of row groups."""
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(begins[group], begins[group + 1]) for group in groups)])


@dataclass
class LanceRows(SourceStage[FileGroup, DocumentBatch]):
    """Reads the fragments of a version of a table of Lance."""

    table: LanceTable
    version: int | None = None
    fields: list[str] | None = None
    blocksize: int | str | None = None
    limit: int | None = None
    name: str = "lance_rows"
    filter: Any = field(default=None, kw_only=True)
    _opened: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.fields is not None and not is_names(self.fields):
            raise PipelineError(f"{self.name}: fields={self.fields!r} must be a list of column names, or None for all")
        check_limit(self.limit, self.name)
        self._row_filter()
        self._target()

    def requires(self) -> dict[str, str]:
        return {self.table.library: "tables"}

    def settings(self) -> dict[str, Any]:
        condition = self._row_filter()
        filtered = {} if condition is None else {"filter": condition.settings}
        return {"fields": self.fields, "blocksize": self._target(), **filtered}

    def tables_read(self) -> Sequence[TableAt]:
        return () if self.version is None else (TableAt(self.table.address(), self.table.title, self.version),)

    def roots(self) -> list[str]:
        return [self.table.address()]

    def reads(self, path: str) -> bool:
        return path.startswith(f"{self.table.address()}/")

    def columns(self) -> list[str]:
        return list(self.fields or self._dataset().schema.names)

    def schema_read(self) -> pa.Schema:
        """The schema of the rows."""
        schema = without_notes(self._dataset().schema.empty_table()).schema
        return schema if self.fields is None else pa.schema([schema.field(name) for name in self.fields])

    def splits(self) -> Iterator[FileGroup]:
        """The fragments, large ones cut at rows, in order.

        Raises:
            DataError: the table or version does not exist.
        """
        dataset = self._dataset()
        # Workers may run in another directory, and the table may get another version meanwhile.
        self.table, self.version = replace(self.table, path=self.table.address()), dataset.version
        condition = self._row_filter()
        if condition is not None:
            condition.check(dataset.schema)
        return self._cut(dataset)

    def _cut(self, dataset: Any) -> Iterator[FileGroup]:
        left = self.limit
        for fragment in dataset.get_fragments():
            about = fragment.metadata
            size, rows = sum(file.file_size_bytes or 0 for file in about.files), fragment.count_rows()
            count = max(1, min(rows, -(-size // self._target())))
            bounds = [place * rows // count for place in range(count + 1)]
            version = hashlib.blake2b(str(about).encode(), digest_size=8).hexdigest()
            for place, (start, stop) in enumerate(pairwise(bounds)):
                if left == 0:
                    return
                last = stop if left is None else min(stop, start + left)
                left = None if left is None else left - (last - start)
                mark = f"@{place:05d}" if count > 1 else ""
                share = size * (last - start) // max(rows, 1)
                part = FilePart(
                    f"{self.table.address()}#{fragment.fragment_id}", start, stop, size, version, range_bytes=share
                )
                key = BatchKey(f"fragment-{fragment.fragment_id:06d}{mark}")
                split = FileGroup(key=key, parts=(part,))
                if last < stop:
                    stated = limited_version(split.version, last - start)
                    split = FileGroup(key=key, parts=(replace(part, stop=last),), stated_version=stated)
                yield split

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split; None if it has none."""
        [part] = task.parts
        fragment = self._dataset().get_fragment(int(part.path.rpartition("#")[2]))
        condition, span = self._row_filter(), {"offset": part.start, "limit": (part.stop or 0) - part.start}
        if condition is None:
            rows = fragment.to_table(columns=self.fields, **span)
            return DocumentBatch(data=without_notes(rows), key=task.key) if rows.num_rows else None
        looked_at = condition.columns(without_notes(self._dataset().schema.empty_table()).schema)
        if looked_at and not condition.matching(without_notes(fragment.to_table(columns=looked_at, **span))).num_rows:
            return None
        names = None if self.fields is None else list(dict.fromkeys([*self.fields, *looked_at]))
        rows = condition.matching(without_notes(fragment.to_table(columns=names, **span)))
        rows = rows if self.fields is None else rows.select(self.fields)
        return DocumentBatch(data=rows, key=task.key) if rows.num_rows else None

    def _row_filter(self) -> RowFilter | None:
        return None if self.filter is None else RowFilter(self.filter, f"{self.name}: filter")

    def _target(self) -> int:
        return LARGE if self.blocksize is None else parse_bytes(self.blocksize, f"{self.name}: blocksize")

    def _dataset(self) -> Any:
        if self._opened is None or self._opened.version != self.version:
            check_library(self.table, f"stage {self.name!r}")
            try:
                self._opened = self.table.opened(self.version)
            except (OSError, ValueError) as error:
                at = "" if self.version is None else f" at version {self.version}"
                raise DataError(
                    f"{self.table.path!r} is not a table of Lance{at}: {str(error).splitlines()[0]}"
                ) from error
        missing = [name for name in self.fields or () if name not in self._opened.schema.names]
        if missing:
            raise DataError(f"{self.table.path!r} has no column {missing[0]!r}; it has {self._opened.schema.names}")
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}
