"""dcurate's readers in the place of NeMo Curator's: sources of the engine."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import orjson
import pandas as pd
import pyarrow as pa

from dcurate.compat.nemo.files import (
    has_extension,
    infer_dataset_name_from_path,
)
from dcurate.compat.nemo.ids import CURATOR_DEDUP_ID_STR, IdGeneratorBase, active_ids, numbers_of
from dcurate.compat.nemo.partitioning import FilePartitioningStage, PartitionSource
from dcurate.compat.nemo.rows import is_in
from dcurate.compat.nemo.values import has_objects
from dcurate.core.batch import BatchKey, FileGroup, FilePart, FileRows
from dcurate.core.stage import RowNeeds
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames import document
from dcurate.frames.schema import TypeConflict
from dcurate.fs.paths import full_address
from dcurate.io import files, parquet_reader
from dcurate.io.json_parse import DEEPEST, BadLine
from dcurate.io.jsonl_reader import JsonlReader
from dcurate.io.lines import count_rows
from dcurate.io.partition import Partitioning, group_name
from dcurate.io.source import FileReader
from dcurate.kernels.json_rows import ABSENT, scan
from dcurate.rows.lines import LINE, lines_of, with_lines, without_lines

_log = logging.getLogger("dcurate.compat.nemo")

#: Arguments of pandas with values that say what dcurate's readers do in any case; None for any value.
_SAME_JSONL: dict[str, tuple[Any, ...] | None] = {
    "lines": (True,),
    "orient": (None, "records"),
    "typ": ("frame",),
    "dtype": (None, True, False),
    "convert_axes": None,
    "convert_dates": (True, False),
    "keep_default_dates": None,
    "precise_float": None,
    "date_unit": None,
    "encoding": (None, "utf-8", "utf8", "UTF-8", "utf-8-sig"),
    "encoding_errors": (None, "strict"),
    "chunksize": (None,),
    "compression": ("infer",),
    "nrows": (None,),
    "storage_options": None,
    "dtype_backend": None,
    "engine": None,
}
_SAME_PARQUET: dict[str, tuple[Any, ...] | None] = {
    "engine": ("auto", "pyarrow"),
    "columns": None,
    "storage_options": None,
    "dtype_backend": None,
    "use_nullable_dtypes": None,
    "filters": (None,),
    "filesystem": (None,),
    "use_threads": None,
    **dict.fromkeys(name for name in parquet_reader.READ_KWARGS if name not in ("engine", "dtype_backend")),
}


@dataclass(frozen=True)
class _Endings(files.Format):
    """Files by the endings that a person gave."""

    def matches(self, path: str) -> bool:
        return has_extension(path, self.suffixes)


@dataclass
class _NumberedFiles(FileGroup):
    """Whole files, and the first and last id of their rows."""

    span: tuple[int, int] = (0, -1)


class _Shared(list[str]):
    """A list that all copies of a stage share."""


class SourceReader(FileReader):
    """What dcurate's readers have besides where they take the place of NeMo Curator's."""

    _partition: FilePartitioningStage
    #: The name of the dataset; copies of the source share it.
    _dataset: _Shared
    #: Whether ids are given out for new files, or only known ones looked up; None without ids.
    _new_ids: bool | None = None
    _ids: IdGeneratorBase | None = None

    @classmethod
    def reads_the_same(cls, stage: Any, before: Sequence[Any]) -> bool:
        """Whether it reads what a stage would read with pandas, and the stage begins the pipeline.

        Args:
            stage: a reader.
            before: the stages of the engine before it.

        Raises:
            PipelineError: an argument that can be had in neither way.
        """
        read_kwargs = stage.read_kwargs or {}
        for name, value in read_kwargs.items():
            if cls._arguments is not None and name not in cls._arguments:
                raise PipelineError(f"{stage.name}: read_kwargs {name!r} is not an argument of pandas.read_json")
            if (name, value) == ("lines", False) or (name == "chunksize" and value is not None):
                raise PipelineError(f"{stage.name}: {name}={value!r} is not supported: rows are read file by file")
        sources = [source.stage for source in before if isinstance(source, PartitionSource)]
        return (
            len(before) == len(sources) == 1
            and type(sources[0]) is FilePartitioningStage
            and sources[0].limit != 0
            and not stage.allow_empty
            and all(name in cls._same and is_in(value, cls._same[name]) for name, value in read_kwargs.items())
        )

    @classmethod
    def of(cls, stage: Any, partition: FilePartitioningStage) -> Self:
        """The source for two stages."""
        read_kwargs = stage.read_kwargs or {}
        known = parquet_reader.READ_KWARGS if issubclass(cls, parquet_reader.ParquetReader) else ()
        source = cls(
            partition.file_paths,
            partition.files_per_partition,
            None if partition.blocksize is None else partition._bytes,
            stage.fields or read_kwargs.get("columns"),
            {
                name: value
                for name, value in read_kwargs.items()
                if name in known and name not in ("engine", "dtype_backend")
            },
            {**(partition.storage_options or {}), **(read_kwargs.get("storage_options") or {})} or None,
        )
        source._partition, source._dataset = partition, _Shared()
        source._most_splits = partition.limit or None
        endings = tuple(partition.file_extensions or ())
        vars(source)["kind"] = _Endings(cls._format, endings, compressed=False)
        source._new_ids = stage._generate_ids if stage.uses_ids else None
        if stage.uses_ids:
            source._ids = active_ids()
        return source

    _format: ClassVar[str]
    #: Arguments of pandas that change nothing, with their values; and all that there are, if others are refused.
    _same: ClassVar[Mapping[str, tuple[Any, ...] | None]]
    _arguments: ClassVar[frozenset[str] | None] = None

    @property
    def dataset_name(self) -> str:
        """The name of the dataset, once its files are listed."""
        return "".join(self._dataset)

    def _files(self) -> list[files.SourceFile]:
        source_files = super()._files()
        if not isinstance(self.file_paths, str):  # of folders in a list, only the files directly in them
            folders = [f"{full_address(*self._store(str(path))).rstrip('/')}/" for path in self.file_paths]
            source_files = [
                file for file in source_files if not any(_is_below(file.path, folder) for folder in folders)
            ]
        self._dataset[:] = [infer_dataset_name_from_path(file.path) for file in source_files[:1]]
        return source_files

    def _partitioning(self) -> Partitioning:
        return replace(super()._partitioning(), packs_small=False)  # one task a file, as NeMo Curator makes

    def settings(self) -> dict[str, Any]:
        settings = {**super().settings(), "ids": self._new_ids is not None}
        del settings["kind"]
        return settings

    def columns(self) -> list[str] | None:
        known = super().columns()
        return known if known is None or self._new_ids is None else [*known, CURATOR_DEDUP_ID_STR]

    def splits(self) -> Iterator[FileGroup]:
        if self._new_ids is None:
            return super().splits()
        return (_NumberedFiles(key=group.key, parts=group.parts, span=self._span(group)) for group in self.groups())

    def groups(self) -> list[FileGroup]:
        """The groups of files by NeMo Curator's rule, by which the registry of ids knows them."""
        by_path = {file.path: file for file in self._files()}
        self._shape(list(by_path.values()))
        made = []
        for paths in self._partition.groups([(file.path, file.size) for file in by_path.values()]):
            members = [by_path[path] for path in paths]
            parts = tuple(FilePart(file.path, size=file.size, version=file.version) for file in members)
            made.append(FileGroup(key=BatchKey(group_name([file.name for file in members])), parts=parts))
        return made[: self._partition.limit or None]

    def _span(self, group: FileGroup) -> tuple[int, int]:
        assert self._ids is not None, "only a reader with ids asks for them"
        try:
            return self._ids.get_batch_range(group.data, None)
        except KeyError:
            raise DataError(
                f"{group.data} have no ids: they, in this grouping, were not read with ids before; give the same "
                "files_per_partition or blocksize as then"
            ) from None

    def divided(self, task: FileGroup) -> FileRows | None:
        return None if isinstance(task, _NumberedFiles) else super().divided(task)

    def count(self, task: FileGroup) -> int:
        """Count the rows of files without parsing them."""
        return sum(self._rows_in(part) for part in task.parts)

    def _rows_in(self, part: FilePart) -> int:
        raise NotImplementedError

    def _finished(self, batch: document.DocumentBatch | None, task: FileGroup) -> document.DocumentBatch | None:
        """The batch with what NeMo Curator's has besides."""
        if batch is None:
            return None
        if isinstance(task, _NumberedFiles) and CURATOR_DEDUP_ID_STR not in batch.data.column_names:
            numbers = pa.array(numbers_of(task.span, None, batch.num_items, str(task.data)))
            batch.data = batch.data.append_column(CURATOR_DEDUP_ID_STR, numbers)
        batch.dataset_name, batch._metadata = self.dataset_name, {"source_files": task.data}
        return batch


