"""`AudioSignals` against librosa and pyloudnorm, on sounds whose values are known, and on damaged files."""

from __future__ import annotations

import io
import json
import math
import struct
import warnings
from pathlib import Path
from typing import Any

import librosa
import numpy as np
import pyarrow as pa
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch, PipelineError
from dcurate.audio import AudioSignals
from dcurate.audio.levels import FILTER, WADA, WADA_DB, Levels
from dcurate.audio.spectrum import Spectrum
from dcurate.media import Ref, ref_array
from dcurate.testing import check_stage
from tests.audio.sounds import wav

RATE = 16_000


def written(samples: Any, rate: int = RATE, form: str = "WAV", subtype: str | None = "FLOAT") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.asarray(samples, np.float32), rate, subtype, format=form)
    return file.getvalue()


def batch_of(*files: bytes) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"bytes": pa.array(files, pa.large_binary())}))


def signals(samples: Any, rate: int = RATE, **settings: Any) -> dict[str, Any]:
    return rows_of(AudioSignals(**settings).process(batch_of(written(samples, rate))))[0]


def rows_of(batch: DocumentBatch) -> list[dict[str, Any]]:
    rows = batch.to_arrow().to_pylist()
    return [{name.removeprefix("audio_"): row[name] for name in row if name.startswith("audio_")} for row in rows]


def noise(count: int, channels: int = 1, seed: int = 1) -> Any:
    """Noise at -20 dB of full scale."""
    return 0.1 * np.random.default_rng(seed).standard_normal((count, channels)).astype(np.float32)


def sine(hertz: float, seconds: float = 1.0, rate: int = RATE, size: float = 1.0, phase: float = 0.0) -> Any:
    return size * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate + phase)


