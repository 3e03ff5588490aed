"""A soak under kills while files are read: random ones from outside, and rows whose reading kills the worker.

``python -m benchmarks.chaos_readers [--kills 60] [--pause 0.7] [--seed 0] [--json FILE]``. Every row
must be in the output once, but for those that kill: these must be in quarantine once. See README.md here.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import machine, save, versions
from dcurate import DaskExecutor, DocumentBatch, DocumentReader, FileGroup, JsonlWriter, LocalCluster, Pipeline
from dcurate.core.pipeline import AnyStage

#: Files of a round, and rows of each; seconds after which a round counts as hung.
FILES, ROWS, LONGEST_S = 40, 100, 900
#: Rows of each round that kill whoever reads them.
DEADLY = 1
_ENDINGS = (".jsonl", ".jsonl.gz", ".parquet")


@dataclass
class Reader(DocumentReader):
    """Takes its time for a split, says so, and kills its process at some rows."""

    folder: str = ""
    seconds: float = 0.2

    def process(self, task: FileGroup) -> DocumentBatch | None:
        mark = Path(self.folder, str(os.getpid()))
        mark.touch()
        time.sleep(self.seconds if type(task) is FileGroup else 0.0)
        made = super().process(task)
        if made is not None and "kill" in made.to_arrow()["text"].to_pylist():
            os.kill(os.getpid(), signal.SIGKILL)
        mark.unlink(missing_ok=True)
        return made


class ReaderKiller(threading.Thread):
    """Kills a worker process that reads, now and then."""

    def __init__(self, folder: Path, draw: random.Random, pause_s: float) -> None:
        super().__init__(daemon=True)
        self.folder, self.draw, self.pause_s = folder, draw, pause_s
        self.kills, self.over = 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(self.draw.uniform(0.0, 2.0) * self.pause_s):
            reading = [child for child in psutil.Process().children() if (self.folder / str(child.pid)).exists()]
            if reading:
                with suppress(psutil.NoSuchProcess):
                    self.draw.choice(reading).kill()
                    self.kills += 1


def write_input(folder: Path, deadly: set[int]) -> None:
    folder.mkdir()
    for number in range(FILES):
        first = number * ROWS
        rows = [{"id": row, "text": "kill" if row in deadly else "good"} for row in range(first, first + ROWS)]
        path = folder / f"part-{number:03}{_ENDINGS[number % len(_ENDINGS)]}"
        lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
        if path.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=30)
        else:
            path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)


def one_round(scratch: Path, draw: random.Random, pause_s: float) -> dict[str, Any]:
    """Run the pipeline once while workers are killed, and count its rows."""
    scratch.mkdir()
    deadly = set(draw.sample(range(FILES * ROWS), DEADLY))
    write_input(scratch / "input", deadly)
    output = scratch / "output"
    reading = scratch / "reading"
    reading.mkdir()
    stages: list[AnyStage] = [Reader(str(scratch / "input"), folder=str(reading)), JsonlWriter(str(output))]
    killer, begin = ReaderKiller(reading, draw, pause_s), time.monotonic()
    signal.alarm(LONGEST_S)
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        killer.start()
        executor = DaskExecutor({"ignore_failures": True}, cluster)
        report = Pipeline("chaos", stages=stages).run(executor, observers=[]).report
        killer.over.set()
        killer.join()
    signal.alarm(0)
    found = Counter(json.loads(line)["id"] for path in output.glob("*.jsonl") for line in path.read_text().splitlines())
    kept = [
        json.loads(line)
        for path in (output.parent / f"{output.name}.dcurate" / "quarantine").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    aside = sum(row["rows"] for row in kept)
    return {
        "rows": FILES * ROWS,
        "kills": killer.kills,
        "deadly_rows": len(deadly),
        "quarantined": aside,
        "lost": FILES * ROWS - len(found) - aside,
        "doubled": sum(times - 1 for times in found.values()),
        "good_rows_in_quarantine": aside - len(deadly),
        "counted_otherwise": FILES * ROWS - report.stages[0].rows_out - sum(report.stages[0].faulty.values()),
        "seconds": round(time.monotonic() - begin, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60, help="how many kills from outside, at least")
    parser.add_argument("--pause", type=float, default=0.7, help="seconds between two of them, on average")
    parser.add_argument("--seed", type=int, default=0, help="of what is killed and when")
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    draw, rounds, begin = random.Random(options.seed), [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dcurate-chaos-") as scratch:
        os.environ["DCURATE_CACHE"] = f"{scratch}/cache"
        while sum(one["kills"] for one in rounds) < options.kills:
            rounds.append(one_round(Path(scratch, str(len(rounds))), draw, options.pause))
            print(f"round {len(rounds)}: {rounds[-1]}", flush=True)
    names = ("rows", "kills", "deadly_rows", "quarantined", "lost", "doubled", "good_rows_in_quarantine")
    sums = {name: sum(one[name] for one in rounds) for name in (*names, "counted_otherwise")}
    seconds = round(time.monotonic() - begin, 1)
    figures = {"machine": machine(), "versions": versions("dask", "distributed"), "seconds": seconds}
    print(
        f"{sums['kills']} kills from outside and {sums['deadly_rows']} rows that kill, in {seconds:.0f} s: "
        f"{sums['rows']:,} rows in {len(rounds)} runs, {sums['lost']} lost, {sums['doubled']} doubled, "
        f"{sums['good_rows_in_quarantine']} good rows in quarantine"
    )
    save(
        Path(options.json) if options.json else None, {**figures, "rounds": len(rounds), **sums, "every_round": rounds}
    )
    sys.exit(1 if sums["lost"] or sums["doubled"] or sums["counted_otherwise"] else 0)


if __name__ == "__main__":
    main()
