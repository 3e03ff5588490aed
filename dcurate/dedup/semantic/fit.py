"""Finds the centroids of clusters: in one task where the sample fits into memory, else in a round for each step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from dcurate.core.stage import BarrierStage, ProcessingStage, Stage
from dcurate.dedup.semantic.assign import assign
from dcurate.dedup.semantic.kmeans import Sums, held, moved, seeds, sums_of
from dcurate.dedup.semantic.search import ALL_ROWS, Centroids, KMeans, SemanticSearch
from dcurate.dedup.semantic.spill import VECTOR, SampleReader
from dcurate.frames.columns import numbers, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.vectors import Matrix, array_library, one_blas_thread, table_of_vectors, vectors_in
from dcurate.fs.stores import Directory
from dcurate.shuffle.spill import SpilledRows, SpillWriter

_TOTALS, _COUNTS, _SQUARES = "totals", "counts", "squares"
#: Rows for each seed among which it is drawn.
_CHOICE = 16
_LEAST_CHOICE = 2**12

#: Gives the stages after the centroids are found.
Then: TypeAlias = Callable[[SemanticSearch, Centroids], list[Stage]]


def fit(search: SemanticSearch, then: Then = assign) -> list[Stage]:
    """Return the stages that find centroids, and the rounds of the rest of the search.

    Args:
        then: called on the driver with the centroids; returns the stages that follow.
    """
    kmeans, vectors = search.kmeans, search.vectors
    sample = SampleReader(vectors, kmeans.sample, kmeans.seed, kmeans.sample, name=f"{search.name}_sample")
    every = -(-kmeans.sample // max(_LEAST_CHOICE, _CHOICE * kmeans.clusters))
    if kmeans.sample <= search.rows:
        find = FindCentroids(kmeans, every, name=f"{search.name}_find").with_(resources=search.resources)
        return [sample, find, FitRound(search, then=then, name=f"{search.name}_fit")]
    some = replace(sample, every=every, name=f"{search.name}_choice")
    draw = FindCentroids(replace(kmeans, rounds=0), name=f"{search.name}_draw").with_(resources=search.resources)
    return [some, draw, SeedRound(search, then=then, name=f"{search.name}_seeds")]


@dataclass
class FindCentroids(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Choose seeds among the rows of a sample and move them as often as `kmeans` says."""

    kmeans: KMeans
    every: int = 1
    name: str = "find_centroids"
    spec = ALL_ROWS

    def process(self, task: DocumentBatch) -> DocumentBatch:
        kmeans, library = self.kmeans, array_library(self.resources.requires_gpu)
        vectors = vectors_in(task.to_arrow(), VECTOR)
        with one_blas_thread():
            choice = np.ascontiguousarray(vectors[:: self.every])
            centroids = kmeans.first
            if centroids is None:
                centroids = seeds(choice, kmeans.clusters, kmeans.seed, kmeans.spread_out, library)
            rows = held(vectors, library) if kmeans.rounds else vectors
            for _ in range(kmeans.rounds):
                centroids, still = moved(centroids, sums_of(rows, centroids, kmeans.block, library), kmeans.tolerance)
                if still:
                    break
        return task.with_data(table_of_vectors(VECTOR, centroids))


@dataclass
class AddUp(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add up the rows of a block of the sample by centroid."""

    centroids: Centroids
    name: str = "add_up"
    spec = ALL_ROWS

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        library = array_library(self.resources.requires_gpu)
        centroids, vectors = self.centroids.read(), vectors_in(task.to_arrow(), VECTOR)
        with one_blas_thread():
            sums = sums_of(vectors, centroids, len(vectors), library)
        table = with_column(table_of_vectors(_TOTALS, sums.totals), _COUNTS, sums.counts)
        return task.with_data(with_column(table, _SQUARES, sums.squares))


@dataclass
class VectorRound(BarrierStage[DocumentBatch]):
    """A round that writes batches, to be read in order by the next."""

    search: SemanticSearch
    then: Then = field(default=assign, kw_only=True)
    name: str = field(default="vector_round", kw_only=True)

    def settings(self) -> dict[str, Any]:
        return {}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [SpillWriter(url, mode="overwrite", storage_options=dict(options), name=f"{self.name}_to_disk")]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        return self.go_on(folder, SpilledRows.written(folder, splits))

    @abstractmethod
    def go_on(self, folder: Directory, written: SpilledRows) -> list[Stage]:
        """Return the stages after the written batches."""


@dataclass
class FitRound(VectorRound):
    """Takes the centroids that were found in one task."""

    def go_on(self, folder: Directory, written: SpilledRows) -> list[Stage]:
        return self.then(self.search, Centroids.saved(folder, _only_matrix(written)))


@dataclass
class SeedRound(VectorRound):
    """Takes the seeds; the sample is then written in blocks."""

    def go_on(self, folder: Directory, written: SpilledRows) -> list[Stage]:
        centroids = Centroids.saved(folder, _only_matrix(written))
        kmeans, name = self.search.kmeans, f"{self.search.name}_sample"
        sample = SampleReader(self.search.vectors, kmeans.sample, kmeans.seed, kmeans.block, name=f"{name}_reader")
        return [sample, SampleRound(self.search, centroids, then=self.then, name=name)]


@dataclass
class SampleRound(VectorRound):
    """Takes the sample."""

    centroids: Centroids

    def go_on(self, folder: Directory, written: SpilledRows) -> list[Stage]:
        return _step(self, written, self.centroids, 1)


@dataclass
class StepRound(VectorRound):
    """Moves the centroids to the middle of their rows, and again until they do not move any more."""

    sample: SpilledRows
    centroids: Centroids
    number: int

    def go_on(self, folder: Directory, written: SpilledRows) -> list[Stage]:
        kmeans = self.search.kmeans
        middles, still = moved(self.centroids.read(), _total(written), kmeans.tolerance)
        centroids = Centroids.saved(folder, middles)
        if still or self.number == kmeans.rounds:
            return self.then(self.search, centroids)
        return _step(self, self.sample, centroids, self.number + 1)


def _step(before: VectorRound, sample: SpilledRows, centroids: Centroids, number: int) -> list[Stage]:
    search = before.search
    name = f"{search.name}_fit_{number:03}"
    add = AddUp(centroids, name=f"{name}_add").with_(resources=search.resources)
    reader = sample.reader(f"{name}_sample", numbered=False)
    return [reader, add, StepRound(search, sample, centroids, number, then=before.then, name=name)]


def _tables(written: SpilledRows) -> Iterator[Any]:
    reader = written.reader("written", numbered=False)
    for group in reader.splits():
        yield reader.process(group).to_arrow()


def _only_matrix(written: SpilledRows) -> Matrix:
    (table,) = _tables(written)
    return vectors_in(table, VECTOR)


def _total(written: SpilledRows) -> Sums:
    """The sums of all blocks, added up in their order."""
    total: Sums | None = None
    for table in _tables(written):
        block = Sums(vectors_in(table, _TOTALS), numbers(table, _COUNTS), numbers(table, _SQUARES))
        total = block if total is None else total.with_block(block)
    assert total is not None, "a sample has rows"
    return total
