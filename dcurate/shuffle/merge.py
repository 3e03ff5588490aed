"""Many files of ranges made few, where to read each range of each file would be too many reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import BarrierStage, SourceStage, Stage
from dcurate.frames.columns import with_column
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.shuffle.chunks import read_chunks, stacked
from dcurate.shuffle.ranges import FILE, RangeFiles, part_of
from dcurate.shuffle.writer import RangeWriter

#: More reads than these take longer, on a store that answers some thousands a second, than to write all rows once more.
MOST_READS = 2**20
#: About so many bytes of rows become one file.
MERGED_BYTES = 2**29

Then = Callable[[RangeFiles], list[Stage]]


def with_few_reads(files: RangeFiles, parts: int, by: str, name: str, then: Then) -> list[Stage]:
    """The stages that go on with files of ranges, after a round that merges them if they are many.

    Args:
        files: written by `write_ranges`.
        parts: how many ranges are to be read.
        by: the column of keys.
        name: of the round, if there is one.
        then: gives the stages that read the files: these, or those that they were merged to. Rows are in the same
            order in both, and say of which of these files they are.
    """
    groups = files.groups(MERGED_BYTES)
    if len(files.names) * parts <= MOST_READS or len(groups) == len(files.names):
        return then(files)
    reader = GroupReader(files.folder.url, dict(files.folder.options), tuple(groups), name=f"{name}_groups")
    return [reader, MergeRanges(by, then, name=name)]


@dataclass
class MergeRanges(BarrierStage[DocumentBatch]):
    """A round after which rows are in fewer files."""

    by: str
    then: Then
    name: str

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            RangeWriter(url, mode="overwrite", storage_options=dict(options), by=self.by, name=f"{self.name}_to_disk")
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        return self.then(RangeFiles.written(Directory(url, options), splits))


@dataclass
class GroupReader(SourceStage[FileGroup, DocumentBatch]):
    """Reads several files of ranges as one batch, with the number of the file of each row.

    Args:
        groups: of each group the number of its first file, and names and bytes of the rows of its files.
    """

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
        first = self.groups[part_of(task)][0]
        tables = []
        for number, part in enumerate(task.parts, first):
            table = stacked(read_chunks(part.path, self.options, part.start, part.stop or 0))
            tables.append(with_column(table, FILE, np.full(table.num_rows, number, np.int32)))
        return DocumentBatch(data=stacked(tables), key=task.key)
