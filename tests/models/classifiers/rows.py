"""Batches of texts, and what a pipeline makes of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dcurate import BatchKey, DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, RunResult

#: Among them nothing, an empty text, and one of many more tokens than the small models are shown.
TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "",
    None,
    "Der schnelle braune Fuchs springt über den faulen Hund. " * 40,
    "A model reads tokens; a tokenizer makes tokens of a text.",
    "Où est le chat ?",
)


def batch(*texts: str | None, **columns: Any) -> DocumentBatch:
    return DocumentBatch(key=BatchKey("s"), data=pa.table({"text": pa.array(texts, pa.string()), **columns}))


def run(stage: ProcessingStage[Any, Any], *texts: str | None, **columns: Any) -> RunResult:
    return Pipeline("classify", stages=[stage]).run(InlineExecutor(), initial_tasks=[batch(*texts, **columns)])


def columns(result: RunResult) -> dict[str, list[Any]]:
    return dict(result[0].to_arrow().to_pydict())  # type: ignore[attr-defined]
