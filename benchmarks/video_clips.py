"""Clips cut out of films. Part ``clips`` of ``benchmarks.video``.

Clips of two seconds, a second apart from 0.37 s on, are cut out of the films of ``videos.tar`` that can be decoded.
What is right is said by PyAV alone: ``frames_right`` are clips whose decoded frames have the count and the times of the
film's and, where they were copied, the pixels bit for bit. ``packets_equal`` is the share of copied clips all of whose
packets are those of the film, one after the other, sound included. ``frames_that_must`` counts, by the packets of the
film, the frames from the start of each clip up to the next key frame, which no file can begin with.
"""

from __future__ import annotations

import bisect
import io
import tarfile
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import orjson
import psutil
import pyarrow as pa

from dcurate import DocumentBatch
from dcurate.media.refs import Ref, ref_array
from dcurate.video.clips.stage import CutVideo

LENGTH_S, STRIDE_S, FIRST_S = 2.0, 1.0, 0.37
#: Seconds by which times differ where one container rounds them to milliseconds.
SLACK = Fraction(11, 10_000)
Times = list[tuple[Fraction, Any]]


def run(folder: Path) -> dict[str, Any]:
    av.logging.set_level(av.logging.PANIC)
    films = _films(folder)
    figures: dict[str, Any] = {"films": len(films)}
    shared = ("packets_equal", "frames_encoded", "frames_that_must")
    for how in ("remux", "exact"):
        for name, value in _figures_of(how, films).items():
            figures[name if name in shared else f"{how}_{name}"] = value
    return figures


def _films(folder: Path) -> dict[str, tuple[bytes, dict[str, Any]]]:
    lines = (folder / "videos-truth.jsonl").read_bytes().splitlines()
    truth = {row["file"]: row for row in map(orjson.loads, lines) if "expect" not in row}
    with tarfile.open(folder / "videos.tar") as tar:
        return {row: (tar.extractfile(row).read(), truth[row]) for row in truth}


def _figures_of(how: Any, films: dict[str, tuple[bytes, dict[str, Any]]]) -> dict[str, Any]:
    stage, counts, kinds, worst = CutVideo(cut=how), Counter[str](), Counter[str](), float("inf")
    cpu_s = 0.0
    for name, (data, _) in films.items():
        shown, packets = _frames(data), {kind: _packets(data, kind) for kind in ("video", "audio")}
        starts = np.arange(FIRST_S, float(shown[-1][0]), STRIDE_S).tolist() or [0.0]
        refs = ref_array([Ref(name, start_s=start, stop_s=start + LENGTH_S) for start in starts])
        rows = pa.table({"bytes": pa.array([data] * len(starts), pa.large_binary()), "media_ref": refs})
        begin = _cpu_s()
        made = stage.process(DocumentBatch(data=rows))
        cpu_s += _cpu_s() - begin
        counts["lost"] += len(starts) - len(made.rejections) - len(made.to_arrow())
        counts["rejected"] += len(made.rejections)
        for row in made.to_arrow().to_pylist():
            start = row["source_ref"]["start_s"]
            stop = min(start + LENGTH_S, row["clip_stop_s"]) if how == "exact" else start + LENGTH_S
            if how == "remux" and row["file_name"].endswith((".webm", ".mkv")):
                start, stop = row["clip_start_s"] - 0.001, row["clip_stop_s"] - 0.001
            wanted = [frame for frame in shown if start - 1e-6 <= frame[0] < stop - 1e-6]
            got = _frames(row["bytes"])
            counts["clips"] += 1
            kinds[row["clip_how"]] += 1
            copied, lowest = _compared(got, wanted)
            worst = min(worst, lowest)
            counts["frames_right"] += copied >= len(wanted) - row["clip_frames_encoded"]
            counts["frames_encoded"] += row["clip_frames_encoded"]
            counts["frames_that_must"] += _must(packets["video"], row["source_ref"]["start_s"], LENGTH_S)
            counts["equal"] += all(_is_run(_packets(row["bytes"], kind), packets[kind]) for kind in packets)
    stage.teardown()
    figures: dict[str, Any] = {
        "clips": counts["clips"],
        "frames_right": counts["frames_right"],
        "rejected": counts["rejected"],
    }
    figures |= {"lost": counts["lost"], "cpu_s": round(cpu_s, 1), "how": dict(sorted(kinds.items()))}
    if how == "remux":
        return {**figures, "packets_equal": counts["equal"] / counts["clips"], "encoded": counts["frames_encoded"]}
    encoded = {name: counts[name] for name in ("frames_encoded", "frames_that_must")}
    return {**figures, **encoded, "lowest_psnr_db": round(worst, 1)}


def _compared(got: Times, wanted: Times) -> tuple[int, float]:
    """How many frames are bit for bit those that are wanted, and the lowest ratio of the others; -1 for other times."""
    zero = wanted[0][0] if wanted else Fraction(0)
    times = [abs(left[0] - right[0] + zero) <= SLACK for left, right in zip(got, wanted, strict=False)]
    if len(got) != len(wanted) or not all(times):
        return -1, 0.0
    errors = [float(np.mean((left[1] - right[1]) ** 2)) for left, right in zip(got, wanted, strict=True)]
    return sum(error == 0 for error in errors), min(
        (10 * float(np.log10(255**2 / error)) for error in errors if error), default=float("inf")
    )


def _frames(data: bytes) -> Times:
    with av.open(io.BytesIO(data)) as container:
        stream: Any = container.streams.video[0]
        zero = Fraction(container.start_time or 0, 10**6)
        return [
            (frame.pts * stream.time_base - zero, frame.to_ndarray().astype(np.float32))
            for frame in container.decode(stream)
        ]


def _packets(data: bytes, kind: str) -> list[tuple[float, bool, bytes]]:
    """Times of packets of the first stream of a kind, whether decoding may begin there, and their bytes."""
    with av.open(io.BytesIO(data)) as container:
        stream: Any = next((stream for stream in container.streams if stream.type == kind), None)
        return [
            (float(packet.pts * stream.time_base), packet.is_keyframe, bytes(packet))
            for packet in (container.demux(stream) if stream is not None else ())
            if packet.size
        ]


def _is_run(part: list[tuple[float, bool, bytes]], whole: list[tuple[float, bool, bytes]]) -> bool:
    some, all_bytes = [packet[2] for packet in part], [packet[2] for packet in whole]
    return any(all_bytes[at : at + len(some)] == some for at in range(len(all_bytes) - len(some) + 1))


def _must(packets: list[tuple[float, bool, bytes]], start: float, length_s: float) -> int:
    times = sorted(time for time, _, _ in packets)
    keys = sorted(time for time, is_key, _ in packets if is_key and time >= start - 1e-6)
    stop = min(start + length_s, keys[0]) if keys else start + length_s
    return bisect.bisect_left(times, stop - 1e-6) - bisect.bisect_left(times, start - 1e-6)


def _cpu_s() -> float:
    """CPU time of this process and of all below it that run."""
    times = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in times)
