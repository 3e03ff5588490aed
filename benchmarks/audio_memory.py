"""The memory of `AudioSignals` over one recording of 48 hours. Part ``memory`` of ``benchmarks.audio``.

The recording, noise in bursts at 16 kHz, is written as FLAC, piece by piece, into a temporary folder, and measured in
a process of its own: ``peak_rss_mb`` is the most memory that this process held, with Python and all libraries, in MB of
10^6 bytes; ``started_mb`` is what it held before the first sample.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import soundfile

from benchmarks.measure import job, measure, peak_mb
from dcurate import DocumentBatch
from dcurate.audio import AudioSignals
from dcurate.media.refs import Ref, ref_array

HOURS, RATE = 48, 16_000


def run(folder: Path) -> dict[str, Any]:
    """Write the recording and measure it; `folder` is not read."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "long.flac"
        _write(path)
        found: dict[str, Any] = measure(job(f"{__name__}:measured", path=str(path))).result
        return {"hours": HOURS, "sample_rate": RATE, "file_mb": round(path.stat().st_size / 1e6, 1), **found}


def _write(path: Path) -> None:
    minute = np.random.default_rng(1).normal(0, 0.01, RATE * 60) * (np.arange(RATE * 60) % RATE < RATE // 10)
    samples = np.round(minute * 32_768).astype(np.int16)
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16", format="FLAC") as file:
        for _ in range(HOURS * 60):
            file.write(samples)


def measured(path: str) -> dict[str, float]:
    """Measure a recording in this process."""
    stage = AudioSignals()
    stage.setup_on_node()
    started, begin = peak_mb(), time.process_time()
    rows = stage.process(DocumentBatch(data=pa.table({"media_ref": ref_array([Ref(path)])}))).to_arrow().to_pylist()
    cpu_s = time.process_time() - begin
    return {
        "decoded_hours": rows[0]["audio_decoded_s"] / 3600,
        "started_mb": round(started, 1),
        "peak_rss_mb": round(peak_mb(), 1),
        "seconds_per_cpu_s": round(rows[0]["audio_decoded_s"] / cpu_s, 1),
    }
