"""Tasks as NeMo Curator has them."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pandas as pd
from dask.sizeof import sizeof

from dcurate.compat.nemo import values
from dcurate.core.batch import Batch, BatchKey
from dcurate.frames import convert, document
from dcurate.frames.line_matching import with_own_lines
from dcurate.rows.lines import LINE, without_lines

T = TypeVar("T")

_log = logging.getLogger("dcurate.compat.nemo")


@dataclass
class Task(ABC, Generic[T]):
    """A unit of work that travels between stages.

    Args:
        dataset_name: name of the dataset that it belongs to.
        data: what it holds.
        task_id: set by the engine at each stage; the path from the source's split to this task.
    """

    dataset_name: str
    data: T
    _stage_perf: list[Any] = field(default_factory=list)
    _metadata: dict[str, Any] = field(default_factory=dict)
    task_id: str = ""
    _source_id: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.validate()

    @property
    @abstractmethod
    def num_items(self) -> int:
        """The number of items in the task."""

    @abstractmethod
    def validate(self) -> bool:
        """Whether the data is valid."""

    def add_stage_perf(self, perf_stats: Any) -> None:
        """Add the figures of a stage."""
        self._stage_perf.append(perf_stats)

    def _set_task_id(self, parent_task_id: str, current_task_id_suffix: str | int) -> None:
        self.task_id = "_".join(filter(None, (parent_task_id, str(current_task_id_suffix))))

    def get_source_id(self) -> str:
        """The last part of `task_id`."""
        return self.task_id.rpartition("_")[2]

    def get_deterministic_id(self) -> str | None:
        """An id that follows from the content; None if there is none."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(task_id={self.task_id}, dataset_name={self.dataset_name})"


def task_id_of(key: BatchKey | None) -> str:
    """The id of the task under a key.

    Examples:
        >>> task_id_of(BatchKey("0", (2, 1)))
        '0_2_1'
    """
    if key is None:
        return ""
    root = "0" if key.split == "0" else f"0_{key.digest if not key.path else BatchKey(key.split).digest}"
    return "_".join([root, *map(str, key.path)])


