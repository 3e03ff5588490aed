"""Label the connected components of the candidate pairs of a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

import numpy as np

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import SourceStage
from dcurate.frames.columns import numbers, table_of, values
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.fs.temporary import scratch_folder
from dcurate.groups.components import DiskForest, Edges, merge_forests
from dcurate.shuffle.chunks import read_chunks, read_index, read_indexes
from dcurate.shuffle.keys import scale_keys
from dcurate.shuffle.ranges import partition_of
from dcurate.shuffle.writer import ChunkWriter

#: Folder of forests, below that of a round.
FOREST = "forest/"
LEFT, RIGHT = "left", "right"
#: Columns of labels: that of a document is the number of the first one that it is connected to.
KEY, NUMBER, LABEL = "key", "number", "label"

#: Forests that one task merges.
FAN_IN = 8
#: Up to this many edges, forests are few enough for the last step, which takes 0.2 s a million of them at most, in
#: bounded memory. To merge them before pays only beyond: those of ranges of bands hold the same documents many times.
FEW_EDGES = 2**32

_CHUNK_ROWS = 2**20


def edge_tables(edges: Edges) -> Iterator[Any]:
    """A forest in tables of a size that can be read one by one."""
    table = table_of({LEFT: edges.left, RIGHT: edges.right})
    return (table.slice(start, _CHUNK_ROWS) for start in range(0, table.num_rows, _CHUNK_ROWS))


@dataclass(frozen=True)
class Forests:
    """Files of edges that connect documents.

    Args:
        folder: in which they lie.
        names: theirs.
    """

    folder: Directory
    names: tuple[str, ...]

    def few(self) -> bool:
        """Whether a single task can take them all."""
        if len(self.names) <= FAN_IN:
            return True
        return sum(int(index.rows[-1]) for index in read_indexes(self.folder, self.names)) <= FEW_EDGES

    def merged(self, name: str) -> ForestReader:
        """A source that merges some of them at a time."""
        groups = [self.names[start : start + FAN_IN] for start in range(0, len(self.names), FAN_IN)]
        return ForestReader(self.folder.url, dict(self.folder.options), tuple(groups), name=name)

    def listed(self, name: str) -> ForestList:
        """A source of one batch with their names."""
        return ForestList(self.folder.url, dict(self.folder.options), (self.names,), name=name)


@dataclass
class ForestReader(SourceStage[FileGroup, DocumentBatch]):
    """Read forests and merge those of one group."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    groups: tuple[tuple[str, ...], ...] = ()
    name: str = "forest_reader"

    def splits(self) -> Iterator[FileGroup]:
        folder = Directory(self.url, self.options)
        entries = folder.files(FOREST)
        for place, names in enumerate(self.groups):
            parts = tuple(
                FilePart(folder.path(name), 0, None, entries[name].size, str(entries[name].size)) for name in names
            )
            yield FileGroup(key=BatchKey(f"{self.name}-{place:05}"), parts=parts)

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: FileGroup) -> DocumentBatch:
        forest = Edges(np.zeros(0, np.int64), np.zeros(0, np.int64))
        folder = Directory(self.url, self.options)
        waiting: list[Edges] = []
        for edges in chain.from_iterable(edges_in(folder, name) for name in self.groups[partition_of(task)]):
            waiting.append(edges)
            if sum(len(pending.left) for pending in waiting) >= len(forest.left):
                forest, waiting = merge_forests([forest, *waiting]), []
        forest = merge_forests([forest, *waiting])
        return DocumentBatch(data=table_of({LEFT: forest.left, RIGHT: forest.right}), key=task.key)


def edges_in(folder: Directory, name: str) -> Iterator[Edges]:
    """The edges of a file, chunk by chunk.

    Raises:
        DataError: it cannot be read.
    """
    for start, stop in pairwise(read_index(folder, name).bounds.tolist()):
        for table in read_chunks(folder.path(name), dict(folder.options), start, stop):
            yield Edges(numbers(table, LEFT), numbers(table, RIGHT))


@dataclass
class ForestWriter(ChunkWriter):
    """Writes a forest."""

    name: str = "forest_writer"

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        yield self.chunks(edge_tables(Edges(numbers(table, LEFT), numbers(table, RIGHT))), key, FOREST)


@dataclass
class ForestList(ForestReader):
    """Lists the forests of a group, and leaves them where they are."""

    name: str = "forest_list"

    def process(self, task: FileGroup) -> DocumentBatch:
        return DocumentBatch(data=table_of({"name": list(self.groups[partition_of(task)])}), key=task.key)


@dataclass
class LabelWriter(ChunkWriter):
    """Connects all edges of the forests that a batch lists, and writes the labels of documents.

    It holds four bytes a document in a file on the local disk.
    """

    forests: str = ""
    documents: int = 0
    name: str = "label_writer"

    def settings(self) -> dict[str, Any]:
        return {}

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        source = Directory(self.forests, dict(self.storage_options or {}))
        with scratch_folder() as local, DiskForest(local, self.documents) as forest:
            for name in values(table, "name"):
                for edges in edges_in(source, name):
                    forest.add(edges.left, edges.right)
            for place, block in enumerate(forest.components()):
                if len(block.members):
                    columns = {
                        KEY: scale_keys(block.members, self.documents),
                        NUMBER: block.members,
                        LABEL: block.labels,
                    }
                    yield self.ranges(table_of(columns), key.child(place), KEY)
