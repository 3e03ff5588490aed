"""What lineage costs: its share of the CPU of a run of filters, and the seconds of `dcurate lineage` over five runs.

``python -m benchmarks.proof_lineage --input DIR [--json FILE]``. The share is the CPU time of the calls that list the
files with their versions, make the record and write it, and of the event that reports the input, over that of the run.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson

from benchmarks.filters import rules
from benchmarks.measure import MB, called, machine, save, scratch_folder, table, versions
from benchmarks.rows import all_rows
from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline, ScoreFilter
from dcurate.core.stage import Stage
from dcurate.io.input_list import InputList, ListedFile, listed_files
from dcurate.running import pipeline_run
from dcurate.runs import lineage, way_back
from dcurate.ui.lineage_page import lineage_page

#: Rows that are read; times that the filters run, of which the median share counts; files of one row; links of the
#: chain; listed files.
ROWS, REPEAT, SMALL_FILES, LINKS, LISTED = 20_000, 3, 2_000, 5, 1_000_000


def measure(input: Path) -> dict[str, Any]:  # noqa: A002 - the name that all proofs share
    """The figures, of the first rows of a folder with files of JSON Lines."""
    with scratch_folder("proof_lineage", None) as scratch:
        return _measured([orjson.dumps(row) + b"\n" for row in islice(all_rows(input), ROWS)], scratch)


def _measured(lines: Sequence[bytes], scratch: Path) -> dict[str, Any]:
    few = _written(scratch / "few", lines, 4)
    many = _written(scratch / "many", lines[:SMALL_FILES], SMALL_FILES)
    _filtered(few, scratch / "warm")  # compiles the kernels
    return {
        "runs": {
            name: _median([_filtered(source, scratch / f"{name}-{number}") for number in range(REPEAT)])
            for name, source in (("few files", few), ("a file each", many))
        },
        "chain": _chain(many, scratch / "chain"),
        "list": _list(),
    }


def _written(folder: Path, lines: Sequence[bytes], files: int) -> Path:
    folder.mkdir()
    for number in range(files):
        (folder / f"{number:05}.jsonl").write_bytes(b"".join(lines[number::files]))
    return folder


def _filtered(source: Path, output: Path) -> dict[str, float]:
    """A run of the filters of `benchmarks.filters`: CPU-seconds of all, and of lineage."""
    stages: list[Stage] = [JsonlReader(str(source), files_per_partition=1), *map(ScoreFilter, rules())]
    spent: list[float] = []
    with ExitStack() as stack:
        for owner, name in (
            (InputList, "add"),
            (pipeline_run, "lineage_of"),
            (pipeline_run, "write_lineage"),
            (pipeline_run.PipelineRun, "_inputs_read"),
        ):
            stack.enter_context(_timed(owner, name, spent))
        begun = time.process_time()
        Pipeline("filters", stages=[*stages, JsonlWriter(str(output))]).run(InlineExecutor(), observers=[])
        cpu = time.process_time() - begun
    nbytes = sum(path.stat().st_size for path in source.iterdir())
    return {"mb": nbytes / MB, "cpu_s": cpu, "lineage_s": sum(spent), "percent": 100 * sum(spent) / cpu}


@contextmanager
def _timed(owner: Any, name: str, spent: list[float]) -> Iterator[None]:
    """Add the CPU time of each call of a function to a list."""
    function: Callable[..., Any] = getattr(owner, name)

    def timed(*arguments: Any, **options: Any) -> Any:
        begun = time.process_time()
        try:
            return function(*arguments, **options)
        finally:
            spent.append(time.process_time() - begun)

    with patch.object(owner, name, timed):
        yield


def _median(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return sorted(runs, key=lambda run: run["percent"])[len(runs) // 2]


def _chain(source: Path, scratch: Path) -> dict[str, float]:
    """Seconds to walk back over a chain of runs with thousands of files each, to draw it and to follow a document."""
    scratch.mkdir()
    outputs = [source, *(scratch / str(number) for number in range(LINKS))]
    for number, (start, end) in enumerate(pairwise(outputs)):
        stages: list[Stage] = [JsonlReader(str(start), files_per_partition=1), JsonlWriter(str(end))]
        Pipeline(f"link {number}", stages=stages).run(InlineExecutor(), observers=[])
    output = str(outputs[-1])
    checked, graph = _seconds(lambda: lineage(output))
    assert (len(graph.runs), graph.warnings) == (LINKS, ())
    last = max(outputs[-1].glob("*.jsonl"))
    row = orjson.loads(last.read_bytes().splitlines()[0])
    followed, ways = _seconds(lambda: way_back(output, [str(row["id"])]))
    assert ways.ways[0].complete
    return {
        "runs": LINKS,
        "files_of_each": SMALL_FILES,
        "seconds": checked,
        "seconds_unchecked": _seconds(lambda: lineage(output, check=False))[0],
        "seconds_with_bytes": _seconds(lambda: lineage(output, hash_bytes=True))[0],
        "seconds_of_page": _seconds(lambda: lineage_page(graph))[0],
        "seconds_of_a_row": followed,
    }


def _list() -> dict[str, float]:
    """CPU-seconds to list a million files and to read the list, and its size."""
    inputs, begun = InputList(), time.process_time()
    for number in range(LISTED):
        path = f"s3://bucket/corpus/2026-11/segment-{number // 1000:05}/part-{number:09}.jsonl.zst"
        inputs.add(ListedFile(path, 30_000_000 + number % 9_973, hashlib.md5(path.encode()).hexdigest()))
    data = inputs.data()
    made, begun = time.process_time() - begun, time.process_time()
    assert sum(1 for _ in listed_files(data, "list")) == LISTED
    return {"files": LISTED, "mb": len(data) / MB, "write_cpu_s": made, "read_cpu_s": time.process_time() - begun}


def _seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    value = function()
    return time.perf_counter() - begun, value


def show(figures: dict[str, Any]) -> None:
    """Print the figures for a person."""
    print(
        "\nread plain JSONL -> the filters of benchmarks.filters -> write plain JSONL, inline;",
        f"medians of {REPEAT} runs\n",
    )
    header = ["input", "MB", "CPU-s", "CPU-s of lineage", "percent"]
    runs = figures["runs"].items()
    print(table(header, [[name, run["mb"], run["cpu_s"], run["lineage_s"], run["percent"]] for name, run in runs]))
    print(f"\na chain of {figures['chain']['runs']} runs of {figures['chain']['files_of_each']:,} files each\n")
    names = {
        "seconds": "dcurate lineage, files compared with their versions",
        "seconds_unchecked": "--no-check",
        "seconds_with_bytes": "--hash",
        "seconds_of_page": "the page",
        "seconds_of_a_row": "--row",
    }
    print(table(["what", "seconds"], [[shown, figures["chain"][name]] for name, shown in names.items()]))
    made = figures["list"]
    print(f"\nthe list of {made['files']:,} files\n")
    print(table(["MB", "CPU-s to write", "CPU-s to read"], [[made["mb"], made["write_cpu_s"], made["read_cpu_s"]]]))


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(prog="benchmarks.proof_lineage", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--input", type=Path, required=True, metavar="DIR", help="folder with files of JSON Lines")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args()
    figures = {"machine": machine(), "versions": versions("dcurate", "pyarrow", "zstandard")}
    figures |= measure(options.input)
    show(figures)
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