@dataclass(repr=False)
class DocumentBatch(document.DocumentBatch, Task[Any]):
    """A batch of documents in an Arrow table or a pandas frame.

    One that comes out of dcurate's engine holds an Arrow table, and is a pandas frame from the first access of `data`
    or `to_pandas` on; changes of that frame are kept.

    Examples:
        >>> batch = DocumentBatch(dataset_name="mine", data=pd.DataFrame({"text": ["one", "two"]}), task_id="0_1")
        >>> batch.num_items, batch.get_columns(), batch.task_id
        (2, ['text'], '0_1')
    """

    def __post_init__(self) -> None:
        third: Any = self._stage_perf
        if isinstance(third, pd.DataFrame) or convert.is_arrow(third):  # version 25.09's order
            self.task_id, self.dataset_name, self.data = self.dataset_name, self.data, third
            self._stage_perf = []
        document.DocumentBatch.__post_init__(self)
        self.validate()

    @classmethod
    def of(cls, batch: document.DocumentBatch) -> DocumentBatch:
        """The task for a batch of the engine."""
        task = cls(
            dataset_name=batch.dataset_name,
            data=batch.data,
            _stage_perf=list(batch._stage_perf),
            _metadata=dict(batch._metadata),
            task_id=task_id_of(batch.key),
            key=batch.key,
        )
        task._types = batch._types
        if not isinstance(batch.data, pd.DataFrame):
            del task.data
            task.__dict__["_given"] = batch.to_arrow()
            task._types = task.to_arrow().schema
        return task

    __repr__ = Task.__repr__

    def __getattr__(self, name: str) -> Any:
        stored = self.__dict__.get("_given")
        if name != "data" or stored is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.data = values.seen(stored)
        return self.data

    @property
    def is_untouched(self) -> bool:
        """Whether the rows are still the engine's: nobody has looked at them."""
        return "data" not in self.__dict__

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame; the frame of the task itself if it holds one."""
        return self.data if isinstance(self.data, pd.DataFrame) else super().to_pandas()

    def to_arrow(self) -> Any:
        """The rows as an Arrow table; values without a common type become text."""
        if self.is_untouched:
            return without_lines(self.__dict__["_given"])
        is_frame = isinstance(self.data, pd.DataFrame)
        held = values.returned(self.data, self._types, None) if is_frame else self.data
        return without_lines(convert.to_arrow(held, self._types))

    @property
    def num_items(self) -> int:
        return len(self.to_arrow() if self.is_untouched else self.data)

    @property
    def nbytes(self) -> int:
        return convert.nbytes(self.to_arrow() if self.is_untouched else self.data)

    def get_columns(self) -> list[str]:
        return list(convert.columns(self.to_arrow())) if self.is_untouched else super().get_columns()

    def validate(self) -> bool:
        """Whether there are rows and columns; says so in the log if not."""
        valid = bool(self.num_items and self.get_columns())
        if not valid and self.dataset_name:
            _log.warning("task %s has no %s", self.task_id, "columns" if self.num_items else "items")
        return valid

    def plain(self, source: document.DocumentBatch | None = None) -> document.DocumentBatch:
        """The batch for the engine.

        Args:
            source: the batch that the stage was given which returned this one; rows keep their lines.
        """
        before = None if source is None or not convert.is_arrow(source.data) else source.data
        if self.is_untouched:
            data = self.__dict__["_given"]
        elif isinstance(self.data, pd.DataFrame):
            data = values.returned(self.data, self._types, before)
        else:
            data = self.data
        made = document.DocumentBatch(
            data=data,
            dataset_name=self.dataset_name,
            _metadata=self._metadata,
            _stage_perf=self._stage_perf,
            _types=self._types,
            key=self.key,
            rejections=self.rejections,
            found=self.found,
            scored=self.scored,
        )
        is_new = before is not None and LINE in before.column_names and convert.is_arrow(data)
        return with_own_lines(made, before) if is_new else made

    def with_data(self, data: Any) -> DocumentBatch:
        """The same batch with other rows: a pandas frame stays one."""
        if isinstance(self.__dict__.get("data"), pd.DataFrame) and convert.is_arrow(data):
            data = convert.to_python(data)
        return super().with_data(data)


@dataclass(repr=False)
class FileGroupTask(Task[list[str]]):
    """A group of files.

    Examples:
        >>> FileGroupTask(dataset_name="mine", data=["a.jsonl", "b.jsonl"]).num_items
        2
    """

    reader_config: dict[str, Any] = field(default_factory=dict)
    data: list[str] = field(default_factory=list)

    @property
    def num_items(self) -> int:
        return len(self.data)

    def validate(self) -> bool:
        """Whether there are files.

        Raises:
            TypeError: the files are not a list.
        """
        if not len(self.data):
            _log.warning("no files to process in task %s", self.task_id)
            return False
        if not isinstance(self.data, list):
            raise TypeError(f"the files of a FileGroupTask must be a list, not {type(self.data).__name__}")
        return True

    def get_deterministic_id(self) -> str:
        """An id that follows from the names of the files."""
        return BatchKey("\n".join(sorted(self.data))).digest


@dataclass(repr=False)
class SentinelTask(Task[None]):
    """A task without data."""

    dataset_name: str = "sentinel"
    data: None = None

    def __post_init__(self) -> None:
        assert self.data is None, f"{type(self).__name__} holds no data"

    @property
    def num_items(self) -> int:
        return 0

    def validate(self) -> bool:
        return True


@dataclass(repr=False)
class EmptyTask(SentinelTask):
    """What the first stage of a pipeline is given."""

    dataset_name: str = "empty"
    task_id: str = field(init=False, default="0")


@dataclass(repr=False)
class NoneTask(SentinelTask):
    """Returned in place of a task that is left out."""

    dataset_name: str = "none"


@dataclass(repr=False)
class FailedTask(SentinelTask):
    """Returned in place of a task that failed: its rows go to quarantine, and a resumed run tries them again."""

    dataset_name: str = "failed"


@dataclass
class TaskBatch(Batch):
    """A task of a class of its own, as the engine carries it.

    Args:
        task: any `Task` that is not a batch itself.
    """

    task: Task[Any]

    @property
    def num_items(self) -> int:
        """At least one: the engine leaves out batches without rows, and a task is not one."""
        return max(1, self.task.num_items)

    @property
    def nbytes(self) -> int:
        return int(sizeof(self.task.data))

    def get_columns(self) -> list[str]:
        return []


def nemo_task(batch: Batch) -> Task[Any]:
    """The task that a person's stage is given for a batch of the engine."""
    if isinstance(batch, TaskBatch):
        task = batch.task
    elif isinstance(batch, Task):
        task = batch
    elif isinstance(batch, document.DocumentBatch):
        return DocumentBatch.of(batch)
    else:
        task = FileGroupTask(dataset_name="", data=list(getattr(batch, "data", ())))
    if not isinstance(task, EmptyTask):
        task.task_id = task_id_of(batch.key)
    return task


def engine_batch(task: Any, source: Batch | None = None) -> Any:
    """The batch of the engine for a task that a person's stage returned; anything else is returned unchanged.

    Args:
        source: the batch that the stage was given.
    """
    if type(task) is DocumentBatch:
        return task.plain(source if isinstance(source, document.DocumentBatch) else None)
    if isinstance(task, document.DocumentBatch) and isinstance(source, document.DocumentBatch):
        return with_own_lines(task, source.data) if LINE in convert.columns(source.data) else task
    if isinstance(task, Batch) or not isinstance(task, Task):
        return task
    return TaskBatch(task=task)


def engine_batches(tasks: Sequence[Task[Any]] | None) -> list[Batch] | None:
    """The batches of the engine for tasks to begin with; None if there are none."""
    return [engine_batch(task) for task in tasks] if tasks else None
