from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from dcurate import DataError, Filter, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, PipelineError
from dcurate.core.pipeline import AnyStage
from dcurate.models import (
    FineMathClassifier,
    FineWebEduClassifier,
    FineWebMixtralEduClassifier,
    FineWebNemotronEduClassifier,
    SequenceClassifier,
)
from dcurate.models.classifiers.finemath import centre
from dcurate.models.classifiers.fineweb import FineWebModel
from dcurate.models.classifiers.sequence import ClassifySequences, ScoreModel
from tests.models.classifiers.conftest import Published
from tests.models.classifiers.rows import TEXTS, batch, columns, run
from tests.models.tiny import LONGEST, tiny_classifier


def plainly(folder: str | Path, texts: tuple[str | None, ...], max_length: int = LONGEST) -> Any:
    """The outputs of a model, a text at a time."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for text in texts:
        tokens = tokenizer(text or "", truncation=True, max_length=max_length, return_tensors="pt")
        with torch.no_grad():
            found.append(
                model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]).logits[0].numpy()
            )
    return np.array(found)


def changed(model: Path, folder: Path, **settings: Any) -> str:
    """A copy of a model with other settings."""
    shutil.copytree(model, folder)
    path = folder / "config.json"
    config = {**json.loads(path.read_text("utf-8")), **settings}
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}), "utf-8")
    return str(folder)


@pytest.fixture(scope="session")
def moods(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three labels."""
    return tiny_classifier(tmp_path_factory.mktemp("moods") / "mood", ["sad", "calm", "glad"])


@pytest.mark.parametrize("architecture", ["bert", "deberta-v2", "xlm-roberta", "llama"])
def test_any_model_of_transformers_gives_label_and_probabilities(
    published: Published, classifiers: dict[str, Path], architecture: str
) -> None:
    folder = classifiers[architecture]
    found = columns(run(SequenceClassifier(str(folder), probabilities_field="all", max_seq_length=LONGEST), *TEXTS))
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    shown = [(tokenizer(text or "", truncation=True, max_length=LONGEST)["input_ids"] or [0]) for text in TEXTS]
    with torch.no_grad():
        logits = torch.cat([model(input_ids=torch.tensor([ids])).logits for ids in shown])
    expected = torch.softmax(logits, dim=1).numpy()
    assert np.allclose(found["all"], expected, atol=1e-5)
    assert found["label"] == [["low", "high"][best] for best in expected.argmax(axis=1)]
    assert np.allclose(found["score"], expected.max(axis=1), atol=1e-5)


def test_of_labels_that_do_not_exclude_each_other_all_likely_ones_are_listed(moods: Path) -> None:
    stage = SequenceClassifier(str(moods), task="multi_label", threshold=0.4, probabilities_field="all")
    result = run(stage, *TEXTS)
    found = columns(result)
    expected = 1 / (1 + np.exp(-plainly(moods, TEXTS)))
    names = np.array(["sad", "calm", "glad"])
    assert np.allclose(found["all"], expected, atol=1e-5)
    assert found["label"] == [names[row >= 0.4].tolist() for row in expected]
    assert np.allclose(found["score"], expected.max(axis=1), atol=1e-5)
    every = [label for labels in found["label"] for label in labels]
    assert result.report.stages[-1].scores["label"] == {label: every.count(label) for label in set(every)}
    none = run(SequenceClassifier(str(moods), task="multi_label", threshold=1.0), *TEXTS)
    assert columns(none)["label"] == [[]] * len(TEXTS)
    assert none[0].to_arrow().schema.field("label").type == pa.list_(pa.string())  # type: ignore[attr-defined]


def test_of_lists_of_labels_rows_stay_that_have_one_that_is_wanted(moods: Path) -> None:
    whole = columns(run(SequenceClassifier(str(moods), task="multi_label"), *TEXTS))["label"]
    left = columns(run(SequenceClassifier(str(moods), task="multi_label", filter_by=["calm"]), *TEXTS))["label"]
    assert left == [labels for labels in whole if "calm" in labels]


def test_a_regression_gives_the_number_itself(published: Published) -> None:
    found = columns(run(SequenceClassifier(published.scorer, task="regression", score_field="worth"), *TEXTS))
    assert sorted(found) == ["text", "worth"]
    assert np.allclose(found["worth"], plainly(published.scorer, TEXTS)[:, 0], atol=1e-5)


def test_labels_may_be_given_other_names(moods: Path) -> None:
    given = columns(run(SequenceClassifier(str(moods), labels=["a", "b", "c"]), *TEXTS))["label"]
    own = columns(run(SequenceClassifier(str(moods)), *TEXTS))["label"]
    assert given == [{"sad": "a", "calm": "b", "glad": "c"}[label] for label in own]


