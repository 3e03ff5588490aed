from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dcurate import DataError, PipelineError
from dcurate.models import FastTextClassifier
from dcurate.models.fasttext import RunFastText
from dcurate.text import FastTextQualityFilter
from tests.models.classifiers.rows import batch, columns, run

#: See their README.
MODELS = Path(__file__).parents[1] / "text" / "models"
QUALITY, LANGUAGES, QUANTIZED = MODELS / "quality.bin", MODELS / "languages.bin", MODELS / "quantized.ftz"

#: What fastText 0.9.2 predicts with languages.bin.
FOUND = {
    "the committee published results": ("eng_Latn", 0.996849775314331),
    "das haus": ("deu_Latn", 0.9989789724349976),
    "море\nје": ("srp_Cyrl", 0.9975458383560181),
    "": ("fra_Latn", 0.44144997000694275),
}


def test_label_and_probability_are_those_of_fasttext() -> None:
    found = columns(run(FastTextClassifier(model=LANGUAGES), *FOUND))
    assert found["label"] == [label for label, _ in FOUND.values()]
    assert found["score"] == pytest.approx([score for _, score in FOUND.values()], abs=1e-9)
    assert found["text"] == list(FOUND)


def test_a_null_text_counts_as_empty() -> None:
    found = columns(run(FastTextClassifier(model=LANGUAGES), None, ""))
    assert found["label"][0] == found["label"][1]
    assert found["text"] == [None, ""]


@pytest.mark.parametrize("of", ["hq", "__label__hq"])
def test_the_score_may_be_the_probability_of_one_label(of: str) -> None:
    texts = ["the committee published results", "buy cheap pills\nnow"]
    found = columns(run(FastTextClassifier(model=QUALITY, score_of=of), *texts))
    assert found["label"] == ["hq", "lq"]
    assert found["score"][0] == FastTextQualityFilter(QUALITY).score_document(texts[0])
    assert found["score"][1] < 0.01


@pytest.mark.parametrize("model", [QUALITY, QUANTIZED])
def test_rows_with_other_labels_are_dropped_and_counted(model: Path) -> None:
    texts = ["the committee published results", "buy cheap pills now", "free bonus casino"]
    whole = columns(run(FastTextClassifier(model=model), *texts))["label"]
    result = run(FastTextClassifier(model=model, filter_by=["hq"]), *texts)
    assert columns(result)["label"] == ["hq"] * whole.count("hq")
    assert result.report.stages[-1].dropped == {"label: lq": whole.count("lq")}
    assert result.report.stages[-2].scores["label"] == {label: whole.count(label) for label in set(whole)}


def test_a_probability_is_never_above_one() -> None:
    texts = ["the committee published results " * 50, "buy cheap pills now " * 50]
    assert all(0 <= score <= 1 for score in columns(run(FastTextClassifier(model=QUALITY), *texts))["score"])


def test_the_column_of_scores_may_be_left_out_and_names_may_be_chosen() -> None:
    stage = FastTextClassifier(model=LANGUAGES, label_field="lang", score_field=None, text_field="body")
    assert columns(run(stage, "x", body=["das haus"])) == {"text": ["x"], "body": ["das haus"], "lang": ["deu_Latn"]}


def test_a_batch_of_no_rows_has_the_same_columns_of_the_same_types() -> None:
    (stage,) = FastTextClassifier(model=LANGUAGES).decompose()
    stage.setup()
    assert stage.process(batch()).to_arrow().schema == stage.process(batch("a")).to_arrow().schema
    assert stage.process(batch("a")).to_arrow().schema.field("label").type == pa.string()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": ""}, "no model; give the path of a fastText model"),
        ({"score_field": None, "score_of": "hq"}, "score_of='hq' without a score_field; name the column"),
        ({"score_field": "label"}, "columns 'label', 'label' must have different names"),
    ],
)
def test_what_cannot_be_is_refused_when_the_stage_is_made(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence):
        FastTextClassifier(**{"model": QUALITY, **settings})


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        ({"model": "gone.bin"}, DataError, "no fastText model at 'gone.bin'; put it there on every host"),
        ({"wanted": ("HQ",)}, PipelineError, "filter_by has an unknown label 'HQ'; there are 'lq', 'hq'"),
        ({"score_of": "good"}, PipelineError, "score_of='good' is not a label of the model; there are 'lq', 'hq'"),
        ({"model": __file__}, DataError, "is not a fastText classifier"),
    ],
)
def test_a_model_that_does_not_suit_is_refused_in_set_up(
    settings: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        RunFastText(**{"model": QUALITY, **settings}).setup()


def test_a_column_that_is_there_is_replaced_only_if_that_is_said() -> None:
    with pytest.raises(
        PipelineError, match="column 'score' already exists; give another score_field, or overwrite=True"
    ):
        run(FastTextClassifier(model=QUALITY), "a", score=[1])
    stage = FastTextClassifier(model=QUALITY, overwrite=True)
    assert columns(run(stage, "a", score=["?"]))["score"] != ["?"]


def test_the_stage_travels_without_its_model() -> None:
    (stage,) = FastTextClassifier(model=LANGUAGES).decompose()
    stage.setup()
    assert not stage.cheap_setup
    assert len(pickle.dumps(stage)) < 2000
