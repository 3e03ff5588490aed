"""Brings every row to the cluster of the nearest centroid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dcurate.core.stage import BarrierStage, ProcessingStage, Spec, Stage
from dcurate.dedup.semantic.clusters import (
    CENTROID,
    COSINE,
    KEY,
    MEMBERS,
    STRAIGHT,
    ClusterReader,
    ClusterWriter,
    cluster_edges,
    packed,
)
from dcurate.dedup.semantic.kmeans import distances, nearest
from dcurate.dedup.semantic.ranking import Ranking
from dcurate.dedup.semantic.search import ALL_ROWS, Centroids, SemanticSearch
from dcurate.dedup.semantic.similar import CompareClusters, SimilarRound
from dcurate.dedup.semantic.spill import VECTOR, VECTORS, VectorReader, rank_column
from dcurate.frames.columns import numbers, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.vectors import array_library, one_blas_thread, vectors_in
from dcurate.fs.stores import Directory
from dcurate.shuffle.chunks import SUFFIX as CHUNKS
from dcurate.shuffle.ranges import ShuffleIndex, file_names
from dcurate.shuffle.spill import DOC_ID
from dcurate.shuffle.vectors import SUFFIX

#: Blocks of rows are a multiple of this, so that products are of the same blocks however files are cut.
_ROWS = 4096


def assign(search: SemanticSearch, centroids: Centroids) -> list[Stage]:
    """Return the stages that assign rows to clusters, and the rounds of the rest of the search."""
    rows = max(_ROWS, search.rows // _ROWS * _ROWS)
    reader = VectorReader(search.vectors, rows, name=f"{search.name}_vectors")
    near = AssignClusters(centroids, search.ranking, name=f"{search.name}_assign").with_(resources=search.resources)
    return [reader, near, ClusterRound(search, name=f"{search.name}_clusters")]


@dataclass
class AssignClusters(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Adds the cluster of each row, its distances to the centroid, and its rank."""

    centroids: Centroids
    ranking: Ranking
    name: str = "assign_clusters"
    spec = ALL_ROWS

    def outputs(self) -> Spec:
        return [], [CENTROID, STRAIGHT, COSINE]

    def settings(self) -> dict[str, Any]:
        return {"ranking": self.ranking}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table, library = task.to_arrow(), array_library(self.resources.requires_gpu)
        centroids, vectors = self.centroids.read(), vectors_in(table, VECTOR)
        with one_blas_thread():
            labels, _ = nearest(vectors, centroids, library)
        straight, cosine = distances(vectors, centroids, labels)
        table = with_column(table, CENTROID, labels)
        table = with_column(with_column(table, STRAIGHT, straight), COSINE, cosine)
        for number, ranks in enumerate(self.ranking.of_distances(straight, cosine, numbers(table, DOC_ID))):
            table = with_column(table, rank_column(number), ranks)
        return task.with_data(table)


@dataclass
class ClusterRound(BarrierStage[DocumentBatch]):
    """Brings the rows of each cluster together, and has them compared."""

    search: SemanticSearch
    name: str

    def settings(self) -> dict[str, Any]:
        return {}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            ClusterWriter(
                url,
                mode="overwrite",
                storage_options=dict(options),
                clusters=self.search.kmeans.clusters,
                name=f"{self.name}_to_disk",
            )
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        search, folder = self.search, Directory(url, options)
        files = ShuffleIndex.of(folder, file_names(folder, splits, MEMBERS))
        counts = np.sum([index.notes["counts"] for index in files.indexes], axis=0)
        bounds, tasks = packed(counts, search.rows, search.block)
        tables = files.partitions(cluster_edges(bounds, search.kmeans.clusters), KEY, f"{self.name}_members")
        vectors = tuple(VECTORS + name.removeprefix(MEMBERS).removesuffix(CHUNKS) + SUFFIX for name in files.names)
        compare = CompareClusters(search, folder, vectors, tuple(tasks), name=f"{search.name}_compare")
        return [
            ClusterReader(tables, tuple(tasks), name=f"{search.name}_members"),
            compare.with_(resources=search.resources),
            SimilarRound(search, name=f"{search.name}_marks"),
        ]
