"""Damaged, hostile and odd pictures: what becomes of each, and of the memory. Part of ``benchmarks.images``.

``right``: files that are as their truth expects: ``decode``: the size and orientation are those of the truth, and
nothing was made up; ``partial``: decoded, and marked as cut; ``error``: in quarantine, with a reason; ``bounded``: one
or the other. ``crashed``: files at which the decoder's process died, in the sandbox. ``lost``: files that are neither
a row nor in quarantine.
``memory``: how much the process holds at its largest, over all files once and ten times.
"""

from __future__ import annotations

import json
import resource
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import zstandard

from benchmarks.measure import job, measure
from dcurate import InlineExecutor, MediaReader, ParquetWriter, Pipeline
from dcurate.core.pipeline import AnyStage
from dcurate.images import ImageInfo, ImageReading, ImageSignals

#: Columns of the truth.
_FILE, _EXPECT = "file", "expect"


def run(input_dir: str | Path) -> dict[str, Any]:
    """Look at each file of ``poison.tar.zst``, in this process and in a sandbox."""
    folder = Path(input_dir)
    with zstandard.open(folder / "poison-truth.jsonl.zst", "rt", encoding="utf-8") as file:
        truth = {row[_FILE]: row for row in map(json.loads, file) if _FILE in row}
    archive = str((folder / "poison.tar.zst").resolve())
    found, boxed = _looked_at(archive, sandbox=False), _looked_at(archive, sandbox=True)
    wrong = {name: found.get(name, "lost") for name, row in truth.items() if not _is_right(row, found.get(name))}
    wrong_boxed = [name for name, row in truth.items() if not _is_right(row, boxed.get(name))]
    one, ten = (measure(job(f"{__name__}:looked_at_many", archive=archive, times=times)).result for times in (1, 10))
    return {
        "files": len(truth),
        "right": len(truth) - len(wrong),
        "crashed": sum(isinstance(each, str) and each.startswith("crashed") for each in boxed.values()),
        "lost": sum(name not in found for name in truth),
        "wrong": wrong,
        "sandbox": {"right": len(truth) - len(wrong_boxed), "lost": sum(name not in boxed for name in truth)},
        "peak_mb": {"1": round(one, 1), "10": round(ten, 1)},
        "memory_growth": round(ten / one, 3),
    }


def _looked_at(archives: str, sandbox: bool) -> dict[str, Any]:
    """For each file its row, or the reason for which it is in quarantine."""
    with tempfile.TemporaryDirectory() as output:
        stages: list[AnyStage] = [
            MediaReader(archives),
            ImageInfo(),
            ImageSignals(reading=ImageReading(sandbox=sandbox, timeout_s=20 if sandbox else None)),
            ParquetWriter(output),
        ]
        Pipeline("poison", stages=stages).run(InlineExecutor(), observers=[])
        columns = ["file_name", "image_width", "image_height", "image_orientation", "image_truncated", "image_frames"]
        rows = pq.read_table(output, columns=columns).to_pylist()
        found: dict[str, Any] = {row.pop("file_name"): row for row in rows}
        for path in Path(f"{output}.dcurate", "quarantine").rglob("*.jsonl*"):
            for line in path.read_text().splitlines():
                record = json.loads(line)
                found[record["file_name"]] = record["_dcurate_reason"]
    return found


def looked_at_many(archive: str, times: int) -> float:
    """Look at copies of an archive in this process; return the most memory that it held, in MB of 10^6 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(times):
            (Path(folder) / f"{number}.tar.zst").symlink_to(archive)
        stages: list[AnyStage] = [MediaReader(folder, files_per_partition=1), ImageInfo(), ImageSignals()]
        for _ in Pipeline("memory", stages=stages).stream(InlineExecutor(), observers=[]):
            pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _is_right(truth: dict[str, Any], found: Any) -> bool:
    expect = truth[_EXPECT]
    if found is None:
        return False
    refused = isinstance(found, str)
    if expect in ("error", "bounded"):
        return refused or expect == "bounded"
    if refused or found["image_truncated"] != (expect == "partial"):
        return False
    size = truth.get("upright") or truth.get("size")
    return (
        (size is None or [found["image_width"], found["image_height"]] == size)
        and found["image_orientation"] == truth.get("orientation", found["image_orientation"])
        and found["image_frames"] == truth.get("frames", found["image_frames"])
    )
