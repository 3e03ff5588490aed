"""The settings that all rounds of semantic deduplication share."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dcurate.core.resources import Resources
from dcurate.core.spec import StageSpec
from dcurate.dedup.semantic.ranking import Ranking
from dcurate.dedup.semantic.spill import Vectors
from dcurate.errors import DataError
from dcurate.frames.vectors import Matrix
from dcurate.fs.stores import META_DIR, Directory
from dcurate.groups.resolve import Action
from dcurate.shuffle.spill import SpilledRows

#: For stages between rounds: none of the rows that they are given may be left out.
ALL_ROWS = StageSpec(ignore_failures=False)


@dataclass(frozen=True)
class KMeans:
    """The settings of the clustering; see `SemanticDuplicates`.

    Args:
        first: centroids to begin with, instead of seeds that are drawn.
    """

    clusters: int
    rounds: int
    tolerance: float
    seed: int
    spread_out: bool
    sample: int
    block: int
    first: Matrix | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class SemanticSearch:
    """A search for semantic duplicates, after the rows of the dataset were written.

    Args:
        name: name of the stage that a person wrote.
        spilled: the rows.
        vectors: their embeddings.
        kmeans: how clusters are found.
        ranking: in which order the rows of a cluster come.
        eps: rows are duplicates whose cosine distance to an earlier one is at most this; None if none are.
        block: rows that are compared with as many others at a time.
        blocksize: target bytes of embeddings in memory at a time.
        action: what to do with duplicates.
        report_path: a folder for what was found of each row.
        resources: for what multiplies matrices.
    """

    name: str
    spilled: SpilledRows
    vectors: Vectors
    kmeans: KMeans
    ranking: Ranking
    eps: float | None
    block: int
    blocksize: int
    action: Action
    report_path: str | None
    resources: Resources

    @property
    def rows(self) -> int:
        """The number of vectors held in memory at a time."""
        return max(1, self.blocksize // self.vectors.width)


@dataclass(frozen=True)
class Centroids:
    """Centroids in a file, for workers to read.

    Args:
        url: the folder of the round that found them.
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def saved(cls, folder: Directory, centroids: Matrix) -> Centroids:
        """Write them down."""
        buffer = io.BytesIO()
        np.save(buffer, centroids)
        folder.write(_NAME, buffer.getvalue())
        return cls(folder.url, dict(folder.options))

    def read(self) -> Matrix:
        """The centroids, of shape (clusters, dimensions).

        Raises:
            DataError: they are lost.
        """
        data = Directory(self.url, self.options).read(_NAME)
        if data is None:
            raise DataError(f"{self.url!r} has lost its centroids; run again without resume")
        return np.asarray(np.load(io.BytesIO(data)), np.float32)


_NAME = f"{META_DIR}/centroids.npy"
