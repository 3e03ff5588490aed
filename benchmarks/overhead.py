"""What dcurate costs besides the work: import, first output, engine CPU per task, peak memory of a long stream.

``python -m benchmarks.overhead [--partitions N] [--streamed-gb SMALL LARGE] [--json FILE]``. See README.md here.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import psutil
import pyarrow as pa
from distributed import Client, as_completed

from benchmarks.measure import MB, job, machine, measure, save, table, versions
from dcurate import (
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


def first_batches(source: str, workers: int) -> dict[str, dict[str, float]]:
    """Seconds to the first batch and to the end: from the start of this process, and on a cluster that is open."""
    cluster = LocalCluster(n_workers=workers, gpus=False)
    executor = DaskExecutor(cluster=cluster)
    runs = {"Python, fresh process": _streamed(source, executor, psutil.Process().create_time())}
    with cluster:
        runs["Python, cluster just opened"] = _streamed(source, executor, time.time())
        runs["Python, second run on it"] = _streamed(source, executor, time.time())
    return runs


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


def _used(client: Client, body: Callable[[int], None], number: int) -> np.ndarray[Any, Any]:
    """CPU-seconds of driver and workers, and wall seconds, while a body runs."""
    before = np.array([time.process_time(), sum(client.run(time.process_time).values()), time.perf_counter()])
    body(number)
    return np.array([time.process_time(), sum(client.run(time.process_time).values()), time.perf_counter()]) - before


def _per_task(used: Callable[[int], np.ndarray[Any, Any]], few: int, many: int) -> dict[str, float]:
    used(few)  # warms up
    driver, workers, wall = (used(many) - used(few)) / (many - few) * 1e6
    return {"driver_us": driver, "workers_us": workers, "total_us": driver + workers, "wall_us": wall}


def long_stream(gb: float, workers: int, output: str, apart: bool) -> dict[str, float]:
    """Stream made-up text through filters to a small output.

    Args:
        apart: run the end of the pipeline as an operator of its own, so that batches wait and travel between two.
    """
    count = max(1, round(gb * 1e9 / SPLIT_BYTES))
    pipeline = _few_filters("stream", Texts(count))
    pipeline.add_stage(FirstRow().with_(num_workers=workers) if apart else FirstRow())
    pipeline.add_stage(JsonlWriter(output))
    report = pipeline.run(DaskExecutor(cluster=LocalCluster(n_workers=workers, gpus=False))).report
    return {"mb": report.stages[0].bytes_out / MB, "splits": report.splits, "run_s": report.seconds}


# The figures


def import_times(repeat: int) -> dict[str, Any]:
    """Seconds to import dcurate, and dcurate with what a pipeline needs, in fresh processes."""
    statements = {
        "import dcurate": "import dcurate",
        "a pipeline's names": "from dcurate import Pipeline, JsonlReader, JsonlWriter, DaskExecutor",
    }
    figures = {}
    for name, statement in statements.items():
        code = f"import sys, time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
        code += f"; print(*[name for name in {HEAVY!r} if name in sys.modules])"
        runs = [measure([sys.executable, "-c", code]).output.split("\n") for _ in range(repeat)]
        figures[name] = {"seconds": statistics.median(float(run[0]) for run in runs), "heavy": runs[0][1].split()}
    return figures


def first_output(workers: int, repeat: int, scratch: Path) -> dict[str, dict[str, float]]:
    """Seconds to the first output and to the end of a job of 1 MB: medians, after a run that warms up."""
    source = scratch / "megabyte"
    source.mkdir()
    for number in range(10):
        rows = made_up(number, 100_000).to_pylist()
        (source / f"{number}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    recipe = scratch / "recipe.yaml"
    recipe.write_text(RECIPE)
    runs = []
    for number in range(repeat + 1):
        by_command = {"command line": _by_command(recipe, source, scratch / f"output-{number}", workers)}
        by_python = measure(job("benchmarks.overhead:first_batches", source=str(source), workers=workers)).result
        runs.append(by_command | by_python)
    return {name: _medians([run[name] for run in runs[1:]]) for name in runs[0]}


RECIPE = """
name: first-output
params: {input: null, output: null}
stages:
  - JsonlReader: {file_paths: "${input}", files_per_partition: 1}
  - ScoreFilter: {filter_obj: {WordCountFilter: }}
  - ScoreFilter: {filter_obj: {NonAlphaNumericFilter: }}
  - ScoreFilter: {filter_obj: {BulletsFilter: }}
  - JsonlWriter: {path: "${output}"}
