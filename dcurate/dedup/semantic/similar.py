"""Compare the rows of each cluster, and drop or flag those with the same meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey, FilePart
from dcurate.core.stage import BarrierStage, ProcessingStage, Spec, Stage
from dcurate.dedup.semantic.clusters import CENTROID, COSINE, STRAIGHT, ComparisonTask, RowsOnDisk
from dcurate.dedup.semantic.search import ALL_ROWS, SemanticSearch
from dcurate.frames.columns import numbers, only, rows_at, with_column, with_taken
from dcurate.frames.document import DocumentBatch
from dcurate.frames.vectors import Matrix, array_library, on_host, one_blas_thread
from dcurate.fs.stores import Directory
from dcurate.groups.resolve import GroupMemberWriter, members_of, naming_twins
from dcurate.shuffle.keys import scale_keys
from dcurate.shuffle.ranges import ShuffleIndex, ShufflePartitions, partition_of
from dcurate.shuffle.spill import DOC_ID, ID
from dcurate.shuffle.writer import ShuffleWriter

Ints = npt.NDArray[np.int64]

REASON = "semantic_duplicate"

#: Columns of what was found, under the names that NeMo Curator gives them.
SCORE, MAX_ID, DUPLICATE = "cosine_sim_score", "max_id", "is_duplicate"
#: Columns of rows that ``action="identify"`` gives, of reports, and those that ``action="flag"`` adds.
IDENTIFIED = [ID, MAX_ID, SCORE, CENTROID]
REPORTED = [ID, CENTROID, STRAIGHT, COSINE, SCORE, MAX_ID, DUPLICATE]
FLAGS = [DUPLICATE, SCORE, CENTROID]
_KEY = "_dcurate_key"
_BLOCK = 2**26


@dataclass
class CompareClusters(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Adds the highest similarity of each row with any that comes before it in its cluster.

    Args:
        search: search that the stage is a part of.
        folder: folder of the files of vectors.
        names: names of the files.
        tasks: rows that each batch is about.
    """

    search: SemanticSearch
    folder: Directory
    names: tuple[str, ...] = field(repr=False)
    tasks: tuple[ComparisonTask, ...] = field(repr=False)
    name: str = "compare_clusters"
    spec = ALL_ROWS

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        search, table, asked = self.search, task.to_arrow(), self.tasks[partition_of(task)]
        rows = RowsOnDisk.of(self.folder, self.names, table, search.vectors.dimensions)
        with one_blas_thread():
            scores, places = self._compared(rows, numbers(table, CENTROID), asked)
        if ID in table.column_names:
            everything = np.arange(table.num_rows)
            everything[asked.start : asked.stop] = places
            table = with_taken(table, MAX_ID, ID, everything)
        table = rows_at(table, np.arange(asked.start, asked.stop))
        again = np.zeros(len(scores), np.bool_)
        if search.eps is not None:
            again = (scores.astype(np.float64) >= 1 - search.eps) & (places != np.arange(asked.start, asked.stop))
        table = with_column(with_column(table, SCORE, scores), DUPLICATE, again)
        keys = scale_keys(numbers(table, DOC_ID), search.spilled.documents)
        return task.with_data(with_column(table, _KEY, keys))

    def _compared(
        self, rows: RowsOnDisk, clusters: npt.NDArray[np.int32], asked: ComparisonTask
    ) -> tuple[Matrix, Ints]:
        search, library = self.search, array_library(self.resources.requires_gpu)
        held = rows.read(asked.start, asked.stop)
        portion = max(search.block, search.rows // search.block * search.block)
        scores, places = np.empty(len(held), np.float32), np.empty(len(held), np.int64)
        edges = [*np.flatnonzero(np.diff(clusters, prepend=-1)).tolist(), len(clusters)]
        for first, last in pairwise(edges):
            start, stop = max(first, asked.start), min(last, asked.stop)

            def read(begin: int, end: int, first: int = first) -> Matrix:
                if first + begin >= asked.start:
                    return held[first + begin - asked.start : first + end - asked.start]
                return rows.read(first + begin, first + end)

            if start < stop:
                section = slice(start - asked.start, stop - asked.start)
                best = most_similar(read, (start - first, stop - first), search.block, portion, library)
                scores[section], places[section] = best[0], best[1] + first
        return scores, places


@dataclass
class SimilarRound(BarrierStage[DocumentBatch]):
    """Shuffle the results back to the splits of their documents."""

    search: SemanticSearch
    name: str

    def settings(self) -> dict[str, Any]:
        return {}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            SimilarWriter(
                url,
                mode="overwrite",
                storage_options=dict(options),
                by=_KEY,
                report_path=self.search.report_path,
                every_row=self.search.action == "flag",
                name=f"{self.name}_to_disk",
            )
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        search, files = self.search, ShuffleIndex.written(Directory(url, options), splits)
        if search.action == "identify":
            return [files.reader(files.partitions_for(_BLOCK), _KEY, f"{search.name}_rows"), Identify(name=search.name)]
        return mark(search, files.partitions(search.spilled.edges(), _KEY, f"{self.name}_marks"))


def mark(search: SemanticSearch, marks: ShufflePartitions | None) -> list[Stage]:
    """The stages that read rows back, and mark them; without marks none is a duplicate."""
    reader, documents = search.spilled.reader(f"{search.name}_from_disk"), search.spilled.documents
    if search.action == "identify":
        return [reader, Identify(name=search.name)]
    kind = DropSimilar if search.action == "drop" else FlagSimilar
    return [reader, kind(marks, documents, name=search.name)]


@dataclass
class SimilarWriter(GroupMemberWriter):
    """Write the results for the shuffle, and as a report if one is wanted.

    Args:
        every_row: write also what was found of rows that are no duplicates.
    """

    every_row: bool = False
    name: str = "similar_writer"

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        columns = (_KEY, DOC_ID, ID, MAX_ID, SCORE, CENTROID, DUPLICATE)
        wanted = only(table, [name for name in columns if name in table.column_names])
        if not self.every_row:
            wanted = rows_at(wanted, np.flatnonzero(numbers(wanted, DUPLICATE)))
        if wanted.num_rows:
            yield from ShuffleWriter._write(self, wanted, key, folder)
        if self.report_path is not None:
            self._report(self.report_path).process(DocumentBatch(data=only(table, REPORTED), key=key))


@dataclass
class Identify(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Makes rows for a person of the duplicates."""

    name: str = "identify"

    def process(self, task: DocumentBatch) -> DocumentBatch | None:
        table = task.to_arrow()
        return task.with_data(only(table, IDENTIFIED)) if DUPLICATE in table.column_names else None


@dataclass
class MarkSimilar(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Join the results with the rows of a split."""

    marks: ShufflePartitions | None
    documents: int
    name: str = "mark_similar"

    def settings(self) -> dict[str, Any]:
        return {}

    def found(self, table: Any) -> tuple[Ints, Any]:
        """Return the positions of rows, and a table of their results."""
        if self.marks is None:
            return np.zeros(0, np.int64), table
        return members_of(table, self.marks, self.documents)


@dataclass
class DropSimilar(MarkSimilar):
    """Drops the duplicates."""

    name: str = "drop_similar"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        kept = np.ones(table.num_rows, np.bool_)
        places, members = self.found(table)
        kept[places] = False
        batch = task.with_data(table.drop_columns([DOC_ID])).keep(kept, self.name, REASON)
        return naming_twins(batch, places, members, MAX_ID)


@dataclass
class FlagSimilar(MarkSimilar):
    """Says of each row whether it is a duplicate, how similar it is to one before it, and in which cluster."""

    name: str = "flag_similar"

    def outputs(self) -> Spec:
        return [], FLAGS

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        places, results = self.found(table)
        unknown = np.ones(table.num_rows, np.bool_)
        unknown[places] = False
        table = table.drop_columns([DOC_ID])
        again, scores, clusters = (np.zeros(len(unknown), kind) for kind in (np.bool_, np.float32, np.int32))
        if len(places):
            again[places], scores[places] = numbers(results, DUPLICATE), numbers(results, SCORE)
            clusters[places] = numbers(results, CENTROID)
        table = with_column(table, DUPLICATE, again)
        for name, column in ((SCORE, scores), (CENTROID, clusters)):
            table = with_column(table, name, np.ma.array(column, mask=unknown))
        return task.with_data(table)


def most_similar(
    read: Callable[[int, int], Matrix], rows: tuple[int, int], block: int, portion: int, library: Any = np
) -> tuple[Matrix, Ints]:
    """The highest cosine similarity of each row with any row before it, and the first row that has it.

    A row that is similar to none before it (a cosine above zero) has the similarity 0 and its own number. With CuPy the
    GPU holds the rows to compare, a portion of earlier ones, and the products of two blocks; rows go there once, and
    what is found comes back at the end.

    Args:
        read: gives rows, of length one, from a number up to another.
        rows: from which to which row to compare with all before them; the first is a multiple of ``block``.
        block: rows that are compared with as many others at a time.
        portion: earlier rows that are read at a time, a multiple of ``block``.
        library: NumPy or CuPy.

    Examples:
        >>> held = np.array([[1, 0], [0, 1], [1, 0], [0.6, 0.8]], np.float32)
        >>> scores, places = most_similar(lambda start, stop: held[start:stop], (0, 4), 2, 2)
        >>> scores.round(3).tolist(), places.tolist()
        ([0.0, 0.0, 1.0, 0.800000011920929], [0, 1, 0, 1])
    """
    start, stop = rows
    queries = library.asarray(read(start, stop))
    scores, places = library.asarray(np.zeros(len(queries), np.float32)), library.asarray(np.arange(start, stop))
    for first in [*range(0, start, portion), start]:
        candidates = queries if first == start else library.asarray(read(first, min(first + portion, start)))
        for at in range(0, stop - start, block):
            these, best = queries[at : at + block], (scores[at : at + block], places[at : at + block])
            for before in range(0, min(len(candidates), start + at + 1 - first), block):
                products = these @ candidates[before : before + block].T
                if first + before == start + at:  # a block with itself: only what comes before a row counts
                    products *= library.tri(len(these), k=-1, dtype=np.float32)
                _take(products, first + before, best, library)
    return on_host(scores), on_host(places)


def _take(products: Any, first: int, best: tuple[Any, Any], library: Any) -> None:
    """Update the highest product of each row."""
    scores, places = best
    winners = products.argmax(axis=1)
    highest = library.take_along_axis(products, winners[:, None], axis=1)[:, 0]
    better = highest > scores
    scores[:] = library.where(better, highest, scores)
    places[:] = library.where(better, winners + first, places)
