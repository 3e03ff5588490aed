"""Near-duplicates of films: recall by kind of change, and precision."""

from __future__ import annotations

import argparse
import io
import json
import tarfile
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate import DocumentBatch, InlineExecutor, ParquetReader, ParquetWriter, Pipeline
from dcurate.video import VideoNearDuplicates
from dcurate.video.duplicates.near import FilmPrintStage

Frames = list[npt.NDArray[np.uint8]]

#: Height of the films that are made; and frames a second.
_HEIGHT, _RATE = 180, 25
#: Codec and container of copies, and what is done to their frames.
_CHANGES: dict[str, tuple[str, str, Callable[[Frames], Frames]]] = {
    "codec": ("libvpx-vp9", "webm", lambda frames: frames),
    "half the size": ("mpeg4", "mp4", lambda frames: [_reduced(frame) for frame in frames]),
    "letterbox": ("mpeg4", "mp4", lambda frames: [np.pad(frame, ((30, 30), (0, 0), (0, 0))) for frame in frames]),
    "pillarbox": ("mpeg4", "mp4", lambda frames: [np.pad(frame, ((0, 0), (48, 48), (0, 0))) for frame in frames]),
    "start and end cut off": ("mpeg4", "mp4", lambda frames: frames[len(frames) // 9 : -len(frames) // 12]),
    "0.9 times the speed": ("mpeg4", "mp4", lambda frames: _at_speed(frames, 0.9)),
    "0.95 times the speed": ("mpeg4", "mp4", lambda frames: _at_speed(frames, 0.95)),
    "1.1 times the speed": ("mpeg4", "mp4", lambda frames: _at_speed(frames, 1.1)),
    "half the frames": ("mpeg4", "mp4", lambda frames: [frame for frame in frames[::2] for _ in range(2)]),
    "darker": ("mpeg4", "mp4", lambda frames: [(frame * 0.8).astype(np.uint8) for frame in frames]),
    "letterbox, cut off and faster": (
        "mpeg4",
        "mp4",
        lambda frames: [
            np.pad(frame, ((20, 20), (0, 0), (0, 0))) for frame in _at_speed(frames[len(frames) // 12 :], 1.05)
        ],
    ),
}


def run(folder: Path) -> dict[str, Any]:
    """Compare the groups that `VideoNearDuplicates` finds with the truth.

    Args:
        folder: folder with ``videos.tar`` and ``videos-truth.jsonl``.

    Returns:
        By kind of change, the share of films that are in the group of the one that was not changed (``recall``); the
        share of the pairs of all groups that show the same film (``precision``), over all and by kind, without pairs
        of which the truth says that they are a matter of taste; frames a CPU-second of fingerprints
        (``frames_per_cpu_s``).
    """
    truth = [json.loads(line) for line in (folder / "videos-truth.jsonl").read_text().splitlines()]
    with tarfile.open(folder / "videos.tar") as archive:
        data = {member.name: _read(archive, member) for member in archive.getmembers() if member.isfile()}
    rows = [_row(row, data) for row in truth if "expect" not in row]
    bases = [row for row in rows if row["change"] == "base"]
    for row in filter(_is_changed, bases):
        frames = _frames(row["bytes"])
        for change, (codec, container, changed) in _CHANGES.items():
            made = _encoded(changed(frames), codec, container)
            rows.append({"name": f"{row['name']} {change}", "film": row["film"], "change": change, "bytes": made})
    group = _groups(rows)
    base = {row["film"]: group[row["name"]] for row in bases}
    by_change: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        if row["change"] not in ("base", "taste"):
            by_change[row["change"]].append(group[row["name"]] == base[row["film"]])
    right: dict[str, list[bool]] = defaultdict(list)
    members: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        members[group[row["name"]]].append(row)
    for left, other in (pair for grouped in members.values() for pair in combinations(grouped, 2)):
        if "taste" not in (left["change"], other["change"]):
            for kind in {left["change"], other["change"], "all"}:
                right[kind].append(left["film"] == other["film"])
    recalled = [hit for hits in by_change.values() for hit in hits]
    return {
        "films": len(rows),
        "recall": {"all": _share(recalled), **{change: _share(hits) for change, hits in sorted(by_change.items())}},
        "precision": {kind: _share(hits) for kind, hits in sorted(right.items())},
        "count": dict(sorted(Counter(row["change"] for row in rows).items())),
        "frames_per_cpu_s": _speed(rows),
    }


def _share(hits: list[bool]) -> float:
    return round(float(np.mean(hits)), 4)


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def _row(row: dict[str, Any], data: dict[str, bytes]) -> dict[str, Any]:
    film = row.get("near_of") or row["file"]
    change = "base" if film == row["file"] else row["why"] if row["label"] == "same" else "taste"
    return {"name": row["file"], "film": film, "change": change, "bytes": data[row["file"]], "shots": row.get("shots")}


def _is_changed(row: dict[str, Any]) -> bool:
    """Whether changed copies of a film are made: not of a single frame, of noise, and of black or still pictures."""
    return bool(row["shots"])


def _frames(data: bytes) -> Frames:
    """The frames of a film, `_HEIGHT` pixels high, `_RATE` a second."""
    with av.open(io.BytesIO(data)) as container:
        track = container.streams.video[0]
        frames = [(frame.time or 0.0, frame) for frame in container.decode(track)]
        width = 2 * round(track.width * _HEIGHT / track.height / 2)
    pixels = [frame.to_ndarray(format="rgb24", width=width, height=_HEIGHT) for _, frame in frames]
    times = np.array([time_s - frames[0][0] for time_s, _ in frames])
    moments = np.arange(0, times[-1] + 1 / _RATE, 1 / _RATE)
    return [pixels[place] for place in np.searchsorted(times, moments + 1e-6, side="right") - 1]


def _reduced(frame: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    height, width = frame.shape[0] // 4 * 2, frame.shape[1] // 4 * 2
    cells = frame[: 2 * height, : 2 * width].reshape(height, 2, width, 2, 3)
    reduced: npt.NDArray[np.uint8] = cells.mean(axis=(1, 3)).astype(np.uint8)
    return reduced


def _at_speed(frames: Frames, speed: float) -> Frames:
    return [frames[int(place)] for place in np.arange(0, len(frames) - 1e-9, speed)]


def _encoded(frames: Frames, codec: str, container_format: str) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format=container_format) as container:
        options = {"deadline": "realtime", "cpu-used": "8"} if codec == "libvpx-vp9" else {}
        track = container.add_stream(codec, rate=_RATE, options=options)
        assert isinstance(track, av.VideoStream)
        track.width, track.height, track.pix_fmt = frames[0].shape[1], frames[0].shape[0], "yuv420p"
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, _RATE)
            container.mux(track.encode(frame))
        container.mux(track.encode(None))
    return file.getvalue()


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    names, files = [row["name"] for row in rows], pa.array([row["bytes"] for row in rows], pa.large_binary())
    return pa.table({"name": names, "bytes": files})


def _groups(rows: list[dict[str, Any]]) -> dict[str, int]:
    """The group of each film; a number of its own where it has none."""
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(_table(rows), f"{folder}/in.parquet", row_group_size=32)
        stages = [
            ParquetReader(f"{folder}/in.parquet"),
            VideoNearDuplicates(action="flag"),
            ParquetWriter(f"{folder}/out"),
        ]
        Pipeline("near", stages=stages).run(InlineExecutor(), observers=[])
        flagged = pq.read_table(f"{folder}/out", columns=["name", "duplicate_group"]).to_pylist()
    return {
        row["name"]: -1 - number if row["duplicate_group"] is None else row["duplicate_group"]
        for number, row in enumerate(flagged)
    }


def _speed(rows: list[dict[str, Any]]) -> float:
    """Frames of films a CPU-second of fingerprints, those that are decoded but not hashed among them."""
    chosen = [row for row in rows if row["change"] == "base"]
    frames = 0
    for row in chosen:
        with av.open(io.BytesIO(row["bytes"])) as container:
            frames += len([packet for packet in container.demux(video=0) if packet.size])
    stage = FilmPrintStage()
    begin = time.process_time()
    stage.process(DocumentBatch(data=_table(chosen)))
    sandbox = stage._sandbox
    stage.teardown()
    assert sandbox is not None
    return round(frames / (time.process_time() - begin + sandbox.cpu_s), 1)


def main() -> None:
    """Write the part ``near`` of the figures of video."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=Path, required=True, help="folder with videos.tar and videos-truth.jsonl")
    parser.add_argument("--json", type=Path, required=True, help="file for the figures")
    options = parser.parse_args()
    text = json.dumps({"near": run(options.input)}, indent=1)
    options.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