"""


def _by_command(recipe: Path, source: Path, output: Path, workers: int) -> dict[str, float]:
    """Run a recipe as a user would, and look for the first output file."""
    program = Path(sys.executable).with_name("dcurate")
    words = [program, "run", recipe, "--input", source, "--output", output, "--workers", str(workers)]
    began, first = time.perf_counter(), 0.0
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            if not first and any(output.glob("*.jsonl")):
                first = time.perf_counter() - began
            time.sleep(0.005)
        end = time.perf_counter() - began
        if process.returncode:
            assert process.stderr is not None
            raise RuntimeError(f"dcurate run failed: {process.stderr.read().decode()[-2000:]}")
    return {"first_s": first or end, "end_s": end}


def _medians(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def peak_memory(gbs: Sequence[float], workers: int, scratch: Path) -> dict[str, Any]:
    """Peak memory of driver (with scheduler) and workers for streams of several sizes, and last over first."""
    figures: dict[str, Any] = {}
    for apart, name in ((False, "one operator"), (True, "two operators")):
        sizes = {}
        for gb in gbs:
            output = scratch / f"stream-{gb}-{apart}"
            settings = {"gb": gb, "workers": workers, "output": str(output), "apart": apart}
            usage = measure(job("benchmarks.overhead:long_stream", **settings), interval=0.1)
            peaks = {"driver": asdict(usage.root), "workers": asdict(usage.children), "all": asdict(usage.tree)}
            sizes[f"{gb:g}"] = peaks | usage.result | {"wall_s": usage.wall_s, "cpu_s": usage.cpu_s}
        first, last = sizes[f"{gbs[0]:g}"], sizes[f"{gbs[-1]:g}"]
        grown = {who: {kind: last[who][kind] / first[who][kind] for kind in first[who]} for who in ROLES}
        figures[name] = {"streamed_gb": sizes, "ratio": grown}
    return figures


#: Who uses memory.
ROLES = ("driver", "workers", "all")


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """All figures."""
    figures: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("dcurate", "dask", "distributed", "numba", "numpy", "pandas", "pyarrow"),
        "workers": options.workers,
        "import": import_times(2 * options.repeat - 1),
        "first_output": first_output(options.workers, options.repeat, scratch),
    }
    where = {"count": options.partitions, "workers": options.workers, "output": str(scratch / "null")}
    usage = measure(job("benchmarks.overhead:engine", **where))
    peaks = {"driver": asdict(usage.root), "workers": asdict(usage.children)}
    figures["per_task"] = {"partitions": options.partitions, **usage.result, "peak": peaks}
    figures["memory"] = peak_memory(options.streamed_gb, options.workers, scratch)
    return figures


#: What the bodies of `engine` are called in the table.
BODIES = {
    "dropped": "dcurate, the stage drops every batch",
    "written": "dcurate, a writer that writes nothing, with ledger",
    "mapped": "plain client.map and as_completed",
}


def show(figures: dict[str, Any]) -> None:
    """Print the figures for a person."""
    rows = [[name, one["seconds"], ", ".join(one["heavy"]) or "none"] for name, one in figures["import"].items()]
    print(table(["import, in a fresh process", "s", f"of {', '.join(HEAVY)}"], rows))
    rows = [[name, one["first_s"], one["end_s"]] for name, one in figures["first_output"].items()]
    print("\n" + table(["1 MB job, kernels compiled", "first output s", "end s"], rows))
    tasks = figures["per_task"]
    names = ("driver_us", "workers_us", "total_us", "wall_us")
    rows = [[shown, *(tasks[name][key] for key in names)] for name, shown in BODIES.items()]
    header = [f"{tasks['partitions']:,} trivial partitions, microseconds a task"]
    print("\n" + table([*header, "driver CPU", "workers CPU", "both", "wall"], rows))
    header = ["streamed, peak MB", "driver RSS", "PSS", "workers RSS", "PSS", "all RSS", "PSS", "MB/s"]
    rows = []
    for name, one in figures["memory"].items():
        for gb, size in one["streamed_gb"].items():
            peaks = [size[who][kind] for who in ROLES for kind in ("rss_mb", "pss_mb")]
            rows.append([f"{name}, {gb} GB", *peaks, size["mb"] / size["run_s"]])
        rows.append(
            [
                f"{name}, last / first",
                *(one["ratio"][who][kind] for who in ROLES for kind in ("rss_mb", "pss_mb")),
                None,
            ]
        )
    print("\n" + table(header, rows))
    print("\ndriver: the process that calls run, with the scheduler in it")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.overhead", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=10_000, help="trivial partitions, at least 20")
    parser.add_argument("--streamed-gb", type=float, nargs="+", default=[1.0, 10.0], metavar="GB")
    parser.add_argument("--repeat", type=int, default=3, help="runs of which the median counts, where runs are short")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scratch", metavar="DIR", help="where input and output go for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dcurate-overhead-", dir=options.scratch) as scratch:
        figures = run(options, Path(scratch))
    show(figures)
    save(options.json, figures)


if __name__ == "__main__":
    main()
