"""How several runs on one cluster divide it: Jain's index of what they get, and what is left idle.

``python -m benchmarks.jobs_shares [--json FILE]``. See README.md here.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.hosts import Hosts, HostSpec, nothing_remembered
from benchmarks.measure import called, machine, save, table, versions
from benchmarks.sleeping import CallDurations, DiaryLine, OperatorWork, SleepingSource, read_diary
from dcurate import AttachedCluster, DaskExecutor, Pipeline

#: Pretended hosts, and workers of each; a worker has one thread.
HOSTS, WORKERS = 4, 12
#: Mean seconds of a call, and their standard deviation by mean.
CALL_S, CV = 2.0, 0.3
#: Seconds from the first call of the last run until it counts, and for how long.
SETTLE_S, WINDOW_S = 6.0, 20.0
#: Python parses sources, whose fingerprints runs take, in one thread at a time only.
_ONE_BEGINS = threading.Lock()
#: The most seconds to wait for a run to begin.
PATIENCE_S = 180.0


@dataclass(frozen=True)
class ShareCase:
    """Runs at the same time, by their shares."""

    shares: tuple[float, ...]

    @property
    def name(self) -> str:
        """What it is called in the table."""
        if len(set(self.shares)) == 1:
            return f"{len(self.shares)} runs"
        return f"{len(self.shares)} runs, {':'.join(f'{share:g}' for share in self.shares)}"


CASES = [
    *(ShareCase((1.0,) * number) for number in (2, 3, 4, 6, 8)),
    ShareCase((1.0, 3.0)),
    ShareCase((1.0, 1.0, 2.0, 4.0)),
]


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 if all values are the same, 1/n if one has everything.

    Examples:
        >>> jain([2.0, 2.0]), jain([1.0, 0.0])
        (1.0, 0.5)
    """
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values)) if any(values) else 0.0


def calls_of(folder: Path) -> list[DiaryLine]:
    """The calls of all slots of a run."""
    return [line for path in folder.glob("*") for line in read_diary(path) if line.kind == "call"]


def seconds_within(calls: Sequence[DiaryLine], begin: float, end: float) -> float:
    """Seconds of calls between two moments."""
    return sum(max(0.0, min(call.end, end) - max(call.begin, begin)) for call in calls)


def curate(address: str, folder: Path, share: float, stop: threading.Event) -> None:
    """Run a sleeping source until it is stopped."""
    pace = CallDurations((CALL_S,), CV, folder.name)
    work = OperatorWork(0, pace, Fraction(1), 0, 0.0, str(folder))
    with AttachedCluster(address, timeout_s=PATIENCE_S) as cluster:
        stream = Pipeline(folder.name, stages=[SleepingSource(work, count=100_000)]).stream(
            DaskExecutor({"share": share}, cluster)
        )
        with _ONE_BEGINS:
            next(stream)
        for _ in stream:
            if stop.is_set():
                break
        stream.close()


def figures_of(case: ShareCase, address: str) -> dict[str, Any]:
    """Run a case; return what each run got, Jain's index, and the part of all threads that was used."""
    with tempfile.TemporaryDirectory(prefix="dcurate-shares-") as parent:
        folders = [Path(parent, f"run{number}") for number in range(len(case.shares))]
        stop, threads = threading.Event(), []
        for folder, share in zip(folders, case.shares, strict=True):
            folder.mkdir()
            threads.append(threading.Thread(target=curate, args=(address, folder, share, stop), daemon=True))
            threads[-1].start()
        patience = time.monotonic() + PATIENCE_S
        while not all(map(calls_of, folders)):
            if time.monotonic() > patience:
                raise RuntimeError(f"{case.name}: a run has not begun within {PATIENCE_S:g} s")
            time.sleep(0.2)
        begin = time.monotonic() + SETTLE_S
        end = begin + WINDOW_S
        time.sleep(SETTLE_S + WINDOW_S + 3 * CALL_S)  # a call is written when it has ended
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        got = [seconds_within(calls_of(folder), begin, end) for folder in folders]
    fair = sum(got) / sum(case.shares)
    return {
        "name": case.name,
        "shares": list(case.shares),
        "slot_seconds": got,
        "jain": jain([seconds / share for seconds, share in zip(got, case.shares, strict=True)]),
        "least_of_fair": min(seconds / (share * fair) for seconds, share in zip(got, case.shares, strict=True)),
        "of_optimum": sum(got) / (HOSTS * WORKERS * WINDOW_S),
    }


def run(cases: Sequence[ShareCase]) -> dict[str, Any]:
    """The figures of all cases."""
    specs = [HostSpec(f"host{number}", WORKERS, WORKERS) for number in range(HOSTS)]
    with nothing_remembered(), Hosts(specs) as hosts:
        figures = []
        for case in cases:
            figures.append(figures_of(case, hosts.address))
            print(case.name, figures[-1]["jain"], figures[-1]["of_optimum"], file=sys.stderr)
    rows = [[one["name"], one["jain"], 100 * one["least_of_fair"], 100 * one["of_optimum"]] for one in figures]
    print(table(["at the same time", "Jain's index", "least, % of fair", "% of the joint optimum"], rows))
    summary = {
        "jain_min": min(one["jain"] for one in figures),
        "of_optimum_min": min(one["of_optimum"] for one in figures),
        "of_optimum_mean": fmean(one["of_optimum"] for one in figures),
    }
    print("\n" + table(["summary", "figure"], [[name.replace("_", " "), value] for name, value in summary.items()]))
    about = {"machine": machine(), "versions": versions("dcurate", "distributed")}
    return about | {"hosts": HOSTS, "workers": WORKERS, "summary": summary, "cases": figures}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.jobs_shares", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--cases", type=int, metavar="N", help="the first cases only")
    options = parser.parse_args()
    save(options.json, run(list(itertools.islice(CASES, options.cases))))


if __name__ == "__main__":
    called(main)
