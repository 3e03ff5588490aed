"""What the proof of a run costs, and how soon a changed row is found by it.

``python -m benchmarks.proof_root --input DIR [--json FILE]``. See README.md here.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3
from xxhash import xxh3_128

from benchmarks import measure as measuring
from benchmarks.filters import multiplied, pipeline_of, plain_copies
from benchmarks.measure import MB, called, job, machine, save, scratch_folder, table, versions
from dcurate import DaskExecutor, InlineExecutor, JsonlReader, JsonlWriter, LocalCluster, ParquetWriter, Pipeline
from dcurate.core.stage import Stage
from dcurate.engine.worker import operator_task
from dcurate.io import jsonl_writer
from dcurate.io.proof import RowBlocks
from dcurate.runs import prove, prove_row, prove_sample

#: How often the input is read, small and large; runs of each size, of which the median counts.
TIMES, REPEAT = (1, 4), 3
#: Made rows of which one is changed, and files of them.
ROWS, FILES = 1_000_000, 8


def curate(source: str, output: str, proof: bool) -> dict[str, Any]:
    """Run the filters of `benchmarks.filters` on two workers."""
    executor = DaskExecutor(cluster=LocalCluster(n_workers=2, gpus=False))
    report = pipeline_of(source, output, None).run(executor, proof=proof, observers=[]).report
    return {"rows_in": report.stages[0].rows_in, "rows_out": report.stages[-1].rows_out}


def measure(input: Path) -> dict[str, Any]:  # noqa: A002
    """Measure both on a folder of JSONL with a column ``text``."""
    with scratch_folder("proof", None) as scratch:
        figures = cost(input, scratch)
        return {
            **figures,
            "hashes": hashes(scratch / "plain"),
            "found": located(scratch),
            "about": {**machine(), **versions("pyarrow")},
        }


# The cost


def cost(source: Path, scratch: Path) -> dict[str, Any]:
    """CPU-seconds of runs with and without a proof, and those of the proof itself, timed where it is computed."""
    copies = plain_copies(str(source), scratch / "plain")
    sizes: list[dict[str, Any]] = []
    for times in TIMES:
        data = multiplied(copies, times, scratch / f"in-{times}")
        runs: dict[bool, list[float]] = {False: [], True: []}
        for number in range(2 * REPEAT):  # in turn, so that both see the same load
            proof, output = bool(number % 2), scratch / "out"
            command = job("benchmarks.proof_root:curate", source=str(data.folder), output=str(output), proof=proof)
            runs[proof].append(measuring.measure(command).cpu_s)
            kept = _size(output)
            records = _size(Path(f"{output}.dcurate", "proof"))
            _remove(output)
        proof_s = timed(data.folder, scratch / "out")
        run_s = statistics.median(runs[True])
        sizes.append(
            {
                "times": times,
                "mb": data.mb,
                "cpu_s_without": runs[False],
                "cpu_s_with": runs[True],
                "proof_cpu_s": proof_s,
                "share": proof_s / run_s,
                "difference": run_s / statistics.median(runs[False]) - 1,
                "records_share": records / kept,
            }
        )
    small, large = sizes
    marginal = statistics.median(large["cpu_s_with"]) - statistics.median(small["cpu_s_with"])
    return {
        "sizes": sizes,
        "proof_ms_per_mb": 1000 * large["proof_cpu_s"] / large["mb"],
        "marginal_share": (large["proof_cpu_s"] - small["proof_cpu_s"]) / marginal,
    }


def timed(source: Path, output: Path) -> float:
    """CPU-seconds in the code that a proof adds to a run in this process: hashes of rows, roots and short digests."""
    spent: list[float] = []
    with (
        _timing(operator_task, "prove_rows", spent),
        _timing(jsonl_writer, "keep_rows", spent),
        _timing(RowBlocks, "add", spent),
    ):
        pipeline_of(str(source), str(output), None).run(InlineExecutor(), proof=True, observers=[])
    _remove(output)
    return sum(spent)


def hashes(source: Path) -> dict[str, float]:
    """Megabytes of lines that hashes take in a CPU-second: row by row, and in blocks of 64 KiB."""
    content = min(source.iterdir()).read_bytes()
    rows = [0, *(np.flatnonzero(np.frombuffer(content, np.uint8) == ord("\n")) + 1).tolist()]
    blocks = [*range(0, len(content), 2**16), len(content)]
    known: dict[str, Callable[[memoryview], Any]] = {"sha256": sha256, "blake3": blake3, "xxh3": xxh3_128}
    cuts = {"rows": rows, "blocks": blocks}
    return {f"{name}_{cut}": _rate(known[name], content, cuts[cut]) for name in known for cut in cuts}


def _rate(hash_: Callable[[memoryview], Any], content: bytes, bounds: Sequence[int]) -> float:
    """The best of three."""
    view, seconds = memoryview(content), []
    for _ in range(3):
        begin = time.thread_time()
        for start, stop in pairwise(bounds):
            hash_(view[start:stop]).digest()
        seconds.append(time.thread_time() - begin)
    return len(content) / MB / min(seconds)


@contextmanager
def _timing(owner: Any, name: str, spent: list[float]) -> Iterator[None]:
    function: Callable[..., Any] = getattr(owner, name)

    @wraps(function)
    def measured(*arguments: Any) -> Any:
        begin = time.thread_time()
        try:
            return function(*arguments)
        finally:
            spent.append(time.thread_time() - begin)

    setattr(owner, name, measured)
    try:
        yield
    finally:
        setattr(owner, name, function)


# A changed row


def located(scratch: Path) -> dict[str, Any]:
    """Seconds to find one changed row among `ROWS`, to derive a sample and to show a path, by format."""
    source = scratch / "made"
    source.mkdir()
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(2, 9))) for _ in range(1000)]
    for number in range(FILES):
        with (source / f"{number}.jsonl").open("w") as file:
            for row in range(number, ROWS, FILES):
                file.write(json.dumps({"id": f"d{row}", "text": " ".join(draw.choices(words, k=30))}) + "\n")
    return {
        "rows": ROWS,
        "jsonl": _located(source, JsonlWriter(str(scratch / "lines"))),
        "parquet": _located(source, ParquetWriter(str(scratch / "columns"))),
    }


def _located(source: Path, writer: JsonlWriter | ParquetWriter) -> dict[str, Any]:
    stages: list[Stage] = [JsonlReader(str(source)), writer]
    pipeline, output = Pipeline("copy", stages=stages), writer.path
    pipeline.run(InlineExecutor(), proof=True, observers=[])
    figures: dict[str, Any] = {"mb": _size(Path(output)) / MB}
    figures["whole_s"], whole = _seconds(lambda: prove(output))
    figures["sample_s"], sample = _seconds(lambda: prove_sample(output, pipeline, rows=1000))
    figures["sample_rows"] = sample.rows
    figures["row_s"], row = _seconds(lambda: prove_row(output, f"d{ROWS // 2}"))
    assert whole.holds
    assert sample.holds
    assert row.holds
    file = sorted(Path(output).iterdir())[FILES // 2]
    place = _change(file)
    figures["found_s"], changed = _seconds(lambda: prove(output))
    [change] = changed.changes
    assert (change.what, change.file, change.row) == ("changed", file.name, place)
    return figures


def _change(file: Path) -> int:
    """Change one letter of a row in the middle of a file; return the number of the row."""
    if file.suffix == ".parquet":
        rows = pq.read_table(file)
        place = rows.num_rows // 2
        texts = rows["text"].to_pylist()
        texts[place] = "x" + texts[place][1:]
        pq.write_table(rows.set_column(rows.column_names.index("text"), "text", pa.array(texts)), file)
        return place
    lines = file.read_bytes().splitlines(keepends=True)
    place = len(lines) // 2
    lines[place] = lines[place].replace(b'"text": "', b'"text": "x', 1)
    file.write_bytes(b"".join(lines))
    return place


def _seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    made = function()
    return time.perf_counter() - begin, made


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _remove(output: Path) -> None:
    shutil.rmtree(output)
    shutil.rmtree(f"{output}.dcurate")


def show(figures: dict[str, Any]) -> None:
    """Print the figures for a person."""
    print("\nread plain JSONL -> the filters of benchmarks.filters -> write plain JSONL, 2 workers;", end=" ")
    print(f"medians of {REPEAT} runs; CPU-s of the whole process tree\n")
    header = ["input", "MB", "CPU-s without", "CPU-s with", "CPU-s of the proof", "share", "records of output"]
    rows = []
    for size in figures["sizes"]:
        runs = [statistics.median(size[name]) for name in ("cpu_s_without", "cpu_s_with")]
        shares = [f"{size[name]:.2%}" for name in ("share", "records_share")]
        rows.append([f"{size['times']}x", size["mb"], *runs, size["proof_cpu_s"], *shares])
    print(table(header, rows))
    print(f"\nof what more input costs, without start-up, the proof is {figures['marginal_share']:.2%}:", end=" ")
    print(f"{figures['proof_ms_per_mb']:.2f} ms of CPU per MB of input\n")
    header = ["hash", "MB per CPU-s, by row", "in blocks of 64 KiB"]
    names = ("sha256", "blake3", "xxh3")
    print(table(header, [[n, *(figures["hashes"][f"{n}_{cut}"] for cut in ("rows", "blocks"))] for n in names]))
    print()
    header = ["rows", "format", "MB", "check all s", "find a change s", "sample s", "rows of it", "one path s"]
    columns = ("mb", "whole_s", "found_s", "sample_s", "sample_rows", "row_s")
    by = figures["found"]
    rows = [[f"{by['rows']:,}", kind, *(by[kind][name] for name in columns)] for kind in ("jsonl", "parquet")]
    print(table(header, rows))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.proof_root", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--input", type=Path, required=True, metavar="DIR", help="JSONL, plain or compressed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    figures = measure(options.input)
    show(figures)
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
