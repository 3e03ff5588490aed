"""Stages that embed pictures, against transformers itself; the models are small and of random weights."""

from __future__ import annotations

import io
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

from dcurate import DataError, DocumentBatch, PipelineError, ResourceError
from dcurate.frames.vectors import vectors_in, with_vectors
from dcurate.media.refs import Ref, ref_array
from dcurate.models import FilterByAesthetics, FilterByClipScore, FilterByNsfw, ImageEmbedding
from tests.models.vision.tiny_vision import picture, tiny_heads, tiny_vision

PICTURES = [picture(seed, 40 + 7 * seed, 60 - 5 * seed, "JPEG" if seed % 2 else "PNG") for seed in range(5)]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_vision(tmp_path_factory.mktemp("clip"), "clip")


def batch(pictures: list[bytes] = PICTURES, **columns: list[Any]) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"bytes": pa.array(pictures, pa.large_binary()), **columns}))


def through(stage: Any, rows: DocumentBatch) -> DocumentBatch:
    stage = pickle.loads(pickle.dumps(stage))
    stage.setup_on_node()
    stage.setup()
    try:
        made: DocumentBatch = stage.process(rows)
    finally:
        stage.teardown()
    assert made.num_items + sum(gone.rows for gone in made.rejections) == rows.num_items
    return made


def reasons(made: DocumentBatch) -> dict[tuple[str, bool], int]:
    return {(gone.reason, gone.fault): gone.rows for gone in made.rejections}


def prepared(folder: str, data: bytes) -> Any:
    processor = AutoImageProcessor.from_pretrained(folder)
    return processor(images=[Image.open(io.BytesIO(data)).convert("RGB")], return_tensors="pt")["pixel_values"]


def wanted(folder: str, vector: Any) -> np.ndarray:
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        rows = [vector(model, prepared(folder, data)) for data in PICTURES]
    found = torch.cat(rows).numpy()
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def first(model: Any, pixels: Any) -> Any:
    return model(pixel_values=pixels).last_hidden_state[:, 0]


def features(model: Any, pixels: Any) -> Any:
    found = model.get_image_features(pixel_values=pixels)
    return found if isinstance(found, torch.Tensor) else found.pooler_output


def pooled(model: Any, pixels: Any) -> Any:
    return model(pixel_values=pixels).pooler_output


@pytest.mark.parametrize(
    ("architecture", "vector"),
    [("clip", features), ("siglip", features), ("dinov2", first), ("vit", first), ("convnext", pooled)],
)
def test_embeddings_are_those_of_the_model_in_the_folder(architecture: str, vector: Any, tmp_path: Path) -> None:
    folder = tiny_vision(tmp_path, architecture)
    made = through(ImageEmbedding(folder, model_inference_batch_size=2), batch())
    np.testing.assert_allclose(vectors_in(made.to_arrow(), "embeddings"), wanted(folder, vector), atol=2e-5)


def test_pictures_that_cannot_be_decoded_go_to_quarantine_and_the_others_keep_their_places(clip: str) -> None:
    pictures = [PICTURES[0], b"<html>", PICTURES[1], b""]
    made = through(ImageEmbedding(clip), batch(pictures, name=["a", "b", "c", "d"]))
    assert made.to_arrow()["name"].to_pylist() == ["a", "c"]
    assert reasons(made) == {("not a picture: HTML or XML", True): 1, ("empty", True): 1}
    alone = vectors_in(through(ImageEmbedding(clip), batch(PICTURES[1:2])).to_arrow(), "embeddings")
    np.testing.assert_allclose(vectors_in(made.to_arrow(), "embeddings")[1:], alone, atol=1e-6)
    assert through(ImageEmbedding(clip), batch([b"<html>"])).num_items == 0


def test_pictures_are_read_by_reference(clip: str, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"....." + PICTURES[0])
    refs = ref_array([Ref(str(tmp_path / "a.bin"), "x", 5, len(PICTURES[0])), Ref(str(tmp_path / "gone.png"))])
    made = through(ImageEmbedding(clip), DocumentBatch(data=pa.table({"media_ref": refs})))
    there = through(ImageEmbedding(clip), batch(PICTURES[:1]))
    assert vectors_in(made.to_arrow(), "embeddings").tolist() == vectors_in(there.to_arrow(), "embeddings").tolist()
    assert reasons(made) == {("missing", True): 1}


def test_captions_are_scored_by_the_cosine_of_both_embeddings(clip: str) -> None:
    texts = ["the quick brown fox", "a model reads tokens", "", "the dog", "  sentence " * 40]
    rows = batch(caption=texts)
    made = through(FilterByClipScore(clip, min_score=-1.0, score_field="score", model_inference_batch_size=2), rows)
    assert reasons(made) == {("no caption", True): 1}
    model, tokenizer = AutoModel.from_pretrained(clip).eval(), AutoTokenizer.from_pretrained(clip)
    with torch.no_grad():
        tokens = tokenizer([text.strip() for text in texts if text], padding=True, truncation=True, max_length=24)
        found = model.get_text_features(
            **{name: torch.tensor(values) for name, values in tokens.items() if name != "token_type_ids"}
        )
    vectors = (found if isinstance(found, torch.Tensor) else found.pooler_output).numpy()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    images = wanted(clip, features)[[0, 1, 3, 4]]
    scores = made.to_arrow()["score"].to_numpy()
    np.testing.assert_allclose(scores, (vectors * images).sum(1), atol=2e-5)
    middle = float(np.median(scores))
    kept = through(FilterByClipScore(clip, min_score=middle), rows)
    assert kept.num_items == int((scores >= middle).sum())


