"""Writers with the arguments of NeMo Curator's.

They write with pandas when a person calls them. At the end of a pipeline, `JsonlWriter` and `ParquetWriter` are
dcurate's, unless an argument asks for what only pandas does.
"""

from __future__ import annotations

import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, TypeVar

import pyarrow as pa
from fsspec.core import url_to_fs

from dcurate.compat.nemo.files import check_output_mode
from dcurate.compat.nemo.iterables import get_deterministic_hash
from dcurate.compat.nemo.rows import is_in
from dcurate.compat.nemo.stages import ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch, FileGroupTask, Task
from dcurate.core.batch import BatchKey, FileGroup
from dcurate.errors import PipelineError
from dcurate.frames import document
from dcurate.fs.compression import ending_of
from dcurate.fs.paths import full_address
from dcurate.io import jsonl_writer, parquet_writer
from dcurate.io.sink import FileWriter
from dcurate.rows.lines import LINE, without_lines

_log = logging.getLogger("dcurate.compat.nemo")

Mode = Literal["ignore", "overwrite", "append", "error"]

#: Arguments of pandas with values that say what dcurate's writers do in any case; None for any value.
_SAME_JSONL: dict[str, tuple[Any, ...] | None] = {
    "lines": (True,),
    "orient": (None, "records"),
    "force_ascii": (False,),
    "compression": ("infer",),
    "index": (None, False),
    "indent": (None, 0),
    "mode": ("w",),
    "storage_options": None,
    "engine": None,
}
#: Arguments of pandas for Parquet that dcurate's writer does not have.
_PANDAS_PARQUET = ("schema", "filesystem", "path", "partition_filename_cb", "existing_data_behavior", "nthreads")
_INDEX = (None, False)
_ENGINES = ("auto", "pyarrow")


T = TypeVar("T", bound=Task[Any])


class FileStage(ProcessingStage[T, FileGroupTask]):
    """A stage that writes each task to a file in a folder."""

    path: str
    file_extension: str
    write_kwargs: dict[str, Any]
    mode: str
    append_mode_implemented: bool

    def _open_folder(self) -> None:
        self.path = str(self.path)
        self.storage_options = dict((self.write_kwargs or {}).get("storage_options") or {})
        self.fs, self._fs_path = url_to_fs(self.path, **self.storage_options)
        check_output_mode(self.mode, self.fs, self._fs_path, append_mode_implemented=self.append_mode_implemented)

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def get_file_extension(self) -> str:
        """Return the ending of the files, without its dot."""
        return self.file_extension

    @abstractmethod
    def write_data(self, task: T, file_path: str) -> None:
        """Write a task to a file."""

    def process(self, task: T) -> FileGroupTask:
        """Write a task to a file, whose name follows from the source files and the id of the task."""
        sources = task._metadata.get("source_files")
        if sources:
            name = get_deterministic_hash(sources, task.task_id)
        else:
            _log.warning("task %s has no source_files in its metadata: its file has a random name", task.task_id)
            name = uuid.uuid4().hex
        inner = self.fs.sep.join([self._fs_path, f"{name}.{self.get_file_extension()}"])
        path = full_address(self.fs, inner)
        self.write_data(task, path)
        return FileGroupTask(
            dataset_name=task.dataset_name,
            data=[path],
            _metadata={**task._metadata, "format": self.get_file_extension()},
            _stage_perf=task._stage_perf,
        )


@dataclass
class BaseWriter(FileStage[DocumentBatch], ABC):
    """A stage that writes each batch to a file; subclass it and write ``write_data``.

    Args:
        path: the directory to write to, local or a URL. It is made, or emptied, when the writer is.
        file_extension: ending of the files.
        write_kwargs: for the function that writes.
        fields: the columns to write; all by default.
        mode: what to do about an existing directory, see `check_output_mode`.
        append_mode_implemented: whether ``mode="append"`` may be given.
    """

    path: str
    file_extension: str
    write_kwargs: dict[str, Any] = field(default_factory=dict)
    fields: list[str] | None = None
    name: str = "BaseWriter"
    mode: Mode = "ignore"
    append_mode_implemented: bool = False

    def __post_init__(self) -> None:
        self.name = type(self).name if self.name == "BaseWriter" else self.name
        self._open_folder()

    @abstractmethod
    def write_data(self, task: DocumentBatch, file_path: str) -> None:
        """Write the rows of a batch to a file."""

    def _selected(self, task: DocumentBatch) -> Any:
        frame = task.to_pandas()
        return frame if self.fields is None else frame[self.fields]

    def _is_changed(self, cls: type[BaseWriter]) -> bool:
        """Whether a person's class writes in another way."""
        subclass = type(self)
        return any(
            getattr(subclass, name) is not getattr(cls, name)
            for name in ("write_data", "process", "process_batch", "get_file_extension", "setup", "teardown")
        )


