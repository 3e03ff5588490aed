"""DNSMOS gives the scores of Microsoft's own package."""

import io

import librosa
import numpy as np
import pyarrow as pa
import pytest
import soundfile
from speechmos import dnsmos

from dcurate import DocumentBatch, PipelineError, ResourceError, ScoreFilter
from dcurate.audio import Dnsmos
from dcurate.audio.dnsmos import MosListener
from dcurate.audio.mel import decibels, mel_filters, mel_powers
from dcurate.audio.stage import Mono
from dcurate.testing import check_stage
from dcurate.text import NumberRangeFilter
from tests.audio.test_speech import voice

RATE = 16_000
NAMES = ("sig", "bak", "ovrl", "p808")


def wav(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="WAV", subtype="FLOAT")
    return file.getvalue()


def scores(stage: Dnsmos, *recordings: bytes) -> list[list[float]]:
    rows = stage.process(DocumentBatch(data=pa.table({"bytes": list(recordings)}))).to_arrow().to_pylist()
    return [[row[f"dnsmos_{name}"] for name in NAMES] for row in rows]


@pytest.mark.parametrize("personal", [False, True])
@pytest.mark.parametrize("count", [31_000, 144_160, 11 * RATE + 7])
def test_scores_are_those_of_the_package(count: int, personal: bool) -> None:
    samples = voice(count / RATE)[:count]
    said = dnsmos.run(samples, RATE, model_type="dnsmos_personalized" if personal else "dnsmos")
    expected = [said[f"{name}_mos"] for name in NAMES]
    assert scores(Dnsmos(personal=personal), wav(samples))[0] == pytest.approx(expected, abs=1e-5)


def test_scores_do_not_depend_on_other_rows_or_on_the_windows_of_the_decoder() -> None:
    recordings = [wav(voice(seconds, seed)) for seed, seconds in enumerate((9.5, 10.2))]
    assert scores(Dnsmos(), *recordings) == [scores(Dnsmos(), recording)[0] for recording in recordings]


@pytest.mark.parametrize("step", [1, 3, 25])
def test_windows_begin_at_each_step_while_they_are_whole(step: int) -> None:
    samples = np.arange(60 * RATE, dtype=np.float32) * np.float32(2**-21)

    def heard(chunk: int) -> list[int]:
        model = Recorder()
        listener = MosListener(model, model, ((1.0,),) * 3, Mono(RATE, RATE), step)
        for start in range(0, len(samples), chunk):
            listener.hear(samples[start : start + chunk, None].astype(np.float32))
        listener.values(False)
        return [round(window[0, 0] * 2**21) for window in model.calls if window.shape[1] == 144_160]

    expected = [start * RATE for start in range(0, 51, step) if int((start + 9.01) * RATE) - start * RATE == 144_160]
    assert heard(65_536) == heard(1_000) == heard(60 * RATE) == expected


class Recorder:
    def __init__(self) -> None:
        self.calls: list[np.ndarray] = []

    def run(self, _: None, given: dict[str, np.ndarray]) -> list[np.ndarray]:
        self.calls.append(given["input_1"].copy())
        return [np.zeros((1, 3), np.float32)]


def test_louder_than_full_scale_is_clipped() -> None:
    samples = voice(3.0) * 1_000
    assert scores(Dnsmos(), wav(samples)) == scores(Dnsmos(), wav(np.clip(samples, -1, 1)))


def test_noise_is_dropped_by_a_rule_and_speech_is_kept() -> None:
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 3 * RATE).astype(np.float32)
    rows = pa.table({"n": [0, 1], "bytes": [wav(voice(3.0)), wav(noise)]})
    scored = Dnsmos().process(DocumentBatch(data=rows))
    speech, hiss = scored.to_arrow()["dnsmos_bak"].to_pylist()
    rule = NumberRangeFilter("dnsmos_bak", min_value=(speech + hiss) / 2, made_by="Dnsmos()")
    assert speech > hiss + 1
    assert ScoreFilter(rule).process(scored).to_arrow()["n"].to_pylist() == [0]


def test_mel_powers_and_decibels_are_those_of_librosa() -> None:
    samples = voice(2.0)
    theirs = librosa.feature.melspectrogram(y=samples, sr=RATE, n_fft=321, hop_length=160, n_mels=120)
    ours = mel_powers(samples, RATE, size=321, hop=160, bands=120)
    assert np.allclose(ours, theirs.T, rtol=1e-4, atol=1e-6 * theirs.max())
    assert np.allclose(decibels(ours), librosa.power_to_db(theirs.T, ref=np.max), atol=1e-2)
    for rate, size, bands in ((16_000, 321, 120), (8_000, 256, 40), (44_100, 2048, 128)):
        filters = librosa.filters.mel(sr=rate, n_fft=size, n_mels=bands)
        assert np.allclose(mel_filters(rate, size, bands), filters.T, rtol=1e-4, atol=1e-7)


def test_settings_and_models_that_are_not_there_are_refused() -> None:
    with pytest.raises(PipelineError, match="step_s=0.5 must be a whole number of seconds, 1 or more"):
        Dnsmos(step_s=0.5)  # type: ignore[arg-type]
    with pytest.raises(ResourceError, match="model 'no/folder/sig_bak_ovr.onnx' does not exist"):
        Dnsmos(models_dir="no/folder").setup()


def test_rows_that_cannot_be_decoded_go_to_quarantine() -> None:
    rows = pa.table({"bytes": [wav(voice(1.0)), b"", wav(np.full(100, np.nan, np.float32))]})
    batch = Dnsmos().process(DocumentBatch(data=rows))
    assert batch.num_items == 1
    assert sorted(part.reason for part in batch.rejections) == ["empty", "not a number"]


def test_scoring_keeps_the_laws_of_stages() -> None:
    rows = pa.table({"bytes": [wav(voice(seconds)) for seconds in (9.1, 9.2)]})
    check_stage(Dnsmos(), DocumentBatch(data=rows), skip=["cluster"])
