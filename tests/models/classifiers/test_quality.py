from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from dcurate import DataError, InlineExecutor, Pipeline, PipelineError, Resources
from dcurate.hub.weights import Weights
from dcurate.models import (
    ContentTypeClassifier,
    DistributedDataClassifier,
    DomainClassifier,
    MultilingualDomainClassifier,
    QualityClassifier,
    Tokenize,
)
from dcurate.models.classifiers.checkpoint import encoder_config
from dcurate.models.classifiers.quality import ClassifierModel
from tests.models.classifiers.checkpoints import Deberta
from tests.models.classifiers.conftest import Published
from tests.models.classifiers.rows import TEXTS, batch, columns, run

LABELS = ("High", "Medium", "Low")


def plainly(folder: str, texts: tuple[str | None, ...], max_chars: int, max_length: int) -> Any:
    """What the published module says, read by its own library, a text at a time."""
    module, tokenizer = Deberta.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    found = []
    for text in texts:
        tokens = tokenizer((text or "")[:max_chars], truncation=True, max_length=max_length, return_tensors="pt")
        with torch.no_grad():
            states = module.model(tokens["input_ids"], tokens["attention_mask"]).last_hidden_state
            found.append(torch.softmax(module.fc(states)[:, 0, :], dim=1)[0].numpy())
    return np.array(found)


def test_labels_and_probabilities_are_those_of_the_published_module(published: Published) -> None:
    stage = QualityClassifier(model=published.quality, score_field="probabilities", max_chars=900)
    found = columns(run(stage, *TEXTS))
    expected = plainly(published.quality, TEXTS, 900, 1024)
    assert np.allclose(found["probabilities"], expected, atol=1e-5)
    assert found["quality_pred"] == [LABELS[best] for best in expected.argmax(axis=1)]
    assert len(set(found["quality_pred"])) > 1
    assert (found["text"], sorted(found)) == (list(TEXTS), ["probabilities", "quality_pred", "text"])


def test_only_so_many_characters_and_tokens_are_looked_at(published: Published) -> None:
    cut = DistributedDataClassifier(
        model=published.quality, score_field="p", max_chars=100, max_seq_length=12, sort_by_length=False
    )
    assert np.allclose(columns(run(cut, *TEXTS))["p"], plainly(published.quality, TEXTS, 100, 12), atol=1e-5)


@pytest.mark.gpu
def test_a_gpu_gives_nearly_the_probabilities_of_a_cpu(published: Published) -> None:
    stage = QualityClassifier(model=published.quality, score_field="p", max_chars=900, device="cuda")
    found = columns(run(stage, *TEXTS))["p"]
    assert np.allclose(found, plainly(published.quality, TEXTS, 900, 1024), atol=0.01)


def test_a_batch_of_no_rows_has_the_same_columns_of_the_same_types(published: Published) -> None:
    stage = QualityClassifier(model=published.quality, score_field="p")
    inner = stage.decompose()
    for each in inner:
        each.setup()
    some: Any = batch("a text")
    none: Any = batch()
    for each in inner:
        some, none = each.process(some), each.process(none)
    assert none.num_items == 0
    assert none.to_arrow().schema == some.to_arrow().schema
    assert some.to_arrow().schema.field("p").type == pa.list_(pa.float32(), 3)


def test_rows_with_other_labels_are_dropped_and_counted_in_the_report(published: Published) -> None:
    everything = columns(run(QualityClassifier(model=published.quality), *TEXTS))["quality_pred"]
    most = max(set(everything), key=everything.count)
    result = run(QualityClassifier(model=published.quality, filter_by=[most]), *TEXTS)
    assert columns(result)["quality_pred"] == [most] * everything.count(most)
    model, kept = result.report.stages[-2:]
    assert kept.name == "filter_fn"
    assert kept.dropped == {f"quality_pred: {label}": everything.count(label) for label in set(everything) - {most}}
    assert model.scores["quality_pred"] == {label: everything.count(label) for label in set(everything)}
    assert model.metrics["documents"] == len(TEXTS)


def test_rows_that_are_dropped_go_where_rejected_rows_go(published: Published, tmp_path: Path) -> None:
    stage = QualityClassifier(model=published.quality, filter_by=["High"])
    everything = columns(run(QualityClassifier(model=published.quality), *TEXTS))["quality_pred"]
    pipeline = Pipeline("p", stages=[stage])
    pipeline.run(InlineExecutor(), initial_tasks=[batch(*TEXTS)], rejected=str(tmp_path / "rejected"))
    files = sorted((tmp_path / "rejected").rglob("*.jsonl"))
    gone = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    assert sorted(row["_dcurate_reason"] for row in gone) == sorted(
        f"quality_pred: {label}" for label in everything if label != "High"
    )


def test_tokens_may_be_kept_and_used_by_the_next_classifier_with_the_same_tokenizer(published: Published) -> None:
    first = QualityClassifier(model=published.quality, score_field="p", keep_tokens=True)
    second = DistributedDataClassifier(
        model=published.quality, label_field="again", score_field="q", use_existing_tokens=True
    )
    assert len(second.decompose()) == 1
    result = Pipeline("p", stages=[first, second]).run(InlineExecutor(), initial_tasks=[batch(*TEXTS)])
    found = columns(result)
    assert "input_ids" not in found
    assert (found["again"], found["q"]) == (found["quality_pred"], found["p"])


