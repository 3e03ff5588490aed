"""Near-duplicates of recordings: recall and precision by kind of change, and the speed of fingerprints."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import time
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
import soxr

from dcurate import DocumentBatch, InlineExecutor, ParquetReader, ParquetWriter, Pipeline
from dcurate.audio import AudioNearDuplicates
from dcurate.audio.duplicates.near import LandmarkStage

#: Changes of speed, and noise, that the data has not: made from the recordings that were not changed.
_MADE = ("speed_102", "speed_098", "noise_20")


def run(folder: Path) -> dict[str, Any]:
    """Compare the groups that `AudioNearDuplicates` finds with the truth.

    Args:
        folder: folder with ``near.tar`` and ``near-truth.jsonl``.

    Returns:
        By kind of change, the share of its recordings that are in the group of the one that was not changed
        (``recall``); the share of the pairs of all groups that are of one cluster (``precision``), and without
        recordings that hold parts of two (``joined``); seconds of sound a CPU-second (``seconds_per_cpu_s``).
    """
    truth = [json.loads(line) for line in (folder / "near-truth.jsonl").read_text().splitlines()]
    with tarfile.open(folder / "near.tar") as archive:
        rows = [
            {"name": row["file"], "cluster": row["cluster"], "change": row["transform"], "bytes": _read(archive, row)}
            for row in truth
        ]
    rows += [made for row in rows if row["change"] == "base" for made in _changed(row)]
    table = pa.Table.from_pylist(
        rows,
        pa.schema(
            [("name", pa.string()), ("cluster", pa.int64()), ("change", pa.string()), ("bytes", pa.large_binary())]
        ),
    )
    group = _groups(table)
    base = {row["cluster"]: group[row["name"]] for row in rows if row["change"] == "base"}
    by_change: dict[str, list[bool]] = {}
    for row in rows:
        if row["change"] != "base":
            by_change.setdefault(row["change"], []).append(group[row["name"]] == base[row["cluster"]])
    members: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        members.setdefault(group[row["name"]], []).append(row)
    pairs = [pair for group_rows in members.values() for pair in combinations(group_rows, 2)]
    whole = [pair for pair in pairs if all(row["change"] != "joined" for row in pair)]
    return {
        "recordings": len(rows),
        "recall": {change: round(float(np.mean(found)), 4) for change, found in sorted(by_change.items())},
        "count": dict(sorted(Counter(row["change"] for row in rows).items())),
        "precision": _precision(pairs),
        "precision_without_joined": _precision(whole),
        "seconds_per_cpu_s": _speed(table),
    }


def _read(archive: tarfile.TarFile, row: dict[str, Any]) -> bytes:
    file = archive.extractfile(row["file"])
    assert file is not None
    return file.read()


def _changed(row: dict[str, Any]) -> list[dict[str, Any]]:
    samples, rate = soundfile.read(io.BytesIO(row["bytes"]))
    power = np.mean(samples[np.abs(samples) > 1e-3] ** 2)
    noise = np.random.default_rng(row["cluster"]).normal(0, np.sqrt(power / 100), len(samples))
    versions = (soxr.resample(samples, 102, 100), soxr.resample(samples, 98, 100), samples + noise)
    made = []
    for change, version in zip(_MADE, versions, strict=True):
        file = io.BytesIO()
        soundfile.write(file, np.clip(version, -1, 1), rate, format="FLAC")
        made.append({**row, "name": f"{row['name']} {change}", "change": change, "bytes": file.getvalue()})
    return made


def _groups(table: pa.Table) -> dict[str, int]:
    """The group of each recording; a number of its own where it has none."""
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table, f"{folder}/in.parquet", row_group_size=64)
        stages = [
            ParquetReader(f"{folder}/in.parquet"),
            AudioNearDuplicates(action="flag"),
            ParquetWriter(f"{folder}/out"),
        ]
        Pipeline("near", stages=stages).run(InlineExecutor(), observers=[])
        flagged = pq.read_table(f"{folder}/out", columns=["name", "duplicate_group"]).to_pylist()
    return {
        row["name"]: -1 - number if row["duplicate_group"] is None else row["duplicate_group"]
        for number, row in enumerate(flagged)
    }


def _precision(pairs: list[Any]) -> float:
    return round(float(np.mean([left["cluster"] == right["cluster"] for left, right in pairs])), 4) if pairs else 1.0


def _speed(table: pa.Table) -> float:
    """Seconds of sound a CPU-second of fingerprints, decode included."""
    stage = LandmarkStage()
    batch = DocumentBatch(data=table)
    stage.process(batch)
    seconds = sum(soundfile.info(io.BytesIO(data)).duration for data in table["bytes"].to_pylist())
    begin = time.process_time()
    stage.process(batch)
    return round(seconds / (time.process_time() - begin), 1)
