"""What a ledger of very many splits costs: to write, to close, to open in a resumed run, and to find each split in.

Each split has one output, one input and the counts of five stages. No output files are made, as a resumed run asks for
those of a split when it comes to it: ``--files`` makes so many, and records one of them for each split.

``python -m benchmarks.jobs_ledger [--splits 10000000] [--files 0] [--work FOLDER] [--json FILE]``
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import called, job, machine, measure, peak_mb, plain, save, scratch_folder, table, versions
from dcurate.core.ledger import SplitRecord
from dcurate.events import StageStats
from dcurate.fs.stores import Directory
from dcurate.io.ledger import DirectoryLedger, saved_records

STAGES = 5
FINGERPRINT = {"reader": "1", "writer": "2"}


def names(splits: int) -> Iterator[tuple[str, str]]:
    """Yield the name and version of each split."""
    for number in range(splits):
        yield f"part-{number:08}.jsonl", f"{number * 7919:016x}"


def write(folder: str, splits: int, files: int) -> dict[str, float]:
    """Record splits, and close the ledger."""
    if files:
        Path(folder).mkdir(parents=True)
    for number in range(files):
        (Path(folder) / f"{number:08}.jsonl").touch()
    ledger = DirectoryLedger(Directory(folder), FINGERPRINT, resume=False)
    started = time.process_time()
    for number, (split, version) in enumerate(names(splits)):
        counts: dict[str, Any] = {"batches": 1, "rows_in": number, "rows_out": number // 2, "bytes_in": 977 * number}
        stats = tuple(StageStats(f"stage_{place}", **counts, seconds=0.1 * place).counts() for place in range(STAGES))
        outputs = (f"{number % files:08}.jsonl",) if files else ()
        ledger.record(SplitRecord(split, version, outputs, stats, (f"/data/input/{split}",)))
    written = time.process_time()
    peak_before = peak_mb()
    ledger.close()
    return {
        "write_cpu_s": written - started,
        "write_peak_mb": peak_before,
        "close_cpu_s": time.process_time() - written,
        "close_peak_mb": peak_mb(),
    }


class Every:
    """All splits of the input."""

    def __contains__(self, split: object) -> bool:
        return True


def resume(folder: str, splits: int) -> dict[str, float]:
    """Open the ledger, look for splits that the input does not have, and find each split."""
    before = peak_mb()
    started = time.process_time()
    ledger = DirectoryLedger(Directory(folder), FINGERPRINT, resume=True)
    opened, opened_mb = time.process_time(), peak_mb()
    segments = saved_records(Directory(folder))
    loaded = time.process_time()
    outside = sum(1 for _ in segments.outside(Every()))
    looked = time.process_time()
    del segments
    found = sum(ledger.finished(split, version) is not None for split, version in names(splits))
    if outside or found != splits or ledger.skipped:
        raise SystemExit(f"{found:,} of {splits:,} splits were found, and {outside:,} that there are not")
    return {
        "libraries_mb": before,
        "open_cpu_s": opened - started,
        "open_peak_mb": opened_mb,
        "compare_cpu_s": looked - loaded,
        "find_cpu_s": time.process_time() - looked,
        "find_peak_mb": peak_mb(),
    }


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Write and read a ledger in a process each."""
    folder = scratch / "out"
    given = {"folder": str(folder), "splits": options.splits}
    written = measure(job("benchmarks.jobs_ledger:write", files=options.files, **given), interval=5.0)
    segments = [path.stat().st_size for path in Path(Directory(str(folder)).records, "ledger").iterdir()]
    resumed = measure(job("benchmarks.jobs_ledger:resume", **given), interval=5.0)
    return {
        "machine": machine(),
        "versions": versions("pyarrow", "numpy"),
        "splits": options.splits,
        "files": options.files,
        "disk": {"segments": len(segments), "mb": sum(segments) / 1e6},
        "write": {**written.result, "process": plain(written)},
        "resume": {**resumed.result, "process": plain(resumed)},
    }


def rows(figures: dict[str, Any]) -> list[list[Any]]:
    """A row for each phase."""
    write, resume, splits = figures["write"], figures["resume"], figures["splits"]
    phases = {
        "write": (write["write_cpu_s"], write["write_peak_mb"]),
        "close": (write["close_cpu_s"], write["close_peak_mb"]),
        "open in a resumed run": (resume["open_cpu_s"], resume["open_peak_mb"]),
        "compare with the input": (resume["compare_cpu_s"], resume["find_peak_mb"]),
        "find each split": (resume["find_cpu_s"], resume["find_peak_mb"]),
    }
    return [[phase, cpu_s, 1e6 * cpu_s / splits, peak] for phase, (cpu_s, peak) in phases.items()]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=0, help="output files to make; 0 records none")
    parser.add_argument("--work", help="folder for what is written; a temporary one if not given")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with scratch_folder("jobs_ledger", options.work) as scratch:
        figures = run(options, scratch)
    disk = figures["disk"]
    print(f"{figures['splits']:,} splits; on disk {disk['mb']:,.1f} MB in {disk['segments']:,} files")
    print(table(["phase", "CPU-seconds", "us a split", "peak MB of the process so far"], rows(figures)))
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
