"""Among many recordings 5 % are damaged: none is lost, each has a reason, and memory does not grow."""

from __future__ import annotations

import io
import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile

from tests.audio.sounds import noise, voice, wav
from tests.conftest import ROOT
from tests.forked import finished

pytestmark = pytest.mark.program

EVERY, RATE = 20, 8_000

#: Runs the pipeline, and prints the most memory in bytes after a quarter of the batches, and after all.
PROGRAM = """
import json
import resource
import sys

from dcurate import InlineExecutor, MediaReader, ParquetWriter, Pipeline
from dcurate.audio import AudioInfo, AudioSignals, FindSpeech

if __name__ == "__main__":
    source, output = sys.argv[1:]
    stages = [
        MediaReader(source, files_per_partition=10),
        AudioInfo(),
        AudioSignals(),
        FindSpeech(min_duration_s=0.1),
        ParquetWriter(output),
    ]
    peaks = []
    for _ in Pipeline("poison", stages=stages).stream(InlineExecutor(), observers=[]):
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    print(json.dumps([peaks[len(peaks) // 4], peaks[-1]]))
"""


def samples_of(form: str, samples: Any, subtype: str | None = None) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, subtype, format=form)
    return file.getvalue()


def with_field(place: int, kind: str, value: int) -> bytes:
    """A WAV file whose header has another value at a place."""
    header = bytearray(wav(rate=RATE, frames=RATE))
    struct.pack_into(kind, header, place, value)
    return bytes(header)


def spoilt(value: float) -> bytes:
    """A WAV file of floats, one of which is no number that sound can have."""
    samples = np.zeros(RATE, np.float32)
    samples[100] = value
    return samples_of("WAV", samples, "FLOAT")


#: Damaged files, with the reason that the quarantine must give.
POISONS: dict[str, tuple[bytes, str]] = {
    "empty.wav": (b"", "empty"),
    "riff_only.wav": (b"RIFF", "truncated"),
    "html.wav": (b"<html>404</html>", "not a recording: HTML or XML"),
    "text.wav": (b"words, and not a sound " * 50, "not a recording: text"),
    "random.mp3": (np.random.default_rng(1).bytes(8_000), "not a recording: unknown format"),
    "zeros.flac": (bytes(9_000), "not a recording: unknown format"),
    "nan.wav": (spoilt(float("nan")), "not a number"),
    "infinite.wav": (spoilt(float("inf")), "not a number"),
    "channels_0.wav": (with_field(22, "<H", 0), "damaged"),
    "channels_65535.wav": (with_field(22, "<H", 65_535), "damaged"),
    "rate_0.wav": (with_field(24, "<I", 0), "damaged"),
    "rate_max.wav": (with_field(24, "<I", 2**32 - 1), "damaged"),
    "bits_0.wav": (with_field(34, "<H", 0), "damaged"),
    "format_unknown.wav": (with_field(20, "<H", 0x1234), "unsupported codec"),
    "header_only.wav": (wav(rate=RATE, frames=0), "no sound"),
    "truncated.wav": (wav(rate=RATE, frames=RATE)[:5_000], "truncated"),
    "truncated.flac": (noise("FLAC")[:30], "truncated"),
    "truncated.ogg": (noise("OGG")[:2_000], "truncated"),
    "frame_damaged.flac": (noise("FLAC")[:4_000], "damaged"),
    "id3_only.mp3": (b"ID3\x04\0\0\0\0\0\x0a" + bytes(10), "no sound"),
}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings in WAV, FLAC and Ogg; every twentieth is damaged, each in another way."""
    folder = tmp_path_factory.mktemp("recordings")
    good = {form: samples_of(form, voice(3, 3.0, RATE)) for form in ("WAV", "FLAC", "OGG")}
    poisons = iter(POISONS.items())
    for number in range(EVERY * len(POISONS)):
        if number % EVERY == EVERY // 2:
            name, (data, _) = next(poisons)
        else:
            form = ("WAV", "FLAC", "OGG")[number % 3]
            name, data = f"good.{form.lower()}", good[form]
        (folder / f"{number:04}-{name}").write_bytes(data)
    return folder


def test_of_many_recordings_none_is_lost_each_bad_one_has_a_reason_and_memory_is_flat(
    recordings: Path, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    output = tmp_path / "out"
    done = finished(
        [sys.executable, "-m", "program", recordings, output],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
    )
    assert done.returncode == 0, done.stderr
    reasons = {}
    for path in Path(f"{output}.dcurate", "quarantine").rglob("*.jsonl"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            reasons[record["file_name"].partition("-")[2]] = record["_dcurate_reason"]
    assert reasons == {name: reason for name, (_, reason) in POISONS.items()}
    rows = pq.read_table(output, columns=["file_name", "audio_decoded_s", "segments"]).to_pylist()
    names = sorted(path.name for path in recordings.iterdir() if "-good." in path.name)
    assert sorted(row["file_name"] for row in rows) == names
    assert all(abs(row["audio_decoded_s"] - 3.0) < 0.1 and row["segments"] for row in rows)
    quarter, whole = json.loads(done.stdout)
    files = sum(path.stat().st_size for path in recordings.iterdir())  # a process keeps up to 64 MiB of files
    samples = 3.0 * RATE * 4 * len(names)
    assert whole - quarter < files + 2e6 < 0.75 * samples
