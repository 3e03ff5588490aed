"""What a tiny file costs through deduplication, and whether the cost grows with their number.

Files are packed as readers do by themselves, packed to 32 MiB, and alone in a split each.


``python -m benchmarks.small_files --input PATH ... [--files 1000,4000] [--before CHECKOUT] [--json FILE]``
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmarks.measure import (
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
    whole_sizes_given,
)
from benchmarks.rows import all_rows
from dcurate import (
    DaskExecutor,
    ExactDuplicates,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
)

STAGES = {"read and write": None, "exact": ExactDuplicates, "fuzzy": FuzzyDuplicates}
ALONE = ", alone"
#: What the reader is asked for, by the end of a kind's name.
GROUPED: dict[str, dict[str, Any]] = {"": {}, ", packed": {"blocksize": "32MiB"}, ALONE: {"files_per_partition": 1}}
KINDS = tuple(f"{stage}{grouped}" for stage in STAGES for grouped in GROUPED)
LOOP = "loop"
CHARACTERS = 600


def curate(kind: str, source: str, output: str, workers: int) -> dict[str, Any]:
    """Read every file, deduplicate, write as many files, or fewer where they are packed."""
    name, comma, grouped = kind.partition(", ")
    stage = STAGES[name]
    reader = JsonlReader(source, **GROUPED[comma + grouped])
    stages = [reader, *([] if stage is None else [stage()]), JsonlWriter(output)]
    executor = DaskExecutor(cluster=LocalCluster(n_workers=workers, gpus=False)) if workers else InlineExecutor()
    report = Pipeline("small_files", stages=stages).run(executor, observers=[]).report
    return {"splits": report.splits, "rows": report.stages[0].rows_out}


def loop(source: str, output: str) -> dict[str, Any]:
    """The least that can be done: parse the lines of each file and write them to a file that is synced and renamed."""
    os.makedirs(output)
    rows = 0
    for path in sorted(Path(source).iterdir()):
        parsed = [json.loads(line) for line in path.read_bytes().splitlines()]
        rows += len(parsed)
        with tempfile.NamedTemporaryFile("wb", dir=output, delete=False) as file:
            file.write(b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in parsed))
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, Path(output) / path.name)
    return {"splits": len(os.listdir(output)), "rows": rows}


def make_files(sources: Sequence[Path], count: int, folder: Path) -> None:
    """Files of two rows each, the beginnings of documents; documents are used again when there are too few."""
    texts = [str(row["text"])[:CHARACTERS] for path in sources for row in all_rows(path) if row.get("text")]
    if not texts:
        raise SystemExit("no row of the input has a 'text'; name JSONL files that have one")
    folder.mkdir()
    taken: Iterator[str] = islice(cycle(texts), 2 * count)
    for number in range(count):
        rows = ({"id": f"{number}-{place}", "text": next(taken)} for place in range(2))
        (folder / f"{number:06}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Every kind on every number of files, by this checkout and by the one to compare with."""
    checkouts: dict[str, dict[str, str]] = {"now": {}}
    if options.before:
        checkouts["before"] = package_of(options.before, scratch)
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dask", "distributed", "pyarrow"), "runs": []}
    for count in map(int, options.files.split(",")):
        source = scratch / f"in-{count}"
        make_files(options.input, count, source)
        for kind in (LOOP, *options.kinds):
            for name, environment in checkouts.items():
                if kind == LOOP and environment:
                    continue
                output = scratch / re.sub(r"\W+", "-", f"out-{count}-{kind}-{name}")
                given = {"source": str(source), "output": str(output)}
                command = (
                    job("benchmarks.small_files:loop", **given)
                    if kind == LOOP
                    else job("benchmarks.small_files:curate", kind=kind, workers=options.workers, **given)
                )
                usage = measure(command, env=environment)
                result = usage.result
                if result["rows"] != 2 * count or (kind.endswith(ALONE) and result["splits"] != count):
                    raise SystemExit(f"{kind}: {count:,} files of two rows went in, {result} came out")
                figures["runs"].append({"kind": kind, "checkout": name, "files": count, **plain(usage)})
    return figures


def costs(figures: dict[str, Any]) -> list[list[Any]]:
    """CPU milliseconds for each file beyond those of the smallest run, which hold what it takes to start."""
    found = []
    for kind in (LOOP, *KINDS):
        for checkout in ("before", "now"):
            runs = [one for one in figures["runs"] if (one["kind"], one["checkout"]) == (kind, checkout)]
            if not runs:
                continue
            each = [
                1000 * (after["cpu_s"] - runs[0]["cpu_s"]) / (after["files"] - runs[0]["files"]) for after in runs[1:]
            ]
            found.append([f"{kind}, {checkout}", *(run["cpu_s"] for run in runs), *each])
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--input", type=Path, nargs="+", required=True, help="JSONL files or folders with a text column"
    )
    parser.add_argument("--files", type=whole_sizes_given, default="1000,4000,10000", help="how many files to make")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--workers", type=int, default=2, help="0 for one process, without Dask")
    parser.add_argument("--before", type=Path, help="another checkout of the repository, run in turns with this one")
    parser.add_argument("--scratch", help="folder for files made on the way")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with scratch_folder("small-files", options.scratch) as scratch:
        figures = run(options, scratch)
    sizes = [int(size) for size in options.files.split(",")]
    header = [
        "",
        *(f"{size:,} files, CPU-s" for size in sizes),
        *(f"ms a file, {sizes[0]:,}-{size:,}" for size in sizes[1:]),
    ]
    print(table(header, costs(figures)))
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
