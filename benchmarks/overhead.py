"""What dcurate costs besides the work: import, first output, engine CPU per task, peak memory of a long stream.

``python -m benchmarks.overhead [--partitions N] [--streamed-gb SMALL LARGE] [--json FILE]``. See README.md here.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.measure import called, job, machine, measure, save, scratch_folder, table, versions
from benchmarks.overhead_jobs import made_up

#: Where the jobs are.
JOBS = "benchmarks.overhead_jobs"

#: What `import dcurate` must not load.
HEAVY = ("torch", "bokeh", "cudf")

#: Who uses memory.
ROLES = ("driver", "workers", "all")


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
    """Seconds to the first output and to the end of a job of 1 MB; of several runs the first only warms up."""
    source = scratch / "megabyte"
    source.mkdir()
    for number in range(10):
        rows = made_up(number, 100_000).to_pylist()
        (source / f"{number}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    recipe = scratch / "recipe.yaml"
    recipe.write_text(RECIPE)
    runs = []
    for number in range(repeat + (repeat > 1)):
        by_command = {"command line": _by_command(recipe, source, scratch / f"output-{number}", workers)}
        by_python = measure(job(f"{JOBS}:first_batches", source=str(source), workers=workers)).result
        runs.append(by_command | by_python)
    return {name: _medians([run[name] for run in runs[-repeat:]]) for name in runs[0]}


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


def cold_start(workers: int, repeat: int, scratch: Path) -> dict[str, float]:
    """Least seconds and CPU-seconds of all processes of a command on a file of 100 kB; the first run warms up.

    The least of the runs, as other work on the machine only adds to both.
    """
    source, recipe = scratch / "small.jsonl", scratch / "small.yaml"
    source.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in made_up(0, 100_000).to_pylist()))
    recipe.write_text(RECIPE)
    program = Path(sys.executable).with_name("dcurate")
    runs = []
    for number in range(repeat + (repeat > 1)):
        output = scratch / f"small-{number}"
        used = measure([program, "run", recipe, "--input", source, "--output", output, "--workers", str(workers)])
        runs.append({"wall_s": used.wall_s, "cpu_s": used.cpu_s})
    return {name: min(run[name] for run in runs[-repeat:]) for name in runs[0]}


def empty_cache(workers: int, repeat: int, scratch: Path) -> dict[str, float]:
    """Least seconds and CPU-seconds of all processes of the bundled demo where no kernel is compiled yet."""
    program = Path(sys.executable).with_name("dcurate")
    runs = []
    for number in range(repeat):
        kernels, output = scratch / f"kernels-{number}", scratch / f"demo-{number}"
        words = [program, "run", "demo", "--output", output, "--workers", workers]
        used = measure(["env", f"NUMBA_CACHE_DIR={kernels}", *map(str, words)])
        kept = len(list(kernels.rglob("*.nbc")))
        runs.append({"wall_s": used.wall_s, "cpu_s": used.cpu_s, "kernels": kept})
    return {name: min(run[name] for run in runs) for name in runs[0]}


def _by_command(recipe: Path, source: Path, output: Path, workers: int) -> dict[str, float]:
    """Run a recipe as a user would, and look for the first output file."""
    program = Path(sys.executable).with_name("dcurate")
    words = [program, "run", recipe, "--input", source, "--output", output, "--workers", workers]
    began, first = time.perf_counter(), 0.0
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
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


def per_task(partitions: int, workers: int, scratch: Path) -> dict[str, Any]:
    """CPU of the engine for each of many tasks that do nothing."""
    usage = measure(job(f"{JOBS}:engine", count=partitions, workers=workers, output=str(scratch / "null")))
    peaks = {"driver": asdict(usage.root), "workers": asdict(usage.children)}
    return {"partitions": partitions, **usage.result, "peak": peaks}


def peak_memory(gbs: Sequence[float], workers: int, scratch: Path, apart: bool) -> dict[str, Any]:
    """Peak memory of driver (with scheduler) and workers for streams of several sizes, and last over first."""
    sizes = {}
    for gb in gbs:
        settings = {"gb": gb, "workers": workers, "output": str(scratch / f"stream-{gb}-{apart}"), "apart": apart}
        usage = measure(job(f"{JOBS}:long_stream", **settings), interval=0.1)
        peaks = {"driver": asdict(usage.root), "workers": asdict(usage.children), "all": asdict(usage.tree)}
        sizes[f"{gb:g}"] = peaks | usage.result | {"wall_s": usage.wall_s, "cpu_s": usage.cpu_s}
    first, last = sizes[f"{gbs[0]:g}"], sizes[f"{gbs[-1]:g}"]
    grown = {who: {kind: last[who][kind] / first[who][kind] for kind in first[who]} for who in ROLES}
    return {"streamed_gb": sizes, "ratio": grown}


def head(repeat: int, scratch: Path) -> dict[str, Any]:
    """Seconds and bytes read for the first rows of 10 GB in files of each format: one file under many names."""
    return {name: _head(make, repeat, scratch / f"head-{name}") for name, make in HEAD_FORMATS.items()}


def _head(make: Callable[[Path, pa.Table], object], repeat: int, folder: Path) -> dict[str, float]:
    folder.mkdir()
    first = folder / f"00000.{folder.name.removeprefix('head-')}"
    make(first, pa.concat_tables([made_up(number, HEAD_FILE_BYTES // 8) for number in range(8)]))
    size = first.stat().st_size
    count = -(-HEAD_BYTES // size)
    for number in range(1, count):
        os.link(first, folder / first.name.replace("00000", f"{number:05d}"))
    runs = [measure(job(f"{JOBS}:first_rows", source=str(folder))).result for _ in range(repeat + (repeat > 1))]
    least = {name: min(run[name] for run in runs[-repeat:]) for name in runs[0]}
    shutil.rmtree(folder)
    return {"files": count, "gb": count * size / 1e9, **least}


def _write_jsonl(path: Path, rows: pa.Table) -> None:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows.to_pylist()))


#: How a file of each format is written for `head`.
HEAD_FORMATS: dict[str, Callable[[Path, pa.Table], object]] = {
    "jsonl": _write_jsonl,
    "jsonl.gz": lambda path, rows: path.write_bytes(
        gzip.compress(b"".join(orjson.dumps(row) + b"\n" for row in rows.to_pylist()), 1)
    ),
    "csv": lambda path, rows: pyarrow.csv.write_csv(rows, path),
    "parquet": lambda path, rows: pq.write_table(rows, path),
}
#: Bytes of all files of a format together, and of the rows in each.
HEAD_BYTES, HEAD_FILE_BYTES = 10**10, 256 * 10**6


#: Conditions of `filtered`, by what they leave unread.
CONDITIONS = {
    "all rows": "TRUE",
    "one partition": "part = '007'",
    "a row group of each": "n < 100",
    "a row group of one": "part = '007' AND n < 100",
}
#: Partitions, and the rows of each, in row groups of a tenth.
FILTERED, FILTERED_ROWS = 100, 10_000


def filtered(scratch: Path) -> dict[str, Any]:
    """What is read of a corpus in Hive folders where a filter decides the rows: MB, of all."""
    folder = scratch / "filtered"
    first = folder / "part=000" / "rows.parquet"
    first.parent.mkdir(parents=True)
    rows = pa.concat_tables([made_up(number, 2**20) for number in range(16)])[:FILTERED_ROWS]
    numbers = pa.array(range(rows.num_rows), pa.int64())
    pq.write_table(rows.append_column("n", numbers), first, row_group_size=FILTERED_ROWS // 10)
    for number in range(1, FILTERED):
        other = folder / f"part={number:03d}"
        other.mkdir()
        os.link(first, other / first.name)
    mb = FILTERED * first.stat().st_size / 1e6
    runs = {
        name: measure(job(f"{JOBS}:filtered", source=str(folder), condition=condition)).result
        for name, condition in CONDITIONS.items()
    }
    shutil.rmtree(folder)
    return {"mb": mb, "conditions": {name: run | {"share": 100 * run["mb"] / mb} for name, run in runs.items()}}


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """The figures that were asked for."""
    workers, gbs = options.workers, options.streamed_gb
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "import": lambda: import_times(2 * options.repeat - 1),
        "first_output": lambda: first_output(workers, options.repeat, scratch),
        "cold_start": lambda: cold_start(workers, options.repeat, scratch),
        "empty_cache": lambda: empty_cache(workers, options.repeat, scratch),
        "head": lambda: head(options.repeat, scratch),
        "filtered": lambda: filtered(scratch),
        "per_task": lambda: per_task(options.partitions, workers, scratch),
        "memory": lambda: peak_memory(gbs, workers, scratch, apart=False),
        "memory_two_operators": lambda: peak_memory(gbs, workers, scratch, apart=True),
    }
    figures: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("dcurate", "dask", "distributed", "numba", "numpy", "pandas", "pyarrow"),
        "workers": workers,
    }
    for name in options.only:
        figures[name] = parts[name]()
        print(f"\n{SHOWN[name](figures[name])}", flush=True)
    return figures


# For a person


def _import_table(figures: dict[str, Any]) -> str:
    rows = [[name, one["seconds"], ", ".join(one["heavy"]) or "none"] for name, one in figures.items()]
    return table(["import, in a fresh process", "s", f"of {', '.join(HEAVY)}"], rows)


def _first_output_table(figures: dict[str, Any]) -> str:
    rows = [[name, one["first_s"], one["end_s"]] for name, one in figures.items()]
    return table(["1 MB job, kernels compiled", "first output s", "end s"], rows)


def _cold_start_table(figures: dict[str, Any]) -> str:
    return table(
        ["100 kB file by the command line, kernels compiled", "wall s", "CPU-s of all processes"],
        [["reader, three filters, writer", figures["wall_s"], figures["cpu_s"]]],
    )


def _empty_cache_table(figures: dict[str, Any]) -> str:
    return table(
        ["the bundled demo by the command line, nothing compiled", "wall s", "CPU-s of all processes", "kernels"],
        [["as `make demo` runs it", figures["wall_s"], figures["cpu_s"], figures["kernels"]]],
    )


def _head_table(figures: dict[str, Any]) -> str:
    columns = ("files", "gb", "peek_s", "peek_mb", "head_s", "head_mb")
    rows = [[name, *(figures[name][column] for column in columns)] for name in figures]
    shown = ["files", "GB", "peek s", "MB read", "head after a filter s", "MB read"]
    return table(["first 5 rows, fresh process, kernels compiled", *shown], rows)


def _filtered_table(figures: dict[str, Any]) -> str:
    rows = [
        [f"{name}: {CONDITIONS[name]}", *(run[key] for key in ("rows", "s", "mb", "share"))]
        for name, run in figures["conditions"].items()
    ]
    title = f"filter= on {FILTERED} Hive partitions of Parquet, {figures['mb']:,.0f} MB"
    return table([title, "rows", "s", "MB read", "% of all"], rows)


#: What the bodies of the job `engine` are called in the table.
BODIES = {
    "dropped": "dcurate, the stage drops every batch",
    "written": "dcurate, a writer that writes nothing, with ledger",
    "mapped": "plain client.map and as_completed",
}


def _per_task_table(figures: dict[str, Any]) -> str:
    names = ("driver_us", "workers_us", "total_us", "wall_us")
    rows = [[shown, *(figures[name][key] for key in names)] for name, shown in BODIES.items()]
    header = f"{figures['partitions']:,} trivial partitions, microseconds a task"
    return table([header, "driver CPU", "workers CPU", "both", "wall"], rows) + DRIVER


def _memory_table(title: str, figures: dict[str, Any]) -> str:
    columns = [(who, kind) for who in ROLES for kind in ("rss_mb", "pss_mb")]
    rows = [
        [f"{gb} GB", *(size[who][kind] for who, kind in columns), size["mb"] / size["run_s"]]
        for gb, size in figures["streamed_gb"].items()
    ]
    rows.append(["last / first", *(figures["ratio"][who][kind] for who, kind in columns), None])
    header = [title, "driver RSS", "PSS", "workers RSS", "PSS", "all RSS", "PSS", "MB/s"]
    return table(header, rows) + DRIVER


DRIVER = "\n(driver: the process that calls run, with the scheduler in it)"

#: How each part is shown.
SHOWN: dict[str, Callable[[dict[str, Any]], str]] = {
    "import": _import_table,
    "first_output": _first_output_table,
    "cold_start": _cold_start_table,
    "empty_cache": _empty_cache_table,
    "head": _head_table,
    "filtered": _filtered_table,
    "per_task": _per_task_table,
    "memory": partial(_memory_table, "streamed, one operator; peak MB"),
    "memory_two_operators": partial(_memory_table, "streamed, two operators; peak MB"),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.overhead", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=10_000, help="trivial partitions, at least 20")
    parser.add_argument("--streamed-gb", type=float, nargs="+", default=[1.0, 10.0], metavar="GB")
    parser.add_argument("--only", nargs="+", choices=SHOWN, default=list(SHOWN), help="parts to take; default all")
    parser.add_argument("--repeat", type=int, default=3, help="runs of which the median counts, where runs are short")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scratch", metavar="DIR", help="where input and output go for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode
    with scratch_folder("overhead", options.scratch) as scratch:
        figures = run(options, scratch)
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
