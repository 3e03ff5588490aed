"""Semantic duplicates over whole datasets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dcurate import (
    DaskExecutor,
    DataError,
    InlineExecutor,
    JsonlReader,
    LocalCluster,
    ParquetReader,
    Pipeline,
    PipelineError,
    SemanticDuplicates,
)
from dcurate.core.pipeline import AnyStage
from dcurate.dedup import Highest, Lowest
from dcurate.run import Executor
from tests.dedup.semantic.curate import pipeline
from tests.dedup.semantic.data import Row, some, write
from tests.dedup.semantic.test_compare import by_all_products
from tests.dying import dying
from tests.forked import run_forked
from tests.places import records

pytestmark = pytest.mark.cluster

EPS = 0.01
ROWS = some(700)


def run(source: str, stage: SemanticDuplicates, executor: Executor | None = None, **reading: Any) -> list[Row]:
    """The rows that come out, in order."""
    result = Pipeline("test", stages=[ParquetReader(source, **reading), stage]).run(executor or InlineExecutor())
    return [row for batch in result for row in batch.to_arrow().to_pylist()]  # type: ignore[attr-defined]


def ids(rows: list[Row]) -> list[str]:
    return [row["id"] for row in rows]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("semantic") / "in", ROWS)


def clusters(report: Path) -> Iterator[list[Row]]:
    """The rows of the report of each cluster, in its order."""
    rows = [row for path in sorted(report.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    for _, own in groupby(rows, lambda row: row["centroid"]):
        yield list(own)


def unit(identifier: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    vector = np.array(ROWS[int(identifier[1:])]["embeddings"])
    return (vector / np.linalg.norm(vector)).astype(np.float32)


@pytest.mark.parametrize(("which", "metric"), [("hard", "cosine"), ("hard", "l2"), ("easy", "cosine")])
@pytest.mark.parametrize("block", [1024, 8])
def test_duplicates_are_those_of_the_rule_with_every_product_in_memory(
    which: str, metric: str, block: int, source: str, tmp_path: Path
) -> None:
    stage = SemanticDuplicates(
        n_clusters=9,
        eps=EPS,
        which_to_keep=which,
        distance_metric=metric,
        tol=0,
        pairwise_batch_size=block,
        blocksize=10**6 if block > 100 else 2000,
        id_field="id",
        report_path=str(tmp_path / "report"),
    )
    left = run(source, stage)
    expected, seen = [], []
    for cluster in clusters(tmp_path / "report"):
        vectors = np.array([unit(row["id"]) for row in cluster])
        middle = vectors.astype(np.float64).mean(axis=0)
        straight = np.linalg.norm(vectors - middle, axis=1)
        cosine = 1 - vectors @ middle / np.linalg.norm(middle)
        assert np.allclose([row["l2_dist_to_cent"] for row in cluster], straight, atol=1e-5)
        assert np.allclose([row["cosine_dist_to_cent"] for row in cluster], cosine, atol=1e-5)
        distances = [row["cosine_dist_to_cent" if metric == "cosine" else "l2_dist_to_cent"] for row in cluster]
        order = [
            (-far if which == "hard" else far, int(row["id"][1:])) for far, row in zip(distances, cluster, strict=True)
        ]
        assert order == sorted(order)
        scores, _ = by_all_products(vectors)
        assert np.allclose([row["cosine_sim_score"] for row in cluster], scores, atol=1e-6)
        for row in cluster:
            if row["cosine_sim_score"]:
                assert np.isclose(unit(row["id"]) @ unit(row["max_id"]), row["cosine_sim_score"], atol=1e-6)
                assert ids(cluster).index(row["max_id"]) < ids(cluster).index(row["id"])
        expected += [row["id"] for row, score in zip(cluster, scores, strict=True) if score >= 1 - EPS]
        seen += ids(cluster)
    assert sorted(seen) == sorted(row["id"] for number, row in enumerate(ROWS) if number % 37 != 5)
    assert 100 < len(expected) < 300
    assert ids(left) == [row["id"] for row in ROWS if row["id"] not in expected]


def test_the_result_depends_on_rows_alone(source: str, cluster: LocalCluster, tmp_path: Path) -> None:
    def stage(blocksize: int) -> SemanticDuplicates:
        return SemanticDuplicates(
            n_clusters=7,
            eps=EPS,
            max_iter=3,
            pairwise_batch_size=16,
            max_samples_per_batch=400,
            blocksize=blocksize,
            action="flag",
        )

    first = run(source, stage(10**7))
    assert sum(row["is_duplicate"] for row in first) > 100
    other = write(tmp_path / "many", ROWS, 5)
    assert str(run(other, stage(4000), blocksize=9000)) == str(first)
    assert str(run(other, stage(12_000), DaskExecutor(cluster=cluster))) == str(first)


def test_a_run_that_was_killed_goes_on_to_the_same_bytes(source: str, tmp_path: Path) -> None:
    pipeline(source, str(tmp_path / "whole")).run(InlineExecutor())
    output, program = tmp_path / "out", "tests.dedup.semantic.curate"
    for moment in ("fit_002/rows", "marks.dcurate/output.json"):
        killed = dying(records(output) / "rounds", f"semantic_duplicates_{moment}", program, source, output)
        assert run_forked(killed) == -9, "it had ended before"
        assert not list(output.glob("*.jsonl"))
    pipeline(source, str(output)).run(InlineExecutor(), resume=True)
    whole, again = (
        {path.name: path.read_bytes() for path in out.glob("*.jsonl")} for out in (tmp_path / "whole", output)
    )
    assert whole
    assert again == whole


def test_rules_say_which_copy_stays(tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "n": n, "text": "x" * (n % 3), "score": n % 2, "embeddings": [1.0, float(n > 3)]}
        for n in range(8)
    ]
    source = write(tmp_path / "in", rows, 1)
    stays: dict[Any, list[str]] = {
        "first": ["0", "4"],
        "longest": ["2", "5"],
        Highest("score"): ["1", "5"],
        (Lowest("score"), Highest("n")): ["2", "6"],
    }
    for rule, expected in stays.items():
        assert ids(run(source, SemanticDuplicates(n_clusters=2, which_to_keep=rule))) == expected
    lots = [SemanticDuplicates(n_clusters=2, which_to_keep="random", seed=seed) for seed in range(4)]
    assert len({tuple(ids(run(source, stage))) for stage in lots}) > 1


def test_duplicates_can_be_flagged_or_reported_instead(source: str) -> None:
    find: Any = {"n_clusters": 5, "eps": EPS}
    left = ids(run(source, SemanticDuplicates(**find)))
    flagged = run(source, SemanticDuplicates(**find, action="flag"))
    assert ids(flagged) == ids(ROWS)
    assert [row["id"] for row in flagged if not row["is_duplicate"]] == left
    for number, row in enumerate(flagged):
        assert (row["cosine_sim_score"] is None) == (row["centroid"] is None) == (number % 37 == 5)
    told = run(source, SemanticDuplicates(**find, action="identify", id_field="id"))
    assert [row["id"] for row in told] == [row["id"] for row in flagged if row["is_duplicate"]]
    assert list(told[0]) == ["id", "max_id", "cosine_sim_score", "centroid"]
    assert {row["cosine_sim_score"] >= 1 - EPS for row in told} == {True}
    made = run(source, SemanticDuplicates(**find, action="identify"))
    assert [row["cosine_sim_score"] for row in made] == [row["cosine_sim_score"] for row in told]
    assert len({row["id"] for row in made}) == len(made)


def test_equal_ids_do_no_harm(tmp_path: Path) -> None:
    rows = [{**row, "id": 7} for row in ROWS[:100]]
    source = write(tmp_path / "in", rows)
    told = run(source, SemanticDuplicates(n_clusters=3, action="identify", id_field="id"))
    assert len(told) == 100 - len(run(source, SemanticDuplicates(n_clusters=3)))
    assert {(row["id"], row["max_id"]) for row in told} == {(7, 7)}


def test_dropped_rows_are_counted(source: str) -> None:
    report = (
        Pipeline("test", stages=[ParquetReader(source), SemanticDuplicates(n_clusters=4)]).run(InlineExecutor()).report
    )
    stats = report.stages[1]
    assert (stats.rows_in, stats.rows_in - stats.rows_out) == (700, stats.dropped["semantic_duplicate"])


@pytest.mark.parametrize("action", ["drop", "flag", "identify"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_rows_or_none_have_no_duplicates(count: int, action: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in", [{"id": n, "embeddings": [1.0, -n]} for n in range(count)], 2)
    rows = run(source, SemanticDuplicates(action=action, eps=0.001))  # type: ignore[arg-type]
    assert len(rows) == (0 if action == "identify" else count)


@pytest.mark.parametrize("action", ["drop", "flag", "identify"])
def test_rows_without_embeddings_are_no_duplicates(action: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"id": 1, "embeddings": null}\n{"id": 2, "embeddings": []}\n')
    stages: list[AnyStage] = [JsonlReader(str(folder)), SemanticDuplicates(action=action)]  # type: ignore[arg-type]
    result = Pipeline("test", stages=stages).run(InlineExecutor())
    assert sum(batch.num_items for batch in result) == (0 if action == "identify" else 2)


def test_embeddings_of_two_models_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"embeddings": [1.0, 2.0]}\n')
    (folder / "b.jsonl").write_text('{"embeddings": [1.0]}\n')
    with pytest.raises(DataError, match=r"of 2 numbers, but of 1 in 'b.jsonl'; embed all documents with one model"):
        Pipeline("test", stages=[JsonlReader(str(folder)), SemanticDuplicates()]).run(InlineExecutor())


def test_a_column_that_is_not_there_is_refused_before_anything_runs(source: str) -> None:
    with pytest.raises(PipelineError, match="'embedding'"):
        run(source, SemanticDuplicates(embedding_field="embedding"))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"n_clusters": 0}, "n_clusters=0 must be a whole number of at least 1"),
        ({"eps": 1}, "eps=1 must be a number from 0 to below 1"),
        ({"eps": -0.1}, "from 0 to below 1"),
        ({"which_to_keep": "hardest"}, "did you mean 'hard'"),
        ({"which_to_keep": []}, "must be a rule, or a list"),
        ({"distance_metric": "dot"}, "'cosine', 'l2'"),
        ({"init": "kmeans"}, "did you mean 'k-means"),
        ({"fit_data_fraction": 0}, "above 0 and at most 1"),
        ({"seed": -1}, "0 or more"),
        ({"tol": None}, "tol=None must be a number"),
        ({"max_iter": True}, "max_iter=True must be a whole number"),
        ({"pairwise_batch_size": 0}, "pairwise_batch_size=0"),
        ({"action": "remove"}, "no action 'remove'"),
        ({"blocksize": "large"}, "blocksize='large' is not a size"),
    ],
)
def test_a_setting_out_of_range_is_refused_in_a_sentence(setting: dict[str, Any], said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        SemanticDuplicates(**setting)


def test_k_means_can_be_fitted_to_a_share_or_to_all(source: str) -> None:
    for fraction in (0.2, 1.0):
        assert len(run(source, SemanticDuplicates(n_clusters=5, fit_data_fraction=fraction, init="random"))) < 650