def test_tokens_that_are_there_are_neither_taken_nor_lost_unless_that_is_said(published: Published) -> None:
    with pytest.raises(PipelineError, match=r"'input_ids' already exists; to use .* \(of a classifier: use_ex"):
        run(QualityClassifier(model=published.quality), "a", input_ids=pa.array([[1, 2]]))
    found = columns(run(QualityClassifier(model=published.quality, overwrite=True), "a", input_ids=pa.array([[1, 2]])))
    assert found == columns(run(QualityClassifier(model=published.quality), "a"))


def test_two_classifiers_with_tokens_of_their_own_may_stand_in_a_row(published: Published) -> None:
    stages = [
        QualityClassifier(model=published.quality),
        DomainClassifier(model=published.quality),
    ]
    result = Pipeline("p", stages=stages).run(InlineExecutor(), initial_tasks=[batch(*TEXTS)])
    assert sorted(columns(result)) == ["domain_pred", "quality_pred", "text"]


def test_a_column_of_labels_that_is_there_is_replaced_only_if_that_is_said(published: Published) -> None:
    with pytest.raises(
        PipelineError, match="column 'quality_pred' already exists; give another label_field, or overwrite"
    ):
        run(QualityClassifier(model=published.quality), "a", quality_pred=["?"])
    stage = QualityClassifier(model=published.quality, score_field="p", overwrite=True)
    found = columns(run(stage, "a", quality_pred=["?"], p=[[1.0, 2.0, 3.0]]))
    assert found["quality_pred"] == columns(run(QualityClassifier(model=published.quality), "a"))["quality_pred"]
    assert abs(sum(found["p"][0]) - 1) < 1e-5
    with pytest.raises(PipelineError, match=r"columns 'a', 'a' must have different names"):
        QualityClassifier(label_field="a", score_field="a")


def test_a_text_column_that_is_not_there_is_named_before_anything_runs(published: Published) -> None:
    stage = QualityClassifier(model=published.quality, text_field="body")
    with pytest.raises(PipelineError, match="reads column 'body'"):
        run(stage, "a")


@pytest.mark.parametrize(
    ("made", "name", "label", "chars", "tokens", "model"),
    [
        (
            QualityClassifier(),
            "quality_classifier_deberta",
            "quality_pred",
            6000,
            1024,
            "nvidia/quality-classifier-deberta",
        ),
        (DomainClassifier(), "domain_classifier", "domain_pred", 2000, 512, "nvidia/domain-classifier"),
        (
            MultilingualDomainClassifier(),
            "multilingual_domain_classifier",
            "multilingual_domain_pred",
            2000,
            512,
            "nvidia/multilingual-domain-classifier",
        ),
        (
            ContentTypeClassifier(),
            "content_type_classifier_deberta",
            "content_pred",
            6000,
            1024,
            "nvidia/content-type-classifier-deberta",
        ),
    ],
)
def test_defaults_and_names_of_stages_are_those_of_nemo_curator(
    made: DistributedDataClassifier, name: str, label: str, chars: int, tokens: int, model: str
) -> None:
    tokenizer, runner = made.decompose()
    assert isinstance(tokenizer, Tokenize)
    assert isinstance(runner, ClassifierModel)
    assert (made.name, tokenizer.name, runner.name) == (f"{name}_classifier", f"{name}_tokenizer", f"{name}_model")
    assert (tokenizer.model, runner.model) == (model, model)
    assert (tokenizer.max_chars, tokenizer.max_seq_length, runner.label_field) == (chars, tokens, label)
    assert (runner.model_inference_batch_size, runner.autocast, runner.has_seq_order) == (256, True, True)


def test_settings_reach_the_inner_stages_and_with_names_them() -> None:
    made = QualityClassifier(cache_dir="c", hf_token="t", revision="r", device="cpu", model_inference_batch_size=8)
    tokenizer: Any
    runner: Any
    tokenizer, runner = made.decompose()
    assert tokenizer.weights == runner.weights == Weights("nvidia/quality-classifier-deberta", "r", "c", "t")
    assert runner.resources == Resources(cpus=1.0)
    changed = made.with_({"quality_classifier_deberta_model": {"resources": Resources(cpus=4.0)}})
    assert changed.decompose_and_apply_with()[1].resources.cpus == 4.0


@pytest.mark.parametrize(
    ("made", "wrong", "right"),
    [
        (QualityClassifier, "high", "did you mean 'High'"),
        (DomainClassifier, "Sport", "did you mean 'Sports'"),
        (MultilingualDomainClassifier, "finance", "did you mean 'Finance'"),
        (ContentTypeClassifier, "Blog", "did you mean 'Blogs'"),
    ],
)
def test_a_label_that_the_published_model_never_says_is_refused_when_the_stage_is_made(
    made: type[Any], wrong: str, right: str
) -> None:
    with pytest.raises(PipelineError, match=f"filter_by has an unknown label '{wrong}'; {right}"):
        made(filter_by=wrong)


