"""Recordings are transcribed in windows, in batches, and none is lost."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import soundfile
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

from dcurate import DataError, DocumentBatch, PipelineError
from dcurate.audio import HuggingFaceRecognizer, PocketSphinxRecognizer, SoundWindow, Transcribe, Transcript
from dcurate.audio.stage import Mono
from dcurate.audio.transcribe import cut, quietest
from dcurate.media.refs import Ref, ref_array
from dcurate.testing import check_stage
from tests.audio.made_models import make_wav2vec2, make_whisper

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class LoudnessRecognizer:
    """Writes how loud each second is; refuses windows of full loudness. What a user's own recogniser may look like."""

    max_window_s: float = 2.0
    batch_size: int = 3

    def requires(self) -> dict[str, str]:
        return {}

    def fetch(self) -> None:
        return

    def load(self, stage: str, slot: Any, cpus: float) -> LoudnessRecognizer:
        return self

    def close(self) -> None:
        return

    def transcribe(self, windows: Sequence[SoundWindow]) -> list[Transcript | Any]:
        if len(windows) > self.batch_size or any(
            len(window.samples) > self.max_window_s * 16_000 for window in windows
        ):
            raise AssertionError("more than it takes")
        return [self._heard(window) for window in windows]

    def _heard(self, window: SoundWindow) -> Transcript:
        if window.samples.max() > 0.9:
            raise RuntimeError("too loud")
        second = [window.samples[start : start + 16_000] for start in range(0, len(window.samples), 16_000)]
        words = [f"{round(float(np.abs(part).mean()) * 10)}{window.language or ''}" for part in second]
        times = [{"word": word, "start": float(n), "end": n + 1.0, "confidence": 0.5} for n, word in enumerate(words)]
        return Transcript(" ".join(words), times)


def wav(samples: Floats, rate: int = 16_000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, "FLOAT", format="WAV")
    return file.getvalue()


def level(*tenths: int, rate: int = 16_000) -> Floats:
    """A second of each loudness."""
    return np.concatenate([np.full(rate, tenth / 10, np.float32) for tenth in tenths])


def rows_of(*files: bytes, **columns: Any) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"bytes": pa.array(files, pa.binary()), **columns}))


def noise(seconds: float, seed: int = 0) -> Floats:
    return (np.random.default_rng(seed).standard_normal(int(seconds * 16_000)) * 0.1).astype(np.float32)


def test_texts_and_words_of_windows_are_joined_with_their_times() -> None:
    recording = level(1, 2, 0, 3, 4)
    recording[2 * 16_000 - 320 : 2 * 16_000] = 0  # where it is cut
    table = Transcribe(LoudnessRecognizer()).process(rows_of(wav(recording))).to_arrow()
    words = table["words"][0].as_py()
    assert table["pred_text"].to_pylist() == [" ".join(word["word"] for word in words)]
    assert [word["start"] for word in words][:3] == [0.0, 1.0, 1.99]
    assert words[0] == {"word": "1", "start": 0.0, "end": 1.0, "confidence": 0.5}


def test_a_segment_is_heard_by_itself_and_its_times_begin_with_it(tmp_path: Path) -> None:
    path = str(tmp_path / "a.wav")
    (tmp_path / "a.wav").write_bytes(wav(level(1, 2, 3, 4)))
    refs = [Ref(path, start_s=1.0, stop_s=3.0), Ref(path, start_s=3.0), Ref(path, stop_s=1.0), Ref(path, start_s=9.0)]
    found = Transcribe(LoudnessRecognizer()).process(DocumentBatch(data=pa.table({"media_ref": ref_array(refs)})))
    assert found.to_arrow()["pred_text"].to_pylist() == ["2 3", "4", "1"]
    assert [word["start"] for word in found.to_arrow()["words"][0].as_py()] == [0.0, 1.0]
    assert [rejection.reason for rejection in found.rejections] == ["bad segment"]


