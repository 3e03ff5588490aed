"""Files of several formats, read as one input."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any, ClassVar, Literal, NamedTuple

import pyarrow as pa

from dcurate.core.batch import FileGroup, FilePart
from dcurate.core.kernels import Kernels
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.frames.schema import ColumnTypes, fitted, one_chunk
from dcurate.fs.errors import storage_errors
from dcurate.io import csv, files, parquet_reader
from dcurate.io.csv_rows import other_delimiter
from dcurate.io.json_parse import remarks_on_rounded
from dcurate.io.jsonl_reader import READ_KWARGS, JsonlReader
from dcurate.io.row_filter import skipped_groups
from dcurate.io.source import FileReader, Frames
from dcurate.kernels.json_rows import KERNELS


class _Readable(NamedTuple):
    """A supported format: its reader, and the arguments for that reader alone.

    Args:
        make: the reader.
        options: arguments of it that the others do not have.
        read_kwargs: names that its ``read_kwargs`` may hold.
        opening: the first bytes of its files, where they all begin alike.
    """

    make: type[FileReader]
    options: tuple[str, ...]
    read_kwargs: tuple[str, ...]
    opening: bytes | None


#: The formats. A file that is named itself, with an ending of none of them, is of that by whose bytes it opens, else
#: of the first.
_READABLE = (
    _Readable(JsonlReader, ("on_bad_line",), READ_KWARGS, None),
    _Readable(parquet_reader.ParquetReader, (), parquet_reader.READ_KWARGS, b"PAR1"),
    _Readable(csv.CsvReader, ("on_bad_line", *csv.SIGNS), (), None),
)


@dataclass
class DocumentReader(FileReader):
    """Read JSON Lines, Parquet and CSV, by the ending of each file name, with common column types.

    Files are read and cut as `JsonlReader`, `ParquetReader` and `CsvReader` do, in path order; a split may hold files
    of several formats. A column has one type in all files, by the same rule as among files of one format: whole numbers
    in one and floats in another become floats, a column that is missing in a file is null there. Columns of CSV are
    text unless `schema` says otherwise. A file that is named directly may have any ending: its first bytes decide
    whether it is Parquet; otherwise it is JSON Lines.

    Args:
        file_paths: files, directories (searched recursively) and globs, local or URLs; ``{a,b}`` is either of both.
        files_per_partition: files of one split: one by default, or up to 16 of 1,000 or more small ones.
        blocksize: split size on disk, as bytes or ``"128MiB"``: larger files are cut, smaller ones packed.
        fields: the columns to keep, in this order; all by default.
        read_kwargs: arguments of `JsonlReader` and `ParquetReader`; each gets its own.
        storage_options: for fsspec.
        schema: types of columns by name where they are not to be guessed, or differ: ``{"id": "string"}``.
            The order of columns is that of the files.
        limit: number of rows to read, at most: the first ones in the order of the files, before `filter`.
        filter: rows to read: an SQL condition such as ``"lang = 'en' AND score >= 0.5"``, or a
            `pyarrow.compute.Expression`; others are no input. Files in Hive directories and row groups that cannot
            hold any are not read.
        folder_fields: whether folders named ``column=value`` are columns. A file that has the column itself keeps its
            values; with ``filter`` they must be those of the folder. ``schema`` gives such a column another type.
        on_bad_line: ``"raise"``, or ``"quarantine"`` to go on without lines of JSON or CSV that cannot be read and
            keep them in quarantine; also without what comes after damage in a compressed file.
        delimiter: of CSV files, as ``quote``, ``escape`` and ``header`` are; see `CsvReader`.
        frames: ``"cudf"`` to have the rows on a GPU, in a slot that has one. Untested on a GPU.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import pyarrow.parquet
        >>> from dcurate import InlineExecutor, Pipeline
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = Path(folder.name, "a.jsonl").write_text('{"text": "one", "score": 1}')
        >>> pyarrow.parquet.write_table(pa.table({"text": ["two"], "score": [0.5]}), f"{folder.name}/b.parquet")
        >>> read = Pipeline("both", stages=[DocumentReader(folder.name)]).run(InlineExecutor(), observers=[])
        >>> [row for batch in read for row in batch.to_arrow().to_pylist()]
        [{'text': 'one', 'score': 1.0}, {'text': 'two', 'score': 0.5}]
        >>> folder.cleanup()

    Raises:
        PipelineError: incompatible settings.
    """

    on_bad_line: Literal["raise", "quarantine"] = "raise"
    name: str = "document_reader"
    delimiter: str | None = field(default=None, kw_only=True)
    quote: str = field(default='"', kw_only=True)
    escape: str | None = field(default=None, kw_only=True)
    header: bool | list[str] = field(default=True, kw_only=True)

    kind: ClassVar[files.Format] = files.Formats.of(*(readable.make.kind for readable in _READABLE))
    has_folder_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for readable in _READABLE:
            self._reader(readable)

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split; None if it holds none.

        Raises:
            DataError: a file or line that cannot be read, or types that clash.
        """
        runs = [
            (readable, tuple(parts)) for readable, parts in groupby(task.parts, lambda part: self._format(part.path))
        ]
        if len(runs) == 1:
            return self._reader(runs[0][0]).process(task)
        batches = []
        shape = self._known()
        for readable, parts in runs:
            batch = self._reader(readable, frames="arrow").process(replace(task, parts=parts))
            if batch is not None:
                shape = self._joined(shape, batch.to_arrow().schema, self._named(parts[0]))
                batches.append(batch)
        if not batches:
            return None
        schema = shape.schema(self.fields)
        try:
            rows = one_chunk([fitted(batch.to_arrow(), schema) for batch in batches])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"{task.key}: {error}; say the type of the column with schema=") from error
        faults = tuple(chain.from_iterable(batch.rejections for batch in batches))
        rounded_counts = sum((Counter(batch.found) for batch in batches), Counter[str]())
        return DocumentBatch(data=self._held(rows), key=task.key, rejections=faults, found=rounded_counts)

    def advice(self, columns: Sequence[str]) -> str:
        sign = other_delimiter(columns)
        if not sign or not any(self._format(file.path).make is csv.CsvReader for file in self._files()):
            return ""
        return f"; a CSV file looks divided by {sign!r}: give delimiter={sign!r}"

    def _can_keep_lines(self) -> bool:
        if self.fields is not None or self.frames != "arrow":
            return False
        return all(self._format(file.path).make is JsonlReader for file in self._files())

    def kernels(self) -> Sequence[Kernels]:
        return KERNELS if self._keeps_lines else ()

    def notices(self) -> list[str]:
        """Return notices of files, also of CSV files that look divided by another sign than a comma."""
        return [*super().notices(), *csv.divided_otherwise(self._sniffed, csv.CsvReader.kind)]

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return sentences about whole numbers that lost digits."""
        return [*remarks_on_rounded(found), *skipped_groups(found)]

    def _files(self) -> list[files.SourceFile]:
        sources = super()._files()
        changed = [sign for sign in csv.SIGNS if getattr(self, sign) != getattr(csv.CsvReader, sign)]
        if changed and not any(self._format(file.path).make is csv.CsvReader for file in sources):
            self._notices += (f"{listed(changed)} of {self.name} had no effect, as the input has no CSV file",)
        return sources

    def _counted(self, part: FilePart) -> list[FilePart]:
        return self._reader(self._format(part.path))._counted(part)

    def _first_rows(self, part: FilePart, most: int) -> tuple[tuple[FilePart, ...], int]:
        return self._reader(self._format(part.path))._first_rows(part, most)

    def unread(self, task: FileGroup) -> list[dict[str, Any]]:
        """Return the positions of rows that cannot be read, for quarantine."""
        readers = [self._reader(self._format(part.path)) for part in task.parts]
        return [
            record
            for reader, part in zip(readers, task.parts, strict=True)
            for record in reader.unread(replace(task, parts=(part,)))
        ]

    def _cut(self, file: files.SourceFile, target: int) -> list[int]:
        return self._reader(self._format(file.path))._cut(file, target)

    def _head(self, file: files.SourceFile) -> pa.Schema | None:
        return self._reader(self._format(file.path))._head(file)

    def _heads(self, sources: Sequence[files.SourceFile]) -> ColumnTypes:
        # Each format's heads by its own rules first: so the few Parquet files among many others are looked at too, and
        # a column that differs between formats is refused, not set aside line by line.
        of = defaultdict(list)
        for file in sources:
            of[self._format(file.path)].append(file)
        shape = ColumnTypes()
        for readable in _READABLE:
            reader = self._reader(readable)
            column_types = reader._heads(of[readable])
            self._mixed = reader._mixed if isinstance(reader, JsonlReader) else self._mixed
            for column in column_types.schema():
                shape = self._joined(shape, [column], column_types.origins[column.name])
        return shape

    def _check_read_kwargs(self, kwargs: dict[str, Any]) -> None:
        taken = list(chain.from_iterable(readable.read_kwargs for readable in _READABLE))
        refused = [name for name in kwargs if name not in taken]
        if refused:
            raise PipelineError(
                f"{self.name}: read_kwargs {listed(refused)} mean nothing here; there are {listed(taken)}, "
                f"and fields= for columns"
            )

    def _format(self, path: str) -> _Readable:
        for readable in _READABLE:
            if readable.make.kind.matches(path):
                return readable
        store, inner = self._store(path)
        with storage_errors("read", path):
            opening = store.cat_file(inner, start=0, end=16)
        return next(
            (readable for readable in _READABLE if readable.opening and opening.startswith(readable.opening)),
            _READABLE[0],
        )

    def _reader(self, readable: _Readable, frames: Frames | None = None) -> FileReader:
        """Return the reader of a format, with what this one knows of the columns."""
        reader = readable.make(
            self.file_paths,
            fields=self.fields,
            read_kwargs={name: value for name, value in self._reading().items() if name in readable.read_kwargs},
            storage_options=self._options(),
            schema=self.schema,
            filter=self.filter,
            folder_fields=self.folder_fields,
            frames=frames or self.frames,
            **{option: getattr(self, option) for option in ("name", *readable.options)},
        )
        reader._sniffed, reader._marks_rows = self._sniffed, self._marks_rows
        reader._folder_types = self._folder_types
        if isinstance(reader, JsonlReader):
            reader._mixed = self._mixed
            reader._keeps_lines, reader._read_only = self._keeps_lines, self._read_only
        return reader
