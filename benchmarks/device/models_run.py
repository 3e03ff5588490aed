"""What `benchmarks.device.models` does."""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from benchmarks.measure import ROOT, machine, save, table, versions
from benchmarks.models_made import classifier, embedder, flops
from benchmarks.models_peers import LONGEST, pipeline_of_transformers, sentence_transformer
from dcurate import DaskExecutor, DocumentBatch, JsonlReader, LocalCluster, ParquetWriter, Pipeline, Resources
from dcurate.events import Event, TaskDone
from dcurate.frames.columns import table_of
from dcurate.frames.vectors import vectors_in
from dcurate.models import SequenceClassifier, TextEmbedding

SAMPLE = ROOT / "dcurate/bundled/sample"
KINDS = ("classify", "embed")
#: Files that the texts are written to, and rows of a call where a stage is called by itself.
_FILES, _ROWS = 64, 4096
_LEAST = {"classify": 0.95, "embed": 0.99}
#: Operations a second of dense products in bfloat16 that NVIDIA's data sheets give for a GPU with such a name.
_DATA_SHEETS = {"H100 PCIe": 756e12, "H100 NVL": 835e12, "H200 NVL": 835e12, "H100": 989e12, "H200": 989e12}
_DATA_SHEETS |= {"A100": 312e12}


class Peaks(NamedTuple):
    """Operations a second: of a product of matrices that was measured here, and what the data sheet says, if known."""

    measured: float
    promised: float | None

    def __str__(self) -> str:
        said = "" if self.promised is None else f" of {self.promised / 1e12:.0f} by its data sheet"
        return f"{self.measured / 1e12:.1f} TFLOP/s{said} in a product of matrices in bfloat16"


class Busy:
    """How busy the first GPU is, looked at ten times a second while a ``with`` statement lasts, by NVML."""

    def __init__(self) -> None:
        self.samples: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def share(self) -> float | None:
        """The mean from the first time that it was busy to the last; None if it never was, or is not there."""
        busy = np.flatnonzero(self.samples)
        return float(np.mean(self.samples[busy[0] : busy[-1] + 1])) / 100 if len(busy) else None

    def _watch(self) -> None:
        if not torch.cuda.is_available():
            return
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        gpu = nvml.nvmlDeviceGetHandleByIndex(0)
        while not self._over.wait(0.1):
            self.samples.append(nvml.nvmlDeviceGetUtilizationRates(gpu).gpu)


