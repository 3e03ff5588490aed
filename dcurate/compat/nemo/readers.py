"""Readers with the arguments of NeMo Curator's.

`JsonlReader` and `ParquetReader` are a partitioning stage and a reading stage, which read with pandas when a person
calls them. In a pipeline, both together are one source of dcurate's, unless an argument asks for what only pandas does.
"""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa

from dcurate.compat.nemo.bridge import ForeignStage
from dcurate.compat.nemo.files import (
    FILETYPE_TO_DEFAULT_EXTENSIONS,
    has_extension,
    infer_dataset_name_from_path,
    pandas_select_columns,
)
from dcurate.compat.nemo.ids import CURATOR_DEDUP_ID_STR, IdGeneratorBase, get_id_generator_actor
from dcurate.compat.nemo.partitioning import FilePartitioningStage, PartitionSource
from dcurate.compat.nemo.stages import CompositeStage, ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch, EmptyTask, FileGroupTask
from dcurate.compat.nemo.values import has_objects
from dcurate.core.batch import BatchKey, FileGroup, FilePart, FileRows
from dcurate.core.stage import SourceStage
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames import document
from dcurate.frames.lines import LINE, storage_of, with_lines, without_lines
from dcurate.frames.schema import TypeConflict
from dcurate.fs.paths import full_address
from dcurate.io import files, jsonl, parquet
from dcurate.io.json_parse import BadLine
from dcurate.io.lines import count_rows
from dcurate.io.partition import group_name
from dcurate.io.source import FileReader

_log = logging.getLogger("dcurate.compat.nemo")

TaskType: TypeAlias = Literal["document", "image", "video", "audio"]
ReaderTask: TypeAlias = FileGroupTask
ReaderData: TypeAlias = pd.DataFrame | pa.Table

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
    **dict.fromkeys(name for name in parquet.READ_KWARGS if name not in ("engine", "dtype_backend")),
}


@dataclass(frozen=True)
class ReaderOutput:
    """What ``read_task`` of a reader returns: the rows, and metadata in place of the task's."""

    data: ReaderData
    metadata: dict[str, Any] | None = None


@dataclass
class BaseReader(ProcessingStage[FileGroupTask, DocumentBatch]):
    """A stage that reads groups of files; subclass it and write ``read_data`` or ``read_task``.

    Args:
        fields: the columns to keep; all by default.
        read_kwargs: for the function that reads.
        allow_empty: whether a group of files may hold no rows.

    Raises:
        ValueError: ids are both to be generated and to be assigned.
    """

    fields: list[str] | None = None
    read_kwargs: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    _generate_ids: bool = False
    _assign_ids: bool = False
    allow_empty: bool = False

    #: The ids that the driver gave to a worker's copy.
    _given_ids: ClassVar[IdGeneratorBase | None] = None

    def __post_init__(self) -> None:
        if self._generate_ids and self._assign_ids:
            raise ValueError("Cannot generate and assign IDs at the same time")
        self.name = self.name or type(self).name or type(self).__name__

    @property
    def uses_ids(self) -> bool:
        """Whether rows get ids."""
        return self._generate_ids or self._assign_ids

    def outputs(self) -> Spec:
        return ["data"], [*(self.fields or ()), *([CURATOR_DEDUP_ID_STR] if self.uses_ids else ())]

    def ray_stage_spec(self) -> dict[str, Any]:
        return {"is_actor_stage": self.uses_ids}

    def setup(self, _: Any = None) -> None:
        """Find the ids.

        Raises:
            RuntimeError: there are none in this process.
        """
        if self.uses_ids:
            self.id_generator = self._given_ids if self._given_ids is not None else _active_ids()

    def process(self, task: FileGroupTask) -> DocumentBatch:
        """Read a group of files.

        Raises:
            ValueError: they hold no rows, and `allow_empty` is not set.
        """
        output = self.read_task(task, dict(self.read_kwargs or {}), self.fields)
        rows: Any = output.data
        if not self.allow_empty and (rows is None or not len(rows)):
            raise ValueError(f"No data read from files in task {task.task_id}")
        if self.uses_ids:
            rows = self._with_ids(task.data, rows)
        metadata = task._metadata if output.metadata is None else output.metadata
        return DocumentBatch(dataset_name=task.dataset_name, data=rows, _metadata=metadata)

    def read_task(
        self, task: FileGroupTask, read_kwargs: dict[str, Any] | None, fields: list[str] | None
    ) -> ReaderOutput:
        """Return the rows of a task."""
        return ReaderOutput(self.read_data(task.data, read_kwargs, fields))

    def read_data(
        self, paths: list[str], read_kwargs: dict[str, Any] | None = None, fields: list[str] | None = None
    ) -> ReaderData:
        """Return the rows of files."""
        raise NotImplementedError

    def _with_ids(self, paths: list[str], rows: Any) -> Any:
        names = rows.columns if isinstance(rows, pd.DataFrame) else rows.column_names
        if CURATOR_DEDUP_ID_STR in names:
            _log.warning("%s have a column %s already, which stays", paths, CURATOR_DEDUP_ID_STR)
            return rows
        ids = self.id_generator
        first = ids.register_batch(paths, len(rows)) if self._generate_ids else None
        numbers = _numbers(ids.get_batch_range(paths, None), first, len(rows), str(paths))
        if isinstance(rows, pd.DataFrame):
            return rows.assign(**{CURATOR_DEDUP_ID_STR: numbers})
        return rows.append_column(CURATOR_DEDUP_ID_STR, pa.array(numbers))


