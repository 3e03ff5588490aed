"""Stages that bring rows of all tasks together by a key, as a barrier of dcurate's engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dcurate.compat.nemo.bridge import ForeignStage
from dcurate.compat.nemo.stages import ProcessingStage
from dcurate.compat.nemo.tasks import DocumentBatch, FileGroupTask, Task
from dcurate.core.stage import BarrierStage, Stage
from dcurate.fs.stores import Directory
from dcurate.shuffle.ranges import ShuffleIndex, partition_of
from dcurate.shuffle.writer import ShuffleWriter

#: The column by which rows are shuffled: 64 bits, spread over all values.
KEY = "_dcurate_key"
_BLOCK = 2**26


class ShuffleStage(ProcessingStage[FileGroupTask, FileGroupTask]):
    """A stage that needs rows with equal keys in one place: it has no ``process``."""

    _is_abstract_root = True
    is_resumable = False
    total_nparts: int | None = None

    @abstractmethod
    def keyed_rows(self, task: FileGroupTask) -> pa.Table:
        """The rows of a task, with the column `KEY`."""

    @abstractmethod
    def write_part(self, part: int, rows: pa.Table) -> list[FileGroupTask]:
        """Write what follows from all rows of a range of keys; they come in the order of keys, then of tasks."""

    def process(self, task: FileGroupTask) -> FileGroupTask:
        raise NotImplementedError("This is a shuffle stage that does not support the process method.")

    def engine_form(self, before: list[Any], is_last: bool) -> BarrierStage[Any]:
        """Return the stage that the engine runs."""
        return Shuffle(self, self.name)


@dataclass
class Shuffle(BarrierStage[Any]):
    """A `ShuffleStage` for the engine.

    Args:
        stage: what is run.
    """

    stage: ShuffleStage
    name: str

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self.stage).items() if name[:1] != "_"}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        writer = ShuffleWriter(
            url, mode="overwrite", storage_options=dict(options), by=KEY, name=f"{self.name}_to_disk"
        )
        return [_KeyRows(self.stage, f"{self.name}_rows"), writer]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        files = ShuffleIndex.written(Directory(url, options), splits)
        parts = self.stage.total_nparts or files.partitions_for(_BLOCK)
        return [files.reader(parts, KEY, f"{self.name}_read"), _WriteParts(self.stage, self.name)]


class PartStage(ForeignStage):
    """One step of a stage that takes several.

    Args:
        stage: stage in NeMo Curator's form, with the settings.
        name: name of the step.
    """

    stage: Any

    def __init__(self, stage: Any, name: str) -> None:
        super().__init__(stage)
        self.name = name
        self.batch_size = 1


class _KeyRows(PartStage):
    def _process(self, task: Task[Any]) -> Any:
        return DocumentBatch(dataset_name=task.dataset_name, data=self.stage.keyed_rows(task))


class _WriteParts(PartStage):
    def setup(self, worker_metadata: Any = None) -> None:
        """Nothing: the stage reads no tasks any more."""

    def _process(self, task: Task[Any]) -> Any:
        assert isinstance(task, DocumentBatch)
        return self.stage.write_part(partition_of(task), task.to_arrow())
