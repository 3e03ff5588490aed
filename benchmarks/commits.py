"""Compare this checkout with another one: their own benchmarks run in turns, and the ratio of each figure.

``python -m benchmarks.commits --before CHECKOUT --input FILE ... --scenarios FILE --random FILE [--only PART ...]``.
See README.md here.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, called, machine, save, scratch_folder, table, versions

#: The scenarios that run on Dask, if none are named.
SCENARIOS = ("curator_docs_4_1_2_seven_gpus", "cpu_bound_gpu_must_idle", "rates_drift_midway")


@dataclass(frozen=True)
class Figure:
    """One figure of a benchmark's JSON.

    Attributes:
        name: as the table shows it.
        path: keys in the JSON; an item of a list by its ``name``.
        higher: whether more is better.
        noisy: whether it depends on what else the machine does.
    """

    name: str
    path: tuple[str, ...]
    higher: bool = False
    noisy: bool = False

    def of(self, figures: Any) -> float | None:
        """Return the figure; None if this run has none."""
        for key in self.path:
            figures = {one["name"]: one for one in figures}[key] if isinstance(figures, list) else figures[key]
        return None if figures is None else float(figures)


@dataclass(frozen=True)
class BenchmarkRun:
    """A benchmark, its arguments, and what counts of its figures."""

    command: tuple[str, ...]
    figures: tuple[Figure, ...]


def parts(options: argparse.Namespace) -> dict[str, BenchmarkRun]:
    """The parts of the comparison by name."""
    speed, scenarios = ("--repeat", "1", "--sizes", options.sizes), ("--scenarios", str(options.scenarios))
    inputs = tuple(map(str, options.input))
    random = ("--random", str(options.random)) if options.random else ()
    filters = ("benchmarks.filters", "--input", str(Path(inputs[0]).parent), *speed)
    rate = "marginal_mb_per_cpu_s"
    streaming = tuple(
        Figure(f"{name}: {what}", ("scenarios", name, what), higher=True, noisy=True)
        for name in options.streaming
        for what in ("makespan_ratio", "steady_ratio")
    )
    summary = ("true_rates_min", "blind_start_min", *(("random_mean", "random_min") if random else ()))
    of_data = {} if options.data is None else data_parts(options.data, Path(inputs[0]).parent)
    return of_data | {
        "filters": BenchmarkRun(filters, (Figure("21 filters, MB per CPU-s", ("dcurate", rate), higher=True),)),
        "filters28": BenchmarkRun(
            (*filters, "--recipe", "nemo-english"),
            (Figure("28 filters, MB per CPU-s", ("dcurate", rate), higher=True),),
        ),
        "dedup": BenchmarkRun(
            ("benchmarks.dedup", "--input", *inputs, *speed, "--peer-mb", "0.1"),
            tuple(Figure(f"{kind}, MB per CPU-s", (kind, rate), higher=True) for kind in ("exact", "fuzzy")),
        ),
        "overhead": BenchmarkRun(
            ("benchmarks.overhead", "--only", "per_task", "--repeat", "1", "--partitions", str(options.partitions)),
            (
                Figure("a stage that drops all, us of CPU a task", ("per_task", "dropped", "total_us")),
                Figure("a writer with a ledger, us of CPU a task", ("per_task", "written", "total_us")),
            ),
        ),
        "balance": BenchmarkRun(
            ("benchmarks.balance", *scenarios, *random),
            (
                *(Figure(f"share of the optimum, {name}", ("summary", name), higher=True) for name in summary),
                Figure("a decision for 1,000 hosts, s", ("summary", "decision_seconds_1000_hosts"), noisy=True),
            ),
        ),
        "streaming": BenchmarkRun(
            (
                *("benchmarks.streaming", *scenarios, "--time-scale", str(options.time_scale)),
                *("--seconds", str(options.seconds), "--only", *options.streaming),
            ),
            streaming,
        ),
        "streaming_small": BenchmarkRun(
            ("benchmarks.streaming", "--small", "--seconds", str(options.seconds)),
            tuple(
                Figure(f"{kind}: share of the CPU in stages", ("small", kind, "stage_share_of_our_cpu"), higher=True)
                for kind in ("Burning", "BurningWithSetup")
            ),
        ),
        "chaos": BenchmarkRun(
            ("benchmarks.chaos", "--kills", str(options.kills), "--runs", "0", "--pause", "3"),
            tuple(
                Figure(f"chaos: {what}", ("cluster", what), noisy=what == "rounds")
                for what in ("lost", "doubled", "rounds")
            ),
        ),
    }


def data_parts(data: Path, corpus: Path) -> dict[str, BenchmarkRun]:
    """The parts that read media: `data` has folders ``pdf`` and ``image``, `corpus` JSON Lines."""
    return {
        "documents": BenchmarkRun(
            (
                "benchmarks.documents",
                "--input",
                str(data / "pdf"),
                "--tools",
                "",
                "--parts",
                "real,made",
                "--repeat",
                "1",
            ),
            tuple(
                Figure(f"PDFs, {part}, pages per CPU-s", (part, "dcurate", "pages_per_cpu_s"), higher=True)
                for part in ("real", "made")
            ),
        ),
        "images": BenchmarkRun(
            ("benchmarks.images", "--input", str(data / "image"), "--only", "speed"),
            tuple(
                Figure(f"images, {name} per CPU-s", ("speed", "ours", f"{name}_per_cpu_s"), higher=True)
                for name in ("images", "info_images", "signals_images")
            ),
        ),
        "tokens_out": BenchmarkRun(
            ("benchmarks.tokens_out", "--input", str(corpus), "--repeat", "1"),
            tuple(
                Figure(f"tokens per CPU-s, {tool}", ("tools", tool, "speed"), higher=True)
                for tool in ("dcurate, one process", "dcurate, one process, fast")
            ),
        ),
    }


def run(part: BenchmarkRun, checkout: Path, scratch: Path) -> dict[str, float | None]:
    """Run a part by a checkout's own code, and return its figures by name."""
    output = scratch / "figures.json"
    output.unlink(missing_ok=True)
    module, *arguments = part.command
    command = [sys.executable, "-m", module, *arguments, "--json", str(output)]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "DCURATE_CACHE": str(scratch / f"cache-{checkout.name}")}
    ended = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if not output.exists():
        sys.exit(f"{checkout}: {' '.join(command[1:])} ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
    figures = json.loads(output.read_text())
    return {one.name: one.of(figures) for one in part.figures}


def compare(found: Mapping[str, Sequence[Mapping[str, float | None]]], part: BenchmarkRun) -> list[list[Any]]:
    """The rows of a part: medians before and now, and how many times as good it is now.

    Examples:
        >>> part = BenchmarkRun((), (Figure("MB per CPU-s", (), higher=True),))
        >>> compare({"before": [{"MB per CPU-s": 50.0}], "now": [{"MB per CPU-s": 55.0}]}, part)
        [['MB per CPU-s', 50.0, 55.0, 1.1]]
    """
    rows = []
    for one in part.figures:
        name = f"{one.name} (noisy)" if one.noisy else one.name
        known = {side: [run[one.name] for run in runs] for side, runs in found.items()}
        values = {side: [value for value in runs if value is not None] for side, runs in known.items()}
        before, now = (statistics.median(values[side]) if values[side] else None for side in ("before", "now"))
        better = None
        if before and now:
            better = now / before if one.higher else before / now
        rows.append([name, before, now, better])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.commits", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--before", type=Path, required=True, metavar="CHECKOUT", help="checkout of the other commit")
    parser.add_argument("--input", type=Path, nargs="+", required=True, metavar="FILE", help="JSONL with a column text")
    parser.add_argument("--scenarios", type=Path, required=True, metavar="FILE", help="JSON: stages, nodes, optimum")
    parser.add_argument("--random", type=Path, metavar="FILE", help="more of the same, for the balancer")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folders pdf and image, for the parts that read them")
    parser.add_argument("--only", nargs="+", metavar="PART", help="parts to compare; default all")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each checkout, of which the median counts")
    parser.add_argument("--sizes", default="1,3", metavar="N,M", help="how often the data are read, small and large")
    parser.add_argument("--partitions", type=int, default=4000, help="trivial partitions of the overhead")
    parser.add_argument("--streaming", nargs="+", default=SCENARIOS, metavar="NAME", help="scenarios that run on Dask")
    parser.add_argument("--time-scale", type=float, default=0.2, help="by which the times of scenarios are multiplied")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a run of a scenario in its steady state")
    parser.add_argument("--kills", type=int, default=100, help="of processes and hosts")
    parser.add_argument("--scratch", metavar="DIR", help="where copies and output go for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    for name in ("before", "scenarios", "random", "data"):
        setattr(options, name, getattr(options, name) and getattr(options, name).resolve())
    options.input = [one.resolve() for one in options.input]
    everything = parts(options)
    if strange := sorted(set(options.only or ()) - everything.keys()):
        sys.exit(f"there is no part {strange[0]!r}; give any of {', '.join(everything)}")
    checkouts = {"before": options.before, "now": ROOT}
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dask", "distributed"), "parts": {}}
    rows: list[list[Any]] = []
    with scratch_folder("commits", options.scratch) as scratch:
        for name in options.only or everything:
            found: dict[str, list[dict[str, float | None]]] = {side: [] for side in checkouts}
            for turn in range(options.repeat):
                for side, checkout in list(checkouts.items())[:: -1 if turn % 2 else 1]:
                    found[side].append(run(everything[name], checkout, scratch))
                    print(f"{name}, {side}: {found[side][-1]}", flush=True)
            figures["parts"][name] = found
            rows += compare(found, everything[name])
    print("\n" + table(["median", "before", "now", "times as good"], rows))
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
