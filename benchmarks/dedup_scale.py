"""Near-duplicate removal at scale: its graph half on simulated documents, and a billion documents on 32 nodes on paper.

``python -m benchmarks.dedup_scale [--sizes 1e6,4e6,16e6] [--root 250e6] [--set NAME=VALUE ...] [--json FILE]``. See
README.md here.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from benchmarks.dedup_paper import GB, Paper, PaperRound, sources
from benchmarks.measure import MB, job, machine, measure, plain, save, table, versions

MILLION = 1e6
DESIGNS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("On paper, with default settings, on S3:", {}),
    "blocksize": ("The same with batches of 512 MiB:", {"blocksize": 2**29}),
    "file_system": (
        "With default settings, on a shared file system that grants a million reads a second:",
        {"requests_s": 1e6, "read_s": 0.002},
    ),
    "unmerged": ("On S3, if files were not merged before they are read in ranges:", {"most_reads": math.inf}),
}


def measured(function: str, **arguments: Any) -> dict[str, Any]:
    """Run a part of the simulation in a process of its own."""
    usage = measure(job(f"benchmarks.dedup_simulated:{function}", **arguments))
    return {**usage.result, "usage": plain(usage)}


def adjusted(paper: Paper, runs: Sequence[Mapping[str, Any]], root: Mapping[str, Any] | None) -> Paper:
    """The paper with what the largest run of the simulation, and that of the root, measured."""
    if runs:
        run = max(runs, key=lambda each: float(each["documents"]))
        count, cpu = run["documents"], run["cpu_s"]
        graph = replace(
            paper.graph,
            in_pairs=run["in_pairs"] / count,
            repeated_pairs=run["pairs_with_repeats"] / count,
            pairs=run["pairs"] / count,
            forest_edges=run["forest_edges"] / count,
            members=run["connected"] / count,
            removed=(run["connected"] - run["kept_connected"]) / count,
        )
        rates = replace(
            paper.rates,
            order_us=1e6 * cpu["order entries"] / run["entries"],
            candidates_us=1e6 * cpu["candidate pairs"] / run["entries"],
            once_us=1e6 * (cpu["pairs by left"] + cpu["each pair once"]) / run["pairs_with_repeats"],
            forest_us=1e6 * cpu["forests"] / run["pairs_with_repeats"],
            groups_us=1e6 * cpu["groups, connected"] / run["verified_pairs"],
        )
        paper = replace(paper, graph=graph, rates=rates)
    if root:
        join, label = root["cpu_s"]["join"] / root["edges"], root["cpu_s"]["labels"] / root["documents"]
        paper = replace(paper, rates=replace(paper.rates, root_us=1e6 * join, labels_us=1e6 * label))
    return paper


def parts_of(paper: Paper) -> dict[str, Any]:
    """What the paper is computed from."""
    return {"data": paper.data, "graph": paper.graph, "machines": paper.machines, "rates": paper.rates}


def given(paper: Paper, settings: Mapping[str, float]) -> Paper:
    """The paper with constants by name.

    Raises:
        SystemExit: there is none of a name.
    """
    parts = parts_of(paper)
    for name, value in settings.items():
        where = [key for key, part in parts.items() if name in {one.name for one in fields(part)}]
        if not where:
            known = ", ".join(one.name for part in parts.values() for one in fields(part))
            raise SystemExit(f"--set {name}: there is no such constant; there are {known}")
        parts[where[0]] = replace(parts[where[0]], **{name: value})
    return replace(paper, **parts)


def hours(paper: Paper) -> list[tuple[PaperRound, float, str]]:
    """Each round, the seconds that it takes, and what holds it up."""
    found = []
    for each in paper.rounds():
        times = each.times(paper.machines)
        slowest = max(times, key=lambda name: times[name])
        found.append((each, times[slowest], slowest))
    return found


# For a person


def growth_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """What each step takes for a million documents, by size."""
    header = ["CPU-s a million documents", *(f"{run['documents'] / MILLION:g} M" for run in runs)]
    steps = [[name, *(run["cpu_s"][name] * MILLION / run["documents"] for run in runs)] for name in runs[0]["cpu_s"]]
    total = ["all steps", *(sum(run["cpu_s"].values()) * MILLION / run["documents"] for run in runs)]
    named = {
        "documents in candidate pairs": "in_pairs",
        "candidate pairs, each once": "pairs",
        "verified pairs": "verified_pairs",
        "documents in groups": "connected",
        "  left over, connected": "kept_connected",
        "  left over, stars": "kept_star",
        "buckets cut short": "buckets_cut_short",
        "largest candidate component": "largest_candidate_component",
        "largest group": "largest_group",
    }
    counts = [[shown, *(int(run[key]) for run in runs)] for shown, key in named.items()]
    peak = ["peak memory of the process, MB", *(run["usage"]["peak"]["root"]["rss_mb"] for run in runs)]
    return table(header, [*steps, total, *counts, ["ranges of keys", *(run["key_ranges"] for run in runs)], peak])


def root_line(root: Mapping[str, Any]) -> str:
    """What one task that joins all forests takes."""
    join, label = root["cpu_s"]["join"], root["cpu_s"]["labels"]
    return (
        f"One task joins {root['edges']:,} edges between {root['documents']:,} documents: {join:.1f} CPU-s "
        f"({1e6 * join / root['edges']:.3f} s a million edges), labels {label:.1f} s; "
        f"peak {root['usage']['peak']['root']['rss_mb']:,.0f} MB, {4 * root['documents'] / MB:,.0f} of them the file"
    )


def paper_table(rounds: Sequence[tuple[PaperRound, float, str]]) -> str:
    """All rounds of a design."""
    header = [
        "round",
        "tasks",
        "files",
        "reads, M",
        "read TB",
        "written TB",
        "CPU-h",
        "MB a task",
        "minutes",
        "held up by",
    ]
    rows: list[list[Any]] = [
        [
            *(one.name, int(one.tasks), int(one.files), one.reads / MILLION, one.read / (1000 * GB)),
            *(one.written / (1000 * GB), one.cpu_s / 3600, one.memory / MB, seconds / 60, slowest),
        ]
        for one, seconds, slowest in rounds
    ]
    total = ["all", *(sum(row[at] for row in rows) for at in range(1, 7)), max(row[7] for row in rows)]
    return table(header, [*rows, [*total, sum(row[8] for row in rows), ""]])


def constants_table(paper: Paper) -> str:
    """Every constant with where it is from."""
    known = [one for part in parts_of(paper).values() for one in sources(part)]
    return table(["constant", "value", "from"], known)


def as_json(rounds: Sequence[tuple[PaperRound, float, str]]) -> list[dict[str, Any]]:
    """The figures of a design."""
    return [{**asdict(one), "seconds": seconds, "held_up_by": slowest} for one, seconds, slowest in rounds]


def setting(text: str) -> tuple[str, float]:
    """A constant by name."""
    name, _, value = text.partition("=")
    return name, float(value)


def simulated(options: argparse.Namespace) -> dict[str, Any]:
    """All that is measured."""
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dcurate", "numpy", "numba")}
    sizes = sorted(int(float(size)) for size in filter(None, options.sizes.split(",")))
    figures["simulated"] = [measured("simulate", documents=size) for size in sizes]
    figures["tree"] = measured("tree", documents=int(options.tree)) if options.tree else None
    figures["root"] = measured("root", documents=int(options.root)) if options.root else None
    return figures


def simulated_text(figures: Mapping[str, Any]) -> str:
    """What was measured."""
    said = [growth_table(figures["simulated"])] if figures["simulated"] else []
    if figures["tree"]:
        levels = ", ".join(f"{edges:,}" for edges in figures["tree"]["edges"])
        about = f"{figures['tree']['ranges']} ranges of keys, {figures['tree']['documents']:,} documents"
        said.append(f"Edges of the forests of {about}: {levels} (merged by eight)")
    if figures["root"]:
        said.append(root_line(figures["root"]))
    return "\n\n".join(said)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.dedup_scale", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="1e6,4e6,16e6", help="documents to simulate, with commas; none if empty")
    parser.add_argument("--root", type=float, default=250e6, help="documents that one task joins; 0: leave it out")
    parser.add_argument("--tree", type=float, default=1e6, help="documents whose forests are merged; 0: leave it out")
    parser.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE", help="of the paper")
    parser.add_argument(
        "--simulated", type=Path, metavar="FILE", help="figures of an earlier run; only the paper is new"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    paper = Paper()
    given(paper, dict(options.set))  # refused before anything is measured
    figures = json.loads(options.simulated.read_text()) if options.simulated else simulated(options)
    print(simulated_text(figures), flush=True)
    paper = adjusted(paper, figures["simulated"], figures["root"])
    designs = {name: hours(given(paper, {**changed, **dict(options.set)})) for name, (_, changed) in DESIGNS.items()}
    for name, rounds in designs.items():
        print(f"\n{DESIGNS[name][0]}\n\n{paper_table(rounds)}")
    print(f"\n{constants_table(given(paper, dict(options.set)))}")
    figures["paper"] = {name: as_json(rounds) for name, rounds in designs.items()}
    figures["constants"] = {key: asdict(part) for key, part in parts_of(given(paper, dict(options.set))).items()}
    save(options.json, figures)


if __name__ == "__main__":
    main()
