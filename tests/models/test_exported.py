import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dcurate import DocumentBatch, PipelineError
from dcurate.frames.vectors import vectors_in
from dcurate.models import PromptTaskComplexityClassifier, SequenceClassifier, TextEmbedding
from dcurate.models.exported import BACKENDS
from tests.models.embedders.tiny_sentences import TEXTS, tiny_sentences
from tests.models.tiny import tiny_classifier

QUICK = BACKENDS[1:]


@pytest.fixture(autouse=True, scope="module")
def own_exports(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Exports of these tests lie in a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("exports")))
        yield


def through(stages: list[Any], table: pa.Table) -> tuple[pa.Table, dict[str, float]]:
    """The rows after stages, each set up as a run does it, and the figures of the last one."""
    batch = DocumentBatch(data=table)
    for stage in stages:
        stage.setup_on_node()
        stage.setup()
        try:
            batch = stage.process(batch)
        finally:
            stage.teardown()
    return batch.to_arrow(), stages[-1].take_metrics()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_sentences(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_classifier(tmp_path_factory.mktemp("classifier")))


@pytest.mark.parametrize("backend", QUICK)
def test_a_backend_embeds_texts_as_torch_does(encoder: str, backend: str) -> None:
    texts = [" ".join(TEXTS[: number % 5 + 1]) for number in range(20)] + [*TEXTS, "", None]
    table = pa.table({"text": pa.array(texts, pa.string())})
    exact = vectors_in(through(TextEmbedding(model=encoder).decompose(), table)[0], "embeddings")
    stages = TextEmbedding(model=encoder, backend=backend, min_agreement=0.9).decompose()
    found, figures = through(stages, table)
    cosines = (exact * vectors_in(found, "embeddings")).sum(axis=1)
    assert cosines.min() > (0.99999 if backend == "onnx" else 0.95)
    assert 0.9 * figures["compared_rows"] <= figures["agreeing_rows"] <= 1.0001 * figures["compared_rows"]


def test_a_backend_gives_the_labels_of_torch(classifier: str) -> None:
    table = pa.table({"text": [*TEXTS, ""]})
    exact, _ = through(SequenceClassifier(model=classifier).decompose(), table)
    found, figures = through(SequenceClassifier(model=classifier, backend="onnx").decompose(), table)
    assert found.column("label").equals(exact.column("label"))
    np.testing.assert_allclose(found.column("score"), exact.column("score"), atol=1e-5)
    assert figures["agreeing_rows"] == figures["compared_rows"] > 0


def test_a_model_is_exported_once_and_again_when_its_files_change(classifier: str) -> None:
    model: Any = SequenceClassifier(model=classifier, backend="onnx").decompose()[1]
    model.setup_on_node()
    place = model._exported(classifier)
    first = (place / "model.onnx").stat().st_mtime_ns
    model.setup_on_node()
    assert (place / "model.onnx").stat().st_mtime_ns == first
    os.utime(Path(classifier) / "config.json", ns=(1, 1))
    assert model._exported(classifier) != place


def test_a_backend_that_agrees_too_little_is_refused_before_the_run(classifier: str) -> None:
    model: Any = SequenceClassifier(model=classifier, backend="onnx").decompose()[1]
    model.setup_on_node()
    path = model._exported(classifier) / "facts.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "agreement": 0.97}))
    with pytest.raises(PipelineError, match=r"agrees with Torch to 0.9700 on \d+ texts, less than min_agreement=0.98"):
        model.setup_on_node()
    SequenceClassifier(model=classifier, backend="onnx", min_agreement=0.9).decompose()[1].setup_on_node()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backend": "onxx"}, "unknown backend 'onxx'; did you mean 'onnx'"),
        ({"backend": "onnx", "device": "cuda"}, "leave out device='cuda'"),
        ({"backend": "onnx", "autocast": "bf16"}, "leave out autocast='bf16'"),
        ({"backend": "onnx", "min_agreement": 1.5}, "must be a number from 0 to 1"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_at_once(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        SequenceClassifier(model="org/model", **settings)


def test_a_model_that_cannot_be_exported_is_refused() -> None:
    with pytest.raises(PipelineError, match="cannot be exported"):
        PromptTaskComplexityClassifier(backend="onnx")


def test_a_backend_takes_no_gpu() -> None:
    model: Any = SequenceClassifier(model="org/model", backend="onnx").decompose()[1]
    assert model.resources.gpus == 0
    assert model.device == "cpu"
