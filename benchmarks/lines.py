"""What JSON Lines in and out cost, alone and around stages, compared with another checkout.

``python -m benchmarks.lines --input FILE ... [--repeat 3] [--before CHECKOUT] [--json FILE]``
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks.filters import rules
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
from dcurate import ExactDuplicates, FuzzyDuplicates, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, ScoreFilter
from dcurate.datasets import Blend, Shuffle
from dcurate.recipe import load_recipe
from dcurate.text import AddId

#: Times that a process does the same: the least disturbed one counts.
ROUNDS = 3
STAGES = (
    "read and write",
    "add a column",
    "twelve signals",
    "28 filters",
    "exact duplicates",
    "near-duplicates",
    "shuffle",
    "blend",
)
#: Characters of the texts of short rows.
SHORT = 400


def stages_of(kind: str, source: str, output: str) -> list[Any]:
    """The stages of a pipeline from JSON Lines to JSON Lines."""
    match kind:
        case "28 filters":
            return list(load_recipe("nemo-english", {"input": source, "output": output}).pipeline.stages)
        case "blend":
            rows = sum(path.read_bytes().count(b"\n") for path in Path(source).iterdir())
            return [Blend(rows, [JsonlReader(source)], [1.0], seed=1), JsonlWriter(output)]
    between: dict[str, list[Any]] = {
        "read and write": [],
        "add a column": [AddId("number")],
        "twelve signals": [ScoreFilter(rule) for rule in rules()],
        "exact duplicates": [ExactDuplicates()],
        "near-duplicates": [FuzzyDuplicates()],
        "shuffle": [Shuffle(seed=1)],
    }
    return [JsonlReader(source), *between[kind], JsonlWriter(output)]


def curate(kind: str, source: str, warm_up: str, output: str) -> dict[str, Any]:
    """Read, curate and write all files in this process several times; the CPU-seconds are those of the least time."""
    found = []
    for place, given in enumerate([warm_up, *[source] * ROUNDS]):
        start = time.process_time()
        pipeline = Pipeline("lines", stages=stages_of(kind, given, f"{output}/{place}"))
        report = pipeline.run(InlineExecutor(), observers=[]).report
        found.append(time.process_time() - start)
    return {"cpu_s": min(found[1:]), "rows": report.stages[-1].rows_in}


def chats(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Short nested rows, such as data for chat models."""
    for number, row in enumerate(rows):
        for start in range(0, min(len(row["text"]), 8 * SHORT), SHORT):
            text = row["text"][start : start + SHORT]
            turns = [{"role": "user", "content": text[:80]}, {"role": "assistant", "content": text[80:]}]
            about = {"source": row.get("source", ""), "tokens": len(text) // 4, "score": number / 7}
            yield {"id": f"{number}-{start}", "text": text, "messages": turns, "meta": about}


def make_files(sources: Sequence[Path], parts: int, folder: Path) -> dict[str, float]:
    """Write the rows as they are, and short nested ones made of them; return the MB of each set."""
    rows = [row for path in sources for row in all_rows(path)]
    sizes = {}
    for name, content in {"documents": rows, "chats": list(chats(rows))}.items():
        for part, taken in (("in", content), ("warm-up", content[:200])):
            (folder / name / part).mkdir(parents=True)
            for number in range(parts):
                own = taken[number::parts]
                data = b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in own)
                (folder / name / part / f"{number}.jsonl").write_bytes(data)
        sizes[name] = sum(path.stat().st_size for path in (folder / name / "in").iterdir()) / MB
    return sizes


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Every pipeline on both sets, by this checkout and by the one to compare with, in turns."""
    checkouts: dict[str, dict[str, str]] = {"now": {}}
    if options.before:
        checkouts["before"] = package_of(options.before, scratch)
    sizes = make_files(options.input, options.parts, scratch)
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("pyarrow"), "mb": sizes, "runs": []}
    for turn in range(options.repeat):
        for files in options.files:
            for stages in options.stages:
                for name, environment in list(checkouts.items())[:: -1 if turn % 2 else 1]:
                    given = {
                        "source": str(scratch / files / "in"),
                        "warm_up": str(scratch / files / "warm-up"),
                        "output": str(scratch / f"out-{len(figures['runs'])}"),
                    }
                    usage = measure(job("benchmarks.lines:curate", kind=stages, **given), env=environment)
                    about = {"files": files, "stages": stages, "checkout": name}
                    figures["runs"].append({**about, **plain(usage), **usage.result})
    return figures


def costs(figures: dict[str, Any]) -> list[list[Any]]:
    """For each pipeline: MB per CPU-second before and now (best and median), their ratio, and the peaks of memory."""
    found = []
    for files, stages in dict.fromkeys((each["files"], each["stages"]) for each in figures["runs"]):
        line: list[Any] = [f"{files}: {stages}"]
        best = {}
        for checkout in ("before", "now"):
            runs = [r for r in figures["runs"] if (r["files"], r["stages"], r["checkout"]) == (files, stages, checkout)]
            rates = sorted(figures["mb"][files] / each["cpu_s"] for each in runs)
            best[checkout] = rates[-1] if rates else None
            line += [best[checkout], statistics.median(rates) if rates else None]
            line.append(max((each["peak"]["root"]["rss_mb"] for each in runs), default=None))
        found.append([*line, best["now"] / best["before"] if best["before"] and best["now"] else None])
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=Path, nargs="+", required=True, help="JSONL files with texts")
    parser.add_argument("--parts", type=int, default=4, help="files to make of them")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--files", nargs="+", choices=("documents", "chats"), default=("documents", "chats"))
    parser.add_argument("--before", type=Path, help="another checkout of the repository, run in turns with this one")
    parser.add_argument("--scratch", help="folder for files made on the way")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with scratch_folder("lines", options.scratch) as scratch:
        figures = run(options, scratch)
    heads = [f"{when}: {what}" for when in ("before", "now") for what in ("MB per CPU-s", "median", "peak RSS, MB")]
    print(table(["", *heads, "ratio"], costs(figures)))
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
