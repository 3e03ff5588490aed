"""Damaged, hostile and odd recordings: what becomes of each, and of the memory. Part ``poison``.

``right``: files that are as their truth expects: ``decode``: measured, with the duration of the truth; ``partial``:
measured and marked as cut, or in quarantine with a reason; ``error``: in quarantine, with a reason; ``bounded``:
measured or in quarantine. ``crashed``: whether the process died. ``lost``: files that are neither a row nor in
quarantine. ``peak_mb``: the most memory that a process holds over all files once and ten times.
"""

from __future__ import annotations

import json
import resource
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.measure import CommandError, job, measure
from dcurate import InlineExecutor, MediaReader, ParquetWriter, Pipeline
from dcurate.audio import AudioSignals
from dcurate.core.pipeline import AnyStage

#: Seconds by which a duration may be off: codecs fill their last block.
_OFF_S = 0.1


def run(folder: Path) -> dict[str, Any]:
    """Measure each file of ``poison.tar.zst``."""
    truth = [json.loads(line) for line in (folder / "poison-truth.jsonl").read_text().splitlines()]
    archive = str((folder / "poison.tar.zst").resolve())
    try:
        found = measure(job(f"{__name__}:looked_at", archive=archive)).result
    except CommandError as error:
        return {"files": len(truth), "right": 0, "crashed": 1, "lost": len(truth), "error": str(error)}
    wrong = {row["file"]: found.get(row["file"], "lost") for row in truth if not _is_right(row, found.get(row["file"]))}
    one, ten = (measure(job(f"{__name__}:looked_at_many", archive=archive, times=times)).result for times in (1, 10))
    return {
        "files": len(truth),
        "right": len(truth) - len(wrong),
        "crashed": 0,
        "lost": sum(row["file"] not in found for row in truth),
        "wrong": wrong,
        "peak_mb": {"1": round(one, 1), "10": round(ten, 1)},
        "memory_growth": round(ten / one, 3),
    }


def looked_at(archive: str) -> dict[str, Any]:
    """For each file its duration and whether it is cut, or the reason for which it is in quarantine."""
    with tempfile.TemporaryDirectory() as output:
        stages: list[AnyStage] = [MediaReader(archive), AudioSignals(), ParquetWriter(output)]
        Pipeline("poison", stages=stages).run(InlineExecutor(), observers=[])
        rows = pq.read_table(output, columns=["file_name", "audio_decoded_s", "audio_truncated"]).to_pylist()
        found: dict[str, Any] = {row.pop("file_name"): row for row in rows}
        for path in Path(f"{output}.dcurate", "quarantine").rglob("*.jsonl"):
            for line in path.read_text().splitlines():
                record = json.loads(line)
                found[record["file_name"]] = record["_dcurate_reason"]
    return found


def looked_at_many(archive: str, times: int) -> float:
    """Measure copies of an archive in this process; return the most memory that it held, in MB of 10^6 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(times):
            (Path(folder) / f"{number}.tar.zst").symlink_to(archive)
        stages: list[AnyStage] = [MediaReader(folder, files_per_partition=1), AudioSignals()]
        for _ in Pipeline("memory", stages=stages).stream(InlineExecutor(), observers=[]):
            pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _is_right(truth: dict[str, Any], found: Any) -> bool:
    expect = truth["expect"]
    if found is None:
        return False
    if isinstance(found, str):
        return expect != "decode"
    if expect == "decode":
        seconds = truth["frames"] / truth["sample_rate"] if "frames" in truth else found["audio_decoded_s"]
        return not found["audio_truncated"] and abs(found["audio_decoded_s"] - seconds) <= _OFF_S
    return expect == "bounded" or (expect == "partial" and bool(found["audio_truncated"]))