def test_labels_of_a_folder_are_its_own_and_of_an_unknown_model_are_looked_at_in_set_up(published: Published) -> None:
    with pytest.raises(PipelineError, match="filter_by has an unknown label 'Good'; there are 'High'"):
        QualityClassifier(model=published.quality, filter_by=["Good"])
    QualityClassifier(model="org/unknown", filter_by=["Good"])
    stage = ClassifierModel(published.quality, wanted=("Good",))
    with pytest.raises(PipelineError, match="filter_by has an unknown label 'Good'"):
        stage.setup()


def test_the_stage_travels_without_its_model(published: Published) -> None:
    stage = ClassifierModel(published.quality)
    stage.setup()
    assert len(pickle.dumps(stage)) < 2000
    stage.teardown()


def broken(published: Published, folder: Path, **changes: Any) -> str:
    """A copy of the classifier with another configuration."""
    shutil.copytree(published.quality, folder)
    path = folder / "config.json"
    config = {**json.loads(path.read_text("utf-8")), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}), "utf-8")
    return str(folder)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"id2label": None, "label2id": None}, "has no id2label; add the labels in the order"),
        ({"id2label": {"0": "a", "1": "b"}}, "has 2 labels in id2label, but the model has 3 outputs"),
        ({"hidden_size": 16}, r"do not fit its config.json: .* is of shape .*, not"),
        ({"num_hidden_layers": 5}, "is another kind of model: .* weights in all are missing"),
        (
            {"hidden_size": None, "base_model": "org/base"},
            "does not describe its encoder .base_model is 'org/base'",
        ),
    ],
)
def test_a_folder_that_does_not_fit_is_refused_in_one_sentence(
    published: Published, tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    stage = ClassifierModel(broken(published, tmp_path / "model", **changes))
    with pytest.raises(DataError, match=sentence):
        stage.setup()


def test_weights_have_the_names_that_the_published_ones_have(published: Published) -> None:
    # Written out, for the models here are saved by the transformers that reads them.
    layer = ["attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"]
    layer += ["attention.output.dense", "attention.output.LayerNorm"]
    layer += ["intermediate.dense", "output.dense", "output.LayerNorm"]
    pairs = [f"encoder.layer.{number}.{part}" for number in range(2) for part in layer]
    pairs += ["embeddings.LayerNorm", "encoder.LayerNorm"]
    names = {f"model.{pair}.{kind}" for pair in pairs for kind in ("weight", "bias")} | {"fc.weight", "fc.bias"}
    names |= {"model.embeddings.word_embeddings.weight", "model.encoder.rel_embeddings.weight"}
    assert set(load_file(Path(published.quality) / "model.safetensors")) == names


def test_weights_that_the_model_has_no_place_for_are_named(published: Published, tmp_path: Path) -> None:
    folder = Path(broken(published, tmp_path / "model"))
    weights = {**load_file(folder / "model.safetensors"), "fc2.weight": torch.zeros(2)}
    save_file({**weights, "model.embeddings.position_ids": torch.zeros(2)}, folder / "model.safetensors")
    stage = ClassifierModel(str(folder))
    with pytest.warns(UserWarning, match="1 weights of .* have no place in it: 'fc2.weight'"):
        stage.setup()
    stage.teardown()


def test_a_model_that_gives_no_numbers_is_refused(published: Published, tmp_path: Path) -> None:
    folder = Path(broken(published, tmp_path / "model"))
    weights = load_file(folder / "model.safetensors")
    weights["fc.bias"][0] = float("nan")
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(DataError, match="the model returned NaN for 2 of 2 texts, the first in row 0; pass autocast"):
        run(QualityClassifier(model=str(folder)), "a", "b")


@pytest.mark.parametrize(
    ("base", "vocabulary"), [("microsoft/DeBERTa-v3-base", 128100), ("microsoft/mdeberta-v3-base", 251000)]
)
def test_an_encoder_that_is_only_named_is_known(
    published: Published, tmp_path: Path, base: str, vocabulary: int
) -> None:
    folder = broken(published, tmp_path / "model", hidden_size=None, base_model=base)
    config = encoder_config(Weights(folder), folder)
    assert (config.vocab_size, config.hidden_size, config.num_hidden_layers) == (vocabulary, 768, 12)
    assert (config.relative_attention, config.pos_att_type, config.position_buckets) == (True, ["p2c", "c2p"], 256)


def test_the_base_model_may_be_a_folder(published: Published, tmp_path: Path) -> None:
    folder = broken(published, tmp_path / "model", hidden_size=None)
    assert encoder_config(Weights(folder), folder).hidden_size == 32


def test_weights_may_be_a_pickle_of_tensors(published: Published, tmp_path: Path) -> None:
    folder = Path(broken(published, tmp_path / "model"))
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    found = columns(run(QualityClassifier(model=str(folder)), *TEXTS))
    assert found == columns(run(QualityClassifier(model=published.quality), *TEXTS))
