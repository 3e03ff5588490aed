import json
import logging
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import (
    DaskExecutor,
    DataError,
    DocumentBatch,
    ExactDeduplicationWorkflow,
    FuzzyDeduplicationWorkflow,
    InlineExecutor,
    LocalCluster,
    PipelineError,
    ProcessingStage,
    SemanticDeduplicationWorkflow,
    TextDuplicatesRemovalWorkflow,
    TextSemanticDeduplicationWorkflow,
)
from dcurate.core.stage import Spec
from dcurate.dedup import Highest
from tests.places import is_data

pytestmark = pytest.mark.cluster

INLINE = InlineExecutor()


def documents() -> list[dict[str, Any]]:
    """Documents in which some texts stand twice or more, and some with a word changed."""
    draw = random.Random(4)
    rows: list[dict[str, Any]] = []
    for number in range(60):
        words = [str(draw.randrange(10_000)) for _ in range(80)]
        for copy in range(draw.choice([1, 1, 2, 3])):
            if copy == 2:
                words[draw.randrange(80)] = "changed"
            rows.append({"doc": f"{number}-{copy}", "text": " ".join(words), "score": draw.random()})
    draw.shuffle(rows)
    return rows


@pytest.fixture
def source(tmp_path: Path) -> str:
    """The documents in three files."""
    rows, folder = documents(), tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[number::3]))
    return str(folder)


def rows_in(folder: str | Path) -> list[dict[str, Any]]:
    """The rows of all Parquet or JSONL files in a folder, in order of file names."""
    rows: list[dict[str, Any]] = []
    for path in sorted(Path(folder).rglob("*")):
        if is_data(path) and path.suffix == ".parquet":
            rows += pq.read_table(path).to_pylist()
        elif is_data(path) and path.suffix == ".jsonl":
            rows += [json.loads(line) for line in path.read_text().splitlines()]
    return rows