BaseFileReader = BaseReader


def _active_ids() -> IdGeneratorBase:
    try:
        return get_id_generator_actor()
    except ValueError as error:
        raise RuntimeError(
            "ID generator is required when self._generate_ids or self._assign_ids is True, and the actor "
            "'id_generator' does not exist: call create_id_generator_actor() before the pipeline runs"
        ) from error


def _numbers(span: tuple[int, int], first: int | None, rows: int, what: str) -> Any:
    """The ids of the rows of a group of files."""
    begin, last = span
    if last - begin + 1 != rows:
        raise DataError(
            f"{what} have {rows:,} rows, but {last - begin + 1:,} ids were given to them before: they have changed "
            "since; begin with a new id generator"
        )
    return np.arange(begin if first is None else first, begin + rows)


@dataclass
class JsonlReaderStage(BaseReader):
    """Read groups of JSON Lines files.

    Args:
        read_kwargs: for `pandas.read_json`.
    """

    name: str = "jsonl_reader"

    def read_data(
        self, paths: list[str], read_kwargs: dict[str, Any] | None = None, fields: list[str] | None = None
    ) -> pd.DataFrame:
        """Return the rows of files, read with pandas; of `fields` those that a file has.

        Raises:
            ValueError: ``lines=False`` is given, or there are no files.
        """
        options = {"lines": True, **(read_kwargs or {})}
        if options["lines"] is False:
            raise ValueError("lines=False is not supported for JSONL reader")
        frames = [pandas_select_columns(pd.read_json(path, **options), fields, path) for path in paths]
        if not frames:
            raise ValueError(f"No data read from files in task {paths} with read_kwargs {read_kwargs} in JSONL reader")
        return pd.concat(frames, ignore_index=True)

    def engine_form(self, before: list[Any], is_last: bool) -> Any:
        """Return dcurate's source that takes the place of the partitioning stage before and of this one."""
        if type(self) is not JsonlReaderStage or not _is_same(self, pd.read_json, _SAME_JSONL, before):
            return None
        return _JsonlSource.of(self, before.pop().stage)


@dataclass
class ParquetReaderStage(BaseReader):
    """Read groups of Parquet files.

    Args:
        read_kwargs: for `pandas.read_parquet`.
    """

    name: str = "parquet_reader"

    def read_data(
        self, paths: list[str], read_kwargs: dict[str, Any] | None = None, fields: list[str] | None = None
    ) -> pd.DataFrame:
        """Return the rows of files, read with pandas."""
        options = {"engine": "pyarrow", "dtype_backend": "pyarrow", **(read_kwargs or {})}
        options |= {} if fields is None else {"columns": fields}
        return pd.concat([pd.read_parquet(path, **options) for path in paths], ignore_index=True)

    def engine_form(self, before: list[Any], is_last: bool) -> Any:
        """Return dcurate's source that takes the place of the partitioning stage before and of this one."""
        if type(self) is not ParquetReaderStage or not _is_same(self, None, _SAME_PARQUET, before):
            return None
        return _ParquetSource.of(self, before.pop().stage)


