from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from dcurate import PipelineError, ResourceError, Resources
from dcurate.models import (
    AegisClassifier,
    FineMathClassifier,
    FineWebEduClassifier,
    InstructionDataGuardClassifier,
    ModelStage,
    PromptTaskComplexityClassifier,
    QualityClassifier,
    SequenceClassifier,
)
from tests.models.stages import Classify


@pytest.fixture
def bert(classifiers: dict[str, Path]) -> Path:
    return classifiers["bert"]


def test_a_subclass_may_say_what_it_needs_itself() -> None:
    class Large(Classify):
        resources = Resources(cpus=2, gpus=2)

    assert Large("org/tiny").resources == Resources(cpus=2, gpus=2)
    assert not Large("org/tiny").spec.gpu_optional


def test_slots_of_small_classifiers_have_half_a_gpu_and_others_a_whole_one() -> None:
    halves = [QualityClassifier(), PromptTaskComplexityClassifier(), FineWebEduClassifier(), FineMathClassifier()]
    assert [one.model_stage().resources.gpus for one in halves] == [0.5] * 4
    wholes = [AegisClassifier(), InstructionDataGuardClassifier(), SequenceClassifier("org/model")]
    assert [one.model_stage().resources.gpus for one in wholes] == [1.0] * 3


def test_a_gpu_that_is_not_there_is_refused_at_setup(bert: Path) -> None:
    with pytest.raises(ResourceError, match=r"should run on cuda:0, but torch .*; install a Torch"):
        Classify(str(bert), device="cuda").setup()


def test_a_gpu_is_asked_for_where_there_is_one_or_always_or_never() -> None:
    assert [(stage.resources.gpus, stage.spec.gpu_optional) for stage in map(_on, ("auto", "cuda", "cpu"))] == [
        (1.0, True),
        (1.0, False),
        (0.0, False),
    ]
    assert not _on("auto").with_(resources=Resources(gpu_memory_gb=4)).spec.gpu_optional


def _on(device: str) -> ModelStage:
    return Classify("org/tiny", device=device)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_inference_batch_size": 0}, "model_inference_batch_size=0 must be a whole number, at least 1"),
        ({"max_batch_tokens": 2.5}, "max_batch_tokens=2.5 must be"),
        ({"max_seq_length": -1}, "max_seq_length=-1 must be"),
        ({"padding_side": "top"}, "padding_side='top' must be 'left' or 'right'"),
        ({"autocast": "int8"}, "autocast='int8' must be True, False"),
        ({"device": "gpu"}, "unknown device 'gpu'; give 'auto'"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Classify("org/tiny", **settings)


def test_settings_are_what_decides_the_rows_and_the_token_shows_nowhere(bert: Path) -> None:
    plain = Classify("org/tiny", revision="v1", max_seq_length=9)
    moved = Classify(
        "org/tiny",
        revision="v1",
        max_seq_length=9,
        cache_dir="/there",
        hf_token="hf_secret",
        device="cpu",
        max_batch_tokens=7,
        model_inference_batch_size=3,
    )
    assert plain.settings() == moved.settings()
    assert {"model", "revision", "max_seq_length", "autocast"} <= set(plain.settings())
    assert "hf_secret" not in repr(moved) + repr(moved.settings())
    loaded = Classify(str(bert))
    loaded.setup()
    assert loaded.settings() == Classify(loaded.model).settings()
    assert len(pickle.dumps(loaded)) < 2000
    assert pickle.loads(pickle.dumps(loaded)) == loaded
    loaded.teardown()
