"""What a ledger of very many splits costs: to write, to close, to open in a resumed run, and to find each split in.

Each split has one input and the counts of five stages. No output files are made, as a resumed run asks for those of a
split when it comes to it: ``--files`` makes so many, and records one of them for each split. With ``--written`` only so
many splits are recorded one by one, which takes longest; the others are put into segments as a run joins them. With
``--found`` only so many are looked for, in rows of a thousand.

``python -m benchmarks.jobs_ledger [--splits 10000000] [--written N] [--found N] [--files 0] [--json FILE]``
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measure import called, job, machine, measure, peak_mb, plain, save, scratch_folder, table, versions
from dcurate.core.ledger import SplitRecord
from dcurate.fs.stores import Directory
from dcurate.io.ledger import DirectoryLedger, saved_records
from dcurate.io.ledger_files import JointSegment, key_of_split, line_of, parsed
from dcurate.io.ledger_segments import FULL_RECORDS

STAGES = 5
FINGERPRINT = {"reader": "1", "writer": "2"}


def record(number: int, files: int) -> SplitRecord:
    """Return the record of a split."""
    counts = {"batches": 1, "rows_in": number, "rows_out": number // 2, "bytes_in": 977 * number, "bytes_out": number}
    figures = {
        **counts,
        "seconds": 0.001 * (number % 7919),
        "dropped": {"short": number % 31},
        "faulty": {},
        "found": {},
    }
    stats = tuple({"name": f"stage_{place}", **figures} for place in range(STAGES))
    outputs = (f"{number % files:08}.jsonl",) if files else ()
    split, version = name(number)
    return SplitRecord(split, version, outputs, stats, (f"/data/input/{split}",))


def name(number: int) -> tuple[str, str]:
    """Return the name and version of a split."""
    return f"part-{number:08}.jsonl", f"{number * 7919:016x}"


def fill(folder: str, first: int, last: int, files: int) -> None:
    """Put splits into segments of a ledger that are full."""
    segments = saved_records(Directory(folder))
    some = parsed(b"".join(line_of(record(number, files)) + b"\n" for number in range(FULL_RECORDS)))
    for start in range(first, last, FULL_RECORDS):
        named = [name(number) for number in range(start, min(start + FULL_RECORDS, last))]
        table = some.slice(0, len(named))
        splits, versions = zip(*named, strict=True)
        for place, values in enumerate((map(key_of_split, splits), splits, versions)):
            kind = table.schema.field(place)
            table = table.set_column(place, kind, pa.array(values, kind.type))
        joint = JointSegment()
        joint.add(table)
        segments._write(joint)


def write(folder: str, splits: int, files: int) -> dict[str, float]:
    """Record splits, and close the ledger."""
    if files:
        Path(folder).mkdir(parents=True)
    for number in range(files):
        (Path(folder) / f"{number:08}.jsonl").touch()
    ledger = DirectoryLedger(Directory(folder), FINGERPRINT, resume=False)
    started = time.process_time()
    for number in range(splits):
        ledger.record(record(number, files))
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


def resume(folder: str, splits: int, wanted: int) -> dict[str, float]:
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
    step = max(1, splits // max(1, wanted // 1000))
    numbers = range(splits) if wanted >= splits else (n for at in range(0, splits, step) for n in range(at, at + 1000))
    looked_for = [number for number in numbers if number < splits]
    begun = time.process_time()
    found = sum(ledger.finished(*name(number)) is not None for number in looked_for)
    if outside or found != len(looked_for) or ledger.skipped:
        raise SystemExit(f"{found:,} of {len(looked_for):,} splits were found, and {outside:,} that there are not")
    return {
        "libraries_mb": before,
        "open_cpu_s": opened - started,
        "open_peak_mb": opened_mb,
        "compare_cpu_s": looked - loaded,
        "found": found,
        "find_cpu_s": time.process_time() - begun,
        "find_peak_mb": peak_mb(),
    }


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Write and read a ledger in a process each."""
    folder = scratch / "out"
    given = {"folder": str(folder), "files": options.files}
    wanted = min(options.found or options.splits, options.splits)
    one_by_one = min(options.written or options.splits, options.splits)
    written = measure(job("benchmarks.jobs_ledger:write", splits=one_by_one, **given), interval=5.0)
    measure(job("benchmarks.jobs_ledger:fill", first=one_by_one, last=options.splits, **given), interval=5.0)
    segments = [path.stat().st_size for path in Path(Directory(str(folder)).records, "ledger").iterdir()]
    resumed = measure(
        job("benchmarks.jobs_ledger:resume", folder=str(folder), splits=options.splits, wanted=wanted), interval=5.0
    )
    return {
        "machine": machine(),
        "versions": versions("pyarrow", "numpy"),
        "splits": options.splits,
        "written": one_by_one,
        "files": options.files,
        "disk": {"segments": len(segments), "mb": sum(segments) / 1e6},
        "write": {**written.result, "process": plain(written)},
        "resume": {**resumed.result, "process": plain(resumed)},
    }


def rows(figures: dict[str, Any]) -> list[list[Any]]:
    """A row for each phase."""
    write, resume, splits, written = (figures[name] for name in ("write", "resume", "splits", "written"))
    phases = {
        "write": (written, write["write_cpu_s"], write["write_peak_mb"]),
        "close": (written, write["close_cpu_s"], write["close_peak_mb"]),
        "open in a resumed run": (splits, resume["open_cpu_s"], resume["open_peak_mb"]),
        "compare with the input": (splits, resume["compare_cpu_s"], resume["find_peak_mb"]),
        "find": (resume["found"], resume["find_cpu_s"], resume["find_peak_mb"]),
    }
    return [[phase, number, cpu_s, 1e6 * cpu_s / number, peak] for phase, (number, cpu_s, peak) in phases.items()]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10_000_000)
    parser.add_argument("--written", type=int, help="splits that are recorded one by one; all if not given")
    parser.add_argument("--found", type=int, help="splits that are looked for; all if not given")
    parser.add_argument("--files", type=int, default=0, help="output files to make; 0 records none")
    parser.add_argument("--work", help="folder for what is written; a temporary one if not given")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with scratch_folder("jobs_ledger", options.work) as scratch:
        figures = run(options, scratch)
    disk = figures["disk"]
    print(f"{figures['splits']:,} splits; on disk {disk['mb']:,.1f} MB in {disk['segments']:,} files")
    print(table(["phase", "splits", "CPU-seconds", "us a split", "peak MB of the process so far"], rows(figures)))
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