def _is_same(
    stage: BaseReader, function: Callable[..., Any] | None, same: Mapping[str, Any], before: Sequence[Any]
) -> bool:
    """Whether dcurate's reader reads what a stage would read with pandas, and the stage begins the pipeline.

    Raises:
        PipelineError: an argument that can be had in neither way.
    """
    given = stage.read_kwargs or {}
    for name, value in given.items():
        if function is not None and name not in inspect.signature(function).parameters:
            raise PipelineError(f"{stage.name}: read_kwargs {name!r} is no argument of pandas.{function.__name__}")
        if (name, value) == ("lines", False) or (name == "chunksize" and value is not None):
            raise PipelineError(f"{stage.name}: {name}={value!r} is not supported: rows are read file by file")
    sources = [source.stage for source in before if isinstance(source, PartitionSource)]
    return (
        len(before) == len(sources) == 1
        and type(sources[0]) is FilePartitioningStage
        and sources[0].limit != 0
        and not stage.allow_empty
        and all(name in same and (same[name] is None or _is_in(value, same[name])) for name, value in given.items())
    )


def _is_in(value: Any, values: Sequence[Any]) -> bool:
    return any(value is one or (isinstance(value, str) and value == one) for one in values)


@dataclass
class _Reader(CompositeStage[EmptyTask, DocumentBatch]):
    """What both readers have."""

    file_paths: str | list[str]
    files_per_partition: int | None = None
    blocksize: int | str | None = None
    fields: list[str] | None = None
    read_kwargs: dict[str, Any] | None = None

    _is_abstract_root = True
    _stage: ClassVar[type[BaseReader]]
    _kind: ClassVar[str]

    def __post_init__(self) -> None:
        if self.read_kwargs is not None:
            self.storage_options = self.read_kwargs.get("storage_options", {})

    def decompose(self) -> list[Any]:
        """Return the stages that list files and read them.

        Raises:
            NotImplementedError: the files are to become something else than documents.
        """
        own: Any = self
        if own.task_type != "document":
            raise NotImplementedError(f"Converting DocumentBatch to {own.task_type} is not supported yet.")
        return [
            FilePartitioningStage(
                self.file_paths,
                self.files_per_partition,
                self.blocksize,
                own.file_extensions,
                (self.read_kwargs or {}).get("storage_options"),
            ),
            self._stage(
                self.fields, self.read_kwargs or {}, _generate_ids=own._generate_ids, _assign_ids=own._assign_ids
            ),
        ]

    def get_description(self) -> str:
        """A description of the stage for a person."""
        parts = [f"Read {self._kind} files from {self.file_paths}"]
        if self.files_per_partition:
            parts.append(f"with {self.files_per_partition} files per partition")
        elif self.blocksize:
            parts.append(f"with target blocksize {self.blocksize}")
        return ", ".join([*parts, *([f"reading columns: {self.fields}"] if self.fields else ())])


@dataclass
class JsonlReader(_Reader):
    """Read JSON Lines.

    Args:
        file_paths: a file, folder or glob, or a list of these; folders within the folders of a list are left out.
        files_per_partition: files of one batch.
        blocksize: bytes of one batch, as a number or as ``"128MB"``.
        fields: the columns to keep; all by default.
        read_kwargs: for `pandas.read_json`. Those that ask for what dcurate's reader does not do are carried out by
            pandas: ``dtype`` and ``convert_dates`` of columns, ``nrows``, ``encoding``, ``compression``.
        task_type: ``"document"``.
        file_extensions: endings of the files that are read.

    Examples:
        >>> [stage.name for stage in JsonlReader("in").decompose()]
        ['file_partitioning', 'jsonl_reader']
    """

    task_type: TaskType = "document"
    file_extensions: list[str] = field(default_factory=lambda: list(FILETYPE_TO_DEFAULT_EXTENSIONS["jsonl"]))
    _generate_ids: bool = False
    _assign_ids: bool = False
    name: str = "jsonl_reader"

    _stage: ClassVar[type[BaseReader]] = JsonlReaderStage
    _kind: ClassVar[str] = "JSONL"


@dataclass
class ParquetReader(_Reader):
    """Read Parquet files.

    Args:
        file_paths: a file, folder or glob, or a list of these; folders within the folders of a list are left out.
        files_per_partition: files of one batch.
        blocksize: bytes of one batch, as a number or as ``"128MB"``.
        fields: the columns to keep; all by default.
        read_kwargs: for `pandas.read_parquet`; ``filters`` is carried out by pandas.
        file_extensions: endings of the files that are read.
        task_type: ``"document"``.
    """

    file_extensions: list[str] = field(default_factory=lambda: list(FILETYPE_TO_DEFAULT_EXTENSIONS["parquet"]))
    task_type: TaskType = "document"
    _generate_ids: bool = False
    _assign_ids: bool = False
    name: str = "parquet_reader"

    _stage: ClassVar[type[BaseReader]] = ParquetReaderStage
    _kind: ClassVar[str] = "Parquet"


# The sources that the engine runs


