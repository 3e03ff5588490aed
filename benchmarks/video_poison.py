"""Damaged, hostile and odd films: what becomes of each, and of the memory. Part ``poison`` of ``benchmarks.video``.

The films are the broken ones of ``videos.tar``, those of `dcurate_testing.hostile_films`, and one of a million frames,
in two containers. Each is probed, and all its frames are decoded.

``right``: films that are as their truth expects: ``decode``: decoded whole, with the frames of the truth where it tells
them; ``partial``: decoded and marked as cut, or in quarantine with a reason; ``error``: in quarantine, with a reason;
``bounded``: decoded or in quarantine. ``crashed``: whether the process died. ``lost``: films that are neither a row nor
in quarantine. ``peak_rss_mb``: the most memory of the process and its children.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.measure import CommandError, job, measure
from dcurate import InlineExecutor, MediaReader, ParquetWriter, Pipeline
from dcurate.core.pipeline import AnyStage
from dcurate.video import VideoInfo
from dcurate_testing.film_frames import CountFrames
from dcurate_testing.hostile_films import HOSTILE, FilmKind, hostile_film, is_right, many

#: Frames of the film with many.
MANY = 1_000_000


def run(folder: Path) -> dict[str, Any]:
    """Probe and decode each film."""
    with tempfile.TemporaryDirectory() as place:
        truth = _written(folder, Path(place))
        try:
            usage = measure(job(f"{__name__}:looked_at", folder=place))
        except CommandError as error:
            return {"files": len(truth), "right": 0, "crashed": 1, "lost": len(truth), "error": str(error)}
    looked = usage.result
    wrong = {name: looked.get(name, "lost") for name, row in truth.items() if not is_right(row, looked.get(name))}
    return {
        "files": len(truth),
        "right": len(truth) - len(wrong),
        "crashed": 0,
        "lost": sum(name not in looked for name in truth),
        "wrong": wrong,
        "reasons": {name: answer for name, answer in sorted(looked.items()) if isinstance(answer, str)},
        "cpu_s": round(usage.cpu_s, 1),
        "peak_rss_mb": round(usage.tree.rss_mb, 1),
    }


def _written(folder: Path, place: Path) -> dict[str, Mapping[str, Any]]:
    """Put the films into a folder; return what is expected of each."""
    rows = [json.loads(line) for line in (folder / "videos-truth.jsonl").read_text().splitlines()]
    truth: dict[str, Mapping[str, Any]] = {row["file"]: row for row in rows if "expect" in row}
    with tarfile.open(folder / "videos.tar") as archive:
        archive.extractall(place, [member for member in archive if member.name in truth], filter="data")
    for name, film in HOSTILE.items():
        (place / f"{name}.mp4").write_bytes(film.make())
        truth[f"{name}.mp4"] = {"expect": film.expect, "frames": film.frames}
    for container in ("mp4", "matroska"):
        (place / f"many.{container}").write_bytes(hostile_film(FilmKind(container=container), 3, many(MANY)))
        truth[f"many.{container}"] = {"expect": "decode", "frames": MANY}
    return truth


def looked_at(folder: str) -> dict[str, Any]:
    """For each film its frames and whether it is cut, or the reason for which it is in quarantine."""
    with tempfile.TemporaryDirectory() as output:
        stages: list[AnyStage] = [MediaReader(folder), VideoInfo(), CountFrames(), ParquetWriter(output)]
        Pipeline("poison", stages=stages).run(InlineExecutor(), observers=[])
        rows = pq.read_table(output, columns=["file_name", "frames", "truncated"]).to_pylist()
        looked: dict[str, Any] = {row.pop("file_name"): row for row in rows}
        for path in Path(f"{output}.dcurate", "quarantine").rglob("*.jsonl"):
            for line in path.read_text().splitlines():
                record = json.loads(line)
                looked[record["file_name"]] = record["_dcurate_reason"]
    return looked