def test_recordings_are_split_at_the_parts_that_a_column_names() -> None:
    parts = [{"start": 0.0, "end": 1.0}, {"start": 2.0, "end": 4.0}]
    bad = [{"start": 2.0, "end": 1.0}]
    batch = rows_of(*[wav(level(1, 2, 3, 4))] * 3, splits=[parts, None, bad])
    found = Transcribe(LoudnessRecognizer(max_window_s=9.0), splits_field="splits").process(batch)
    assert found.to_arrow()["pred_text"].to_pylist() == ["1 3 4", "1 2 3 4"]
    assert [word["start"] for word in found.to_arrow()["words"][0].as_py()] == [0.0, 2.0, 3.0]
    assert [rejection.reason for rejection in found.rejections] == ["bad segments"]


def test_a_row_may_name_its_language() -> None:
    batch = rows_of(*[wav(level(1))] * 2, language=["de", None])
    found = Transcribe(LoudnessRecognizer(), language_field="language").process(batch).to_arrow()
    assert found["pred_text"].to_pylist() == ["1de", "1"]


def test_rows_that_fail_go_to_quarantine_with_a_reason_and_the_others_stay() -> None:
    nan = level(1)
    nan[5] = np.nan
    files = [wav(level(1)), wav(level(1, 10, 10)), b"", b"<html></html>", wav(nan), wav(level(2)), wav(level(1))[:60]]
    found = Transcribe(LoudnessRecognizer()).process(rows_of(*files, id=list(range(7))))
    assert found.to_arrow()["id"].to_pylist() == [0, 5]
    assert found.to_arrow()["pred_text"].to_pylist() == ["1", "2"]
    reasons = {rejection.reason: rejection.rows for rejection in found.rejections}
    assert reasons["not transcribed"] == 1
    assert sum(reasons.values()) == 5
    (failed,) = [rejection for rejection in found.rejections if rejection.reason == "not transcribed"]
    assert failed.data["media_fault"].to_pylist() == ["RuntimeError: too loud"]


