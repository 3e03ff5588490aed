"""Segments of speech are those of Silero VAD's own functions, and views of what is there."""

import io
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import silero_vad as silero
import soundfile
import soxr
import torch
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DataError, DocumentBatch, PipelineError, ResourceError
from dcurate.audio import FindSpeech, SegmentRows
from dcurate.audio.pauses import SpeechRules, speech_segments
from dcurate.audio.speech import BLOCK, CONTEXT, WINDOW, SpeechListener
from dcurate.audio.stage import Mono
from dcurate.media.refs import Ref, ref_array
from dcurate.testing import check_stage

RATE = 16_000
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.load` is deprecated")
#: Silero VAD's own defaults.
OWN: dict[str, Any] = {"min_duration_s": 0.25, "max_duration_s": float("inf"), "min_pause_s": 0.1, "padding_s": 0.03}


def voice(seconds: float, seed: int = 1) -> np.ndarray:
    """What Silero VAD takes for speech, with pauses: a buzz of a changing pitch through changing resonances."""
    draw = np.random.default_rng(seed)
    count = round(seconds * RATE)
    times = np.arange(count) / RATE
    pitch = 110 + 25 * np.sin(2 * np.pi * 0.9 * times + draw.uniform(0, 6)) + 8 * np.sin(2 * np.pi * 3.1 * times)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    sound = np.zeros(count)
    for number in range(1, 34):
        hertz = number * pitch
        gain = sum(
            np.exp(-(((hertz - centre - width * np.sin(2 * np.pi * speed * times)) / 130) ** 2))
            for centre, width, speed in ((550, 220, 2.3), (1400, 500, 1.7), (2600, 250, 2.9))
        )
        sound += (gain + 0.01) / number**0.5 * np.sin(number * phase)
    syllables = np.clip(np.sin(2 * np.pi * 2.1 * times) + 0.7, 0, 1)
    words = np.repeat(draw.random(count // 12_000 + 1) < 0.75, 12_000)[:count]
    noise = draw.normal(0, 0.003, count)
    return (0.25 * sound / np.abs(sound).max() * syllables * words + noise).astype(np.float32)


def wav(samples: np.ndarray, rate: int = RATE) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype="FLOAT")
    return file.getvalue()


def found(stage: FindSpeech, *recordings: bytes) -> list[list[tuple[int, int]]]:
    """The segments of recordings, in samples."""
    rows = stage.process(DocumentBatch(data=pa.table({"bytes": list(recordings)}))).to_arrow()
    return [
        [(round(part["start"] * RATE), round(part["end"] * RATE)) for part in parts]
        for parts in rows["segments"].to_pylist()
    ]


def expected(samples: np.ndarray, stage: FindSpeech) -> list[tuple[int, int]]:
    parts = silero.get_speech_timestamps(
        torch.from_numpy(samples),
        silero.load_silero_vad(),
        threshold=stage.threshold,
        min_speech_duration_ms=stage.min_duration_s * 1000,
        max_speech_duration_s=stage.max_duration_s,
        min_silence_duration_ms=stage.min_pause_s * 1000,
        speech_pad_ms=stage.padding_s * 1000,
    )
    return [(part["start"], part["end"]) for part in parts]


@pytest.mark.parametrize("settings", [{}, OWN, {**OWN, "max_duration_s": 2.0}, {**OWN, "threshold": 0.8}])
def test_segments_are_those_of_silero_vad(settings: dict[str, Any]) -> None:
    stage, samples = FindSpeech(**settings), voice(23.4)
    segments = found(stage, wav(samples))[0]
    assert segments
    assert segments == expected(samples, stage)


probabilities = st.lists(st.sampled_from([0.0, 0.2, 0.34, 0.35, 0.36, 0.49, 0.5, 0.51, 0.9]), max_size=60).flatmap(
    lambda values: st.integers(1, 12).map(lambda times: [value for value in values for _ in range(times)])
)


@given(
    probabilities,
    st.sampled_from([0.0, 0.25, 1.0]),
    st.sampled_from([0.5, 1.5, 4.0, float("inf")]),
    st.sampled_from([0.0, 0.1, 0.3]),
    st.sampled_from([0.05, 0.5]),
    st.sampled_from([0.0, 0.03, 0.19]),
)
def test_rules_give_the_segments_of_silero_vad_for_any_probabilities(
    values: list[float], shortest: float, longest: float, pause: float, threshold: float, padding: float
) -> None:
    rules = SpeechRules(min(shortest, longest), longest, pause, threshold, padding)
    samples = max(0, len(values) * 512 - 100)
    parts = silero.utils_vad.get_speech_timestamps_from_probs(
        values,
        threshold=threshold,
        min_speech_duration_ms=rules.min_duration_s * 1000,
        max_speech_duration_s=longest,
        min_silence_duration_ms=pause * 1000,
        speech_pad_ms=padding * 1000,
        audio_length_samples=samples,
    )
    assert speech_segments(values, rules, samples) == [(part["start"], part["end"]) for part in parts]


def test_segments_of_a_recording_do_not_depend_on_the_others_in_its_batch() -> None:
    stage = FindSpeech(**OWN)
    recordings = [wav(voice(seconds, seed)) for seed, seconds in enumerate((0.01, 3.0, 9.7, 4.5))]
    assert found(stage, *recordings) == [found(stage, recording)[0] for recording in recordings]


def test_a_segment_is_heard_as_if_it_were_a_recording(tmp_path) -> None:
    samples = voice(20.0)
    (tmp_path / "a.wav").write_bytes(wav(samples))
    refs = ref_array([Ref(str(tmp_path / "a.wav"), start_s=4.0, stop_s=13.5)])
    rows = FindSpeech(**OWN).process(DocumentBatch(data=pa.table({"media_ref": refs}))).to_arrow()
    parts = [(part["start"], part["end"]) for part in rows["segments"][0].as_py()]
    cut = found(FindSpeech(**OWN), wav(samples[4 * RATE : round(13.5 * RATE)]))[0]
    assert parts == [(start / RATE, stop / RATE) for start, stop in cut]


def test_segments_become_rows_that_are_heard_where_they_are(tmp_path) -> None:
    samples = voice(20.0)
    (tmp_path / "a.wav").write_bytes(wav(samples))
    rows = pa.table({"media_ref": ref_array([Ref(str(tmp_path / "a.wav"))])})
    stage = FindSpeech(**{**OWN, "min_pause_s": 0.3})
    parts = SegmentRows().process(stage.process(DocumentBatch(data=rows)))
    spans = [(ref["start_s"], ref["stop_s"]) for ref in parts.to_arrow()["media_ref"].to_pylist()]
    assert spans == [(start / RATE, stop / RATE) for start, stop in expected(samples, stage)]
    heard = FindSpeech(**{**OWN, "threshold": 0.2}).process(parts).to_arrow()["segments"].to_pylist()
    assert all(segments for segments in heard)


def test_other_rates_and_channels_give_nearly_the_same_segments() -> None:
    samples = voice(12.0)
    at_16k = found(FindSpeech(**OWN), wav(samples))[0]
    fast = soxr.resample(samples, RATE, 44_100)
    at_44k = found(FindSpeech(**OWN), wav(np.stack([fast, fast], 1), 44_100))[0]
    assert len(at_16k) == len(at_44k) > 2
    assert np.abs(np.subtract(at_16k, at_44k)).max() <= 2 * WINDOW


def test_the_model_hears_all_samples_once_whatever_the_windows_of_the_decoder() -> None:
    samples = voice(10.0)

    def heard(step: int) -> list[np.ndarray]:
        model = Recorder()
        listener = SpeechListener(model, SpeechRules(), Mono(RATE, RATE))
        for start in range(0, len(samples), step):
            listener.hear(samples[start : start + step, None])
        listener.values(False)
        return model.calls

    calls = heard(65_536)
    assert [len(call) for call in calls] == [BLOCK, BLOCK, 57]
    together = np.concatenate([call[:, CONTEXT:].ravel() for call in calls])
    assert (together[: len(samples)] == samples).all()
    assert not together[len(samples) :].any()
    assert not calls[0][0, :CONTEXT].any()
    assert (np.concatenate(calls)[1:, :CONTEXT].ravel() == together.reshape(-1, WINDOW)[:-1, -CONTEXT:].ravel()).all()
    for step in (1_000, 3_333, 160_000):
        assert [(a == b).all() for a, b in zip(heard(step), calls, strict=True)] == [True] * 3


class Recorder:
    def __init__(self) -> None:
        self.calls: list[np.ndarray] = []

    def run(self, _: None, given: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self.calls.append(given["input"].copy())
        return np.zeros(len(given["input"]), np.float32), given["h"], given["c"]


def test_memory_does_not_grow_with_length_but_for_four_bytes_a_window() -> None:
    listener = SpeechListener(Recorder(), SpeechRules(), Mono(RATE, RATE))
    listener._model.run = lambda _, given: (np.zeros(len(given["input"]), np.float32), given["h"], given["c"])
    second = np.zeros((RATE, 1), np.float32)
    tracemalloc.start()
    for _ in range(3_600):
        listener.hear(second)
    assert listener.values(False) == [[]]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


def test_rows_that_are_no_recordings_go_to_quarantine_and_the_others_stay_as_they_are() -> None:
    rows = pa.table({"n": pa.array([1, None, 3], pa.int8()), "bytes": [wav(voice(1.0)), b"<html></html>", b""]})
    batch = FindSpeech().process(DocumentBatch(data=rows))
    assert batch.to_arrow().drop_columns("segments").equals(rows.slice(0, 1))
    assert sorted(part.reason for part in batch.rejections) == ["empty", "not a recording: HTML or XML"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 1.5}, "threshold=1.5 must be a number between 0 and 1"),
        ({"min_duration_s": -1}, "min_duration_s=-1 must be a number of seconds, 0 or more"),
        ({"max_duration_s": 0.5}, "max_duration_s=0.5 must be a number of seconds above twice padding_s and 0.1"),
        ({"min_duration_s": 70.0}, "min_duration_s=70.0 is above max_duration_s=60.0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=f"^find_speech: {message}"):
        FindSpeech(**settings)


def test_another_model_is_refused_before_a_row_is_heard(tmp_path) -> None:
    with pytest.raises(ResourceError, match="model 'no/model.onnx' does not exist"):
        FindSpeech(model="no/model.onnx").setup()
    (tmp_path / "a.onnx").write_bytes(b"<html>")
    with pytest.raises(DataError, match="is not a model in ONNX format for finding speech"):
        FindSpeech(model=str(tmp_path / "a.onnx")).setup()
    other = silero.__path__[0] + "/data/silero_vad.onnx"
    with pytest.raises(DataError, match="its inputs are input, state, sr, not input, h, c"):
        FindSpeech(model=other).setup()


def test_finding_speech_keeps_the_laws_of_stages() -> None:
    rows = pa.table({"bytes": [wav(voice(seconds)) for seconds in (0.5, 1.0, 3.0)]})
    check_stage(FindSpeech(**OWN), DocumentBatch(data=rows), skip=["cluster"])


def test_a_longer_padding_shortens_what_is_cut() -> None:
    rules = SpeechRules(0.0, 3.0, 0.5, 0.5, 0.0)
    long = [0.9] * 400
    assert max(stop - start for start, stop in speech_segments(long, rules, 204_800)) < 3 * RATE
    padded = speech_segments(long, replace(rules, padding_s=0.5), 204_800)
    assert max(stop - start for start, stop in padded) <= 3 * RATE