@dataclass(frozen=True)
class _Endings(files.Format):
    """Files by the endings that a person gave."""

    def matches(self, path: str) -> bool:
        return has_extension(path, self.suffixes)


@dataclass
class _NumberedFiles(FileGroup):
    """Whole files, and the first and last id of their rows."""

    span: tuple[int, int] = (0, -1)


class _Source(FileReader):
    """What dcurate's readers have besides where they take the place of NeMo Curator's."""

    _partition: FilePartitioningStage
    #: The name of the dataset; copies of the source share it.
    _dataset: list[str]
    #: Whether ids are given out for new files, or only known ones looked up; None without ids.
    _new_ids: bool | None = None
    _ids: IdGeneratorBase | None = None

    @classmethod
    def of(cls, stage: BaseReader, partition: FilePartitioningStage) -> Self:
        """The source for two stages."""
        given = stage.read_kwargs or {}
        known = parquet.READ_KWARGS if issubclass(cls, parquet.ParquetReader) else ()
        source = cls(
            partition.file_paths,
            partition.files_per_partition,
            None if partition.blocksize is None else partition._bytes,
            stage.fields or given.get("columns"),
            {name: value for name, value in given.items() if name in known and name not in ("engine", "dtype_backend")},
            {**(partition.storage_options or {}), **(given.get("storage_options") or {})} or None,
            limit=partition.limit or None,
        )
        source._partition, source._dataset = partition, []
        endings = tuple(partition.file_extensions or ())
        vars(source)["kind"] = _Endings(cls._format, endings, compressed=False)
        source._new_ids = stage._generate_ids if stage.uses_ids else None
        if stage.uses_ids:
            source._ids = _active_ids()
        return source

    _format: ClassVar[str]

    @property
    def dataset_name(self) -> str:
        """The name of the dataset, once its files are listed."""
        return "".join(self._dataset)

    def _files(self) -> list[files.SourceFile]:
        found = super()._files()
        if not isinstance(self.file_paths, str):  # of folders in a list, only the files directly in them
            folders = [f"{full_address(*self._store(str(path))).rstrip('/')}/" for path in self.file_paths]
            found = [file for file in found if not any(_is_below(file.path, folder) for folder in folders)]
        self._dataset[:] = [infer_dataset_name_from_path(file.path) for file in found[:1]]
        return found

    def settings(self) -> dict[str, Any]:
        own = {**super().settings(), "ids": self._new_ids is not None}
        del own["kind"]
        return own

    def columns(self) -> list[str] | None:
        known = super().columns()
        return known if known is None or self._new_ids is None else [*known, CURATOR_DEDUP_ID_STR]

    def splits(self) -> Iterator[FileGroup]:
        if self._new_ids is None:
            return super().splits()
        return (_NumberedFiles(key=group.key, parts=group.parts, span=self._span(group)) for group in self.groups())

    def groups(self) -> list[FileGroup]:
        """The groups of files by NeMo Curator's rule, by which the registry of ids knows them."""
        found = {file.path: file for file in self._files()}
        self._shape(list(found.values()))
        made = []
        for paths in self._partition.groups([(file.path, file.size) for file in found.values()]):
            members = [found[path] for path in paths]
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
            numbers = pa.array(_numbers(task.span, None, batch.num_items, str(task.data)))
            batch.data = batch.data.append_column(CURATOR_DEDUP_ID_STR, numbers)
        batch.dataset_name, batch._metadata = self.dataset_name, {"source_files": task.data}
        return batch


def _is_below(path: str, folder: str) -> bool:
    """Whether a file is in a folder within the folder."""
    return path.startswith(folder) and "/" in path.removeprefix(folder)


class _MixedColumnError(Exception):
    """A column holds values without a common type."""


