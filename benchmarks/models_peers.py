"""Other ways to run a model on texts, and what is counted of them."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import pipeline

#: Tokens of a text at most: what DeBERTa-v3's tokenizer says, and what the folder of all-MiniLM-L6-v2 says.
LONGEST = {"classify": 512, "embed": 256}
_WARM = 4


class Counter:
    """What a network was given: batches, tokens and padding."""

    def __init__(self, network: Any) -> None:
        self.batches = self.cells = 0
        self.tokens: Any = 0
        self._forward = network.forward
        network.forward = self._counted

    def _counted(self, *given: Any, **named: Any) -> Any:
        self.batches += 1
        self.cells += (given[0] if given else named["input_ids"]).numel()
        self.tokens = self.tokens + named["attention_mask"].sum()  # left on the device, so that nothing waits for it
        return self._forward(*given, **named)

    def figures(self) -> dict[str, int]:
        return {"batches": self.batches, "tokens": int(self.tokens), "padding": self.cells - int(self.tokens)}


class Timer:
    """Wall and CPU seconds of this process, for as long as a ``with`` statement lasts."""

    def __enter__(self) -> Self:
        self.wall, self.cpu = -time.perf_counter(), -_cpu()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter()
        self.cpu += _cpu()

    def figures(self) -> dict[str, float]:
        return {"wall_s": round(self.wall, 3), "cpu_s": round(self.cpu, 3)}


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def texts_of(source: str) -> list[str]:
    """The texts of a JSONL file."""
    return [json.loads(line)["text"] for line in Path(source).read_text().splitlines()]


def pipeline_of_transformers(
    model: str, source: str, output: str, batch_size: int, dtype: str, threads: int, device: str = "cpu"
) -> dict[str, Any]:
    """Classify with `transformers.pipeline`, as its documentation does; the labels are written as JSON."""
    torch.set_num_threads(threads)
    run = pipeline("text-classification", model=model, device=device, dtype=getattr(torch, dtype))
    cut = {"batch_size": batch_size, "truncation": True, "max_length": LONGEST["classify"]}
    texts = texts_of(source)
    list(run(texts[:_WARM], **cut))
    counter = Counter(run.model.base_model)
    with Timer() as timer:
        labels = [found["label"] for found in run(texts, **cut)]
    Path(output).write_text(json.dumps(labels))
    return {**timer.figures(), **counter.figures()}


def sentence_transformer(
    model: str, source: str, output: str, batch_size: int, dtype: str, threads: int, device: str = "cpu"
) -> dict[str, Any]:
    """Embed with `SentenceTransformer.encode`, which sorts texts by length itself; a matrix is written."""
    torch.set_num_threads(threads)
    run = SentenceTransformer(model, device=device, model_kwargs={"dtype": getattr(torch, dtype)})
    texts = texts_of(source)
    run.encode(texts[:_WARM], show_progress_bar=False)
    counter = Counter(run[0].auto_model)
    with Timer() as timer:
        tensor = run.encode(texts, batch_size=batch_size, show_progress_bar=False, convert_to_tensor=True)
        vectors = tensor.float().cpu().numpy()
    np.save(output, vectors)
    return {**timer.figures(), **counter.figures()}