class Beats:
    """When a stage had done its batches, and how many documents they had; an observer of a run."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.done: list[tuple[float, int, float]] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, TaskDone):
            for stats in event.stats:
                if stats.name == self.stage:
                    self.done.append((time.perf_counter(), stats.rows_in, stats.metrics["tokens"]))

    def speed(self) -> tuple[float, float]:
        """Documents and tokens a second, from the first batch that was done to the last."""
        (first, _, _), *others = self.done
        seconds = others[-1][0] - first
        return sum(rows for _, rows, _ in others) / seconds, sum(tokens for *_, tokens in others) / seconds


def texts_in(paths: Sequence[str]) -> list[str]:
    """The texts of JSONL files; those of the bundled sample, which has lines that are none, if no file is given."""
    if not paths:
        return [text for path in sorted(SAMPLE.glob("*.jsonl")) for text in _sound(path)]
    found: list[str] = []
    for path in paths:
        reader = JsonlReader(path)
        for split in reader.splits():
            found += reader.process(split).to_arrow()["text"].to_pylist()
    return found


def _sound(path: Path) -> Iterator[str]:
    for line in path.read_bytes().splitlines():
        try:
            text = json.loads(line)["text"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(text, str):
            yield text


def written(folder: Path, texts: Sequence[str]) -> tuple[str, str]:
    """A folder of many files of the texts, and one file of all of them."""
    (folder / "in").mkdir()
    lines = [json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts)]
    files = min(_FILES, len(lines))
    for number, places in enumerate(np.array_split(np.arange(len(lines)), files)):
        (folder / "in" / f"{number:03}.jsonl").write_text("".join(lines[place] for place in places))
    (folder / "all.jsonl").write_text("".join(lines))
    return str(folder / "in"), str(folder / "all.jsonl")


def ceiling(device: str, wide: int, repeats: int = 20) -> float:
    """Floating-point operations a second of a product of square matrices of random numbers in bfloat16."""
    one, other = (torch.randn(wide, wide, device=device, dtype=torch.bfloat16) for _ in range(2))
    seconds = []
    for _ in range(repeats + 3):
        begin = time.perf_counter()
        one @ other
        if device != "cpu":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return 2 * wide**3 / float(np.median(seconds[3:]))


def data_sheet(gpu: str) -> float | None:
    """What the data sheet of a GPU promises; None for one that is not among `_DATA_SHEETS`."""
    return next((speed for name, speed in _DATA_SHEETS.items() if name in gpu), None)


def stage_of(kind: str, model: str, device: str) -> Any:
    """Ours."""
    if kind == "classify":
        return SequenceClassifier(model, score_field=None, device=device, autocast="bf16")
    return TextEmbedding(model=model, device=device, autocast="bf16")


def alone(kind: str, model: str, texts: Sequence[str], device: str, peaks: Peaks) -> tuple[dict[str, Any], Any]:
    """The stage of the model by itself, and what it says of the texts."""
    tokenizer, stage = stage_of(kind, model, device).decompose()[:2]
    tokenizer.setup()
    batches = [
        tokenizer.process(DocumentBatch(data=table_of({"text": texts[start : start + _ROWS]})))
        for start in range(0, len(texts), _ROWS)
    ]
    tokenizer.teardown()
    lengths = [len(ids) for batch in batches for ids in batch.to_arrow()["input_ids"]]
    stage.setup()
    stage.process(batches[0].rows(0, min(512, batches[0].num_items)))
    stage.take_metrics()
    with Busy() as busy:
        begin = time.perf_counter()
        found = [stage.process(batch).to_arrow() for batch in batches]
        seconds = time.perf_counter() - begin
    counted = stage.take_metrics()
    stage.teardown()
    speed = flops(Path(model), lengths) / seconds
    tokens, padding = counted["tokens"], counted["padding"]
    figures = {
        "documents_per_s": len(texts) / seconds,
        "tokens_per_s": tokens / seconds,
        "padding": padding / (tokens + padding),
        "batches": int(counted["model_batches"]),
        "mfu": None if peaks.promised is None else speed / peaks.promised,
        "of_product": speed / peaks.measured,
        "gpu_busy": busy.share,
        "gpu_gb": torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else None,
        "seconds": seconds,
    }
    return figures, said(kind, found)


def said(kind: str, tables: Sequence[Any]) -> Any:
    """Labels, or embeddings, of tables one below the other."""
    if kind == "classify":
        return [label for table in tables for label in table["label"].to_pylist()]
    return np.concatenate([vectors_in(table.combine_chunks(), "embeddings") for table in tables])


def by_peer(kind: str, model: str, source: str, texts: int, device: str, folder: Path) -> tuple[dict[str, Any], Any]:
    """What others make of the same texts."""
    output = folder / ("peer.json" if kind == "classify" else "peer.npy")
    run, size = (pipeline_of_transformers, 64) if kind == "classify" else (sentence_transformer, 256)
    threads = torch.get_num_threads()
    found = run(model, source, str(output), size, "bfloat16", threads, "cpu" if device == "cpu" else "cuda:0")
    tokens, padding = found["tokens"], found["padding"]
    figures = {
        "documents_per_s": texts / found["wall_s"],
        "tokens_per_s": tokens / found["wall_s"],
        "padding": padding / (tokens + padding),
        "batches": found["batches"],
        "seconds": found["wall_s"],
    }
    return figures, json.loads(output.read_text()) if kind == "classify" else np.load(output)


def whole(kind: str, model: str, source: str, options: Any, folder: Path) -> dict[str, Any]:
    """Read, tokenise, run the model, write, on workers."""
    device = options.device
    stage = stage_of(kind, model, device)
    inner = stage.decompose()[1].name
    if options.slots > 1 and device == "cuda":
        stage = stage.with_({inner: {"resources": Resources(cpus=1, gpus=1 / options.slots)}})
    stages = [JsonlReader(source, files_per_partition=1), stage, ParquetWriter(str(folder / f"{kind}-out"))]
    beats = Beats(inner)
    with LocalCluster(n_workers=2) if device == "cpu" else LocalCluster() as cluster, Busy() as busy:
        begin = time.perf_counter()
        report = Pipeline(kind, stages=stages).run(DaskExecutor(cluster=cluster), observers=[beats]).report
        seconds = time.perf_counter() - begin
    documents_per_s, tokens_per_s = beats.speed()
    model_of = next(one for one in report.stages if one.name == inner)
    return {
        "documents_per_s": documents_per_s,
        "tokens_per_s": tokens_per_s,
        "padding": model_of.metrics["padding"] / (model_of.metrics["tokens"] + model_of.metrics["padding"]),
        "batches": int(model_of.metrics["model_batches"]),
        "seconds": seconds,
        "gpu_busy": busy.share,
        "stage_seconds": {one.name: one.seconds for one in report.stages},
    }


def agreement(found: Any, wanted: Any) -> float:
    """The share of equal labels, or the lowest cosine of two embeddings of one text."""
    if isinstance(wanted, list):
        return float(np.mean([one == other for one, other in zip(found, wanted, strict=True)]))
    scale = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1)
    return float(((found * wanted).sum(axis=1) / scale).min())


def compare(kind: str, model: str, texts: Sequence[str], options: Any, peaks: Peaks, folder: Path) -> dict[str, Any]:
    """All that is measured of a model."""
    folder.mkdir()
    source, file = written(folder, texts)
    few = texts[: max(1, round(len(texts) * options.peer_share))]
    Path(file).write_text("".join(json.dumps({"text": text}) + "\n" for text in few))
    figures, ours = alone(kind, model, texts, options.device, peaks)
    peer, theirs = by_peer(kind, model, file, len(few), options.device, folder)
    return {
        "model": figures,
        "peer": peer,
        "pipeline": whole(kind, model, source, options, folder),
        "agreement": agreement(ours[: len(few)], theirs),
    }


def shown(kind: str, found: dict[str, Any]) -> str:
    """What was measured of a model, as a table."""
    header = [kind, "docs/s", "tokens/s", "padding", "batches", "s", "MFU", "of a product", "GPU busy"]
    rows = [
        [
            name,
            one["documents_per_s"],
            one["tokens_per_s"],
            f"{one['padding']:.1%}",
            one["batches"],
            one["seconds"],
            *(None if one.get(share) is None else f"{one[share]:.1%}" for share in ("mfu", "of_product", "gpu_busy")),
        ]
        for name, one in ((name, found[name]) for name in ("model", "peer", "pipeline"))
    ]
    what = "labels equal" if kind == "classify" else "least cosine"
    return f"{table(header, rows)}\n{what}: {found['agreement']:.4f}"


def main(what: str) -> int:
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", nargs="*", default=[], help="JSONL with a column text")
    parser.add_argument("--documents", type=int, default=16_000, help="texts are repeated up to so many")
    parser.add_argument("--peer-share", type=float, default=0.25, help="of the documents that the peers are given")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--classifier", default="deberta-v3-base")
    parser.add_argument("--embedder", default="minilm-l6")
    parser.add_argument("--slots", type=int, default=1, help="of the model on the GPU, in the pipeline")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no GPU: torch finds none on this machine; --device cpu shows that all else works")
        return 2
    read = texts_in(options.docs)
    texts = list(itertools.islice(itertools.cycle(read), options.documents))
    device = torch.cuda.get_device_name(0) if options.device == "cuda" else "CPU"
    peaks = Peaks(ceiling(options.device, 8192 if options.device == "cuda" else 512), data_sheet(device))
    print(f"{device}: {peaks}; {len(texts):,} documents, {len(read):,} of them different", flush=True)
    figures: dict[str, Any] = {"device": device, "peak_flops": peaks.measured, "data_sheet_flops": peaks.promised}
    figures |= {"documents": len(texts), "different": len(read), "slots": options.slots, "machine": machine()}
    figures["versions"] = versions("torch", "transformers", "sentence-transformers", "dask", "distributed", "dask-cuda")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = {
            "classify": classifier(folder / "classifier", options.classifier, read, LONGEST["classify"]),
            "embed": embedder(folder / "embedder", options.embedder, read, LONGEST["embed"]),
        }
        for kind in KINDS:
            figures[kind] = compare(kind, str(models[kind]), texts, options, peaks, folder / kind)
            print(f"\n{shown(kind, figures[kind])}", flush=True)
            save(options.json, figures)
    return 0 if all(figures[kind]["agreement"] >= _LEAST[kind] for kind in KINDS) else 1