class _JsonlSource(_Source, jsonl.JsonlReader):
    """dcurate's reader of JSON Lines in the place of NeMo Curator's two stages.

    Batches with nested values or columns of mixed types keep the lines of their rows where a person's stage follows.
    """

    _format: ClassVar[str] = "JSONL"
    keeps_values = False
    _lines_for_writer = False

    @classmethod
    def of(cls, stage: BaseReader, partition: FilePartitioningStage) -> Self:
        own = super().of(stage, partition)
        own._chosen, own.fields = own.fields, None
        return own

    _chosen: list[str] | None = None

    def settings(self) -> dict[str, Any]:
        own = super().settings()
        own.pop("keeps_values", None)
        return {**own, "fields": self._chosen}

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

    def keeping_lines(self, columns: Sequence[str] | None) -> Self | None:
        if self._chosen is not None:
            return None
        own = super().keeping_lines(columns)
        if own is not None:
            own._lines_for_writer = True
        return own

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
        own = copy.copy(self)
        if wanted:
            chosen = None if self._chosen is None else tuple(self._chosen)
            own._keeps_lines, own.fields = True, None
            own._read_only = own._read_only if self._lines_for_writer else chosen
        elif self._chosen is not None:
            known = self._known().types
            own.fields = [name for name in self._chosen if name in known]
        return own

    def _read(self, task: FileGroup) -> document.DocumentBatch | None:
        return super().process(task)

    def _has_more(self, table: pa.Table) -> bool:
        """Whether lines may hold values that the columns do not."""
        return any(has_objects(field.type) or field.name in self._mixed for field in table.schema)

    def _of_chosen_columns(self, table: pa.Table) -> pa.Table:
        """The rows, with lines of the chosen columns alone."""
        if LINE not in table.column_names or self._chosen is None:
            return table
        names = [name for name in table.column_names if name != LINE]
        rows = map(orjson.loads, storage_of(table).to_pylist())
        lines = [orjson.dumps({name: row[name] for name in names if name in row}) + b"\n" for row in rows]
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


class _ParquetSource(_Source, parquet.ParquetReader):
    """dcurate's reader of Parquet in the place of NeMo Curator's two stages."""

    _format: ClassVar[str] = "Parquet"

    def process(self, task: FileGroup) -> document.DocumentBatch | None:
        return self._finished(super().process(task), task)

    def _rows_in(self, part: FilePart) -> int:
        return sum(stop - start for start, stop in (each.rows or (0, 0) for each in self._counted(part)))


# Ids


class _RowCounter(SourceStage[FileGroup, document.DocumentBatch]):
    """Counts the rows of the files of a source that have no ids yet."""

    name = "row_counter"

    def __init__(self, source: _Source) -> None:
        self.source = source

    def splits(self) -> Iterator[FileGroup]:
        ids = self.source._ids
        assert ids is not None, "rows are counted for ids"
        return (group for group in self.source.groups() if ids.hash_files(group.data) not in ids.batch_registry)

    def process(self, task: FileGroup) -> document.DocumentBatch:
        return _counted(task.data, self.source.count(task))


class _CountingReader(ProcessingStage[FileGroupTask, Any]):
    """Counts the rows that a person's reader reads."""

    def __init__(self, reader: BaseReader) -> None:
        self.name, self.resources, self.reader = reader.name, reader.resources, copy.copy(reader)
        self.reader._generate_ids = False

    def setup(self, worker_metadata: Any = None) -> None:
        self.reader.setup(worker_metadata)

    def process(self, task: FileGroupTask) -> document.DocumentBatch:
        return _counted(task.data, self.reader.process(task).num_items)


def _counted(paths: list[str], rows: int) -> document.DocumentBatch:
    return document.DocumentBatch(data=pa.table({"files": [IdGeneratorBase().hash_files(paths)], "rows": [rows]}))


def numbered(stages: list[Any], run: Callable[[Sequence[Any]], Sequence[Any]]) -> list[Any]:
    """The stages of the engine, in which a reader with ids has those of all its files.

    Args:
        stages: to begin with.
        run: runs stages and returns what they give, in the order of the source.
    """
    before = list(takewhile(lambda stage: not _generates(stage) and not _assigns(stage), stages))
    if len(before) == len(stages):
        return stages
    reader = stages[len(before)]
    ids: Any = reader._ids if isinstance(reader, _Source) else _active_ids()
    if _generates(reader):
        if isinstance(reader, _Source):
            counter: Any = _RowCounter(reader)
            counts = run([counter]) if any(True for _ in counter.splits()) else ()
        else:
            counts = run([*before, ForeignStage(_CountingReader(reader.stage))])
        for batch in counts:
            for row in batch.to_arrow().to_pylist():
                if row["rows"]:
                    ids.register_key(row["files"], row["rows"])
    if not isinstance(reader, _Source):
        reader = copy.copy(reader)
        reader.stage = copy.copy(reader.stage)
        reader.stage._given_ids = ids
    return [*before, reader, *stages[len(before) + 1 :]]


def _generates(stage: Any) -> bool:
    return stage._new_ids is True if isinstance(stage, _Source) else _person(stage) and stage.stage._generate_ids


def _assigns(stage: Any) -> bool:
    return stage._new_ids is False if isinstance(stage, _Source) else _person(stage) and stage.stage._assign_ids


def _person(stage: Any) -> bool:
    return isinstance(stage, ForeignStage) and isinstance(stage.stage, BaseReader)
