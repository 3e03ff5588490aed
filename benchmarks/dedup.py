"""Read JSONL, remove duplicates, write JSONL: CPU-seconds, memory and what is removed, beside other tools.

``python -m benchmarks.dedup --input DIR [--growth] [--peer NAME ...] [--peer-python NAME=PATH ...] [--json FILE]``. See
README.md here.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.filters import PACKAGES, Data, compare_sizes, peer_python
from benchmarks.measure import called, job, machine, measure, save, scratch_folder, sizes_given, table, versions
from benchmarks.near_duplicates_data import COPIES, EDITS, SIMILARITIES, Corpus, corpus_of, write
from dcurate import DaskExecutor, ExactDuplicates, FuzzyDuplicates, JsonlReader, JsonlWriter, LocalCluster, Pipeline

KINDS = ("exact", "fuzzy")

#: Sizes that show how cost and memory grow.
GROWTH = "1,4,16"


#: Peers, and what they can do.
PEERS = {
    "datatrove": ("exact", "fuzzy"),
    "text-dedup": ("exact", "fuzzy"),
    "datasketch": ("fuzzy",),
    "rensa": ("fuzzy",),
}


@dataclass(frozen=True)
class Peer:
    """A peer that is installed."""

    name: str
    python: Path
    script: Path
    rules: list[str]
    versions: dict[str, str]


def peers_here(given: Sequence[str], wanted: Sequence[str] = ()) -> Iterator[Peer]:
    """The peers that are installed; of the others it is printed why they cannot run.

    Args:
        given: where their environments are, each as ``NAME=PATH``; by default in ``.venv-NAME``.
        wanted: only these; all if there are none.
    """
    for name in wanted or PEERS:
        python = peer_python(name, given)
        script = Path(__file__).parent / "peers" / f"dedup_{name.replace('-', '')}.py"
        if not python.exists():
            print(f"{name}: left out, there is no {python}", flush=True)
            continue
        asked = subprocess.run([python, script, "about"], capture_output=True, text=True, check=False)
        if asked.returncode:
            print(f"{name}: left out, {(asked.stderr.strip() or 'no reason given').rpartition(chr(10))[2]}")
            continue
        known = json.loads(asked.stdout.strip().rpartition("\n")[2])
        yield Peer(name, python, script, known["rules"], known["versions"])


def stage_of(kind: str) -> Any:
    """The stage that is measured, with its defaults."""
    return FuzzyDuplicates() if kind == "fuzzy" else ExactDuplicates()


def deduplicate(kind: str, source: str, output: str, workers: int) -> dict[str, Any]:
    """Run the pipeline; how many documents came in and out, and the seconds of the run itself."""
    pipeline = Pipeline(kind, stages=[JsonlReader(source), stage_of(kind), JsonlWriter(output)])
    report = pipeline.run(DaskExecutor(cluster=LocalCluster(n_workers=workers, gpus=False))).report
    first, last = report.stages[0], report.stages[-1]
    return {"documents_in": first.rows_out, "documents_out": last.rows_out, "run_s": report.seconds}


Command = Callable[[Path, Path], Sequence[str | Path]]


def ours(kind: str, workers: int) -> Command:
    """How dcurate is run on a folder."""

    def command(source: Path, output: Path) -> Sequence[str]:
        where = {"source": str(source), "output": str(output)}
        return job("benchmarks.dedup:deduplicate", kind=kind, workers=workers, **where)

    return command


def made(corpus: Corpus, sizes: Sequence[float], scratch: Path, name: str) -> list[Data]:
    """Folders with the documents made, so many times as many as there were; a larger one begins with the smaller."""
    folders = [scratch / f"{name}-{number}" for number in range(len(sizes))]
    for size, folder in zip(sizes, folders, strict=True):
        write(corpus, size, folder)
    return [Data(folder, size) for size, folder in zip(sizes, folders, strict=True)]  # type: ignore[arg-type]


def growth(sizes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How the cost of a MB more, and the peak of memory, grow from the smallest size to the largest."""
    costs = [(large["cpu_s"] - small["cpu_s"]) / (large["mb"] - small["mb"]) for small, large in pairwise(sizes)]
    peaks = [size["peak_pss_mb"] for size in sizes]
    return {
        "marginal_cpu_s_per_mb": costs,
        "cost_ratio": costs[-1] / costs[0] if len(costs) > 1 and costs[0] > 0 else None,
        "peak_ratio": peaks[-1] / peaks[0],
    }


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """All figures."""
    about: dict[str, Any] = {"machine": machine(), "versions": {"dcurate": versions(*PACKAGES)}}
    kinds = options.only or KINDS
    corpus = corpus_of(options.input, options.seed)
    times = [float(number) for number in (GROWTH if options.growth else options.sizes).split(",")]
    sizes = made(corpus, times, scratch, "made")
    figures: dict[str, Any] = {}
    for kind in kinds:
        command = ours(kind, options.workers)
        if options.repeat > 1:
            measure(command(sizes[0].folder, scratch / "output"))  # compiles the kernels, or finds them compiled
            shutil.rmtree(scratch / "output")
        figures[kind] = compare_sizes(command, sizes, options.repeat, scratch)
        figures[kind]["growth"] = growth(figures[kind]["sizes"])
    peers: dict[str, Any] = {}
    here = list(peers_here(options.peer_python, options.peer or ()))
    some = options.peer_mb * times[0] / sizes[0].mb
    few = made(corpus, [some, some * times[-1] / times[0]], scratch, "for-peers") if here else []
    for peer in here:
        peers[peer.name] = {"rules": peer.rules}
        about["versions"][peer.name] = peer.versions
        for kind in PEERS[peer.name]:
            if kind in kinds:
                peers[peer.name][kind] = compare_sizes(_call(peer, kind, options.workers), few, 1, scratch)
    return {
        **figures,
        "peers": peers,
        "ratio": {name: _ratios(figures, peer, kinds) for name, peer in peers.items()},
        "input": {
            "documents": len(corpus),
            "seed": options.seed,
            "copies": COPIES,
            "edits": EDITS,
            "similarity": SIMILARITIES,
        },
        "workers": options.workers,
        "repeat": options.repeat,
        **about,
    }