def nemo_bandwidth(samples: Any, rate: int) -> tuple[int, Any]:
    """The bandwidth by NeMo Curator's formula, and the magnitudes of librosa's spectrogram."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a recording shorter than a frame
        spectrogram = np.abs(librosa.stft(y=samples, n_fft=512, hop_length=int(rate * 0.01), window="blackmanharris"))
    levels = librosa.power_to_db(np.mean(spectrogram**2, axis=1), ref=512, top_db=100.0)
    return int(np.flatnonzero(levels - levels.max() > -50)[-1] * (rate / 512)), spectrogram


@given(
    st.sampled_from([8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 192_000]),
    st.sampled_from([1, 2, 100, 255, 511, 512, 513, 10_000, 65_536, 65_537, 140_000]),
    st.integers(1, 40),
    st.integers(0, 2**32 - 1),
)
def test_spectra_are_those_of_librosa(rate: int, count: int, smoothed: int, seed: int) -> None:
    samples = np.convolve(noise(count, seed=seed)[:, 0], np.hanning(smoothed + 2), "same").astype(np.float32)
    bandwidth, spectrogram = nemo_bandwidth(samples, rate)
    spectrum = Spectrum(rate)
    for start in range(0, count, 65_536):
        spectrum.take(samples[start : start + 65_536])
    spectrum.end()
    assert spectrum.frames == spectrogram.shape[1]
    assert spectrum.bandwidth() == bandwidth
    assert spectrum.flatness() == pytest.approx(librosa.feature.spectral_flatness(S=spectrogram).mean(), rel=1e-4)
    rolloff = librosa.feature.spectral_rolloff(S=spectrogram, sr=rate, n_fft=512).mean()
    assert spectrum.rolloff() == pytest.approx(rolloff, abs=rate / 512 * 0.01)


def test_the_bandwidth_of_several_channels_is_that_of_their_mean() -> None:
    samples = np.column_stack([sine(1000) + sine(3000), sine(1000) - sine(3000)]) / 4
    assert signals(samples)["bandwidth_hz"] == nemo_bandwidth(samples.mean(axis=1).astype(np.float32), RATE)[0]


@pytest.mark.parametrize("rate", [22_050, 44_100, 192_000])
@pytest.mark.parametrize(("hertz", "size"), [(997, 1.0), (60, 0.5), (1_500, 0.01)])
def test_peak_and_true_peak_of_a_sine(rate: int, hertz: float, size: float) -> None:
    row = signals(sine(hertz, rate=rate, size=size), rate)
    level = 20 * math.log10(size)
    assert row["peak_db"] <= row["true_peak_db"]
    assert row["true_peak_db"] == pytest.approx(level, abs=0.3)  # what the filter of the standard allows


def test_the_true_peak_is_found_between_samples() -> None:
    """Test signals of EBU Tech 3341: a quarter of the rate, 45 degrees from the samples: 6 dB below, 3 dB above."""
    row = signals(sine(12_000, rate=48_000, size=0.5, phase=math.pi / 4), 48_000)
    assert row["peak_db"] == pytest.approx(20 * math.log10(0.5 * math.sqrt(0.5)), abs=1e-3)
    assert -6.4 <= row["true_peak_db"] <= -5.8


@pytest.mark.parametrize("place", [0, 1, 5, 65_530, 65_535, 65_536, 99_999])
def test_a_peak_is_found_wherever_it_is(place: int) -> None:
    samples = 0.01 * noise(100_000)
    samples[place] = 0.5
    row = signals(samples)
    assert row["peak_db"] == pytest.approx(20 * math.log10(0.5))
    assert row["true_peak_db"] == pytest.approx(_true_peak(samples[:, 0]), abs=1e-4)


def _true_peak(samples: Any) -> float:
    size = max(np.abs(samples).max(), *(np.abs(np.convolve(samples, phase)).max() for phase in FILTER))
    return max(-120.0, 20 * math.log10(size)) if size else -120.0


@given(st.integers(1, 3000), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_levels_are_those_of_numpy(count: int, channels: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    samples = (draw.standard_normal((channels, count)) * draw.choice([0, 0.1, 1.0], (channels, count))).astype(
        np.float32
    )
    levels = Levels(8000, channels, -50.0)
    start = 0
    while start < count:
        stop = start + int(draw.integers(1, 700))
        levels.take(np.ascontiguousarray(samples[:, start:stop]))
        start = stop
    levels.end()
    wide = samples.astype(np.float64)
    peak = np.abs(wide).max()
    assert levels.peak() == pytest.approx(max(-120.0, 20 * math.log10(peak)) if peak else -120.0)
    assert levels.offset() == pytest.approx(np.abs(wide.mean(axis=1)).max(), abs=1e-6)
    assert levels.true_peak() == pytest.approx(max(map(_true_peak, wide)), abs=1e-4)
    full = (np.abs(samples) >= 0.9999).mean()
    assert levels.clipped() >= full
    row = wide[(samples.astype(np.float32) ** 2).sum(axis=1).argmax()]
    sizes = np.abs(row[row != 0])
    if len(sizes):
        gap = math.log(sizes.mean()) - np.log(sizes).mean()
        assert levels.wada() == pytest.approx(np.interp(gap, WADA, WADA_DB), abs=0.01)
    else:
        assert levels.wada() is None


@given(st.integers(1, 400), st.integers(1, 3), st.sampled_from([0.02, 0.3, 0.9]), st.integers(0, 2**32 - 1))
def test_stretches_of_zeros_are_counted_whatever_the_windows(
    count: int, channels: int, share: float, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    samples = (draw.random((channels, count)) > share).astype(np.float32)
    levels, start = Levels(500, channels, -50.0), 0
    while start < count:
        stop = start + int(draw.integers(1, 60))
        levels.take(np.ascontiguousarray(samples[:, start:stop]))
        start = stop
    stretches, row = [], 0
    for frame in [*(samples == 0).all(axis=0), False]:
        if frame:
            row += 1
            continue
        stretches += [row] if row >= 5 else []  # 10 ms at 500 Hz
        row = 0
    assert levels.zeros() * count == pytest.approx(sum(stretches))
    assert levels.longest_zeros() * 500 == pytest.approx(max(stretches, default=0))


def test_clipping_at_and_below_full_scale() -> None:
    clean = sine(440, size=0.9)
    assert signals(clean)["clipped"] == 0
    for gain in (1.0, 0.3):  # clipped, then made quieter
        clipped = gain * np.clip(1.5 * sine(440), -1, 1)
        share = (np.abs(clipped) >= 0.9999 * gain).mean()
        assert signals(clipped)["clipped"] == pytest.approx(share, rel=0.05)
        assert share > 0.3
    assert signals(np.clip(0.9 * sine(440), -0.45, 1))["clipped"] == pytest.approx(1 / 3, abs=0.02)  # on one side


def test_samples_beyond_full_scale_are_clipped() -> None:
    row = signals(100 * noise(RATE))
    assert row["clipped"] > 0.9
    assert row["peak_db"] > 20


def test_an_offset_is_found_and_is_no_sound() -> None:
    plain, shifted = signals(noise(5 * RATE)), signals(noise(5 * RATE) + 0.4)
    assert shifted["dc_offset"] == pytest.approx(0.4, abs=1e-3)
    assert shifted["loudness_lufs"] == pytest.approx(plain["loudness_lufs"], abs=0.1)
    assert signals(np.full(RATE, 0.5))["silence"] == 1.0


def test_silence_and_zeros() -> None:
    half = np.concatenate([noise(2 * RATE), np.zeros((2 * RATE, 1), np.float32)])
    row = signals(half)
    assert (row["silence"], row["zeros"], row["longest_zeros_s"]) == (0.5, 0.5, 2.0)
    faint = 1e-4 * noise(RATE)
    assert (signals(faint)["silence"], signals(faint)["zeros"]) == (1.0, 0.0)
    assert signals(faint, silence_db=-110.0)["silence"] == 0.0


def test_digital_silence_has_values() -> None:
    row = signals(np.zeros(RATE))
    assert (row["peak_db"], row["true_peak_db"], row["loudness_lufs"]) == (-120.0, -120.0, -70.0)
    assert (row["silence"], row["zeros"], row["silent_channels"]) == (1.0, 1.0, 1)
    assert (row["snr_db"], row["wada_snr_db"], row["correlation"]) == (None, None, None)
    assert row["bandwidth_hz"] == nemo_bandwidth(np.zeros(RATE, np.float32), RATE)[0] == 8000


def test_one_sample_has_values() -> None:
    row = signals([0.5])
    assert row["decoded_s"] == 1 / RATE
    assert row["peak_db"] == pytest.approx(20 * math.log10(0.5))
    assert row["bandwidth_hz"] == nemo_bandwidth(np.array([0.5], np.float32), RATE)[0]


def test_correlation_of_channels() -> None:
    first, second = noise(RATE), noise(RATE, seed=2)
    mixed = 0.6 * first + 0.8 * second
    assert signals(np.hstack([first, mixed]))["correlation"] == pytest.approx(
        np.corrcoef(first.T, mixed.T)[0, 1], abs=1e-6
    )
    same, opposite = signals(np.hstack([first, first])), signals(np.hstack([first, -first]))
    assert (same["correlation"], same["opposite_phase"]) == (pytest.approx(1.0), False)
    assert (opposite["correlation"], opposite["opposite_phase"]) == (pytest.approx(-1.0), True)
    assert opposite["silence"] == 0.0
    lowest = signals(np.hstack([first, first, second, -second]))
    assert (lowest["correlation"], lowest["silent_channels"]) == (pytest.approx(-1.0), 0)


def test_a_silent_channel_is_counted() -> None:
    row = signals(np.hstack([noise(RATE), np.zeros((RATE, 1), np.float32)]))
    assert (row["silent_channels"], row["correlation"], row["opposite_phase"]) == (1, None, False)
    six = np.hstack([noise(RATE, 4), np.zeros((RATE, 2), np.float32)])
    assert signals(six)["silent_channels"] == 2


@pytest.mark.parametrize("snr", [0, 10, 20, 30])
def test_the_noise_beside_bursts_of_sound(snr: int) -> None:
    bursts = noise(20 * RATE)[:, 0] * (np.arange(20 * RATE) % RATE < RATE * 0.6)
    power = float((bursts[bursts != 0] ** 2).mean())
    noisy = bursts + noise(20 * RATE, seed=2)[:, 0] * math.sqrt(power / 10 ** (snr / 10)) * 10
    assert signals(noisy)["snr_db"] == pytest.approx(snr, abs=1.5)


@pytest.mark.parametrize("snr", [0, 10, 20, 30, 40])
def test_wada_finds_the_noise_in_speech_like_samples(snr: int) -> None:
    draw = np.random.default_rng(1)
    speech = draw.gamma(0.4, 1.0, 1_000_000) * draw.choice([-1, 1], 1_000_000)
    speech *= 0.02 / math.sqrt((speech**2).mean())
    noisy = speech + draw.standard_normal(len(speech)) * 0.02 / 10 ** (snr / 20)
    assert signals(noisy)["wada_snr_db"] == pytest.approx(snr, abs=1.0)


@pytest.mark.parametrize(("rate", "to"), [(8_000, 16_000), (8_000, 48_000), (16_000, 44_100)])
def test_the_edge_that_resampling_leaves(rate: int, to: int) -> None:
    wide = librosa.resample(noise(5 * rate)[:, 0], orig_sr=rate, target_sr=to)
    assert signals(wide, to)["cutoff_hz"] == pytest.approx(rate / 2, rel=0.08)
    assert signals(noise(to), to)["cutoff_hz"] == to / 2


def test_the_edge_that_a_codec_leaves() -> None:
    file = written(noise(5 * 44_100), 44_100, "MP3", "MPEG_LAYER_III")
    row = rows_of(AudioSignals().process(batch_of(file)))[0]
    assert 15_000 < row["cutoff_hz"] < 20_500


def test_values_do_not_depend_on_the_batch_nor_on_other_segments(tmp_path: Path) -> None:
    path = tmp_path / "long.flac"
    path.write_bytes(written(noise(20 * RATE, 2), form="FLAC", subtype="PCM_16"))
    spans = [(None, None), (0.5, 12.25), (12.25, 20.0), (3.0, 3.001), (19.0, 25.0), (0.5, 12.25)]
    refs = [Ref(str(path), start_s=start, stop_s=stop) for start, stop in spans]
    stage = AudioSignals()
    together = rows_of(stage.process(DocumentBatch(data=pa.table({"media_ref": ref_array(refs)}))))
    alone = [rows_of(stage.process(DocumentBatch(data=pa.table({"media_ref": ref_array([ref])}))))[0] for ref in refs]
    assert together == alone
    assert [row["decoded_s"] for row in together] == [20.0, 11.75, 7.75, 0.001, 1.0, 11.75]


def test_it_keeps_the_laws_of_stages() -> None:
    files = [written(noise(5000, 2)), written(noise(3000)), b"not a recording", written(np.zeros(10))]
    check_stage(AudioSignals(), batch_of(*files))


def test_what_is_left_of_a_cut_file_is_measured_and_counted() -> None:
    data = written(noise(RATE))
    batch = AudioSignals().process(batch_of(data[: len(data) // 2], data))
    assert [row["truncated"] for row in rows_of(batch)] == [True, False]
    assert batch.found == {"truncated recordings": 1}
    assert "1 recording ends early" in AudioSignals().remarks(batch.found)[-1]


@pytest.mark.parametrize("sample", [3e38, -1e20])
def test_absurd_samples_have_finite_values(sample: float) -> None:
    samples = noise(RATE)
    samples[500] = sample
    row = signals(samples)
    assert all(value is None or math.isfinite(value) for value in row.values())
    assert row["peak_db"] == pytest.approx(180.0)


@pytest.mark.parametrize("rate", [1, 40, 400, 3_000, 1_000_000])
def test_odd_sample_rates_have_values(rate: int) -> None:
    row = signals(noise(2_000), rate)
    assert row["decoded_s"] == 2_000 / rate
    assert (row["loudness_lufs"] is None) == (rate < 4_000)


@pytest.mark.parametrize("level", [0, 3.0, float("nan"), float("-inf"), "-50", True, None])
def test_a_level_of_silence_is_below_0(level: Any) -> None:
    with pytest.raises(PipelineError, match="silence_db=.* must be a number below 0"):
        AudioSignals(silence_db=level)


def test_json_can_hold_all_values() -> None:
    json.dumps(signals(np.zeros(10)), allow_nan=False)


def test_many_channels_high_rates_and_single_bits_are_measured_as_they_are() -> None:
    samples = noise(9_600, channels=32)
    many, *_ = rows_of(AudioSignals().process(batch_of(written(samples, 192_000))))
    assert (many["decoded_s"], many["silent_channels"]) == (0.05, 0)
    assert many["peak_db"] == pytest.approx(20 * math.log10(np.abs(samples).max()), abs=1e-6)
    bits = wav(width=1, frames=1_000)[:-1_000] + bytes([0x00, 0x80]) * 500  # one bit, the highest of its byte
    header = bytearray(bits)
    struct.pack_into("<H", header, 34, 1)
    [single] = rows_of(AudioSignals().process(batch_of(bytes(header))))
    assert (single["decoded_s"], single["peak_db"], single["dc_offset"]) == (1_000 / RATE, 0.0, 0.5)
