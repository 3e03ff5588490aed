"""What dcurate costs besides the work: import, first output, engine CPU per task, peak memory of a long stream.

``python -m benchmarks.overhead [--partitions N] [--streamed-gb SMALL LARGE] [--json FILE]``. See README.md here.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from distributed import Client, as_completed

from benchmarks.measure import MB, ROOT, job, machine, measure, save, table, versions
from dcurate import (
    Batch,
    BatchKey,
    DaskExecutor,
    DocumentBatch,
    FileGroup,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    ProcessingStage,
    SinkStage,
    SourceStage,
)
from dcurate.core.stage import Spec
from dcurate.text.filters.characters import NonAlphaNumericFilter, WhiteSpaceFilter
from dcurate.text.filters.lines import BulletsFilter
from dcurate.text.filters.repetition import RepeatedLinesFilter
from dcurate.text.filters.words import MeanWordLengthFilter, WordCountFilter
from dcurate.text.score import ScoreFilter

#: What `import dcurate` must not load.
HEAVY = ("torch", "bokeh", "cudf")

#: Splits of the runs that are subtracted, and of those that only warm up.
FEW = 500

#: Text of one split of the stream, and of one of its documents.
SPLIT_BYTES, DOCUMENT_BYTES = 4_000_000, 4_000

FILTERS = (WordCountFilter(), MeanWordLengthFilter(), NonAlphaNumericFilter(), WhiteSpaceFilter(), BulletsFilter())


# Stages made for measuring


@dataclass
class Partitions(SourceStage[FileGroup, DocumentBatch]):
    """Splits with nothing to read, of one row each."""

    count: int = 1
    name: str = "partitions"

    def splits(self) -> Iterator[FileGroup]:
        for number in range(self.count):
            yield FileGroup(key=BatchKey(f"split-{number:07}"))

    def columns(self) -> list[str]:
        return ["text"]

    def process(self, task: FileGroup) -> DocumentBatch:
        return DocumentBatch(data=_ONE_ROW)


_ONE_ROW = pa.table({"text": ["nothing to see here"]})


@dataclass
class Nothing(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Drops every batch, so that nothing has to be handed out or written."""

    name: str = "nothing"

    def process(self, task: DocumentBatch) -> None:
        return None


@dataclass
class NullWriter(SinkStage[DocumentBatch]):
    """Writes nothing, but like a writer: the run keeps its ledger in the output directory."""

    path: str = ""
    name: str = "null_writer"

    @property
    def output_path(self) -> str:
        return self.path

    def prepare(self, resume: bool) -> None:
        Path(self.path).mkdir(parents=True, exist_ok=True)

    def process(self, task: DocumentBatch) -> FileGroup:
        return FileGroup()


@dataclass
class Texts(Partitions):
    """Splits of text made up from the number of the split, as if read from somewhere."""

    name: str = "texts"

    def process(self, task: FileGroup) -> DocumentBatch:
        assert task.key is not None
        return DocumentBatch(data=made_up(int(task.key.split.removeprefix("split-")), SPLIT_BYTES))


@dataclass
class FirstRow(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keeps one row of a batch."""

    name: str = "first_row"

    def inputs(self) -> Spec:
        return [], ["text"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(task.to_arrow().slice(0, 1).take([0]))


@lru_cache(1)
def _pool() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Eight MB of lines of made-up words, the same in every process."""
    rng = np.random.default_rng(1)
    letters = rng.choice(np.frombuffer(b"etaoinshrdlucmfwygpb", np.uint8), 8_000_000)
    letters[np.cumsum(rng.integers(3, 12, 1_000_000))[:1_000_000] % len(letters)] = ord(" ")
    letters[np.cumsum(rng.integers(40, 120, 90_000)) % len(letters)] = ord("\n")
    return letters


def made_up(seed: int, nbytes: int) -> pa.Table:
    """A table of documents of ``nbytes`` in all: pieces of the pool, other ones for every seed."""
    count = max(1, nbytes // DOCUMENT_BYTES)
    starts = np.random.default_rng(seed).integers(0, len(_pool()) - DOCUMENT_BYTES, count)
    data = np.concatenate([_pool()[start : start + DOCUMENT_BYTES] for start in starts])
    offsets = np.arange(0, (count + 1) * DOCUMENT_BYTES, DOCUMENT_BYTES, dtype=np.int64)
    text = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))
    return pa.table({"text": text})


# Jobs, each in a process of its own


def imports(names: str) -> dict[str, Any]:
    """Import dcurate and names of it; the seconds, and which heavy libraries came along."""
    code = f"import sys, time; t = time.perf_counter(); import dcurate; {names}; print(time.perf_counter() - t); "
    code += f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    seconds, heavy = answer.split("\n")[:2]
    return {"seconds": float(seconds), "loaded": heavy.split()}
