"""The stage that finds documents that mean the same, by their embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dcurate.core.stage import Spec, Stage
from dcurate.dedup.semantic.fit import fit
from dcurate.dedup.semantic.ranking import Ranking, ranking_of
from dcurate.dedup.semantic.search import KMeans, SemanticSearch
from dcurate.dedup.semantic.similar import FLAGS, IDENTIFIED, mark
from dcurate.dedup.semantic.spill import EmbeddingWriter, Vectors
from dcurate.errors import PipelineError, nearest
from dcurate.fs.stores import Directory
from dcurate.groups.keep import Keep
from dcurate.groups.resolve import Action, SearchForDuplicates, check_action
from dcurate.io.partition import parse_bytes
from dcurate.shuffle.spill import SpilledRows

_INITS = ("k-means||", "random")
#: Rows for each cluster that k-means is fitted to, as FAISS has it.
_ROWS_A_CLUSTER = 256


@dataclass
class SemanticDuplicates(SearchForDuplicates):
    """Keep one of all documents with nearly the same embedding, over a whole dataset.

    Embeddings are scaled to length one and clustered by k-means. Within a cluster rows are put in order, and each is
    compared with all that come before it: it is a duplicate if its highest cosine similarity with any of them, whether
    that one stays or not, is at least ``1 - eps``. That is the rule of NeMo Curator and of SemDeDup (Abbas et al. 2023,
    https://arxiv.org/abs/2303.09540). Rows of different clusters are not compared.

    Args:
        embedding_field: a column of lists of numbers, of one length. A row whose embedding is null, empty, all zeros,
            or holds a null, NaN or infinite number is never a duplicate.
        n_clusters: number of clusters; fewer if there are fewer embeddings.
        eps: see above, from 0 to below 1; None if nothing is to be a duplicate, for a report.
        which_to_keep: rule for the row that comes first in a cluster and is kept: ``"hard"``: the farthest from the
            centroid, ``"easy"``: the nearest to it, ``"random"``, ``"first"`` in the order of the source, ``"longest"``
            text, ``Highest("score")``, ``Lowest("perplexity")``, ``Preferred("source", ["books", "web"])``, or a list
            of such rules, of which later ones break ties. Remaining ties go to the first in the source.
        distance_metric: distance to the centroid that ``"hard"`` and ``"easy"`` mean, ``"cosine"`` or ``"l2"``.
        seed: seed of the sample, of the seeds of k-means, and of ``"random"``.
        max_iter: steps of k-means at most.
        tol: k-means ends when the mean square of the movement of centroids is at most this share of the mean squared
            distance of rows to their centroids.
        init: ``"k-means||"``: rows far from each other, drawn by squared distance in at most 64 turns; or ``"random"``.
        max_samples_per_batch: rows of the sample in one task, where it does not fit into one.
        fit_data_fraction: the share of the embeddings that k-means is fitted to; by default 256 for each cluster,
            or all if there are fewer. They are drawn evenly over the whole dataset.
        pairwise_batch_size: rows that are compared with as many others at a time.
        action: ``"drop"`` duplicates; ``"flag"`` to keep all rows and add ``is_duplicate``, ``cosine_sim_score`` and
            ``centroid`` (the number of the cluster), the last two null without an embedding; ``"identify"`` to have a
            row for each duplicate instead of the documents: ``id``, ``max_id`` (the id of what it is most similar to),
            ``cosine_sim_score``, ``centroid``.
        id_field: column with ids, as in `ExactDuplicates`; ids need not be unique.
        text_field: the column that ``"longest"`` looks at.
        report_path: a folder for Parquet files with a row for each embedding, cluster by cluster in their order:
            ``id``, ``centroid``, ``l2_dist_to_cent``, ``cosine_dist_to_cent``, ``cosine_sim_score``, ``max_id``,
            ``is_duplicate``.
        blocksize: target bytes of embeddings in memory at a time, as a number or text.
        name: name of the stage.

    The result is the same for any number of workers and any partitioning of the files. Rows and embeddings are spilled
    to disk beside the output; memory is bounded by ``blocksize``, the centroids, and a few dozen bytes for each row of
    the largest cluster. With ``with_(resources=Resources(gpus=1))`` products of matrices are CuPy's.

    Raises:
        PipelineError: an unknown setting, or one out of range.

    Examples:
        >>> SemanticDuplicates(n_clusters=100, eps=0.05).inputs()
        ([], ['embeddings'])
    """

    embedding_field: str = "embeddings"
    n_clusters: int = 1000
    eps: float | None = 0.01
    which_to_keep: str | Keep | Sequence[Keep] = "hard"
    distance_metric: str = "cosine"
    seed: int = 42
    max_iter: int = 300
    tol: float = 1e-4
    init: str = "k-means||"
    max_samples_per_batch: int = 2**15
    fit_data_fraction: float | None = None
    pairwise_batch_size: int = 1024
    action: Action = "drop"
    id_field: str | None = None
    text_field: str = "text"
    report_path: str | None = None
    blocksize: int | str = "128MiB"
    name: str = "semantic_duplicates"

    def __post_init__(self) -> None:
        check_action(self.name, self.action)
        self._ranking()
        parse_bytes(self.blocksize, f"{self.name}: blocksize")
        for setting in ("n_clusters", "max_iter", "max_samples_per_batch", "pairwise_batch_size"):
            _check_count(self.name, setting, getattr(self, setting))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise PipelineError(f"{self.name}: seed={self.seed!r} must be a whole number, 0 or more")
        if self.init not in _INITS:
            raise PipelineError(f"{self.name}: unknown init={self.init!r}{nearest(str(self.init), _INITS)}")
        if self.eps is not None and not (_is_number(self.eps) and 0 <= self.eps < 1):
            raise PipelineError(f"{self.name}: eps={self.eps!r} must be a number from 0 to below 1, or None")
        if not (_is_number(self.tol) and self.tol >= 0):
            raise PipelineError(f"{self.name}: tol={self.tol!r} must be a number, 0 or more")
        if self.fit_data_fraction is not None and not (
            _is_number(self.fit_data_fraction) and 0 < self.fit_data_fraction <= 1
        ):
            raise PipelineError(
                f"{self.name}: fit_data_fraction={self.fit_data_fraction!r} must be above 0 and at most 1, or None"
            )

    def inputs(self) -> Spec:
        return self._writer("").inputs()

    def outputs(self) -> Spec:
        return [], {"drop": [], "flag": FLAGS, "identify": IDENTIFIED}[self.action]

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name not in ("report_path", "blocksize")}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [self._writer(url, options)]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        spilled = SpilledRows.written(Directory(url, options), splits)
        vectors = Vectors.written(spilled, self.embedding_field)
        search = SemanticSearch(
            name=self.name,
            spilled=spilled,
            vectors=vectors,
            kmeans=self.kmeans_for(len(vectors)),
            ranking=self._ranking(),
            eps=self.eps,
            block=self.pairwise_batch_size,
            blocksize=parse_bytes(self.blocksize),
            action=self.action,
            report_path=self.report_path,
            resources=self.resources,
        )
        return fit(search) if len(vectors) else mark(search, None)

    def _writer(self, url: str, options: Mapping[str, Any] | None = None) -> EmbeddingWriter:
        return EmbeddingWriter(
            url,
            mode="overwrite",
            storage_options=dict(options or {}),
            embedding_field=self.embedding_field,
            id_field=self.id_field,
            text_field=self.text_field,
            ranking=self._ranking(),
            with_rows=self.action != "identify",
            with_ids=self.action == "identify" or self.report_path is not None or self.id_field is not None,
            action=self.action,
            name=f"{self.name}_to_disk",
        )

    def _ranking(self) -> Ranking:
        return ranking_of(self.which_to_keep, self.distance_metric, self.seed, self.name)

    def kmeans_for(self, rows: int) -> KMeans:
        """Return how `rows` embeddings are clustered."""
        clusters = min(self.n_clusters, rows)
        wanted = clusters * _ROWS_A_CLUSTER if self.fit_data_fraction is None else round(rows * self.fit_data_fraction)
        return KMeans(
            clusters=clusters,
            rounds=self.max_iter,
            tolerance=self.tol,
            seed=self.seed,
            spread_out=self.init == "k-means||",
            sample=min(rows, max(clusters, wanted)),
            block=self.max_samples_per_batch,
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_count(stage: str, setting: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise PipelineError(f"{stage}: {setting}={number!r} must be a whole number of at least 1")
