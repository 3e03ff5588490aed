"""Models on a GPU that is not there: every tensor on the right device, of the right shape and dtype, no waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from dcurate import WorkerMetadata
from dcurate.hub.loading import pretrained
from dcurate.hub.weights import Weights
from dcurate.models import (
    EmbeddingModel,
    FilterByClipScore,
    ImageEmbedding,
    ModelStage,
    SentenceTransformerModel,
)
from dcurate.models.classifiers.finemath import FineMathModel
from dcurate.models.classifiers.fineweb import FineWebModel
from dcurate.models.classifiers.llama_guard import InstructionDataGuardModel, RunAegis
from dcurate.models.classifiers.prompts import PromptTaskComplexityModel
from dcurate.models.classifiers.quality import ClassifierModel
from dcurate.models.classifiers.sequence import ClassifySequences
from tests.models import tiny
from tests.models.classifiers.conftest import Published
from tests.models.classifiers.conftest import published as published  # noqa: PLC0414 - a fixture
from tests.models.embedders.tiny_sentences import tiny_sentences
from tests.models.fake_cuda import CUDA, fake_cuda, forward, moved
from tests.models.stages import Classify, Encode
from tests.models.test_inference import columns, of
from tests.models.vision.tiny_vision import tiny_vision

#: Rows with padding and without, for which `ModelStage` gives a model other inputs; exact and in 16 bits.
CASES = (((8, 3), None), ((8, 8), torch.bfloat16))


def check(make: Callable[[], ModelStage], wanted: dict[str, tuple[tuple[int, ...], Any]]) -> None:
    """Results on the GPU, of these shapes and dtypes."""
    for lengths, half in CASES:
        stage = make()
        stage.setup(WorkerMetadata("here/0"))
        try:
            found = forward(stage, lengths, 8, half)
        finally:
            stage.teardown()
        assert found == {name: ("cuda:0", *given) for name, given in wanted.items()}


@pytest.mark.parametrize(
    ("architecture", "pooling", "side"),
    [
        ("bert", "mean_pooling", "right"),
        ("xlm-roberta", "cls", "right"),
        ("llama", "last_token", "left"),
        ("deberta-v2", "mean_pooling", "right"),
    ],
)
def test_embedders_stay_on_the_gpu(architecture: str, pooling: Any, side: Any, encoders: dict[str, Path]) -> None:
    made = str(encoders[architecture])
    size = torch.float32
    check(lambda: EmbeddingModel(made, pooling=pooling, padding_side=side), {"embeddings": ((2, 32), size)})


def test_layers_of_sentence_transformers_stay_on_the_gpu(tmp_path: Path) -> None:
    layers = ("Dense", "Residual", "LayerNorm", "Narrow", "Normalize")
    folder = str(tiny_sentences(tmp_path, ("mean", "max", "weightedmean"), layers))
    check(lambda: SentenceTransformerModel(folder), {"embeddings": ((2, 8), torch.float32)})


@pytest.mark.parametrize("architecture", ["bert", "llama"])
def test_classifiers_of_sequences_stay_on_the_gpu(architecture: str, classifiers: dict[str, Path]) -> None:
    folder = str(classifiers[architecture])
    check(lambda: ClassifySequences(folder), {"probabilities": ((2, 2), torch.float32)})


def test_published_classifiers_stay_on_the_gpu(published: Published) -> None:
    check(lambda: ClassifierModel(published.quality), {"probabilities": ((2, 3), torch.float32)})
    for scorer in (FineWebModel, FineMathModel):
        check(lambda scorer=scorer: scorer(published.scorer), {"logits": ((2, 1), torch.float32)})  # type: ignore[misc]
    heads = dict.fromkeys(("creativity_scope", "reasoning"))
    stage = PromptTaskComplexityModel(published.prompts)
    stage.setup(WorkerMetadata("here/0"))
    found = forward(stage, (8, 3), 8)
    stage.teardown()
    assert {name: found[name][0] for name in heads} == dict.fromkeys(heads, "cuda:0")


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_guard_of_instructions_stays_on_the_gpu(published: Published) -> None:
    names: Any = {"base_model": published.llama, "adapter_identifier": published.adapter}
    check(lambda: InstructionDataGuardModel(published.guard, **names), {"probability": ((2,), torch.float32)})


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("is_beginning_shared", [True, False])
def test_the_answers_of_aegis_are_generated_on_the_gpu(published: Published, is_beginning_shared: bool) -> None:
    stage = RunAegis(published.adapter, base_model=published.llama)
    stage.setup(WorkerMetadata("here/0"))
    known = len(stage._prefix.tokens)
    lengths = known + 9, known + 4
    asked = [lengths[1], is_beginning_shared, *([lengths[0]] if is_beginning_shared else [])]
    # Generation asks whether rows are padded on the wrong side, and after each token whether all answers have ended.
    found = forward(stage, lengths, known + 12, answers=[*asked, *[False] * 5, True])
    assert stage._prefix._states is not None or not is_beginning_shared
    stage.teardown()
    assert known > 1000
    assert found == {"answers": ("cuda:0", (2, 100), torch.int64)}


@pytest.mark.parametrize("architecture", ["clip", "siglip", "dinov2", "vit", "convnext"])
@pytest.mark.parametrize("half", [None, torch.bfloat16])
def test_vision_models_stay_on_the_gpu(
    architecture: str, half: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def noted(answer: Any) -> None:
        tensor = answer if isinstance(answer, torch.Tensor) else answer.pooler_output
        made.append((str(tensor.device), len(tensor)))

    monkeypatch.setattr("dcurate.models.vision.encoder.rows_of", noted)
    folder = tiny_vision(tmp_path, architecture)
    has_texts = architecture in ("clip", "siglip")
    stage: Any = FilterByClipScore(folder) if has_texts else ImageEmbedding(folder)
    stage.setup(WorkerMetadata("here/0"))
    encoder = stage.encoder
    prepared = [encoder.prepared(np.zeros((40, 50, 3), np.uint8))] * 3
    with fake_cuda(half):
        moved(encoder.model)
        encoder.images(prepared, CUDA)
        if has_texts:
            encoder.texts(["a cat", "two dogs"], CUDA)
    stage.teardown()
    assert made == [("cuda:0", 3), ("cuda:0", 2)][: 1 + has_texts]


def test_a_tensor_that_a_stage_leaves_on_the_host_is_an_error_here(encoders: dict[str, Path]) -> None:
    class Astray(Encode):
        def process_model_output(self, outputs: Any, inputs: Any) -> dict[str, Any]:
            return {"vector": outputs.last_hidden_state[:, 0] * torch.ones(32)}

    with pytest.raises(RuntimeError, match="two devices"):
        check(lambda: Astray(str(encoders["bert"])), {})


class Waits(TorchFunctionMode):
    """Counts how often the host asks for a number in a tensor, for which it would wait for a GPU."""

    number = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        asks = ("__bool__", "__int__", "__float__", "__index__", "item", "tolist", "numpy", "cpu", "__contains__")
        self.number += getattr(function, "__name__", "") in asks
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("architecture", ["bert", "llama"])
def test_rows_of_one_length_are_embedded_without_waiting_for_the_gpu(
    architecture: str, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = EmbeddingModel(str(encoders[architecture]), padding_side="left" if architecture == "llama" else "right")
    stage.setup(WorkerMetadata("here/0"))
    forward, counted = stage._forward, []

    def watched(batch: Any) -> Any:
        with Waits() as waits:
            found = forward(batch)
        counted.append((batch.is_full, waits.number))
        return found

    monkeypatch.setattr(stage, "_forward", watched)
    stage.process(of([[5, 6, 7, 8]] * 3))
    stage.process(of([[5, 6, 7, 8], [9]]))
    stage.teardown()
    assert [is_full for is_full, _ in counted] == [True, False]
    assert counted[0][1] == 0
    assert counted[1][1] > 0, "with a mask there are waits, which the count sees"


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_of_one_length_have_the_same_bits_with_a_mask(
    architecture: str, side: Any, classifiers: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Classify(str(classifiers[architecture]), padding_side=side)
    stage.setup(WorkerMetadata("here/0"))
    rows = of([[7, 5, 9, 11], [5, 5, 6, 7]])
    (without,) = columns(stage.process(rows), "scores")
    loaded = stage._ready()
    assert loaded.maskless == (architecture != "deberta-v2")  # its attention is its own, which multiplies by the mask
    monkeypatch.setattr(stage, "_loaded", SimpleNamespace(**{**vars(loaded), "maskless": False}))
    (with_mask,) = columns(stage.process(rows), "scores")
    monkeypatch.undo()
    stage.teardown()
    assert without.tobytes() == with_mask.tobytes()


def test_weights_go_straight_to_the_device(encoders: dict[str, Path]) -> None:
    folder = str(encoders["bert"])
    made = pretrained("AutoModel", Weights(folder), folder, torch.device("meta"))
    assert {weight.device.type for weight in made.parameters()} == {"meta"}


@pytest.mark.parametrize("backend", ["native", "pluggable"])
def test_weights_go_straight_to_a_gpu_unless_torch_takes_its_memory_elsewhere(
    backend: str, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers asks Torch's allocator how much it holds, and one of RMM does not say."""
    asked = []

    def noted(folder: str, **settings: Any) -> Any:
        asked.append(settings.get("device_map"))
        raise OSError("no GPU here")

    monkeypatch.setattr("transformers.AutoModel.from_pretrained", noted)
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: backend)
    folder = str(encoders["bert"])
    with pytest.raises(Exception, match="no GPU here"):
        pretrained("AutoModel", Weights(folder), folder, torch.device("cuda", 1))
    assert asked == [{"": torch.device("cuda", 1)} if backend == "native" else None]
