"""Shots: `FindShots` against PySceneDetect. Part ``shots`` of ``benchmarks.video``.

Films are those of ``videos.tar`` whose events ``videos-truth.jsonl`` names. A detector finds an event if its transition
overlaps it within `SLACK_S` seconds, each once. All CPU time counts, that of child processes and of decoding, too, once
they have started; films are decoded on one thread by dcurate, and by PySceneDetect as it comes, with its
readers ``opencv`` (its default, which reads no AV1 here) and ``pyav``. ``gradual`` are the figures of dissolves and
fades alone, with the transitions that a detector says are gradual.
"""

from __future__ import annotations

import contextlib
import os
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import orjson
import psutil
import pyarrow as pa
import scenedetect

from benchmarks.shot_scores import ShotEvent, counts_of, scores_of
from dcurate import DocumentBatch
from dcurate.media.refs import Ref, ref_array
from dcurate.video.shots.content import AdaptiveDetector, ContentDetector, ThresholdDetector
from dcurate.video.shots.find import FindShots
from dcurate.video.shots.gradual import GradualDetector
from dcurate.video.shots.transnet import TransNetV2Detector

#: Seconds between a transition and an event that are one.
SLACK_S = 0.1
#: Times that a detector runs, of which the fastest counts.
_RUNS = 3

DETECTORS: dict[str, Callable[[], Any]] = {
    "content": ContentDetector,
    "adaptive": AdaptiveDetector,
    "threshold": ThresholdDetector,
    "gradual": GradualDetector,
    "transnetv2": lambda: TransNetV2Detector(device="cpu"),
}
THEIRS: dict[str, Callable[[], Any]] = {
    "content": scenedetect.ContentDetector,
    "adaptive": scenedetect.AdaptiveDetector,
    "threshold": scenedetect.ThresholdDetector,
}

Truth = dict[str, Any]


def run(folder: Path) -> dict[str, Any]:
    av.logging.set_level(av.logging.PANIC)
    truth = [orjson.loads(line) for line in (folder / "videos-truth.jsonl").read_bytes().splitlines()]
    films = [film for film in truth if "codec" in film and "near_of" not in film and film.get("shots")]
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(folder / "videos.tar") as archive:
            archive.extractall(place, filter="data")
        frames = sum(film["frames"] for film in films)
        figures: dict[str, Any] = {"films": len(films), "frames": frames}
        figures["bare_pyav"] = {"frames_per_cpu_s": _speed(lambda: _decoded(place, films))}
        for name, make in DETECTORS.items():
            figures[name] = _ours(place, films, make(), _RUNS if name != "transnetv2" else 1)
        for reader in ("opencv", "pyav"):
            for name, make in THEIRS.items():
                figures[f"pyscenedetect {scenedetect.__version__} {name} {reader}"] = _theirs(
                    place, films, make, reader
                )
    ours, theirs = figures["content"], figures[f"pyscenedetect {scenedetect.__version__} content pyav"]
    figures["f1_less_than_pyscenedetect"] = round(theirs["f1"] - ours["f1"], 4)
    for reader in ("opencv", "pyav"):
        theirs = figures[f"pyscenedetect {scenedetect.__version__} content {reader}"]
        figures[f"times_as_fast_as_{reader}"] = round(ours["frames_per_cpu_s"] / theirs["frames_per_cpu_s"], 2)
    return figures


def events_of(film: Truth) -> list[ShotEvent]:
    """The events of a film in seconds."""
    times = film.get("times") or [number / film["fps"] for number in range(film["frames"] + 1)]
    times = [*times, times[-1] + 1 / film["fps"]]
    return [
        ShotEvent(
            event["type"], times[event.get("frame", event.get("start"))], times[event.get("frame", event.get("end"))]
        )
        for event in film["events"]
        if event["type"] != "flash"
    ]


def cpu_s() -> float:
    """CPU time of this process and of all that it started, in seconds."""
    this = psutil.Process()
    return float(sum(sum(process.cpu_times()[:4]) for process in [this, *this.children(recursive=True)]))


def _ours(place: str, films: list[Truth], detector: Any, runs: int) -> dict[str, Any]:
    table = pa.table({"media_ref": ref_array([Ref(f"{place}/{film['file']}") for film in films])})
    frames = sum(film["frames"] for film in films)
    stage = FindShots(detector)
    stage.setup()
    speeds, found = [], []
    try:
        _found(stage, table.slice(0, 1))  # kernels and models are loaded, and the child process is there
        for _ in range(runs):
            begin = cpu_s()
            found = _found(stage, table)
            speeds.append(frames / (cpu_s() - begin))
    finally:
        stage.teardown()
    counts, gradual = [], []
    for film, transitions in zip(films, found, strict=True):
        truth = events_of(film)
        counts.append(counts_of(truth, transitions, SLACK_S))
        mixed = [event for event in truth if event.kind != "cut"]
        gradual.append(counts_of(mixed, [event for event in transitions if event.kind == "gradual"], SLACK_S))
    return {
        **scores_of(counts),
        "gradual": scores_of(gradual),
        "frames_per_cpu_s": round(max(speeds)),
    }


def _found(stage: FindShots, table: pa.Table) -> list[list[ShotEvent]]:
    answer = stage.process(DocumentBatch(data=table)).to_arrow()
    assert answer.num_rows == table.num_rows, "films are missing"
    return [
        [ShotEvent(found["kind"], found["start"], found["end"]) for found in transitions]
        for transitions in answer["transitions"].to_pylist()
    ]


def _theirs(place: str, films: list[Truth], make: Callable[[], Any], reader: str) -> dict[str, Any]:
    speeds, counts, frames = [], [], 0
    for _ in range(_RUNS):
        counts, frames, begin = [], 0, cpu_s()
        with warnings.catch_warnings(), _silent():
            warnings.simplefilter("ignore")
            for film in films:
                video = scenedetect.open_video(f"{place}/{film['file']}", backend=reader)
                manager = scenedetect.SceneManager()
                manager.add_detector(make())
                count = manager.detect_scenes(video)
                cuts = [ShotEvent("cut", cut.seconds, cut.seconds) for cut in manager.get_cut_list()]
                if count:
                    frames += film["frames"]
                counts.append(counts_of(events_of(film), cuts, SLACK_S))
        speeds.append(frames / (cpu_s() - begin))
    return {**scores_of(counts), "frames_per_cpu_s": round(max(speeds)), "frames": frames}


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Context in which nothing is written to stderr: FFmpeg says much there."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nothing)
        os.close(kept)


def _decoded(place: str, films: list[Truth]) -> int:
    frames = 0
    for film in films:
        with av.open(f"{place}/{film['file']}") as container:
            container.streams.video[0].thread_count = 1
            frames += sum(1 for _ in container.decode(video=0))
    return frames


def _speed(task: Callable[[], int]) -> int:
    speeds = []
    for _ in range(_RUNS):
        begin = time.process_time()
        speeds.append(task() / (time.process_time() - begin))
    return round(max(speeds))
