"""Spill rows by cluster: entries in the order of clusters, and their vectors beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import SourceStage
from dcurate.dedup.semantic.spill import VECTOR, matrix_file, rank_column
from dcurate.frames.columns import numbers, rows_at, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.vectors import Matrix, vectors_in
from dcurate.fs.stores import Directory
from dcurate.shuffle.keys import KEY_SPACE, scale_keys
from dcurate.shuffle.ranges import FILE, ShufflePartitions, partition_of
from dcurate.shuffle.spill import DOC_ID
from dcurate.shuffle.vectors import read_vectors
from dcurate.shuffle.writer import ChunkWriter

Ints = npt.NDArray[np.int64]

#: Columns that reports have, under the names that NeMo Curator gives them.
CENTROID, STRAIGHT, COSINE = "centroid", "l2_dist_to_cent", "cosine_dist_to_cent"
#: Folder of the entries about rows, below that of a round.
MEMBERS = "members/"
#: Column of keys of clusters, and of the place of a row in the file of vectors.
KEY, PLACE = "_cluster_key", "_place"
_READERS = 16


def ranks_in(table: Any) -> list[npt.NDArray[np.float64]]:
    """The ranks of the rows of a table, an array for each rule."""
    number, ranks = 0, []
    while rank_column(number) in table.column_names:
        ranks.append(numbers(table, rank_column(number)))
        number += 1
    return ranks


def in_order(table: Any) -> Ints:
    """The rows of a table cluster by cluster, in the order of ranks, then of documents."""
    return np.lexsort((numbers(table, DOC_ID), *reversed(ranks_in(table)), numbers(table, CENTROID)))


@dataclass
class ClusterWriter(ChunkWriter):
    """Writes the rows of each batch in the order of clusters.

    Args:
        clusters: how many there are.
    """

    clusters: int = 1
    name: str = "cluster_writer"

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        order = in_order(table)
        vectors, members = vectors_in(table, VECTOR)[order], rows_at(table.drop_columns([VECTOR]), order)
        centroids = numbers(members, CENTROID)
        members = with_column(members, KEY, scale_keys(centroids, self.clusters))
        members = with_column(members, PLACE, np.arange(len(centroids)))
        yield self.ranges(members, key, KEY, MEMBERS, counts=np.bincount(centroids, minlength=self.clusters))
        yield matrix_file(self, vectors, key)


@dataclass(frozen=True)
class ComparisonTask:
    """Rows to compare with all that come before them in their cluster.

    Args:
        part: the number of the range of clusters that holds them.
        start, stop: the rows, counted in the order of that range.
    """

    part: int
    start: int
    stop: int


def packed(counts: Ints, most: int, block: int) -> tuple[list[int], list[ComparisonTask]]:
    """Return ranges of clusters with at most `most` rows each, and the tasks; larger clusters get several tasks.

    Args:
        counts: the rows of each cluster.
        most: rows that are held at a time.
        block: tasks of one cluster begin at a multiple of this number of rows.

    Returns:
        the first cluster of each range and the end of the last, and the tasks.

    Examples:
        >>> packed(np.array([2, 1, 9, 0, 2]), 4, 2)[0]
        [0, 2, 3, 5]
        >>> [(task.part, task.start, task.stop) for task in packed(np.array([2, 1, 9, 0, 2]), 4, 2)[1]]
        [(0, 0, 3), (1, 0, 4), (1, 4, 8), (1, 8, 9), (2, 0, 2)]
    """
    bounds, held = [0], 0
    for cluster, count in enumerate(counts.tolist()):
        if held and held + count > most:
            bounds.append(cluster)
            held = 0
        held += count
    bounds.append(len(counts))
    step = max(block, most // block * block)
    tasks = []
    for part, (first, last) in enumerate(pairwise(bounds)):
        rows = int(counts[first:last].sum())
        cut = step if rows > most else max(1, rows)
        tasks += [ComparisonTask(part, start, min(start + cut, rows)) for start in range(0, rows, cut)]
    return bounds, tasks


def cluster_edges(bounds: Sequence[int], clusters: int) -> list[int]:
    """The keys at which ranges of clusters begin, and the end of the last."""
    return [*scale_keys(np.array(bounds[:-1]), clusters).tolist(), KEY_SPACE]


@dataclass
class ClusterReader(SourceStage[FileGroup, DocumentBatch]):
    """Reads the entries of clusters, one batch for each task; rows come in order, without vectors."""

    partitions: ShufflePartitions
    tasks: tuple[ComparisonTask, ...] = field(repr=False)
    name: str = "cluster_reader"

    def splits(self) -> Iterator[FileGroup]:
        for number, task in enumerate(self.tasks):
            size = self.partitions.partition_bytes[task.part]
            part = FilePart(self.partitions.path, task.start, task.stop, size, self.partitions.version, size)
            yield FileGroup(key=BatchKey(f"{self.name}-{number:05}"), parts=(part,))

    def settings(self) -> dict[str, Any]:
        return {"tasks": len(self.tasks)}

    def process(self, task: FileGroup) -> DocumentBatch:
        table = self.partitions.read(self.tasks[partition_of(task)].part)
        return DocumentBatch(data=rows_at(table, in_order(table)), key=task.key)


@dataclass(frozen=True)
class RowsOnDisk:
    """Vectors in files, read when they are wanted.

    Args:
        folder: folder of the files.
        names: names of the files.
        files: the number of the file of each row.
        places: place of each row in its file.
        dimensions: length of each vector.
    """

    folder: Directory
    names: Sequence[str]
    files: npt.NDArray[np.int32]
    places: Ints
    dimensions: int

    @classmethod
    def of(cls, folder: Directory, names: Sequence[str], members: Any, dimensions: int) -> RowsOnDisk:
        """Those of the rows that a `ClusterReader` reads."""
        return cls(folder, names, numbers(members, FILE), numbers(members, PLACE), dimensions)

    def read(self, start: int, stop: int) -> Matrix:
        """The vectors of the rows from ``start`` up to ``stop``.

        Raises:
            DataError: a file cannot be read.
        """
        matrix = np.empty((stop - start, self.dimensions), np.float32)
        order = np.argsort(self.files[start:stop], kind="stable")
        edges = np.flatnonzero(np.diff(self.files[start:stop][order])) + 1
        with ThreadPoolExecutor(1 if self.folder.local else _READERS) as pool:
            for rows, vectors in pool.map(self._of_file, np.split(order + start, edges) if len(order) else ()):
                matrix[rows - start] = vectors
        return matrix

    def _of_file(self, rows: Ints) -> tuple[Ints, Matrix]:
        """Rows of one file with their vectors; in the order of ranks, as rows of a cluster are in the file."""
        places, name = self.places[rows], self.names[self.files[rows[0]]]
        first, last = int(places.min()), int(places.max())
        path = self.folder.path(name)
        return rows, read_vectors(path, dict(self.folder.options), self.dimensions, first, last + 1)[places - first]