def _is_below(path: str, folder: str) -> bool:
    """Whether a file is in a folder within the folder."""
    return path.startswith(folder) and "/" in path.removeprefix(folder)


class _MixedColumnError(Exception):
    """A column holds values without a common type."""


class JsonlSource(SourceReader, JsonlReader):
    """dcurate's reader of JSON Lines in the place of NeMo Curator's two stages.

    Batches with nested values or columns of mixed types keep the lines of their rows where a person's stage follows.
    """

    _format: ClassVar[str] = "JSONL"
    _same: ClassVar[Mapping[str, tuple[Any, ...] | None]] = _SAME_JSONL
    _arguments: ClassVar[frozenset[str] | None] = frozenset(inspect.signature(pd.read_json).parameters)
    keeps_values = False
    _lines_for_writer = False

    @classmethod
    def of(cls, stage: Any, partition: FilePartitioningStage) -> Self:
        source = super().of(stage, partition)
        source._chosen, source.fields = source.fields, None
        return source

    _chosen: list[str] | None = None

    def settings(self) -> dict[str, Any]:
        settings = super().settings()
        settings.pop("keeps_values", None)
        return {**settings, "fields": self._chosen}

    def columns(self) -> list[str] | None:
        known = super().columns()
        if known is None or self._chosen is None:
            return known
        missing = [name for name in self._chosen if name not in known]
        if len(missing) == len(self._chosen):
            raise DataError(
                f"{self.name}: no column {listed(missing)} in the first rows of the files, only {listed(known)}"
            )
        if missing:
            _log.warning("columns %s are not in the first rows of %s", listed(missing), self.file_paths)
        return [name for name in known if name in self._chosen or name == CURATOR_DEDUP_ID_STR]

    def adapted(self, needs: RowNeeds) -> Self | None:
        reader = super().adapted(needs)
        if reader is not None:
            reader._lines_for_writer = needs.lines
        return reader

    def _can_keep_lines(self) -> bool:
        return self._chosen is None and super()._can_keep_lines()

    def process(self, task: FileGroup) -> document.DocumentBatch | None:
        reader = self if self._lines_for_writer else self._reading_lines(False)
        while True:
            try:
                batch = reader._read(task)
            except _MixedColumnError as mixed:
                reader = reader._reading_lines(self._lines_for_writer or self.keeps_values)
                reader._mixed = (*reader._mixed, str(mixed))
                continue
            if batch is None or reader._keeps_lines or not self.keeps_values or not reader._has_more(batch.data):
                break
            reader = reader._reading_lines(True)
        if batch is not None and not self._lines_for_writer:
            batch.data = self._of_chosen_columns(batch.data)
        return self._finished(batch, task)

    def _reading_lines(self, wanted: bool) -> Self:
        """The reader, which keeps the lines of rows or does not."""
        reader = copy.copy(self)
        if wanted:
            chosen = None if self._chosen is None else tuple(self._chosen)
            reader._keeps_lines, reader.fields = True, None
            reader._read_only = reader._read_only if self._lines_for_writer else chosen
        elif self._chosen is not None:
            known = self._known().types
            reader.fields = [name for name in self._chosen if name in known]
        return reader

    def _read(self, task: FileGroup) -> document.DocumentBatch | None:
        return super().process(task)

    def _has_more(self, table: pa.Table) -> bool:
        """Whether lines may hold values that the columns do not."""
        return any(has_objects(field.type) or field.name in self._mixed for field in table.schema)

    def _of_chosen_columns(self, table: pa.Table) -> pa.Table:
        """The rows, with lines of the chosen columns alone, their values as they are written in the file."""
        raw_lines = None if self._chosen is None or LINE not in table.column_names else lines_of(table)
        if raw_lines is None:
            return table
        data, names = raw_lines[1], [name for name in table.column_names if name != LINE]
        rows, keys = scan(data, names, DEEPEST), [orjson.dumps(name) + b":" for name in names]
        spans = zip(rows.kinds.tolist(), rows.value_starts.tolist(), rows.value_stops.tolist(), strict=True)
        members = (
            [key + data[start:stop] for key, kind, start, stop in zip(keys, *of_row, strict=True) if kind != ABSENT]
            for of_row in spans
        )
        lines = [b"{" + b",".join(row_members) + b"}\n" for row_members in members]
        return with_lines(without_lines(table), pa.array(lines, pa.large_binary()), names)

    def _complaint(self, name: str, piece: Any, bad: BadLine) -> str:
        if bad.column is not None and bad.column not in self._mixed:
            raise _MixedColumnError(bad.column)
        return super()._complaint(name, piece, bad)

    def _clash(self, conflict: TypeConflict, name: str) -> DataError:
        if conflict.column not in self._mixed:
            raise _MixedColumnError(conflict.column)
        return super()._clash(conflict, name)

    def _rows_in(self, part: FilePart) -> int:
        return count_rows(self._lines(part))


class ParquetSource(SourceReader, parquet_reader.ParquetReader):
    """dcurate's reader of Parquet in the place of NeMo Curator's two stages."""

    _format: ClassVar[str] = "Parquet"
    _same: ClassVar[Mapping[str, tuple[Any, ...] | None]] = _SAME_PARQUET

    def process(self, task: FileGroup) -> document.DocumentBatch | None:
        return self._finished(super().process(task), task)

    def _rows_in(self, part: FilePart) -> int:
        return sum(stop - start for start, stop in (counted.rows or (0, 0) for counted in self._counted(part)))
