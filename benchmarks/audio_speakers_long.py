"""The memory of `FindSpeakers` over long recordings that are nearly all speech. Part ``speakers_long``.

The prompts in ``speech-*.tar`` are joined, 0.3 s apart, again and again in another order, each time at another speed of
0.85 to 1.15, which makes another voice of it. Each prompt is a segment. Recordings of 1, 4 and 24 hours are heard one
after the other, each in a process of its own: ``peak_rss_mb`` is the most memory that it held (``VmHWM``), with Python,
Torch and all libraries, in MB of 10^6 bytes; ``started_mb`` is what it held before the first sample.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import soundfile
import soxr

from benchmarks.audio_speakers import recordings
from benchmarks.measure import job, measure, peak_mb
from dcurate import DocumentBatch
from dcurate.audio import FindSpeakers
from dcurate.media.refs import Ref, ref_array

RATE, HOURS = 16_000, (1, 4, 24)
_PAUSE = round(0.3 * RATE)
_SPEEDS = 0.85, 1.15


def run(folder: Path) -> dict[str, Any]:
    prompts = [soxr.resample(samples, rate, RATE) for samples, rate in recordings(folder)]
    found: dict[str, Any] = {"prompts": len(prompts)}
    for hours in HOURS:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "long.flac"
            speech = Path(place) / "speech.json"
            speech.write_text(json.dumps(_write(path, prompts, hours)))
            hear = job(f"{__name__}:long", path=str(path), speech=str(speech))
            found[f"{hours}_hours"] = measure(hear).result
    return found


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


def long(path: str, speech: str) -> dict[str, float]:
    """Hear a long recording in this process; its segments of speech are in a file."""
    segments = json.loads(Path(speech).read_text())
    stage = FindSpeakers()
    stage.setup()
    started, begin = peak_mb(), time.process_time()
    rows = pa.table({"media_ref": ref_array([Ref(path)]), "segments": [segments]})
    answer = stage.process(DocumentBatch(data=rows)).to_arrow().to_pylist()[0]
    spoken_s = sum(part["end"] - part["start"] for part in segments)
    return {
        "hours_of_speech": round(spoken_s / 3600, 2),
        "turns": len(answer["turns"]),
        "speakers": answer["speakers"],
        "started_mb": round(started, 1),
        "peak_rss_mb": round(peak_mb(), 1),
        "seconds_of_speech_per_cpu_s": round(spoken_s / (time.process_time() - begin), 1),
    }
