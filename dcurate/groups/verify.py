"""Compare candidate pairs and group those that are similar enough, component by component."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey, FilePart
from dcurate.core.stage import BarrierStage, ProcessingStage, Stage
from dcurate.frames.columns import (
    as_text,
    numbers,
    rows_at,
    table_of,
    with_column,
    with_values,
)
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.groups.candidates import pairs_once
from dcurate.groups.clusters import Clustering, Groups, clustered
from dcurate.groups.components import Edges
from dcurate.groups.index import SeenDocuments
from dcurate.groups.keep import Keep, ranks_in, with_rank, with_ranks
from dcurate.groups.labels import LABEL, LEFT, RIGHT
from dcurate.groups.labels import NUMBER as LABELLED
from dcurate.groups.resolve import Action, ApplyClusters, Members
from dcurate.kernels.stars import Similarities
from dcurate.shuffle.keys import equal_edges, scale_keys
from dcurate.shuffle.merge import with_merged_files
from dcurate.shuffle.ranges import ShuffleIndex, ShufflePartitions, partition_of
from dcurate.shuffle.spill import DOC_ID, ID, SpilledRows, identified, ids_at, source_names, with_columns
from dcurate.shuffle.writer import ChunkWriter

Ints = npt.NDArray[np.int64]

#: Folders below that of the round, and columns there.
SETS, PAIRS = "sets/", "pairs/"
_KEY, _SOURCE = "key", "source"
#: Target bytes of sets and pairs in one partition.
_BLOCK = 2**25
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


#: The similarity of pairs of candidates, which are given by their places in the order of their numbers.
Comparison = Callable[[Ints, Ints], npt.NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class NearDuplicates(ABC):
    """The documents of a search for near-duplicates, the action, and how candidates are compared.

    Args:
        spilled: the rows of the documents.
        stage: the name of the stage that a person wrote.
        text_field: the column that a warning about a group that is too large quotes.
        index: what was seen before, with the folder of what this run adds.
        hidden: columns that were added for the search, and are left out in the end.
    """

    reason: ClassVar[str]

    spilled: SpilledRows
    text_field: str
    clustering: Clustering
    keep: Keep
    action: Action
    id_field: str | None
    report_path: str | None
    stage: str
    source_field: str | None = None
    index: SeenDocuments | None = None
    generation: Directory | None = None
    hidden: tuple[str, ...] = ()

    def remember(self) -> None:
        """Let the documents of this dataset count as seen, where that is wanted."""
        if self.index is not None and self.generation is not None:
            self.index.commit(self.generation, self.spilled.own_files)

    @property
    def columns(self) -> list[str]:
        """The columns of the rows that are read."""
        metadata_columns = [name for name in (self.id_field, self.source_field) if name is not None]
        return list(dict.fromkeys([*self.compared, *self.keep.columns(self.text_field), *metadata_columns]))

    @property
    @abstractmethod
    def compared(self) -> list[str]:
        """The columns that features are made of."""

    @property
    @abstractmethod
    def threshold(self) -> float:
        """The similarity from which candidates are duplicates."""

    @abstractmethod
    def with_features(self, made: Any, table: Any) -> Any:
        """Add to a table of candidates what they are compared by.

        Args:
            made: a row for each candidate.
            table: their rows, with the columns `compared`.
        """

    @abstractmethod
    def comparison(self, table: Any, order: Ints) -> Comparison:
        """Return the comparison of candidates.

        Args:
            table: table of candidates, with their features.
            order: their places in it, in the order of their numbers.
        """

    def grouped(self, ranks: npt.NDArray[np.float64], pairs: Edges, similarity: Similarities, _: Comparison) -> Groups:
        """Make groups of the candidates, which are known by their places in the order of their numbers.

        Args:
            ranks: rank of each candidate.
            pairs: those that are similar enough.
            similarity: similarity of each pair.
        """
        return clustered(np.arange(len(ranks)), ranks, *pairs, similarity, how=self.clustering)


@dataclass
class GatherCandidates(BarrierStage[DocumentBatch]):
    """Shuffle candidates, their features and their pairs to the partition of their component.

    Args:
        labels, pairs: by the numbers of documents, in ranges that are the splits of the rows.
    """

    rounds: ClassVar[int] = 2

    near: NearDuplicates
    labels: ShufflePartitions
    pairs: ShufflePartitions
    name: str

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            CandidateWriter(
                url,
                mode="overwrite",
                storage_options=dict(options),
                near=self.near,
                labels=self.labels,
                pairs=self.pairs,
                name=f"{self.name}_to_disk",
            )
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder, near = Directory(url, options), self.near
        sets, pairs = (ShuffleIndex.written(folder, splits, place) for place in (SETS, PAIRS))
        partitions = max(sets.partitions_for(_BLOCK), pairs.partitions_for(_BLOCK))

        def compared(few_pairs: ShuffleIndex, few_sets: ShuffleIndex) -> list[Stage]:
            tables = few_pairs.partitions(equal_edges(partitions), _KEY, f"{near.stage}_pairs_of_components")
            return [
                few_sets.reader(partitions, _KEY, f"{near.stage}_components", ordered=False),
                CompareCandidates(near, tables, name=f"{near.stage}_groups"),
                ApplyClusters(
                    spilled=near.spilled,
                    action=near.action,
                    reason=near.reason,
                    report_path=near.report_path,
                    text_field=near.text_field,
                    stage=near.stage,
                    name=f"{near.stage}_marks",
                    when_known=near.remember,
                    hidden=near.hidden,
                ),
            ]

        def with_pairs(few_pairs: ShuffleIndex) -> list[Stage]:
            then = partial(compared, few_pairs)
            return with_merged_files(sets, partitions, _KEY, f"{near.stage}_sets_merged", then)

        return with_merged_files(pairs, partitions, _KEY, f"{near.stage}_compared_pairs_merged", with_pairs)


@dataclass
class CandidateWriter(ChunkWriter):
    """Write the candidates of a split of rows, and the pairs that begin with them."""

    near: NearDuplicates | None = None
    labels: ShufflePartitions | None = None
    pairs: ShufflePartitions | None = None
    name: str = "candidate_writer"

    def settings(self) -> dict[str, Any]:
        return {}

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        assert self.near is not None
        assert self.labels is not None
        assert self.pairs is not None
        doc_ids = numbers(table, DOC_ID)
        part = self.labels.partition_with(int(scale_keys(doc_ids[:1], self.near.spilled.documents)[0]))
        labels = self.labels.read(part)
        if not labels.num_rows:
            return
        labelled, names = numbers(labels, LABELLED), numbers(labels, LABEL)
        yield self.ranges(self._candidates(table, key, labelled - doc_ids[0], names), key, _KEY, SETS)
        pairs = self.pairs.read(part)
        if pairs.num_rows:
            left, right = pairs_once(numbers(pairs, LEFT), numbers(pairs, RIGHT))
            keys = component_keys(names[np.searchsorted(labelled, left)])
            yield self.ranges(table_of({_KEY: keys, LEFT: left, RIGHT: right}), key, _KEY, PAIRS)

    def _candidates(self, table: Any, key: BatchKey, rows: Ints, names: Ints) -> Any:
        """Return a row for each candidate: component, rank, id and features."""
        near = self.near
        assert near is not None
        doc_ids = numbers(table, DOC_ID)
        made = table_of({_KEY: component_keys(names), LABELLED: doc_ids[rows], LABEL: names})
        if doc_ids[0] < near.spilled.first:
            made = with_rank(made, near.keep, -np.inf)
            known = rows_at(table, rows)
            for column in set(known.column_names) - {DOC_ID}:
                made = with_values(made, column, known, column)
            return made
        chosen = with_columns(rows_at(table, rows), near.columns)
        made = with_ranks(made, near.keep, chosen, near.text_field)
        if near.action == "identify" or near.report_path is not None or near.id_field is not None:
            if near.id_field is None:
                made = identified(made, table, None, key, rows, action=near.action)
            else:
                made = with_values(made, ID, chosen, near.id_field)
        if near.index is not None and ID in made.column_names:
            made = as_text(made, ID)
        if near.source_field is not None:
            sources = source_names(chosen, near.source_field)
            made = with_column(made, _SOURCE, np.searchsorted(list(near.spilled.sources), sources))
        return near.with_features(made, chosen)


def component_keys(labels: Ints) -> npt.NDArray[np.uint64]:
    """Keys for components that are spread over all keys, for any labels."""
    return labels.astype(np.uint64) * _GOLDEN


@dataclass
class CompareCandidates(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Compare the pairs of the components of one range, and group those that are similar enough."""

    near: NearDuplicates
    pairs: ShufflePartitions
    name: str = "compare_candidates"

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch | None:
        pairs = self.pairs.read(partition_of(task))
        if not pairs.num_rows or not task.num_items:
            return None
        table = task.to_arrow()
        order = np.argsort(numbers(table, LABELLED))
        members = numbers(table, LABELLED)[order]
        left, right = (np.searchsorted(members, numbers(pairs, side)) for side in (LEFT, RIGHT))
        compare = self.near.comparison(table, order)
        similarity = compare(left, right)
        similar = similarity >= self.near.threshold
        left, right, similarity = left[similar], right[similar], similarity[similar]
        ranks = ranks_in(table)[order]
        groups = self.near.grouped(ranks, Edges(left, right), similarity.astype(np.float32), compare)
        made = task.with_data(self._members(table, order, groups, compare))
        made.found = {"pairs compared": len(similar), "pairs of duplicates": len(left)}
        return made

    def _members(self, table: Any, order: Ints, groups: Groups, compare: Comparison) -> Any:
        members = numbers(table, LABELLED)[order]
        similarity = groups.similarity.copy()
        unknown = np.flatnonzero(np.isnan(similarity))
        similarity[unknown] = compare(groups.member[unknown], groups.kept_member[unknown])
        group_members = Members(
            numbers=members[groups.member],
            groups=members[groups.group],
            sizes=groups.size,
            kept=groups.kept,
            keepers=np.searchsorted(groups.member, groups.kept_member),
            similarity=similarity,
            sources=_sources(table, order[groups.member]),
        )
        members_found = group_members.table(ids_at(table, order[groups.member]), self.near.spilled.documents)
        return rows_at(
            members_found, np.flatnonzero(group_members.kept | (group_members.numbers >= self.near.spilled.first))
        )


def _sources(table: Any, rows: Ints) -> Ints | None:
    """Return the source numbers of candidates; -1 for documents of earlier runs."""
    if _SOURCE not in table.column_names:
        return None
    sources = numbers(table, _SOURCE)[rows]
    return np.where(np.isnan(sources), -1, sources).astype(np.int64)