@dataclass
class JsonlWriter(BaseWriter):
    """Write JSON Lines.

    Args:
        write_kwargs: for `pandas.DataFrame.to_json`. Those that ask for what dcurate's writer does not do are carried
            out by pandas, such as ``force_ascii=True``, ``date_format``, ``double_precision`` or ``compression``.
    """

    file_extension: str = "jsonl"
    name: str = "jsonl_writer"

    def write_data(self, task: DocumentBatch, file_path: str) -> None:
        """Write the rows with pandas."""
        options = {"lines": True, "orient": "records", "force_ascii": False, **(self.write_kwargs or {})}
        self._selected(task).to_json(file_path, **options)

    def engine_form(self, before: list[Any], is_last: bool) -> Any:
        """Return dcurate's writer that takes the place of this one at the end of a pipeline."""
        write_kwargs = self.write_kwargs or {}
        taken = all(name in _SAME_JSONL and is_in(value, _SAME_JSONL[name]) for name, value in write_kwargs.items())
        return _JsonlSink.of(self) if is_last and taken and not self._is_changed(JsonlWriter) else None


@dataclass
class ParquetWriter(BaseWriter):
    """Write Parquet files.

    Args:
        write_kwargs: for `pandas.DataFrame.to_parquet`, and for pyarrow's ``write_table``. ``partition_cols`` become
            folders ``column=value`` in the directory.
    """

    file_extension: str = "parquet"
    name: str = "parquet_writer"

    def write_data(self, task: DocumentBatch, file_path: str) -> None:
        """Write the rows with pandas."""
        self._selected(task).to_parquet(file_path, **{"index": None, **(self.write_kwargs or {})})

    def engine_form(self, before: list[Any], is_last: bool) -> Any:
        """Return dcurate's writer that takes the place of this one at the end of a pipeline."""
        write_kwargs = self.write_kwargs or {}
        taken = write_kwargs.get("index") in _INDEX and write_kwargs.get("engine", "auto") in _ENGINES
        if (
            not is_last
            or not taken
            or self._is_changed(ParquetWriter)
            or any(name in write_kwargs for name in _PANDAS_PARQUET)
        ):
            return None
        try:
            return _ParquetSink.of(self)
        except PipelineError:  # an argument that pandas may know
            return None


class WritesAsNemo(FileWriter):
    """What dcurate's writers have besides where they take the place of NeMo Curator's."""

    _extension: str = ""

    def _name(self, key: BatchKey, suffix: str, number: int) -> str:
        return super()._name(key, f".{self._extension}" if self._extension else suffix, number)


def written_tasks(source: Any, sink: WritesAsNemo, outputs: Iterable[Any]) -> list[FileGroupTask]:
    """The tasks for the files that a run wrote: one for each, as each batch is written to a file of its own.

    Args:
        source: source that the run began with, which knows the name of the dataset.
        sink: sink that wrote the files.
        outputs: groups of files.
    """
    about = {"format": sink._extension}
    dataset = str(getattr(source, "dataset_name", ""))
    return [
        FileGroupTask(dataset, [path], _metadata=dict(about), task_id=f"0_{BatchKey(path).digest}")
        for group in outputs
        for path in group.data
    ]


class _JsonlSink(WritesAsNemo, jsonl_writer.JsonlWriter):
    """dcurate's writer of JSON Lines in the place of NeMo Curator's."""

    writes_lines: ClassVar[bool] = True

    @classmethod
    def of(cls, stage: BaseWriter) -> Self:
        """The sink for a writer."""
        ending = ending_of(f"a.{stage.file_extension}")
        sink = cls(
            stage.path,
            fields=stage.fields,
            mode="append" if stage.mode == "append" else "ignore",
            compression=_COMPRESSIONS.get(ending),
            storage_options=stage.storage_options or None,
        )
        sink._extension = stage.file_extension
        return sink

    def _chosen(self, table: pa.Table) -> pa.Table:
        if self.fields is None or LINE not in table.column_names:
            return super()._chosen(table)
        return table.select([*super()._chosen(table).column_names, LINE])


_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}


class _ParquetSink(WritesAsNemo, parquet_writer.ParquetWriter):
    """dcurate's writer of Parquet in the place of NeMo Curator's."""

    @classmethod
    def of(cls, stage: BaseWriter) -> Self:
        """The sink for a writer."""
        write_kwargs = dict(stage.write_kwargs or {})
        taken = ("index", "engine", "storage_options", "compression", "partition_cols")
        sink = cls(
            stage.path,
            {name: value for name, value in write_kwargs.items() if name not in taken},
            stage.fields,
            "append" if stage.mode == "append" else "ignore",
            write_kwargs.get("compression", "snappy"),
            partition_cols=write_kwargs.get("partition_cols"),
            storage_options=stage.storage_options or None,
        )
        sink._extension = stage.file_extension
        return sink

    def process(self, task: document.DocumentBatch) -> FileGroup:
        is_lined = isinstance(task.data, pa.Table) and LINE in task.data.column_names
        return super().process(task.with_data(without_lines(task.data)) if is_lined else task)