@pytest.mark.parametrize("held", [1, 40_000, 2**24])
def test_rows_do_not_depend_on_how_much_is_held(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcurate.audio.transcribe._HELD", held)
    files = [wav(level(*range(size, 0, -1))) for size in (3, 1, 8, 2)]
    found = Transcribe(LoudnessRecognizer()).process(rows_of(*files)).to_arrow()
    alone = [
        Transcribe(LoudnessRecognizer()).process(rows_of(file)).to_arrow()["pred_text"][0].as_py() for file in files
    ]
    assert found["pred_text"].to_pylist() == alone
    assert [len(text.split()) for text in alone] >= [3, 1, 8, 2]


@given(
    st.lists(st.integers(0, 400), max_size=8),
    st.integers(1, 700),
    st.lists(st.integers(1, 300), min_size=1, max_size=6),
)
def test_windows_are_all_of_the_sound_in_order(levels: list[int], size: int, steps: list[int]) -> None:
    sound = np.array([value / 400 for value in levels for _ in range(200)], np.float32)
    places = np.cumsum([0, *steps * (len(sound) // sum(steps) + 1)])
    chunks = [sound[start:stop, None] for start, stop in pairwise(places)]
    windows = list(cut(chunks, Mono(16_000, 16_000), size))
    assert np.concatenate([np.empty(0, np.float32), *(window for _, window in windows)]).tolist() == sound.tolist()
    assert all(0 < len(window) <= size for _, window in windows)
    assert [start for start, _ in windows] == np.cumsum([0, *(len(window) for _, window in windows)])[:-1].tolist()
    assert [len(w) for _, w in cut([sound[:, None]], Mono(16_000, 16_000), size)] == [len(w) for _, w in windows]


def test_a_window_is_cut_where_it_is_quiet() -> None:
    sound = noise(2.0)
    sound[20_000:21_000] = 0
    assert 20_000 <= quietest(sound) < 21_000
    sound[:16_000] = 0  # the first half does not count
    assert 20_000 <= quietest(sound) < 21_000


def test_the_stage_keeps_the_laws() -> None:
    files = [wav(level(1, 2)), wav(level(3, rate=8_000), 8_000), b"", wav(np.stack([level(1), level(3)], axis=1))]
    check_stage(Transcribe(LoudnessRecognizer()), rows_of(*files, id=[0, 1, 2, 3]))


def test_channels_are_mixed_and_resampled() -> None:
    files = [wav(level(3, rate=8_000), 8_000), wav(np.stack([level(1), level(3)], axis=1))]
    found = Transcribe(LoudnessRecognizer()).process(rows_of(*files)).to_arrow()
    assert found["pred_text"].to_pylist() == ["3", "2"]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(PipelineError, match="must be a recogniser"):
        Transcribe("whisper")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="max_window_s=0 must be above 0"):
        PocketSphinxRecognizer(max_window_s=0)
    with pytest.raises(PipelineError, match="batch_size=0 must be above 0"):
        HuggingFaceRecognizer("m", batch_size=0)


@pytest.fixture(scope="module")
def wav2vec2(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_wav2vec2(tmp_path_factory.mktemp("models") / "wav2vec2"))


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_whisper(tmp_path_factory.mktemp("models") / "whisper"))


def test_a_model_of_ctc_gives_words_with_times(wav2vec2: str) -> None:
    """The weights are random; texts are those of the model itself."""
    sound = noise(1.5)
    processor = transformers.AutoProcessor.from_pretrained(wav2vec2)
    model = transformers.AutoModelForCTC.from_pretrained(wav2vec2).eval()
    with torch.inference_mode():
        logits = model(**processor([sound], sampling_rate=16_000, return_tensors="pt")).logits
    (text,) = processor.batch_decode(logits.argmax(dim=-1))
    files = [wav(sound), wav(noise(1.5, 1)), wav(noise(0.7, 2)), wav(noise(0.001, 3))]
    found = Transcribe(HuggingFaceRecognizer(wav2vec2)).process(rows_of(*files)).to_arrow().to_pylist()
    assert found[0]["pred_text"] == text != ""
    for row, seconds in zip(found, (1.5, 1.5, 0.7, 0.1), strict=True):
        assert " ".join(word["word"] for word in row["words"]) == row["pred_text"]
        assert all(0 <= word["start"] <= word["end"] <= seconds for word in row["words"])
    one_by_one = Transcribe(HuggingFaceRecognizer(wav2vec2, batch_size=1)).process(rows_of(*files)).to_arrow()
    assert one_by_one.to_pylist() == found


def test_a_model_that_is_sequence_to_sequence_gives_text(whisper: str) -> None:
    """The weights are random; texts are those of the model itself."""
    sounds = [noise(1.0), noise(3.0, 1)]
    processor = transformers.AutoProcessor.from_pretrained(whisper)
    model = transformers.AutoModelForSpeechSeq2Seq.from_pretrained(whisper).eval()
    texts = [
        processor.batch_decode(
            model.generate(
                **processor([sound], sampling_rate=16_000, return_tensors="pt"), language=language, max_new_tokens=5
            ),
            skip_special_tokens=True,
        )[0]
        for sound, language in zip(sounds, ("en", None), strict=True)
    ]
    files = [wav(sound) for sound in sounds]
    stage = Transcribe(HuggingFaceRecognizer(whisper, generate_kwargs={"max_new_tokens": 5}), language_field="language")
    found = stage.process(rows_of(*files, language=["en", None])).to_arrow()
    assert found["pred_text"].to_pylist() == texts
    assert texts[0] != texts[1]
    assert found["words"].to_pylist() == [None, None]
    wrong = stage.process(rows_of(files[0], language=["xx"]))
    assert [rejection.reason for rejection in wrong.rejections] == ["not transcribed"]


def hears_two_languages(folder: str, sounds: list[Floats]) -> tuple[str, list[str]]:
    """A Whisper to which the first two sounds are in English and in German, and what it hears in each."""
    processor = transformers.AutoProcessor.from_pretrained(folder)
    model = transformers.AutoModelForSpeechSeq2Seq.from_pretrained(folder).eval()
    start, english, german = processor.tokenizer.convert_tokens_to_ids(["<|startoftranscript|>", "<|en|>", "<|de|>"])
    features = processor(sounds, sampling_rate=16_000, return_tensors="pt").input_features
    with torch.inference_mode():
        first = torch.full((len(sounds), 1), start)
        states = model.model(features, decoder_input_ids=first).last_hidden_state[:, 0]
        apart, middle = states[0] - states[1], (states[0] + states[1]) / 2
        apart -= (apart @ middle) / (middle @ middle) * middle
        words = model.get_input_embeddings().weight
        words[english] = words[german] + apart / apart.norm() * 100
        logits = model(features, decoder_input_ids=first).logits[:, 0]
    model.save_pretrained(changed := folder + "-changed")
    processor.save_pretrained(changed)
    return changed, ["en" if row[english] > row[german] else "de" for row in logits]


def test_the_language_that_was_heard_is_the_likeliest_first_token_of_the_decoder(whisper: str) -> None:
    sounds = [noise(1.0), level(3, 1), noise(2.0, 2), noise(3.0, 1)]
    changed, expected = hears_two_languages(whisper, sounds)
    assert expected[:2] == ["en", "de"]
    recognizer = HuggingFaceRecognizer(changed, generate_kwargs={"max_new_tokens": 5})
    batch = rows_of(*map(wav, sounds), language=[None, None, None, "de"])
    plain = Transcribe(recognizer, language_field="language").process(batch).to_arrow()
    found = Transcribe(recognizer, language_field="language", heard_language_field="heard").process(batch).to_arrow()
    assert found["heard"].to_pylist() == [*expected[:3], None]
    assert found.drop_columns(["heard"]).equals(plain)
    told = HuggingFaceRecognizer(changed, generate_kwargs={"max_new_tokens": 5, "language": "en"})
    assert Transcribe(told, heard_language_field="heard").process(batch).to_arrow()["heard"].to_pylist() == [None] * 4


def test_a_recogniser_that_hears_no_language_says_none(wav2vec2: str) -> None:
    stage = Transcribe(HuggingFaceRecognizer(wav2vec2), heard_language_field="heard")
    assert stage.process(rows_of(wav(noise(0.7)))).to_arrow()["heard"].to_pylist() == [None]


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    stage = Transcribe(HuggingFaceRecognizer(str(tmp_path)))
    with pytest.raises(DataError, match="is missing"):
        stage.process(rows_of(wav(level(1))))


def vowel(formants: tuple[int, int, int]) -> Floats:
    """0.4 s of a vowel: pulses through a resonator at each formant, in Hz."""
    sound = np.zeros(6_400)
    sound[:: 16_000 // 120] = 1
    for formant, bandwidth in zip(formants, (60, 90, 120), strict=True):
        decay = np.exp(-np.pi * bandwidth / 16_000)
        sound = lfilter([1], [1, -2 * decay * np.cos(2 * np.pi * formant / 16_000), decay**2], sound)
    return (sound / np.abs(sound).max() * 0.5 * np.hanning(len(sound))).astype(np.float32)


def test_pocketsphinx_hears_the_same_in_any_order() -> None:
    """With the English model of its wheel; `benchmarks.audio_words` measures what it hears of speech."""
    silence = np.zeros(3_200, np.float32)
    ah_ee = np.concatenate([silence, vowel((730, 1090, 2440)), vowel((270, 2290, 3010)), silence])
    files = [wav(sound) for sound in (np.zeros(8_000, np.float32), ah_ee, noise(0.4, 2))]
    stage = Transcribe(PocketSphinxRecognizer())
    found = stage.process(rows_of(*files)).to_arrow().to_pylist()
    assert found[1]["words"]
    for row in found:
        assert " ".join(word["word"] for word in row["words"]) == row["pred_text"]
        assert all(0 <= word["start"] < word["end"] <= 1.3 for word in row["words"])
    again = stage.process(rows_of(*files[::-1])).to_arrow().to_pylist()[::-1]
    stage.teardown()
    assert again == found
