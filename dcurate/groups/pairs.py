"""Candidate pairs out of bands, and the rounds from there to the components that they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dcurate.core.batch import BatchKey, FilePart
from dcurate.core.stage import BarrierStage, ProcessingStage, Stage
from dcurate.frames.columns import numbers, table_of
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.groups.candidates import candidate_pairs
from dcurate.groups.components import forest
from dcurate.groups.labels import FOREST, LEFT, RIGHT, Forests, ForestWriter, LabelWriter, edge_tables
from dcurate.groups.labels import KEY as LABEL_KEY
from dcurate.groups.verify import GatherCandidates, NearDuplicates
from dcurate.shuffle.keys import scale_keys
from dcurate.shuffle.merge import with_merged_files
from dcurate.shuffle.ranges import FILE, ShuffleIndex, ShufflePartitions, file_names
from dcurate.shuffle.spill import read_row_offsets
from dcurate.shuffle.writer import ChunkWriter

#: Columns of bands: a hash of the band, the row of the document in its file, and a hash of its text.
KEY, ROW, CONTENT = "key", "row", "content"

_PAIRS = "pairs/"


@dataclass
class FindPairs(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Pairs the documents that share a band, of the bands of one range.

    Args:
        first: documents of smaller numbers were seen before, and are not paired with each other.
    """

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    first: int = 0
    name: str = "find_pairs"

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        row_offsets = read_row_offsets(self.url, self.options)
        documents = row_offsets[numbers(table, FILE)] + numbers(table, ROW)
        pairs = candidate_pairs(numbers(table, KEY), documents, numbers(table, CONTENT))
        new = pairs.right >= self.first
        left, right = pairs.left[new], pairs.right[new]
        result = task.with_data(table_of({KEY: scale_keys(left, int(row_offsets[-1])), LEFT: left, RIGHT: right}))
        result.found = {"large buckets": pairs.short} if pairs.short else {}
        return result


@dataclass
class PairUp(BarrierStage[DocumentBatch]):
    """Writes pairs where the splits of their first documents find them, and a forest of them for their components."""

    rounds: ClassVar[int] = 4

    near: NearDuplicates
    name: str

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [PairWriter(url, mode="overwrite", storage_options=dict(options), name=f"{self.name}_to_disk")]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder, near = Directory(url, options), self.near
        forests, edges = Forests(folder, tuple(file_names(folder, splits, FOREST))), near.spilled.edges()

        def connected(files: ShuffleIndex) -> list[Stage]:
            return connecting(forests, near, files.partitions(edges, KEY, f"{near.stage}_pairs_of_splits"), 1)

        pairs = ShuffleIndex.written(folder, splits, _PAIRS)
        return with_merged_files(pairs, len(edges), KEY, f"{near.stage}_pairs_merged", connected)


@dataclass
class PairWriter(ChunkWriter):
    """Writes pairs and their forest."""

    name: str = "pair_writer"

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        yield self.ranges(table, key, KEY, _PAIRS)
        yield self.chunks(edge_tables(forest(numbers(table, LEFT), numbers(table, RIGHT))), key, FOREST)


def connecting(forests: Forests, near: NearDuplicates, pairs: ShufflePartitions, level: int) -> list[Stage]:
    """The rounds that connect forests: a tree of merges while they are many, then the labels of documents."""
    if forests.few():
        source = forests.listed(f"{near.stage}_forests_{level}")
        return [source, LabelDocuments(near, pairs, forests.folder.url, name=f"{near.stage}_labels")]
    source_of_some = forests.merged(f"{near.stage}_forests_{level}")
    return [source_of_some, MergeForests(near, pairs, level, name=f"{near.stage}_merged_{level}")]


@dataclass
class MergeForests(BarrierStage[DocumentBatch]):
    """One level of the tree of merges."""

    rounds: ClassVar[int] = 4

    near: NearDuplicates
    pairs: ShufflePartitions
    level: int
    name: str

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [ForestWriter(url, mode="overwrite", storage_options=dict(options), name=f"{self.name}_to_disk")]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        return connecting(Forests(folder, tuple(file_names(folder, splits))), self.near, self.pairs, self.level + 1)


@dataclass
class LabelDocuments(BarrierStage[DocumentBatch]):
    """Gives each document of a pair the number of the first document that it is connected to."""

    rounds: ClassVar[int] = 3

    near: NearDuplicates
    pairs: ShufflePartitions
    forests: str
    name: str

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            LabelWriter(
                url,
                mode="overwrite",
                storage_options=dict(options),
                forests=self.forests,
                documents=self.near.spilled.documents,
                name=f"{self.name}_to_disk",
            )
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        near = self.near
        labels = ShuffleIndex.written(Directory(url, options), splits).partitions(
            near.spilled.edges(), LABEL_KEY, f"{near.stage}_labels_of_splits"
        )
        return [
            near.spilled.reader(f"{near.stage}_candidates_from_disk", near.columns, with_seen=True),
            GatherCandidates(near, labels, self.pairs, name=f"{near.stage}_gathered"),
        ]