def _call(peer: Peer, kind: str, workers: int) -> Command:
    """How a peer's script is called."""
    return lambda source, output: [peer.python, peer.script, kind, source, output, str(workers)]


def _ratios(figures: dict[str, Any], peer: dict[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
    """How many times a peer's marginal rate ours is."""
    rates = {
        kind: (figures[kind]["marginal_mb_per_cpu_s"], peer[kind]["marginal_mb_per_cpu_s"])
        for kind in kinds
        if kind in peer
    }
    return {kind: one / other if one and other else None for kind, (one, other) in rates.items()}


def show(figures: dict[str, Any]) -> None:
    """Print the figures for a person."""
    given = figures["input"]
    unique = 100 - given["copies"] - given["edits"]
    low, high = given["similarity"]
    print(f"\nread plain JSONL -> remove duplicates -> write JSONL, {figures['workers']} workers;", end=" ")
    print(f"medians of {figures['repeat']} runs (peers: one); MB are 10^6 bytes of JSONL")
    print(
        f"documents are made: {unique} % unique (words of a real one in random order), {given['copies']} % exact",
        end=" ",
    )
    print(f"copies and {given['edits']} % edits\nat a similarity of {low} to {high}, of any earlier one\n")
    tools = {"dcurate": {kind: figures[kind] for kind in KINDS if kind in figures}, **figures["peers"]}
    rows, rates = [], []
    for kind in KINDS:
        for name, tool in tools.items():
            if kind not in tool:
                continue
            one = tool[kind]
            rows += [[f"{kind} {name}", *_size(size)] for size in one["sizes"]]
            times = figures["ratio"].get(name, {}).get(kind)
            shown = None if times is None else f"{times:,.1f}x"
            rates.append([f"{kind} {name}", one["marginal_mb_per_cpu_s"], one["mb_per_cpu_s"], shown])
    header = ["", "MB", "documents", "kept", "CPU-s", "wall s", "peak RSS MB", "peak PSS MB"]
    print(table(["run", *header[1:]], rows))
    print()
    print(table(["", "MB per CPU-s, marginal", "start-up included", "dcurate is"], rates))
    for kind in KINDS:
        if kind in figures and len(figures[kind]["sizes"]) > 2:
            one = figures[kind]["growth"]
            costs = ", ".join(f"{1000 * cost:.1f}" for cost in one["marginal_cpu_s_per_mb"])
            print(f"\ngrowth, {kind}: CPU-ms for a MB more, from size to size: {costs}", end="; ")
            print(f"that is {_times(one['cost_ratio'])}, and peak PSS {_times(one['peak_ratio'])}")


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _size(size: dict[str, Any]) -> list[Any]:
    kept = f"{size['documents_out'] / max(1, size['documents_in']):.2%}"
    used = [size[key] for key in ("cpu_s", "wall_s", "peak_rss_mb", "peak_pss_mb")]
    return [size["mb"], size["documents_in"], kept, *used]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.dedup", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--input", required=True, nargs="+", metavar="PATH", help="JSONL, plain or compressed, with a column text"
    )
    parser.add_argument("--only", nargs="*", choices=KINDS, help="only these")
    parser.add_argument("--peer", action="append", choices=PEERS, help="only these; repeatable; default all")
    parser.add_argument(
        "--peer-python",
        action="append",
        default=[],
        metavar="PEER=PATH",
        help=f"a peer's environment or its Python; default .venv-PEER; peers are {', '.join(PEERS)}",
    )
    parser.add_argument("--peer-mb", type=float, default=8.0, help="MB that peers are run on at the smaller size")
    parser.add_argument(
        "--sizes", type=sizes_given, default="1,4", metavar="N,M,...", help="times the documents of the input"
    )
    parser.add_argument("--growth", action="store_true", help=f"the same as --sizes {GROWTH}")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each size, of which the median counts")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="of the documents that are made")
    parser.add_argument("--scratch", metavar="DIR", help="where copies and output go for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    with scratch_folder("dedup", options.scratch) as scratch:
        figures = run(options, scratch)
    show(figures)
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