@pytest.mark.parametrize(
    ("settings", "arguments", "error", "sentence"),
    [
        ({"id2label": None, "label2id": None}, {}, DataError, r"has no id2label; pass labels=\[...\]"),
        ({}, {"labels": ["a", "b"]}, PipelineError, "2 labels for the 3 outputs of .*; give one each"),
        ({}, {"filter_by": ["happy"]}, PipelineError, "filter_by has an unknown label 'happy'"),
        ({}, {"task": "regression"}, PipelineError, "has 3 outputs, a regression has one; pass task='single_label'"),
        (
            {"id2label": {"0": "worth"}},
            {},
            PipelineError,
            "has one output, a number and no choice of labels; pass task='regression'",
        ),
        (
            {"problem_type": "multi_label_classification"},
            {},
            PipelineError,
            "it is for 'multi_label_classification'; pass task='multi_label'",
        ),
        (
            {},
            {"task": "labels"},
            PipelineError,
            "task='labels' must be one of 'single_label', 'multi_label', 'regression'",
        ),
        ({}, {"threshold": 2.0}, PipelineError, "threshold=2.0 must be from 0 to 1"),
        ({}, {"task": "regression", "filter_by": ["x"]}, PipelineError, "a regression has no labels, only a score"),
    ],
)
def test_a_model_that_does_not_suit_the_task_is_refused_when_the_stage_is_made(
    moods: Path, tmp_path: Path, settings: dict[str, Any], arguments: dict[str, Any], error: type, sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        SequenceClassifier(changed(moods, tmp_path / "model", **settings), **arguments)


def test_labels_of_a_model_at_the_hub_are_looked_at_in_set_up(moods: Path) -> None:
    assert SequenceClassifier("org/mood", filter_by=["happy"]).known_labels is None
    with pytest.raises(PipelineError, match="stage 'mood_model': filter_by has an unknown label 'happy'"):
        ClassifySequences(str(moods), wanted=("happy",)).setup()
    with pytest.raises(PipelineError, match="did you mean 'a'"):
        SequenceClassifier("org/mood", labels=["a", "b"], filter_by=["aa"])


def test_fineweb_scores_are_those_of_the_model_cut_rounded_and_named(published: Published) -> None:
    found = columns(run(FineWebEduClassifier(model=published.scorer, max_seq_length=64), *TEXTS))
    numbers = plainly(published.scorer, TEXTS, 64)[:, 0]
    assert np.allclose(found["fineweb-edu-score-float"], np.clip(numbers, 0, 5), atol=1e-5)
    assert found["fineweb-edu-score-int"] == [round(min(5.0, max(0.0, float(number)))) for number in numbers]
    assert found["fineweb-edu-score-label"] == ["high_quality" if n >= 2.5 else "low_quality" for n in numbers]
    assert len(set(found["fineweb-edu-score-label"])) == 2


def test_a_score_from_halfway_on_is_high_and_rounds_to_the_even_number() -> None:
    found = FineWebModel("org/m").columns(
        {"logits": np.array([[2.5], [3.5], [-1.0], [7.0], [2.49], [np.float32(2.5)]], np.float32)}
    )
    assert found["int_score"].tolist() == [2, 4, 0, 5, 2, 2]
    assert found["float_score"].tolist() == pytest.approx([2.5, 3.5, 0, 5, 2.49, 2.5])
    assert found["preds"] == [
        "high_quality",
        "high_quality",
        "low_quality",
        "high_quality",
        "low_quality",
        "high_quality",
    ]
    assert found["int_score"].dtype == np.int64


def test_low_quality_is_dropped_and_counted(published: Published) -> None:
    stage = FineWebEduClassifier(model=published.scorer, max_seq_length=64, filter_by=["high_quality"])
    result = run(stage, *TEXTS)
    high = sum(plainly(published.scorer, TEXTS, 64)[:, 0] >= 2.5)
    assert result.report.stages[-1].dropped == {"fineweb-edu-score-label: low_quality": len(TEXTS) - high}
    with pytest.raises(PipelineError, match="unknown label .*; there are 'low_quality', 'high_quality'"):
        FineWebEduClassifier(filter_by=["high"])


def test_tokens_that_are_there_are_cut_to_what_the_model_takes(published: Published) -> None:
    tokens = FineWebEduClassifier(model=published.scorer, max_seq_length=128, keep_tokens=True)
    again = FineWebMixtralEduClassifier(model=published.scorer, max_seq_length=64, use_existing_tokens=True)
    result = Pipeline("p", stages=[tokens, again]).run(InlineExecutor(), initial_tasks=[batch("word " * 200)])
    ids = AutoTokenizer.from_pretrained(published.scorer)("word " * 200, truncation=True, max_length=128)["input_ids"]
    with torch.no_grad():
        model = AutoModelForSequenceClassification.from_pretrained(published.scorer).eval()
        expected = model(torch.tensor([ids[:64]])).logits.item()
    assert columns(result)["fineweb-mixtral-edu-score-float"][0] == pytest.approx(min(5, max(0, expected)), abs=1e-5)


@pytest.mark.parametrize(
    ("made", "prefix", "rows"),
    [
        (FineWebEduClassifier(), "fineweb-edu", 256),
        (FineWebMixtralEduClassifier(), "fineweb-mixtral-edu", 1024),
        (FineWebNemotronEduClassifier(), "fineweb-nemotron-edu", 1024),
    ],
)
def test_columns_and_defaults_are_those_of_nemo_curator(made: Any, prefix: str, rows: int) -> None:
    tokenizer, model = made.decompose()
    assert made.outputs()[1] == [f"{prefix}-score-label", f"{prefix}-score-float", f"{prefix}-score-int"]
    assert (tokenizer.max_seq_length, tokenizer.max_chars, model.model_inference_batch_size) == (512, None, rows)


def test_a_model_of_labels_is_no_scorer(moods: Path) -> None:
    with pytest.raises(DataError, match="has 3 outputs, not the one of a scorer; use SequenceClassifier"):
        ScoreModel(str(moods)).setup()


def test_finemath_looks_at_the_middle_of_a_text_and_leaves_the_text_as_it_is(published: Published) -> None:
    stage = FineMathClassifier(model=published.scorer, center_crop_chars=30, max_seq_length=64)
    found = columns(run(stage, *TEXTS))
    middles = tuple(centre(text or "", 30) for text in TEXTS)
    expected = np.clip(plainly(published.scorer, middles, 64)[:, 0], 0, 5)
    assert found["text"] == list(TEXTS)
    assert np.allclose(found["finemath_scores"], expected, atol=1e-5)
    assert found["finemath_int_scores"] == np.round(expected).astype(int).tolist()
    assert sorted(found) == ["finemath_int_scores", "finemath_scores", "text"]


def test_finemath_looks_at_the_whole_of_a_text_if_it_is_told_so(published: Published) -> None:
    stage = FineMathClassifier(model=published.scorer, center_crop_chars=None, max_seq_length=64)
    expected = np.clip(plainly(published.scorer, TEXTS, 64)[:, 0], 0, 5)
    assert np.allclose(columns(run(stage, *TEXTS))["finemath_scores"], expected, atol=1e-5)


def test_the_middle_is_the_same_number_of_characters_on_both_sides() -> None:
    assert [centre("0123456789"[:n], 2) for n in (10, 9, 4, 3, 1, 0)] == ["3456", "2345", "0123", "012", "0", ""]


def test_scores_are_filtered_by_a_rule_and_not_by_labels(published: Published) -> None:
    with pytest.raises(PipelineError, match=r"scores and no labels to filter by; put Filter\(lambda score: score >= 3"):
        FineMathClassifier(filter_by=["3"])
    stages = [
        FineMathClassifier(model=published.scorer, max_seq_length=64),
        Filter(lambda score: score >= 3, "finemath_int_scores"),
    ]
    result = Pipeline("p", stages=stages).run(InlineExecutor(), initial_tasks=[batch(*TEXTS)])
    assert all(score >= 3 for score in columns(result)["finemath_int_scores"])


def test_a_classifier_between_lines_leaves_all_other_columns_as_they_came(moods: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(b'{"n": 1.0, "text": "one two"}\n{"n" :"x", "text": "three"}\n')
    reader = JsonlReader(str(tmp_path / "in.jsonl"), schema={"n": "int64"})  # refuses the second, if it is parsed
    stages: list[AnyStage] = [reader, SequenceClassifier(str(moods)), JsonlWriter(str(tmp_path / "out"))]
    Pipeline("test", stages=stages).run(InlineExecutor(), observers=[])
    [path] = (tmp_path / "out").glob("*.jsonl")
    first, second = path.read_bytes().splitlines()
    assert first.startswith(b'{"n": 1.0, "text": "one two"')
    assert second.startswith(b'{"n" :"x", "text": "three"')
    assert {*json.loads(first)} > {"n", "text"}
