"""The recipes for speech run from files to files, by Silero VAD and DNSMOS; texts are of random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from dcurate import InlineExecutor
from dcurate.recipe import load_recipe
from tests.audio.test_faster_whisper import folder  # noqa: F401
from tests.audio.test_speech import RATE, voice


def ran(name: str, params: dict[str, Any]) -> Any:
    return load_recipe(name, params).pipeline.run(InlineExecutor(), observers=[])


def lines(output: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in sorted(output.rglob("*.jsonl"))
        if "_dcurate" not in path.parts
        for line in path.read_text().splitlines()
    ]


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    sounds = tmp_path / "sounds"
    sounds.mkdir()
    soundfile.write(sounds / "talk.flac", voice(9.0), RATE)
    soundfile.write(sounds / "silence.wav", np.zeros(5 * RATE), RATE)
    soundfile.write(sounds / "noise.ogg", np.random.default_rng(1).normal(0, 0.1, 5 * RATE), RATE)
    (sounds / "page.mp3").write_text("<html></html>")
    return sounds


def test_emilia_writes_segments_of_speech(tmp_path: Path, recordings: Path, folder: str) -> None:  # noqa: F811
    params = {"input": str(recordings), "output": str(tmp_path / "out"), "model": folder}
    ran("speech-emilia", {**params, "min_duration_s": 1, "min_score": 1.0})
    rows = lines(tmp_path / "out")
    assert rows
    for row in rows:
        file = next((tmp_path / "out").rglob(Path(row["file_name"]).name))
        about = soundfile.info(file)
        assert (about.samplerate, about.channels, about.format) == (24_000, 1, "FLAC")
        assert abs(about.duration - row["audio_decoded_s"]) < 0.01
        assert 1 <= about.duration <= 30
        assert row["dnsmos_ovrl"] >= 1.0
        assert row["segment"]["speaker"].startswith("speaker_")
        assert "segments" not in row


def test_granary_keeps_recordings_whose_transcripts_agree(
    tmp_path: Path,
    recordings: Path,
    folder: str,  # noqa: F811
) -> None:
    manifest = recordings / "manifest.jsonl"
    names = ("talk.flac", "noise.ogg", "silence.wav", "page.mp3")
    manifest.write_text("".join(json.dumps({"audio_filepath": name, "speaker": name[0]}) + "\n" for name in names))
    ran(
        "speech-granary",
        {"input": str(manifest), "output": str(tmp_path / "out"), "model": folder, "second_model": folder},
    )
    rows = lines(tmp_path / "out")
    assert [row["speaker"] for row in rows] == ["t"]  # noise, silence and the web page are left out
    assert rows[0]["first_text"] == rows[0]["second_text"]
    assert rows[0]["wer"] in (0.0, None)
