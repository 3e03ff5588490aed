"""A model that CTranslate2 converted is heard through faster-whisper. Its weights are random, and so are its texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ctranslate2.converters import TransformersConverter
from faster_whisper import WhisperModel

from dcurate import DataError, PipelineError
from dcurate.audio import FasterWhisperRecognizer, Transcribe
from tests.audio.made_models import make_whisper
from tests.audio.test_transcribe import noise, rows_of, wav


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("models")
    source = make_whisper(made / "whisper")
    converter = TransformersConverter(str(source), copy_files=["tokenizer.json", "preprocessor_config.json"])
    return str(converter.convert(str(made / "ct2")))


def test_texts_and_words_are_those_of_faster_whisper(folder: str) -> None:
    sounds = [noise(0.5), noise(0.7, 1)]
    model = WhisperModel(folder, device="cpu", cpu_threads=1)
    settings = {"language": "en", "beam_size": 1, "temperature": 0.0, "word_timestamps": True}
    segments = [list(model.transcribe(sound, **settings)[0]) for sound in sounds]
    recognizer = FasterWhisperRecognizer(folder, device="cpu", beam_size=1, vad_filter=False)
    stage = Transcribe(recognizer, language_field="language")
    files = [wav(sound) for sound in sounds]
    found = stage.process(rows_of(*files, language=["en", "en"])).to_arrow().to_pylist()
    stage.teardown()
    assert [row["pred_text"] for row in found] == ["".join(part.text for part in parts).strip() for parts in segments]
    for row, parts in zip(found, segments, strict=True):
        words = [word for part in parts for word in part.words]
        assert [word["start"] for word in row["words"]] == [round(float(word.start), 3) for word in words]
        assert [word["confidence"] for word in row["words"]] == [float(word.probability) for word in words]
    assert any(row["words"] for row in found)


def test_the_language_that_was_heard_is_that_of_faster_whisper(folder: str) -> None:
    sounds = [noise(0.5), noise(0.7, 1), noise(2.0, 2)]
    model = WhisperModel(folder, device="cpu", cpu_threads=1)
    settings = {"beam_size": 1, "temperature": 0.0}
    answers = [model.transcribe(sound, **settings) for sound in sounds]
    heard = [about.language if "".join(part.text for part in parts).strip() else None for parts, about in answers]
    recognizer = FasterWhisperRecognizer(folder, device="cpu", beam_size=1, vad_filter=False)
    stage = Transcribe(recognizer, heard_language_field="heard", language_field="language")
    files = [wav(sound) for sound in sounds]
    found = stage.process(rows_of(*files, language=[None, None, "de"])).to_arrow()
    stage.teardown()
    assert found["heard"].to_pylist() == [*heard[:2], None]  # none was heard where one was told
    assert set(heard[:2]) & {"en", "de"}


def test_silence_is_left_out_and_words_may_be_too(folder: str) -> None:
    recognizer = FasterWhisperRecognizer(folder, device="cpu", beam_size=1, words=False)
    stage = Transcribe(recognizer, language_field="language")
    silent = rows_of(wav(np.zeros(16_000, np.float32)), language=["en"])
    found = stage.process(silent).to_arrow().to_pylist()
    stage.teardown()
    assert [(row["pred_text"], row["words"]) for row in found] == [("", None)]


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="faster-whisper cannot load model"):
        Transcribe(FasterWhisperRecognizer(str(tmp_path), device="cpu")).process(rows_of(wav(noise(0.1))))
    with pytest.raises(PipelineError, match="max_window_s=0 must be above 0"):
        FasterWhisperRecognizer("small", max_window_s=0)
