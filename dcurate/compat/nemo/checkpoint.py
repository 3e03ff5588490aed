"""`checkpoint_path` of a pipeline that ends without a writer of dcurate's: remember which splits are finished."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from dcurate.compat.nemo.tasks import FileGroupTask, TaskBatch
from dcurate.core.batch import Batch, FileGroup, FilePart
from dcurate.core.stage import SinkStage
from dcurate.errors import DataError
from dcurate.fs.stores import Directory
from dcurate.io import output

_SUFFIX = ".task.json"


class CheckpointSink(SinkStage[Batch]):
    """Writes the last stage's tasks to a folder, so that a later run has them without running their splits again.

    Args:
        path: the folder of ``checkpoint_path``.
    """

    name = "checkpoint"

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def output_path(self) -> str:
        return self._directory.address

    @property
    def _directory(self) -> Directory:
        return Directory(self.path, {})

    def settings(self) -> dict[str, Any]:
        return {}

    def prepare(self, resume: bool) -> None:
        self.path = self._directory.address
        output.prepare(self._directory, "ignore", resume)

    def process(self, task: Batch) -> FileGroup:
        """Write the names of the files that a task holds.

        Raises:
            DataError: the task holds something else, which cannot be kept.
        """
        held: Any = task.task if isinstance(task, TaskBatch) else task
        if not isinstance(held, FileGroupTask | FileGroup):
            raise DataError(
                f"checkpoint_path keeps tasks that name files, and the last stage returned {type(held).__name__}; "
                "end the pipeline with a writer, such as JsonlWriter"
            )
        assert task.key is not None
        name = output.file_name(task.key, _SUFFIX)
        dataset = getattr(held, "dataset_name", "")
        self._directory.write(name, orjson.dumps({"dataset_name": dataset, "data": list(held.data)}))
        return FileGroup(key=task.key, parts=(FilePart(f"{self.output_path}/{name}"),))

    def tasks(self, outputs: Iterable[Batch]) -> list[Batch]:
        """The tasks that the files of a run hold."""
        tasks: list[Batch] = []
        for group in outputs:
            for path in group.data if isinstance(group, FileGroup) else ():
                held = orjson.loads(self._directory.read(path.rpartition("/")[2]) or b"{}")
                tasks.append(TaskBatch(task=FileGroupTask(**held)))
        return tasks
