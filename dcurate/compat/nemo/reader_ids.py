"""Ids for the rows of readers: rows are counted before the run, so that ids are the same for any workers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

import pyarrow as pa

from dcurate.compat.nemo.bridge import ForeignStage
from dcurate.compat.nemo.ids import IdGeneratorBase, active_ids
from dcurate.compat.nemo.reader_sources import SourceReader
from dcurate.compat.nemo.readers import BaseReader
from dcurate.compat.nemo.stages import ProcessingStage
from dcurate.compat.nemo.tasks import FileGroupTask
from dcurate.core.batch import FileGroup
from dcurate.core.stage import SourceStage
from dcurate.frames import document


class _RowCounter(SourceStage[FileGroup, document.DocumentBatch]):
    """Counts the rows of the files of a source that have no ids yet."""

    name = "row_counter"

    def __init__(self, source: SourceReader) -> None:
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
    ids: Any = reader._ids if isinstance(reader, SourceReader) else active_ids()
    if _generates(reader):
        if isinstance(reader, SourceReader):
            counter: Any = _RowCounter(reader)
            counts = run([counter]) if any(True for _ in counter.splits()) else ()
        else:
            counts = run([*before, ForeignStage(_CountingReader(reader.stage))])
        for batch in counts:
            for row in batch.to_arrow().to_pylist():
                if row["rows"]:
                    ids.register_key(row["files"], row["rows"])
    if not isinstance(reader, SourceReader):
        reader = copy.copy(reader)
        reader.stage = copy.copy(reader.stage)
        reader.stage._given_ids = ids
    return [*before, reader, *stages[len(before) + 1 :]]


def _generates(stage: Any) -> bool:
    return stage._new_ids is True if isinstance(stage, SourceReader) else _person(stage) and stage.stage._generate_ids


def _assigns(stage: Any) -> bool:
    return stage._new_ids is False if isinstance(stage, SourceReader) else _person(stage) and stage.stage._assign_ids


def _person(stage: Any) -> bool:
    return isinstance(stage, ForeignStage) and isinstance(stage.stage, BaseReader)
