"""The base class of readers: listing, splits, and types known from the heads of the files."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, TypeVar, get_args

import pyarrow as pa

from dcurate.core.batch import FileGroup, FilePart, FileRows, limited_version
from dcurate.core.resources import Resources
from dcurate.core.stage import RowNeeds, SkippedInput, SourceStage, places
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.convert import to_cudf
from dcurate.frames.document import DocumentBatch
from dcurate.frames.schema import ColumnTypes, TypeConflict, declared
from dcurate.fs.compression import ending_of
from dcurate.fs.paths import open_store
from dcurate.io.files import Format, SourceFile, as_list, is_listed, is_names, left_out, listing, roots, shown_name
from dcurate.io.folder_columns import folder_columns, folder_types, folder_value, with_folder_value
from dcurate.io.partition import LARGE, LEAST, Partitioning
from dcurate.io.row_filter import Bounds, RowFilter, skipped_files

#: What holds the rows that are read.
Frames: TypeAlias = Literal["arrow", "cudf"]

_HEADS = 16
#: Resources of a slot that reads rows to a GPU: four of them share one.
_ON_GPU = Resources(cpus=1, gpus=0.25)


_CONVERT = "convert it, with pandas say"
#: What to do with files that are of another format, as their names end.
_ELSEWHERE = {
    **dict.fromkeys((".csv", ".tsv"), "read it with CsvReader"),
    **dict.fromkeys((".xls", ".xlsx", ".arrow", ".feather", ".orc", ".avro", ".xml"), _CONVERT),
    **dict.fromkeys((".tar", ".tgz"), "unpack it, or read its members with WebDatasetReader or MediaReader"),
    ".pdf": "read it with PdfReader, and make text of it with PdfExtract",
    **dict.fromkeys((".parquet", ".pq"), "read it with ParquetReader"),
    **dict.fromkeys((".jsonl", ".ndjson"), "read it with JsonlReader"),
    **dict.fromkeys((".warc", ".arc"), "read it with WarcReader"),
}


class HasSize(Protocol):
    """Something with a size in bytes."""

    @property
    def size(self) -> int:
        """The size in bytes."""


Sized = TypeVar("Sized", bound=HasSize)


@dataclass
class FileReader(SourceStage[FileGroup, DocumentBatch]):
    """A source that reads files of one format; see the readers made of it.

    ``filter`` and ``folder_fields=False`` are refused by readers whose rows are not those of tables.
    """

    file_paths: str | list[str]
    files_per_partition: int | None = None
    blocksize: int | str | None = None
    fields: list[str] | None = None
    read_kwargs: dict[str, Any] | None = None
    storage_options: dict[str, Any] | None = None
    schema: Any = None
    limit: int | None = None
    frames: Frames = field(default="arrow", kw_only=True)
    filter: Any = field(default=None, kw_only=True)
    folder_fields: bool = field(default=True, kw_only=True)
    _sniffed: ColumnTypes | None = field(default=None, init=False, repr=False, compare=False)
    #: Types of the columns in the names of folders, over all files.
    _folder_types: dict[str, pa.DataType] = field(default_factory=dict, init=False, repr=False, compare=False)
    _notices: tuple[str, ...] = field(default=(), init=False, repr=False, compare=False)
    #: Columns of the schema that no head has, each with the column that it may be meant to be.
    _misspelt: tuple[tuple[str, str], ...] = field(default=(), init=False, repr=False, compare=False)
    #: Columns of which the first rows hold values without a common type: they are read as text.
    _mixed: tuple[str, ...] = field(default=(), init=False, repr=False, compare=False)
    #: Whether rows keep their lines.
    _keeps_lines: bool = field(default=False, init=False, repr=False, compare=False)
    #: The columns that are parsed, where the lines of rows are kept; None for all.
    _read_only: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)
    #: Whether rows get the columns of `dcurate.rows.origins`.
    _marks_rows: bool = field(default=False, init=False, repr=False, compare=False)
    #: The number of splits that are read at most.
    _most_splits: int | None = field(default=None, init=False, repr=False, compare=False)
    _skipped: SkippedInput = field(default=SkippedInput(), init=False, repr=False, compare=False)

    lists_ahead: ClassVar[bool] = True
    #: Whether its rows can be filtered as they are read.
    filters_rows: ClassVar[bool] = True
    #: Whether folders named ``column=value`` are columns of its rows.
    has_folder_columns: ClassVar[bool] = False
    kind: ClassVar[Format]
    large: ClassVar[int] = LARGE

    def __post_init__(self) -> None:
        if isinstance(self.file_paths, Iterator):  # which can be gone through once
            self.file_paths = list(self.file_paths)
        as_list(self.file_paths)
        if self.frames not in get_args(Frames):
            raise PipelineError(f"{self.name}: frames={self.frames!r} is not one of {listed(get_args(Frames))}")
        if self.frames == "cudf":
            self.resources = _ON_GPU
        self._partitioning()
        declared(self.schema or {}, f"{self.name}: schema")
        if self.fields is not None and not is_names(self.fields):
            raise PipelineError(f"{self.name}: fields={self.fields!r} must be a list of column names, or None for all")
        check_limit(self.limit, self.name)
        if self._row_filter() is not None and not self.filters_rows:
            raise PipelineError(f"{self.name}: filter has no effect here; leave it out, and drop rows with a stage")
        if not isinstance(self.folder_fields, bool):
            raise PipelineError(f"{self.name}: folder_fields={self.folder_fields!r} must be True or False")
        if not self.folder_fields and not self.has_folder_columns:
            raise PipelineError(f"{self.name}: folder_fields has no effect here; leave it out")
        self._check_read_kwargs(self._reading())

    def splits(self) -> Iterator[FileGroup]:
        """The splits of the input, in path order; with `limit` those of its first rows.

        Raises:
            DataError: nothing to read, or it cannot be listed.
        """
        files = self._files()
        shape, condition = self._shape(files), self._row_filter()
        if condition is not None and shape.types:
            condition.check(shape.schema())
        splits = self._partitioning().splits(files, self._cut, self._most_splits)
        return splits if self.limit is None else self._limited(splits, self.limit)

    def _limited(self, splits: Iterator[FileGroup], left: int) -> Iterator[FileGroup]:
        """The splits that hold the first rows; the last of them is read in part. Rows that cannot be read count."""
        for split in splits:
            limited, rows = self._first_rows_of(split, left)
            yield limited
            left -= rows
            if left <= 0:
                return

    def _first_rows_of(self, split: FileGroup, most: int) -> tuple[FileGroup, int]:
        """A split, or its first rows if it has more than `most`; and the number of rows."""
        parts: list[FilePart] = []
        rows = 0
        for place, part in enumerate(split.parts):
            try:
                count = self._first_rows(part, most - rows + 1)[1]
                if count <= most - rows and (rows + count < most or place + 1 == len(split.parts)):
                    parts.append(part)
                    rows += count
                    continue
                first = self._first_rows(part, most - rows)[0]
            except DataError:  # processing says so again
                parts.append(part)
                continue
            counted = [(whole, self._counted(whole)) for whole in parts]
            # Some of the bytes of the last one, so that nobody takes it for all of the file.
            counted.append((replace(part, range_bytes=part.nbytes // 2), list(first)))
            pieces = [
                replace(piece, range_bytes=whole.nbytes // len(some)) for whole, some in counted for piece in some
            ]
            version = limited_version(split.version, most)
            return FileRows(key=split.key, parts=tuple(pieces), stated_version=version), most
        return split, rows

    def _first_rows(self, part: FilePart, most: int) -> tuple[tuple[FilePart, ...], int]:
        """The first rows of a part, `most` of them at most, as parts with their rows; and their number."""
        first = FileRows(parts=tuple(self._counted(part))).rows(0, most)
        return first.parts, first.num_items

    def notices(self) -> list[str]:
        """Return notices of files that are not read, of small ones that should be packed, and of mixed columns."""
        read = self.fields if self._read_only is None else self._read_only
        mixed = [name for name in self._mixed if read is None or name in read]
        about = [
            f"column {name!r} holds values of several types and is read as text, other values as JSON; "
            "what no stage changes is written as it came"
            for name in mixed
        ]
        about += [
            f"schema= gives a type to column {name!r}, which the first rows of the files do not have; did you mean "
            f"{like!r}?"
            for name, like in self._misspelt
        ]
        if self.limit is not None:
            about.append(f"no more than the first {self.limit:,} rows of the input are read (limit={self.limit})")
        return [*self._notices, *about]

    def skipped(self) -> SkippedInput:
        return self._skipped

    def columns(self) -> list[str] | None:
        """Columns of the input, from the heads of a few of its files; None if they hold no rows.

        Raises:
            DataError: nothing to read, a field that no head has, or files of different types.
        """
        shape = self._sniffed if self._sniffed is not None else self._shape(self._files())
        return (list(self.fields) if self.fields else list(shape.types)) or None

    def column_types(self) -> dict[str, str]:
        """Types of the columns of the input, from the heads of a few of its files, as Arrow names them."""
        return {column.name: str(column.type) for column in self.schema_read()}

    def schema_read(self) -> pa.Schema:
        """The schema of the input, from the heads of a few of its files."""
        shape = self._sniffed if self._sniffed is not None else self._shape(self._files())
        return shape.schema(self.fields)

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows: all but the paths and the limit."""
        settings = {name: value for name, value in super().settings().items() if not name.startswith("_")}
        for name in ("file_paths", "storage_options", "limit", "frames", "resources"):
            settings.pop(name, None)
        nbytes = self._partitioning().nbytes
        packing = {"packed_from": LEAST} if nbytes else {}  # splits by another rule would be done beside the old ones
        condition = self._row_filter()
        settings["filter"] = None if condition is None else condition.settings
        return {**settings, "blocksize": nbytes, "read_kwargs": self._reading(), **packing}

    def divided(self, task: FileGroup) -> FileRows | None:
        """The split with its rows counted, so that it can be read in parts; None if it has no rows.

        Raises:
            DataError: a file cannot be read.
        """
        if isinstance(task, FileRows):
            return task
        parts = tuple(part for uncounted in task.parts for part in self._counted(uncounted) if part.rows != (0, 0))
        return FileRows(key=task.key, parts=parts) if parts else None

    def unread(self, task: FileGroup) -> list[dict[str, Any]]:
        """Return the positions of rows that cannot be read, for quarantine."""
        return [{**record, "file": self._named(part)} for record, part in zip(places(task), task.parts, strict=True)]

    def adapted(self, needs: RowNeeds) -> Self | None:
        """Return the reader of rows with their lines, or with columns that say where they were read."""
        if needs.lines and not self._can_keep_lines():
            return None
        reader = copy.copy(self)
        reader._keeps_lines, reader._read_only = needs.lines, None
        looked_at = self._filter_columns()
        if needs.lines and needs.columns is not None and looked_at is not None:
            reader._read_only = tuple(dict.fromkeys([*needs.columns, *looked_at]))
        reader._marks_rows = needs.origins and self.frames == "arrow"
        return reader

    def _can_keep_lines(self) -> bool:
        return False

    def reads(self, path: str) -> bool:
        return is_listed(path, self.file_paths, self.kind)

    def roots(self) -> list[str]:
        """Return the addresses of what is read: files, directories, and those above the matches of globs."""
        return roots(self.file_paths)

    @abstractmethod
    def _counted(self, part: FilePart) -> list[FilePart]:
        """A part with its rows counted; as several, where reading one of them does not need the others."""

    @abstractmethod
    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split; None if it holds none."""

    @abstractmethod
    def _cut(self, file: SourceFile, target: int) -> list[int]:
        """Return the bounds of parts of about `target` bytes of a large file."""

    @abstractmethod
    def _head(self, file: SourceFile) -> pa.Schema | None:
        """The types of a file's columns, from its beginning; None if it holds no rows."""

    @abstractmethod
    def _check_read_kwargs(self, kwargs: dict[str, Any]) -> None:
        """Refuse arguments that the format does not have."""

    def _files(self) -> list[SourceFile]:
        matched = listing(self.file_paths, self.kind, self._options())
        notice = left_out(matched.others, self.kind) if matched.others else ""
        self._notices = tuple(filter(None, (notice, self._partitioning().advice(matched.files))))
        for file in matched.files:
            ending = _ending(file.path.lower())
            if ending in _ELSEWHERE and not self.kind.matches(file.path):
                raise DataError(
                    f"{shown_name(file.path, self.file_paths)} is not a {self.kind.name} file by its ending, which "
                    f"would be {self.kind.wanted}; {_ELSEWHERE[ending]}, or rename it if it is one"
                )
        if self.has_folder_columns and self.folder_fields:
            self._folder_types = folder_types(file.name for file in matched.files)
        return self._possible(matched.files)

    def _possible(self, files: list[SourceFile]) -> list[SourceFile]:
        """The files that may hold rows that match the filter, by what their names say."""
        condition = self._row_filter()
        constants = [] if condition is None else self._constants_of(files)
        if condition is None or self.limit is not None or not any(constants):
            return files  # the first rows are those of all files
        try:
            possible = condition.may_match_constants(constants)
        except DataError:  # it is made for columns of other types, which files may have themselves
            possible = None
        if possible is None:  # the filter looks at other columns, too
            bounds = [{name: Bounds.of_constant(value) for name, value in values.items()} for values in constants]
            possible = condition.may_match(bounds, self._sniff(files).schema())
        taken = self._taken(files, possible)
        if not taken:  # the columns are those of the files that are left out
            self._shape(files)
        return taken

    def _taken(self, files: Sequence[Sized], possible: list[bool]) -> list[Sized]:
        """The files that are possible; the others are counted and noted."""
        taken = [file for file, is_possible in zip(files, possible, strict=True) if is_possible]
        self._skipped = SkippedInput(
            len(files) - len(taken),
            sum(file.size for file in files) - sum(file.size for file in taken),
            len(files),
            sum(file.size for file in files),
        )
        condition = self._row_filter()
        if condition is not None and len(taken) < len(files):
            self._notices = (*self._notices, skipped_files(condition, self._skipped))
        return taken

    def _constants_of(self, files: Sequence[SourceFile]) -> list[Mapping[str, pa.Scalar]]:
        """Columns that have one value in all rows of a file."""
        declared = self._declared()
        constants: list[Mapping[str, pa.Scalar]] = []
        for file in files:
            values: dict[str, pa.Scalar] = {}
            for column, text in self._in_folders(file.name).items():
                with suppress(DataError):  # reading the file says so
                    kind = declared.get(column, self._folder_types[column])
                    values[column] = folder_value(column, text, kind, file.name)
            constants.append(values)
        return constants

    def _in_folders(self, name: str) -> dict[str, str | None]:
        """The columns in the folders of a file, as text."""
        return folder_columns(name) if self.has_folder_columns and self.folder_fields else {}

    def _folder_values(self, name: str) -> dict[str, pa.Scalar]:
        """The columns in the folders of a file, in the types of these columns."""
        texts, known = self._in_folders(name), self._known().types
        kinds = {column: known.get(column, self._folder_types.get(column, pa.string())) for column in texts}
        return {column: folder_value(column, text, kinds[column], name) for column, text in texts.items()}

    def _with_folders(self, rows: pa.Table, name: str, columns: Collection[str] | None) -> pa.Table:
        """Return the rows of a file with those of the columns in its folders that are wanted; all if None."""
        for column, value in self._folder_values(name).items():
            if columns is None or column in columns:
                rows = with_folder_value(rows, column, value, name, must_agree=self.filter is not None)
        return rows

    def _row_filter(self) -> RowFilter | None:
        return None if self.filter is None else RowFilter(self.filter, f"{self.name}: filter")

    def _filter_columns(self) -> list[str] | None:
        """The columns that the filter looks at; None if only the types of all columns can say it."""
        condition, known = self._row_filter(), self._known().schema()
        if condition is None:
            return []
        return condition.columns(known) if known.names or isinstance(self.filter, str) else None

    def _read_names(self) -> list[str] | None:
        """The columns to read: `fields`, and those that the filter looks at; None for all."""
        looked_at = None if self.fields is None else self._filter_columns()
        return None if self.fields is None or looked_at is None else list(dict.fromkeys([*self.fields, *looked_at]))

    def _matching(self, rows: pa.Table, read: Iterable[str]) -> pa.Table:
        """The rows that match the filter, without columns that only the filter looks at.

        Args:
            rows: rows, with hidden columns.
            read: names of the columns that were read.
        """
        condition = self._row_filter()
        if condition is None:
            return rows
        rows = condition.matching(rows)
        if self.fields is None:
            return rows
        return rows.select([*self.fields, *(name for name in rows.column_names if name not in set(read))])

    def _partitioning(self) -> Partitioning:
        return Partitioning(self.files_per_partition, self.blocksize, self.large)

    def _options(self) -> dict[str, Any]:
        return {**(self.read_kwargs or {}).get("storage_options", {}), **(self.storage_options or {})}

    def _reading(self) -> dict[str, Any]:
        return {name: value for name, value in (self.read_kwargs or {}).items() if name != "storage_options"}

    def _named(self, part: FilePart) -> str:
        return shown_name(part.path, self.file_paths)

    def _held(self, rows: pa.Table) -> Any:
        """Return the rows in the requested library."""
        return rows if self.frames == "arrow" else to_cudf(rows)

    def _store(self, path: str) -> tuple[Any, str]:
        return open_store(path, self._options())

    def _declared(self) -> dict[str, pa.DataType]:
        return declared(self.schema or {}, f"{self.name}: schema")

    def _known(self) -> ColumnTypes:
        """Return the types known before reading: declared ones, and those of the heads if read."""
        known = self._sniffed or ColumnTypes()
        fixed = self._declared()
        return ColumnTypes({**known.types, **fixed}, {**known.origins, **dict.fromkeys(fixed, "the schema given")})

    def _shape(self, files: Sequence[SourceFile]) -> ColumnTypes:
        if self._sniffed is None:
            self._sniffed = self._sniff(files)
        return self._sniffed

    def _sniff(self, files: Sequence[SourceFile]) -> ColumnTypes:
        fixed = self._declared()
        shape = self._heads(files)
        if shape.types:
            unknown = {column for column in self._folder_types if pa.types.is_null(shape.types.get(column, pa.null()))}
            folders = [
                pa.field(column, self._folder_types[column]) for column in self._folder_types if column in unknown
            ]
            shape = shape.joined(folders, "the names of folders")
            strange = {name: get_close_matches(name, shape.types, n=1) for name in fixed if name not in shape.types}
            self._misspelt = tuple((name, like[0]) for name, like in strange.items() if like and like[0] not in fixed)
        condition = self._row_filter()
        looked_at = [] if condition is None else condition.columns(ColumnTypes({**shape.types, **fixed}).schema())
        wanted = dict.fromkeys([*(self.fields or ()), *looked_at])
        missing = [name for name in wanted if name not in shape.types and name not in fixed]
        if shape.types and missing:
            is_bare = isinstance(self.filter, str) and missing[0] in looked_at and missing[0] not in (self.fields or ())
            advice = self.advice([*shape.types])
            if advice:
                raise DataError(
                    f"{self.name}: no column {listed(missing)} in the first rows of the files; they have "
                    f"{listed(shape.types)}{advice}"
                )
            quotes = f"; if the filter means a text, write it in single quotes: '{missing[0]}'" if is_bare else ""
            raise DataError(
                f"{self.name}: no column {listed(missing)} in the first rows of the files; they have "
                f"{listed(shape.types)}: name one of these, or declare it with schema={{{missing[0]!r}: 'string'}}"
                f"{quotes}"
            )
        return ColumnTypes({**shape.types, **fixed}, {**shape.origins, **dict.fromkeys(fixed, "the schema given")})

    def _heads(self, files: Sequence[SourceFile]) -> ColumnTypes:
        """The columns of the heads of a few of the files, in their order, with types that are declared or found."""
        fixed = self._declared()
        shape, unreadable = ColumnTypes(), []
        for file in _spread(files):
            try:
                schema = self._head(file)
            except DataError as error:
                unreadable.append(error)  # processing says so again, with the file's rows at stake
                continue
            if schema is not None:
                typed = [column.with_type(fixed.get(column.name, column.type)) for column in schema]
                shape = self._joined_heads(shape, typed, file.name)
        if unreadable and not shape.types:
            raise unreadable[0]
        return shape

    def _joined_heads(self, shape: ColumnTypes, schema: Sequence[pa.Field], name: str) -> ColumnTypes:
        return self._joined(shape, schema, name)

    def _joined(self, shape: ColumnTypes, schema: Iterable[pa.Field], name: str) -> ColumnTypes:
        try:
            return shape.joined(schema, name)
        except TypeConflict as conflict:
            read = self._read_names()
            if read is not None and conflict.column not in read:
                return self._joined(shape, [column for column in schema if column.name != conflict.column], name)
            raise self._clash(conflict, name) from conflict

    def _clash(self, conflict: TypeConflict, name: str) -> DataError:
        return DataError(
            f"column {conflict.column!r} is {conflict.here} in {name} but {conflict.before} in {conflict.origin}; "
            f"say which it is to be with schema={{{conflict.column!r}: 'string'}}, leave it out with fields=, "
            "or read the files apart"
        )


def check_limit(limit: Any, stage: str) -> None:
    """Refuse a limit that is not a number of rows.

    Raises:
        PipelineError: it is not.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise PipelineError(f"{stage}: limit={limit!r} must be a whole number of at least 1, or None for all rows")


def _ending(path: str) -> str:
    """How the name of a file ends, without its compression.

    Examples:
        >>> _ending("a.tar.gz"), _ending("a.jsonl")
        ('.tar', '.jsonl')
    """
    name = path.removesuffix(ending_of(path))
    return os.path.splitext(name)[1] or os.path.splitext(path)[1]


def _spread(files: Sequence[SourceFile]) -> list[SourceFile]:
    """A few files from first to last."""
    full = [file for file in files if file.size]
    if len(full) <= _HEADS:
        return full
    return [full[place * (len(full) - 1) // (_HEADS - 1)] for place in range(_HEADS)]
