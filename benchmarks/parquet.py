"""What Parquet in and out costs, with columns of text and with dictionaries, compared with another checkout.

``python -m benchmarks.parquet --input PATH ... [--copies 4] [--repeat 5] [--before CHECKOUT] [--json FILE]``
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import (
    MB,
    called,
    job,
    machine,
    measure,
    package_of,
    plain,
    save,
    scratch_folder,
    table,
    versions,
)
from benchmarks.rows import all_rows
from dcurate import ExactDuplicates, InlineExecutor, ParquetReader, ParquetWriter, Pipeline, ScoreFilter
from dcurate.text import WordCountFilter

#: The stages between reader and writer.
STAGES: dict[str, list[Any]] = {
    "read and write": [],
    "a filter": [ScoreFilter(WordCountFilter(min_words=200))],
    "exact duplicates": [ExactDuplicates()],
}
#: Times that a process does the same: the least disturbed one counts.
ROUNDS = 5
#: Columns that are dictionaries in the second set of files.
ENCODED = ("source", "url")


def curate(stages: str, source: str, warm_up: str, output: str) -> dict[str, Any]:
    """Read, curate and write all files in this process several times; the CPU-seconds are those of the least time."""
    found = []
    for place, given in enumerate([warm_up, *[source] * ROUNDS]):
        start = time.process_time()
        pipeline = Pipeline(
            "parquet", stages=[ParquetReader(given), *STAGES[stages], ParquetWriter(f"{output}/{place}")]
        )
        report = pipeline.run(InlineExecutor(), observers=[]).report
        found.append(time.process_time() - start)
    return {"cpu_s": min(found[1:]), "rows": report.stages[-1].rows_in}


def make_files(sources: Sequence[Path], copies: int, folder: Path) -> dict[str, float]:
    """Write the rows as Parquet, once with text and once with dictionaries; return MB in memory of each set."""
    rows = pa.Table.from_pylist([row for path in sources for row in all_rows(path)])
    encoded = rows
    for name in ENCODED:
        encoded = encoded.set_column(rows.column_names.index(name), name, rows[name].dictionary_encode())
    for name, content in {"text": rows, "dictionaries": encoded}.items():
        for part, taken, number in (("in", content, copies), ("warm-up", content.slice(0, 100), 1)):
            (folder / name / part).mkdir(parents=True)
            for copy in range(number):
                pq.write_table(taken, folder / name / part / f"{copy}.parquet", compression="zstd")
    return dict.fromkeys(("text", "dictionaries"), rows.nbytes * copies / MB)


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Every pipeline on both sets, by this checkout and by the one to compare with, in turns."""
    checkouts: dict[str, dict[str, str]] = {"now": {}}
    if options.before:
        checkouts["before"] = package_of(options.before, scratch)
    sizes = make_files(options.input, options.copies, scratch)
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("pyarrow"), "mb": sizes, "runs": []}
    for turn in range(options.repeat):
        for files in sizes:
            for stages in options.stages:
                for name, environment in list(checkouts.items())[:: -1 if turn % 2 else 1]:
                    given = {
                        "source": str(scratch / files / "in"),
                        "warm_up": str(scratch / files / "warm-up"),
                        "output": str(scratch / f"out-{len(figures['runs'])}"),
                    }
                    usage = measure(job("benchmarks.parquet:curate", stages=stages, **given), env=environment)
                    about = {"files": files, "stages": stages, "checkout": name}
                    figures["runs"].append({**about, **plain(usage), **usage.result})
    return figures


def costs(figures: dict[str, Any]) -> list[list[Any]]:
    """MB in memory for each CPU-second: the best (other work on the machine only slows a run), median, lowest; peak."""
    found = []
    for files, size in figures["mb"].items():
        for stages in STAGES:
            for checkout in ("before", "now"):
                runs = [
                    r for r in figures["runs"] if (r["files"], r["stages"], r["checkout"]) == (files, stages, checkout)
                ]
                if not runs:
                    continue
                rates = sorted(size / each["cpu_s"] for each in runs)
                peak = max(each["peak"]["root"]["rss_mb"] for each in runs)
                found.append([f"{files}: {stages}, {checkout}", rates[-1], statistics.median(rates), rates[0], peak])
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=Path, nargs="+", required=True, help="JSONL files with text, source and url")
    parser.add_argument("--copies", type=int, default=4, help="files to make, each with all rows of the input")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--before", type=Path, help="another checkout of the repository, run in turns with this one")
    parser.add_argument("--scratch", help="folder for files made on the way")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with scratch_folder("parquet", options.scratch) as scratch:
        figures = run(options, scratch)
    print(table(["", "MB per CPU-s", "median", "lowest", "peak RSS, MB"], costs(figures)))
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