def names(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(row["doc"] for row in rows)


def kept_by_text(source: str) -> list[str]:
    """The first document of each text, in order of the files."""
    first: dict[str, str] = {}
    for row in rows_in(source):
        first.setdefault(row["text"], row["doc"])
    return sorted(first.values())


def test_exact_duplicates_are_removed_in_one_call(source: str, tmp_path: Path) -> None:
    workflow = ExactDeduplicationWorkflow(str(tmp_path / "out"), source, "jsonl", perform_removal=True)
    result = workflow.run(INLINE)
    stay = rows_in(tmp_path / "out" / "deduplicated")
    assert names(stay) == kept_by_text(source)
    assert result.metadata["num_duplicates"] == len(documents()) - len(stay)
    assert result.metadata["num_documents"] == len(documents())
    groups = rows_in(result.metadata["groups_path"])
    assert sum(not row["kept"] for row in groups) == result.metadata["num_duplicates"]
    assert all(set(row) >= {"id", "group_id", "group_size", "kept_id", "similarity"} for row in groups)
    assert result.metadata["total_time"] > 0
    assert set(result.metadata["stage_seconds"]) == {"jsonl_reader", "exact_duplicates", "jsonl_writer"}
    assert [file for made in result.pipeline_tasks["removal"] for file in made.data]  # type: ignore[attr-defined]


@pytest.mark.parametrize("made", [True, False])
def test_ids_that_are_found_and_then_removed_leave_what_removal_in_one_call_leaves(
    made: bool, source: str, tmp_path: Path
) -> None:
    ids: dict[str, Any] = {} if made else {"assign_id": False, "id_field": "doc"}
    found = ExactDeduplicationWorkflow(str(tmp_path / "found"), source, "jsonl", input_blocksize=4096, **ids).run(
        INLINE
    )
    column = "_curator_dedup_id" if made else "doc"
    listed = rows_in(tmp_path / "found" / "ExactDuplicateIds")
    assert [*listed[0]] == [column, "group_id", "group_size", "kept_id", "similarity"]
    assert len(listed) == found.metadata["num_duplicates"] == len(documents()) - len(kept_by_text(source))
    removal = TextDuplicatesRemovalWorkflow(
        source,
        str(tmp_path / "found" / "ExactDuplicateIds"),
        str(tmp_path / "out"),
        "jsonl",
        id_field=column,
        duplicate_id_field=column,
        id_generator_path=found.metadata["id_generator_path"] if made else None,
        output_filetype="jsonl",
        drop_id_field=made,
    )
    result = removal.run(INLINE)
    stay = rows_in(tmp_path / "out")
    assert names(stay) == kept_by_text(source)
    assert [*stay[0]] == ["doc", "text", "score"]
    assert result.metadata["num_duplicates_removed"] == len(listed)
    assert (result.metadata["num_ids"], result.metadata["num_ids_not_found"]) == (len(listed), 0)
    assert removal.run(INLINE, resume=True).metadata["num_ids_not_found"] == 0


def test_ids_that_no_document_has_are_counted(source: str, tmp_path: Path) -> None:
    (tmp_path / "ids").mkdir()
    pq.write_table(pa.table({"id": ["0-0", "nobody", "1-0"]}), tmp_path / "ids" / "a.parquet")
    workflow = TextDuplicatesRemovalWorkflow(
        source, str(tmp_path / "ids"), str(tmp_path / "out"), "jsonl", id_field="doc"
    )
    result = workflow.run(INLINE)
    found = ("num_duplicates_removed", "num_ids", "num_ids_not_found")
    assert [result.get_metadata(name) for name in found] == [2, 3, 1]
    assert names(rows_in(tmp_path / "out")) == names([row for row in documents() if row["doc"] not in ("0-0", "1-0")])


def test_made_ids_are_refused_for_other_files_or_another_cut(source: str, tmp_path: Path) -> None:
    found = ExactDeduplicationWorkflow(str(tmp_path / "found"), source, "jsonl", input_blocksize="4KiB").run(INLINE)
    path = found.metadata["id_generator_path"]

    def removal(**arguments: Any) -> TextDuplicatesRemovalWorkflow:
        ids = str(tmp_path / "found" / "ExactDuplicateIds")
        given = {"id_generator_path": path, "duplicate_id_field": "_curator_dedup_id", **arguments}
        return TextDuplicatesRemovalWorkflow(source, ids, str(tmp_path / "out"), "jsonl", **given)

    with pytest.raises(PipelineError, match="input_blocksize=4096, not 8192"):
        removal(input_blocksize=8192).run(INLINE)
    with pytest.raises(PipelineError, match="input_files_per_partition=None, not 2"):
        removal(input_files_per_partition=2).run(INLINE)
    with pytest.raises(
        DataError, match="'.*other.json' does not exist; name the file that the workflow which made the ids"
    ):
        removal(id_generator_path=str(tmp_path / "other.json")).run(INLINE)
    Path(source, "9.jsonl").write_text('{"text": "new"}\n')
    with pytest.raises(PipelineError, match=r"other files: '9\.jsonl' is new"):
        removal().run(INLINE)
    Path(source, "9.jsonl").rename(Path(source, "0.jsonl"))
    with pytest.raises(
        PipelineError, match=r"'0\.jsonl' is of another size; remove duplicates from the files in which"
    ):
        removal().run(INLINE)
    Path(source, "0.jsonl").unlink()
    with pytest.raises(PipelineError, match=r"'0\.jsonl' is gone"):
        removal().run(INLINE)
    (tmp_path / "theirs.json").write_text('{"next_id": 7, "batch_registry": {}}')
    with pytest.raises(DataError, match="does not say how dcurate made ids"):
        removal(id_generator_path=str(tmp_path / "theirs.json")).run(INLINE)


def test_a_dataset_without_duplicates_goes_through_both_steps(source: str, tmp_path: Path) -> None:
    clean = str(tmp_path / "clean")
    ExactDeduplicationWorkflow(clean, source, "jsonl", perform_removal=True).run(INLINE)
    found = ExactDeduplicationWorkflow(str(tmp_path / "found"), f"{clean}/deduplicated", "jsonl").run(INLINE)
    assert found.metadata["num_duplicates"] == 0
    removal = TextDuplicatesRemovalWorkflow(
        f"{clean}/deduplicated",
        str(tmp_path / "found" / "ExactDuplicateIds"),
        str(tmp_path / "out"),
        "jsonl",
        id_generator_path=found.metadata["id_generator_path"],
    )
    assert removal.run(INLINE).metadata["num_duplicates_removed"] == 0
    assert names(rows_in(tmp_path / "out")) == kept_by_text(source)


def test_fuzzy_duplicates_are_removed_or_listed_alike(source: str, tmp_path: Path, cluster: LocalCluster) -> None:
    def workflow(output: str, **arguments: Any) -> FuzzyDeduplicationWorkflow:
        return FuzzyDeduplicationWorkflow(
            None, str(tmp_path / output), source, "jsonl", keep=Highest("score"), **arguments
        )

    best: dict[str, dict[str, Any]] = {}
    for row in documents():
        base = row["doc"].partition("-")[0]
        best[base] = max(best.get(base, row), row, key=lambda one: one["score"])
    removed = workflow("out", perform_removal=True).run(INLINE)
    assert names(rows_in(tmp_path / "out" / "deduplicated")) == names(list(best.values()))
    listed = workflow("ids", id_field="doc").run(DaskExecutor(cluster=cluster))
    ids = rows_in(tmp_path / "ids" / "FuzzyDuplicateIds")
    gone = {row["doc"] for row in documents()} - {row["doc"] for row in best.values()}
    assert {row["doc"]: row["kept_id"] for row in ids} == {one: best[one.partition("-")[0]]["doc"] for one in gone}
    assert all(row["similarity"] >= 0.8 for row in ids)
    assert removed.metadata["num_duplicates"] == listed.metadata["num_duplicates"] == len(gone)
    assert "id_generator_path" in removed.metadata
    assert "id_generator_path" not in listed.metadata


def test_a_workflow_is_not_written_over_unasked_and_resumes(source: str, tmp_path: Path) -> None:
    workflow = FuzzyDeduplicationWorkflow(
        None, str(tmp_path / "out"), source, "jsonl", perform_removal=True, word_ngrams=5
    )
    first = workflow.run(INLINE)
    with pytest.raises(DataError, match="resume=True"):
        workflow.run(INLINE)
    again = workflow.run(INLINE, resume=True)
    assert again.reports["removal"].splits_before == 3
    assert again.metadata["num_duplicates"] == first.metadata["num_duplicates"] > 0


def test_what_an_earlier_run_saw_is_removed_from_a_later_one(source: str, tmp_path: Path) -> None:
    def run(day: str, files: str) -> list[str]:
        workflow = FuzzyDeduplicationWorkflow(
            None, str(tmp_path / day), files, "jsonl", perform_removal=True, index_path=str(tmp_path / "seen")
        )
        workflow.run(INLINE)
        return names(rows_in(tmp_path / day / "deduplicated"))

    assert len(run("monday", f"{source}/0.jsonl")) + len(run("tuesday", f"{source}/[12].jsonl")) == 60
    assert run("wednesday", f"{source}/[12].jsonl") == []


@dataclass
class Directions(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Embeds a document by the first word of its text: one direction for each word, a little turned for each text."""

    def outputs(self) -> Spec:
        return [], ["embeddings"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        vectors = []
        for text in table["text"].to_pylist():
            word, turned = text.split()[0], random.Random(text)
            direction = np.random.default_rng(int(word)).standard_normal(16)
            vectors.append((direction + [0.01 * turned.random() for _ in range(16)]).tolist())
        return task.with_data(table.append_column("embeddings", pa.array(vectors, pa.list_(pa.float32()))))


def first_words(rows: list[dict[str, Any]]) -> set[str]:
    return {row["text"].split()[0] for row in rows}


def test_documents_are_embedded_and_one_of_each_meaning_stays(source: str, tmp_path: Path) -> None:
    workflow = TextSemanticDeduplicationWorkflow(
        source,
        str(tmp_path / "out"),
        n_clusters=4,
        input_filetype="jsonl",
        output_filetype="jsonl",
        embedder=Directions(),
    )
    result = workflow.run(INLINE)
    stay = rows_in(tmp_path / "out" / "deduplicated")
    meanings = first_words(documents())
    assert first_words(stay) == meanings
    assert len(stay) == len(meanings) < len(documents())
    assert [*stay[0]] == ["doc", "text", "score"]
    assert result.metadata["num_duplicates"] == len(documents()) - len(stay)


@pytest.fixture
def embedded(source: str, tmp_path: Path) -> str:
    """The documents with embeddings, in a Parquet file."""
    rows = pa.Table.from_pylist(rows_in(source))
    made = Directions().process(DocumentBatch(data=rows)).to_arrow()
    (tmp_path / "embedded").mkdir()
    pq.write_table(made, tmp_path / "embedded" / "a.parquet")
    return str(tmp_path / "embedded")


def test_ids_of_documents_that_mean_the_same_are_listed_with_the_most_similar_one(
    embedded: str, tmp_path: Path
) -> None:
    workflow = SemanticDeduplicationWorkflow(embedded, str(tmp_path / "out"), n_clusters=4, id_field="doc", eps=0.01)
    for _ in range(2):
        result = workflow.run(INLINE)
        ids = rows_in(tmp_path / "out" / "duplicates")
        assert [*ids[0]] == ["id", "max_id", "cosine_sim_score", "centroid"]
        assert len(ids) == result.metadata["num_duplicates"] == len(documents()) - len(first_words(documents()))
        assert all(row["cosine_sim_score"] >= 0.99 for row in ids)
        assert list((tmp_path / "out" / "pairwise_results").rglob("*.parquet"))
    removal = TextDuplicatesRemovalWorkflow(
        embedded, str(tmp_path / "out" / "duplicates"), str(tmp_path / "clean"), id_field="doc", output_fields=["text"]
    )
    assert removal.run(INLINE).metadata["num_duplicates_removed"] == len(ids)
    assert len(rows_in(tmp_path / "clean")) == len(first_words(documents()))


def test_without_embeddings_and_what_makes_them_nothing_runs(source: str, tmp_path: Path, embedded: str) -> None:
    output = str(tmp_path / "out")
    with pytest.raises(PipelineError, match="no column 'embeddings'; give model=, a model that makes it"):
        TextSemanticDeduplicationWorkflow(source, output, input_filetype="jsonl").run(INLINE)
    assert not Path(output).exists()
    TextSemanticDeduplicationWorkflow(embedded, output, n_clusters=4, perform_removal=False).run(INLINE)
    assert [*rows_in(f"{output}/duplicates")[0]] == ["id", "max_id", "cosine_sim_score", "centroid"]


def test_arguments_that_only_steer_gpu_memory_are_taken_and_said(source: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dcurate.workflows"):
        ExactDeduplicationWorkflow("out", source, "jsonl", rmm_pool_size=1 << 30, total_nparts=4)
        FuzzyDeduplicationWorkflow("cache", "out", source, "jsonl", bands_per_iteration=5)
    (record,) = caplog.records
    ignored = "ExactDeduplicationWorkflow ignores arguments of NeMo Curator: 'total_nparts', 'rmm_pool_size'"
    assert record.getMessage() == ignored


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ExactDeduplicationWorkflow("out"), "input_path is missing"),
        (lambda: ExactDeduplicationWorkflow("out", "in", "csv"), "input_filetype='csv' is not a format"),  # type: ignore[arg-type]
        (lambda: ExactDeduplicationWorkflow("out", "in", id_field="id"), "assign_id=False"),
        (lambda: ExactDeduplicationWorkflow("out", "in", assign_id=False), "needs id_field"),
        (lambda: ExactDeduplicationWorkflow("out", "in", keep="best"), "keep='best' is not a rule"),
        (lambda: FuzzyDeduplicationWorkflow(None, "out", "in", char_ngrams=5, word_ngrams=5), "characters or of words"),
        (lambda: FuzzyDeduplicationWorkflow(None, "out", "in", threshold=80), "threshold=80"),
        (lambda: TextDuplicatesRemovalWorkflow("in", "ids", "out", output_file_extension="csv"), "leave it out"),
        (
            lambda: TextDuplicatesRemovalWorkflow(
                "in", "ids", "out", "jsonl", None, "id", output_fields=["id"], drop_id_field=True
            ),
            "choose one",
        ),
        (lambda: TextSemanticDeduplicationWorkflow("in", "out", eps=None), "perform_removal=True needs eps"),
        (lambda: SemanticDeduplicationWorkflow("in", "out", 0), "n_clusters=0"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(make: Any, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        make()
