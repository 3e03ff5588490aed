"""The work that `benchmarks.overhead` measures, each piece in a process of its own: made-up sources and jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
from distributed import Client, as_completed

from benchmarks.measure import MB
from dcurate import (
    BatchKey,
    DaskExecutor,
    DocumentBatch,
    DocumentReader,
    FileGroup,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    ParquetReader,
    Pipeline,
    ProcessingStage,
    ScoreFilter,
    SinkStage,
    SourceStage,
    peek,
)
from dcurate.core.stage import Spec
from dcurate.text import BulletsFilter, MeanWordLengthFilter, NonAlphaNumericFilter, WhiteSpaceFilter, WordCountFilter

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
class MadeTexts(Partitions):
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
def _pool() -> npt.NDArray[np.uint8]:
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


# Jobs


def first_batches(source: str, workers: int) -> dict[str, dict[str, float]]:
    """Seconds to the first batch and to the end: from the start of this process, and once more on the same cluster."""
    with LocalCluster(n_workers=workers, gpus=False) as cluster:
        executor = DaskExecutor(cluster=cluster)
        return {
            "Python, fresh process": _streamed(source, executor, psutil.Process().create_time()),
            "Python, again on its cluster": _streamed(source, executor, time.time()),
        }


def _streamed(source: str, executor: DaskExecutor, began: float) -> dict[str, float]:
    first = 0.0
    for _ in _few_filters("first", JsonlReader(source)).stream(executor):
        first = first or time.time() - began
    return {"first_s": first, "end_s": time.time() - began}


def _few_filters(name: str, source: SourceStage[Any, Any]) -> Pipeline:
    return Pipeline(name, stages=[source, *map(ScoreFilter, FILTERS)])


def engine(count: int, workers: int, output: str) -> dict[str, Any]:
    """CPU of driver (with scheduler) and of workers, in microseconds a task beyond a run of few tasks."""
    few = min(FEW, count // 10)
    with LocalCluster(n_workers=workers, gpus=False) as cluster:
        executor, client = DaskExecutor(cluster=cluster), cluster.client

        def dropped(number: int) -> None:
            Pipeline("dropped", stages=[Partitions(number), Nothing()]).run(executor)

        def written(number: int) -> None:
            Pipeline("written", stages=[Partitions(number), NullWriter(output)]).run(executor)

        def mapped(number: int) -> None:
            for _ in as_completed(client.map(_nothing, range(number), pure=False), loop=client.loop):
                pass

        return {
            body.__name__: _per_task(lambda number, body=body: _used(client, body, number), few, count)  # type: ignore[misc]
            for body in (dropped, written, mapped)
        }


def _nothing(number: int) -> None:
    return None


#: CPU-seconds of the driver and of the workers, and wall seconds.
Costs: TypeAlias = npt.NDArray[np.float64]


def _used(client: Client, body: Callable[[int], None], number: int) -> Costs:
    """What it costs to run a body."""
    before = _costs(client)
    body(number)
    used: Costs = _costs(client) - before
    return used


def _costs(client: Client) -> Costs:
    return np.array([time.process_time(), sum(client.run(time.process_time).values()), time.perf_counter()])


def _per_task(used: Callable[[int], Costs], few: int, many: int) -> dict[str, float]:
    used(few)  # warms up
    driver, workers, wall = map(float, (used(many) - used(few)) / (many - few) * 1e6)
    return {"driver_us": driver, "workers_us": workers, "total_us": driver + workers, "wall_us": wall}


def long_stream(gb: float, workers: int, output: str, apart: bool) -> dict[str, float]:
    """Stream made-up text through filters to a small output.

    Args:
        apart: run the end of the pipeline as an operator of its own, so that batches wait and travel between two.
    """
    count = max(1, round(gb * 1e9 / SPLIT_BYTES))
    pipeline = _few_filters("stream", MadeTexts(count))
    pipeline.add_stage(FirstRow().with_(num_workers=workers) if apart else FirstRow())
    pipeline.add_stage(JsonlWriter(output))
    report = pipeline.run(DaskExecutor(cluster=LocalCluster(n_workers=workers, gpus=False))).report
    return {"mb": report.stages[0].bytes_out / MB, "splits": report.splits, "run_s": report.seconds}


def filtered(source: str, condition: str) -> dict[str, float]:
    """Read the rows of a corpus that match a condition: rows, seconds, and MB that were read."""
    pipeline = Pipeline("filtered", stages=[ParquetReader(source, filter=condition)])
    began, before = time.perf_counter(), psutil.Process().io_counters().read_chars
    [read] = pipeline.run(InlineExecutor(), observers=[]).report.stages
    nbytes = psutil.Process().io_counters().read_chars - before
    return {"rows": read.rows_out, "s": time.perf_counter() - began, "mb": nbytes / MB}


def first_rows(source: str) -> dict[str, float]:
    """Look at the first rows of a corpus, and of what a filter keeps of it: seconds, and MB that were read."""
    figures = {}
    pipeline = Pipeline("head", stages=[DocumentReader(source), ScoreFilter(WordCountFilter(min_words=100))])
    for name, look in (("peek", partial(peek, source)), ("head", pipeline.head)):
        began, before = time.perf_counter(), psutil.Process().io_counters().read_chars
        if len(look()) != 5:
            raise RuntimeError(f"{name} gave fewer than 5 rows")
        figures[f"{name}_s"] = time.perf_counter() - began
        figures[f"{name}_mb"] = (psutil.Process().io_counters().read_chars - before) / MB
    return figures
