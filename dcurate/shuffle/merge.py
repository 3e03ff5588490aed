"""Merge shuffle files where reading each partition of each file would take too many requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import BarrierStage, SourceStage, Stage
from dcurate.frames.columns import with_column
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.shuffle.chunks import read_chunks, stacked
from dcurate.shuffle.ranges import FILE, ShuffleIndex, partition_of
from dcurate.shuffle.writer import ShuffleWriter

#: Beyond this many reads, merging all files first is faster on a store with some thousands of requests a second.
MOST_READS = 2**20
#: Bytes of rows, about, that are merged into one file.
MERGED_BYTES = 2**29

Then = Callable[[ShuffleIndex], list[Stage]]


def with_merged_files(files: ShuffleIndex, partitions: int, by: str, name: str, then: Then) -> list[Stage]:
    """Return the stages that `then` gives for shuffle files, after a round that merges the files if there are many.

    Args:
        files: written by `write_by_key`.
        partitions: how many will be read.
        by: the column of keys.
        name: name of the round that merges.
        then: returns the stages that read the given files, original or merged. Rows have the same order and the same
            file numbers in both.
    """
    groups = files.groups(MERGED_BYTES)
    if len(files.names) * partitions <= MOST_READS or len(groups) == len(files.names):
        return then(files)
    reader = GroupReader(files.folder.url, dict(files.folder.options), tuple(groups), name=f"{name}_groups")
    return [reader, MergeFiles(by, then, name=name)]


@dataclass
class MergeFiles(BarrierStage[DocumentBatch]):
    """A barrier after which rows are in fewer files."""

    by: str
    then: Then
    name: str

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            ShuffleWriter(url, mode="overwrite", storage_options=dict(options), by=self.by, name=f"{self.name}_to_disk")
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        return self.then(ShuffleIndex.written(Directory(url, options), splits))


@dataclass
class GroupReader(SourceStage[FileGroup, DocumentBatch]):
    """Reads several shuffle files as one batch, with the number of the file of each row.

    Args:
        groups: for each group the number of its first file, and the names and sizes of its files.
    """

    lists_ahead: ClassVar[bool] = True
    url: str
    options: dict[str, Any] = field(default_factory=dict)
    groups: tuple[tuple[int, tuple[tuple[str, int], ...]], ...] = field(default=(), repr=False)
    name: str = "group_reader"

    def splits(self) -> Iterator[FileGroup]:
        folder = Directory(self.url, self.options)
        for place, (_, files) in enumerate(self.groups):
            parts = tuple(FilePart(folder.path(name), 0, size, size, str(size), size) for name, size in files)
            yield FileGroup(key=BatchKey(f"{self.name}-{place:05}"), parts=parts)

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: FileGroup) -> DocumentBatch:
        first = self.groups[partition_of(task)][0]
        tables = []
        for number, part in enumerate(task.parts, first):
            table = stacked(read_chunks(part.path, self.options, part.start, part.stop or 0))
            tables.append(with_column(table, FILE, np.full(table.num_rows, number, np.int32)))
        return DocumentBatch(data=stacked(tables), key=task.key)
