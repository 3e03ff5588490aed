"""Readers with the arguments of NeMo Curator's.

`JsonlReader` and `ParquetReader` are a partitioning stage and a reading stage, which read with pandas when a person
calls them. In a pipeline, both together are one source of dcurate's, unless an argument asks for what only pandas does.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import pandas as pd
import pyarrow as pa

from dcurate.compat.nemo.files import (
    FILETYPE_TO_DEFAULT_EXTENSIONS,
    pandas_select_columns,
)
from dcurate.compat.nemo.ids import CURATOR_DEDUP_ID_STR, IdGeneratorBase, active_ids, numbers_of
from dcurate.compat.nemo.partitioning import FilePartitioningStage
from dcurate.compat.nemo.reader_sources import JsonlSource, ParquetSource, SourceReader
from dcurate.compat.nemo.stages import CompositeStage, ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch, EmptyTask, FileGroupTask
from dcurate.io.parquet_int96 import ALL_YEARS, with_declared_units

_log = logging.getLogger("dcurate.compat.nemo")

TaskType: TypeAlias = Literal["document", "image", "video", "audio"]
ReaderTask: TypeAlias = FileGroupTask
ReaderData: TypeAlias = pd.DataFrame | pa.Table


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
    #: dcurate's source that can take the place of the class itself; a person's subclass reads in its own way.
    _own_source: ClassVar[type[SourceReader] | None] = None

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
            self.id_generator = self._given_ids if self._given_ids is not None else active_ids()

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

    def engine_form(self, before: list[Any], is_last: bool) -> Any:
        """Return dcurate's source that takes the place of the partitioning stage before and of this one."""
        source = vars(type(self)).get("_own_source")
        if source is None or not source.reads_the_same(self, before):
            return None
        return source.of(self, before.pop().stage)

    def _with_ids(self, paths: list[str], rows: Any) -> Any:
        names = rows.columns if isinstance(rows, pd.DataFrame) else rows.column_names
        if CURATOR_DEDUP_ID_STR in names:
            _log.warning("%s have a column %s already, which stays", paths, CURATOR_DEDUP_ID_STR)
            return rows
        ids = self.id_generator
        first = ids.register_batch(paths, len(rows)) if self._generate_ids else None
        numbers = numbers_of(ids.get_batch_range(paths, None), first, len(rows), str(paths))
        if isinstance(rows, pd.DataFrame):
            return rows.assign(**{CURATOR_DEDUP_ID_STR: numbers})
        return rows.append_column(CURATOR_DEDUP_ID_STR, pa.array(numbers))


BaseFileReader = BaseReader


@dataclass
class JsonlReaderStage(BaseReader):
    """Read groups of JSON Lines files.

    Args:
        read_kwargs: for `pandas.read_json`.
    """

    name: str = "jsonl_reader"

    _own_source: ClassVar[type[SourceReader] | None] = JsonlSource

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


@dataclass
class ParquetReaderStage(BaseReader):
    """Read groups of Parquet files.

    Args:
        read_kwargs: for `pandas.read_parquet`.
    """

    name: str = "parquet_reader"

    _own_source: ClassVar[type[SourceReader] | None] = ParquetSource

    def read_data(
        self, paths: list[str], read_kwargs: dict[str, Any] | None = None, fields: list[str] | None = None
    ) -> pd.DataFrame:
        """Return the rows of files, read with pandas.

        Raises:
            DataError: timestamps of 96 bits have years that nanoseconds do not hold; says with which arguments to read.
        """
        options = {"engine": "pyarrow", "dtype_backend": "pyarrow", **(read_kwargs or {})}
        options |= {} if fields is None else {"columns": fields}
        frames = [pd.read_parquet(path, **options) for path in paths]
        if options["engine"] == "pyarrow" and not ALL_YEARS.keys() & options.keys():
            for path, frame in zip(paths, frames, strict=True):
                names = [name for name, kind in frame.dtypes.items() if "[ns" in str(kind)]
                if names:
                    coarse = pd.read_parquet(path, **{**options, **ALL_YEARS, "columns": names})
                    fine = pa.Table.from_pandas(frame[names], preserve_index=False)
                    with_declared_units(fine, pa.Table.from_pandas(coarse, preserve_index=False), {}, path)
        return pd.concat(frames, ignore_index=True)


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
        reader: Any = self
        if reader.task_type != "document":
            raise NotImplementedError(f"Converting DocumentBatch to {reader.task_type} is not supported yet.")
        return [
            FilePartitioningStage(
                self.file_paths,
                self.files_per_partition,
                self.blocksize,
                reader.file_extensions,
                (self.read_kwargs or {}).get("storage_options"),
            ),
            self._stage(
                self.fields, self.read_kwargs or {}, _generate_ids=reader._generate_ids, _assign_ids=reader._assign_ids
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