def embedded(vectors: Any) -> DocumentBatch:
    table = pa.table({"n": list(range(len(vectors)))})
    return DocumentBatch(data=with_vectors(table, "embeddings", np.asarray(vectors, np.float32)))


def test_the_small_networks_are_those_of_the_weights(tmp_path: Path) -> None:
    folder = tiny_heads(tmp_path)
    vectors = np.random.default_rng(0).normal(size=(9, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    state = torch.load(tmp_path / "laion/clip-autokeras-binary-nsfw/clip_autokeras_binary_nsfw.pth")
    found = (torch.tensor(vectors) - state["norm.mean"]) / state["norm.variance"].sqrt()
    for number in (1, 2, 3):
        found = torch.relu(torch.nn.functional.linear(found, *(state[f"linear_{number}.{x}"] for x in _PARTS)))
    found = torch.sigmoid(torch.nn.functional.linear(found, *(state[f"linear_4.{x}"] for x in _PARTS)))[:, 0]
    stage = FilterByNsfw(folder, score_threshold=2, score_field="nsfw_score")
    made = through(stage, embedded(vectors))
    np.testing.assert_allclose(made.to_arrow()["nsfw_score"].to_numpy(), found.numpy(), atol=1e-6)
    middle = float(np.median(made.to_arrow()["nsfw_score"].to_numpy()))
    kept = through(FilterByNsfw(folder, score_threshold=middle), embedded(vectors))
    assert (kept.num_items, reasons(kept)) == (4, {("nsfw_score", False): 5})
    pleasing = through(FilterByAesthetics(folder, -9.0, score_field="s"), embedded(vectors)).to_arrow()["s"]
    middle = float(np.median(pleasing.to_numpy()))
    kept = through(FilterByAesthetics(folder, score_threshold=middle), embedded(vectors))
    assert (kept.num_items, reasons(kept)) == (5, {("aesthetic_score", False): 4})


_PARTS = ("weight", "bias")


def test_rows_without_an_embedding_go_to_quarantine_and_other_models_are_refused(tmp_path: Path) -> None:
    folder = tiny_heads(tmp_path)
    made = through(FilterByNsfw(folder, score_threshold=2), embedded([[1.0] * 16, [0.0] * 16]))
    assert reasons(made) == {("no embedding", True): 1}
    with pytest.raises(DataError, match="have 8 numbers, and the model wants 16"):
        through(FilterByNsfw(folder), embedded(np.ones((1, 8))))
    shutil.copy(tmp_path / "ttj/sac-logos-ava1-l14-linearMSE/model.safetensors", tmp_path / "other.safetensors")
    (tmp_path / "laion/clip-autokeras-binary-nsfw/clip_autokeras_binary_nsfw.pth").write_bytes(b"no weights")
    with pytest.raises(DataError, match="laion/clip-autokeras-binary-nsfw"):
        through(FilterByNsfw(folder), embedded(np.ones((1, 16))))


def test_weights_that_are_not_there_are_fetched_or_named(tmp_path: Path) -> None:
    weights = Path(tiny_heads(tmp_path / "from")) / "laion" / "clip-autokeras-binary-nsfw"
    archive = shutil.make_archive(str(tmp_path / "weights"), "zip", weights)

    class Near(FilterByNsfw):
        url = archive

    near = Near(str(tmp_path / "to"), score_threshold=2)
    near.setup_on_node()
    assert near.path == str(tmp_path / "to/laion/clip-autokeras-binary-nsfw/clip_autokeras_binary_nsfw.pth")
    near.setup()
    assert near.process(embedded(np.ones((1, 16)))).num_items == 1
    with pytest.raises(ResourceError, match=r"name its folder with model_dir="):
        FilterByNsfw().setup_on_node()


def test_settings_that_cannot_be_are_refused_and_paths_are_none() -> None:
    with pytest.raises(PipelineError, match="pooling='max'"):
        ImageEmbedding("org/model", pooling="max")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="min_score=28"):
        FilterByClipScore("org/model", min_score=28)
    with pytest.raises(PipelineError, match="model_inference_batch_size=0"):
        ImageEmbedding("org/model", model_inference_batch_size=0)
    with pytest.raises(PipelineError, match="already exists"):
        ImageEmbedding("org/model").check_columns(["embeddings"])
    assert FilterByAesthetics("a").settings() == FilterByAesthetics("b").settings()
