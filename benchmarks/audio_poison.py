"""Damaged, hostile and odd recordings: what becomes of each, and of the memory. Part ``poison``.

``right``: files that are as their truth expects: ``decode``: measured, with the duration of the truth; ``partial``:
measured and marked as cut, or in quarantine with a reason; ``error``: in quarantine, with a reason; ``bounded``:
measured or in quarantine. ``crashed``: whether the process died. ``lost``: files that are neither a row nor in
quarantine. ``peak_mb``: the most memory that a process holds over all files once and ten times.

``many``: 1,000 recordings of speech, of which every twentieth is replaced by a file that must be refused, through
headers, signals and voice activity. ``rss_mb``: memory held after each quarter of them; a process keeps up to 64 MiB of
the files that it read, which is ``cached_mb``.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import zstandard

from benchmarks.measure import CommandError, job, measure, peak_mb
from dcurate import InlineExecutor, MediaReader, ParquetWriter, Pipeline
from dcurate.audio import AudioInfo, AudioSignals, FindSpeech
from dcurate.core.pipeline import AnyStage

#: Seconds by which a duration may be off: codecs fill their last block.
_OFF_S = 0.1
#: Recordings of ``many``, and which of them is damaged.
MANY, EVERY = 1_000, 20


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
        "many": measure(job(f"{__name__}:many", folder=str(folder.resolve()))).result,
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
    return peak_mb()


def many(folder: str) -> dict[str, Any]:
    """What becomes of many recordings of which 5 % are damaged."""
    truth = [json.loads(line) for line in Path(folder, "poison-truth.jsonl").read_text().splitlines()]
    refused = {row["file"] for row in truth if row["expect"] == "error"}
    with tempfile.TemporaryDirectory() as scratch:
        source, output = Path(scratch, "in"), Path(scratch, "out")
        source.mkdir()
        bad = _write_many(Path(folder), source, refused)
        stages: list[AnyStage] = [
            MediaReader(str(source), files_per_partition=10),
            AudioInfo(),
            AudioSignals(),
            FindSpeech(min_duration_s=0.1),
            ParquetWriter(str(output)),
        ]
        rss_mb = []
        stream = Pipeline("many", stages=stages).stream(InlineExecutor(), observers=[])
        for number, _ in enumerate(stream, 1):
            if number % (MANY // 40) == 0:
                rss_mb.append(round(psutil.Process().memory_info().rss / 1e6, 1))
        names = set(pq.read_table(output, columns=["file_name"])["file_name"].to_pylist())
        reasons = {
            record["file_name"]: record["_dcurate_reason"]
            for path in Path(f"{output}.dcurate", "quarantine").rglob("*.jsonl")
            for record in map(json.loads, path.read_text().splitlines())
        }
        files = {path.name: path.stat().st_size for path in source.iterdir()}
    size = sum(files.values())
    return {
        "files": len(files),
        "damaged": len(bad),
        "rows": len(names),
        "with_a_reason": sum(bool(reasons.get(name)) for name in bad),
        "lost": len(files.keys() - names - reasons.keys()),
        "doubled": len(names & reasons.keys()),
        "rss_mb": rss_mb,
        "cached_mb": round(min(size, 2**26) / 1e6, 1),
    }


def _write_many(folder: Path, source: Path, refused: set[str]) -> set[str]:
    """Write recordings, of which some are damaged; return the names of these."""
    good: list[tuple[str, bytes]] = []
    for name in ("speech-0.tar", "speech-1.tar"):
        with tarfile.open(folder / name) as archive:
            good += _members(archive, lambda member: member.endswith((".wav", ".flac", ".ogg", ".mp3", ".opus")))
    with (folder / "poison.tar.zst").open("rb") as file:
        data = zstandard.ZstdDecompressor().stream_reader(file).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        poisons = _members(archive, lambda member: member in refused)
    bad = set()
    for number in range(MANY):
        is_bad = number % EVERY == EVERY // 2
        name, content = poisons[number // EVERY % len(poisons)] if is_bad else good[number % len(good)]
        path = source / f"{number:04}-{Path(name).name}"
        path.write_bytes(content)
        if is_bad:
            bad.add(path.name)
    return bad


def _members(archive: tarfile.TarFile, wanted: Callable[[str], bool]) -> list[tuple[str, bytes]]:
    """Name and content of the members of an archive that are wanted."""
    members = ((member.name, archive.extractfile(member)) for member in archive if wanted(member.name))
    return [(name, file.read()) for name, file in members if file is not None]


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
