"""The memory of `FindSpeakers` over long recordings that are nearly all speech. Part ``speakers_long``.

The prompts in ``speech-*.tar`` are joined, 0.3 s apart, again and again in another order, each time at another speed of
0.85 to 1.15, which makes another voice of it. Each prompt is a segment. Recordings of 1, 4 and 24 hours are heard one
after the other, each in a process of its own: ``peak_rss_mb`` is the most memory that it held (``VmHWM``), with Python,
Torch and all libraries, in MB of 10^6 bytes; ``started_mb`` is what it held before the first sample.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr

from benchmarks.measure import job, measure

RATE, HOURS = 16_000, (1, 4, 24)
_PAUSE = round(0.3 * RATE)
_SPEEDS = 0.85, 1.15


def run(folder: Path) -> dict[str, Any]:
    prompts = _prompts(folder)
    found: dict[str, Any] = {"prompts": len(prompts)}
    for hours in HOURS:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "long.flac"
            speech = Path(place) / "speech.json"
            speech.write_text(json.dumps(_write(path, prompts, hours)))
            hear = job("benchmarks.audio_speakers:long", path=str(path), speech=str(speech))
            found[f"{hours}_hours"] = measure(hear).result
    return found


def _prompts(folder: Path) -> list[np.ndarray]:
    """All prompts, at 16 kHz."""
    prompts = []
    for path in sorted(folder.glob("speech-*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file and Path(member.name).suffix in (".wav", ".flac", ".mp3", ".ogg", ".opus"):
                    samples, rate = soundfile.read(io.BytesIO(file.read()), dtype="float32", always_2d=True)
                    prompts.append(soxr.resample(samples.mean(axis=1), rate, RATE))
    return prompts


def _write(path: Path, prompts: list[np.ndarray], hours: float) -> list[dict[str, float]]:
    """Write a recording, and return its segments of speech."""
    draw, segments, place = np.random.default_rng(1), [], 0
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16", format="FLAC") as file:
        while place < hours * 3600 * RATE:
            speed = draw.uniform(*_SPEEDS)
            for number in draw.permutation(len(prompts)):
                sound = soxr.resample(prompts[number], RATE * speed, RATE)
                file.write(np.concatenate([sound, np.zeros(_PAUSE, np.float32)]))
                segments.append({"start": place / RATE, "end": (place + len(sound)) / RATE})
                place += len(sound) + _PAUSE
    return segments
