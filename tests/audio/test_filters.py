"""Rules over signals of recordings: published limits by name, annotated once and changed later; the page of a run."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.signal
import soundfile

from dcurate import (
    DocumentBatch,
    InlineExecutor,
    MediaReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
    profile,
)
from dcurate.audio import AudioInfo, AudioSignals
from dcurate.audio.excerpts import excerpt
from dcurate.core.pipeline import AnyStage
from dcurate.media import Ref, ref_array
from dcurate.text import Annotate, NumberRangeFilter, refilter
from dcurate.text.presets import speech_emilia, speech_full_band, speech_nemo, speech_nemo_wer, speech_quality

RATE = 16_000


def written(samples: Any, rate: int = RATE) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


def speech(seconds: float, rate: int = RATE) -> Any:
    """Samples distributed as those of speech, in bursts."""
    draw = np.random.default_rng(1)
    count = round(seconds * rate)
    sizes = draw.gamma(0.4, 0.02, count) * (np.arange(count) % rate < 0.8 * rate)
    return sizes * draw.choice([-1, 1], count) + 1e-4 * draw.standard_normal(count)


def batch_of(*files: bytes) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"id": range(len(files)), "bytes": pa.array(files, pa.large_binary())}))


def kept(batch: DocumentBatch, rules: Any) -> list[int]:
    ids: list[int] = ScoreFilter(list(rules)).process(batch).to_arrow()["id"].to_pylist()
    return ids


@pytest.mark.parametrize("exponent", [0.5, 1.0])  # of pink noise and of brown noise, by amplitude
def test_full_band_is_told_from_sound_without_treble(exponent: float) -> None:
    rate = 48_000
    draw = np.random.default_rng(1)
    hertz = np.fft.rfftfreq(4 * rate, 1 / rate)
    spectrum = np.maximum(hertz, 50) ** -exponent * np.exp(2j * np.pi * draw.random(len(hertz)))
    sound = np.fft.irfft(np.where(hertz > 50, spectrum, 0))
    sound *= 0.1 / sound.std()
    corners = (4_000, 6_000, 8_000, 12_000, 16_000)
    filters = [scipy.signal.butter(8, corner, fs=rate, output="sos") for corner in corners]
    sounds = [sound, *(scipy.signal.sosfiltfilt(made, sound) for made in filters)]
    telephone = scipy.signal.resample_poly(scipy.signal.resample_poly(sound, 1, 6), 6, 1)
    batch = AudioSignals().process(batch_of(*(written(part, rate) for part in [*sounds, telephone])))
    assert kept(batch, speech_full_band()) == [0, 4, 5]
    assert kept(batch, speech_full_band(5_800)) == [0, 2, 3, 4, 5]


def test_nemo_wants_2_to_60_seconds_of_wide_speech() -> None:
    sounds = [speech(5), speech(1.9), speech(61), speech(5, 8000), speech(2)]
    files = [written(sound, 8000 if number == 3 else RATE) for number, sound in enumerate(sounds)]
    assert kept(AudioSignals().process(AudioInfo().process(batch_of(*files))), speech_nemo()) == [0, 4]


def test_emilia_wants_3_to_30_seconds_with_a_score_of_3() -> None:
    rows = pa.table(
        {"id": range(5), "audio_decoded_s": [3.0, 2.9, 30.0, 30.1, 9.0], "dnsmos_ovrl": [3.0, 4, 4, 4, 2.9]}
    )
    assert kept(DocumentBatch(data=rows), speech_emilia()) == [0, 2]
    other = DocumentBatch(data=rows.rename_columns(["id", "audio_decoded_s", "mos"]))
    assert kept(other, speech_emilia(field="mos")) == [0, 2]


def test_nemo_wants_transcripts_that_agree() -> None:
    rows = pa.table({"id": range(3), "wer": [0.05, 0.06, None]})
    assert kept(DocumentBatch(data=rows), speech_nemo_wer()) == [0, 2]
    assert kept(DocumentBatch(data=rows), speech_nemo_wer(max_wer=25.0)) == [0, 1, 2]


def bad() -> list[bytes]:
    """Recordings that nobody wants, each for another reason."""
    good = speech(5)
    stereo = np.column_stack([good, -good])
    zeros = good.copy()
    zeros[RATE : 3 * RATE] = 0
    return [
        written(good)[:90_000],
        written(np.zeros(RATE)),
        written(np.clip(30 * good, -1, 1)),
        written(good + 0.2),
        written(zeros),
        written(stereo),
        written(0.02 * np.random.default_rng(1).standard_normal(RATE)),
    ]


def test_quality_rules_drop_what_nobody_wants() -> None:
    batch = AudioSignals().process(batch_of(written(speech(5)), *bad()))
    assert kept(batch, speech_quality()) == [0]
    failed = Annotate(list(speech_quality())).process(batch).to_arrow()["failed"].to_pylist()
    reasons = ["truncated", "silence", "clipped", "dc_offset", "zeros", "opposite_phase", "wada_snr_db"]
    assert [f"audio_{reason}" in row for reason, row in zip(reasons, failed[1:], strict=True)] == [True] * len(reasons)


def test_annotated_recordings_are_filtered_later_without_them() -> None:
    rules = list(speech_quality())
    found = Annotate(rules).process(AudioSignals().process(batch_of(written(speech(5)), *bad())))
    columns = found.with_data(found.to_arrow().select(["id", *{rule.name for rule in rules}]))
    assert refilter(rules).process(columns).to_arrow()["id"].to_pylist() == [0]
    looser = [NumberRangeFilter("audio_silence", max_value=0.99)]
    assert refilter(looser).process(columns).to_arrow()["id"].to_pylist() == [0, 1, 3, 4, 5, 6, 7]


def test_a_rule_without_its_column_names_the_stage_to_add() -> None:
    with pytest.raises(PipelineError, match=r"'audio_sample_rate'.*add AudioInfo\(\)"):
        ScoreFilter(list(speech_nemo())).process(AudioSignals().process(batch_of(written(speech(3)))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings that are kept, dropped and refused."""
    made = tmp_path_factory.mktemp("sounds")
    for number, data in enumerate([written(speech(5)), *bad(), b"<html>"]):
        (made / f"{number}.wav").write_bytes(data)
    return made


def test_the_page_of_a_run_plays_what_was_dropped(folder: Path, tmp_path: Path) -> None:
    stages: list[AnyStage] = [
        MediaReader(str(folder)),
        AudioSignals(),
        ScoreFilter(list(speech_quality()), name="quality"),
    ]
    pipeline = Pipeline("sounds", stages=[*stages, ParquetWriter(str(tmp_path / "out"))])
    pipeline.run(InlineExecutor(), rejected=str(tmp_path / "rejected"), observers=[])
    assert pq.read_table(tmp_path / "out")["file_name"].to_pylist() == ["0.wav"]
    page = Path(f"{tmp_path}/out.dcurate/report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 7
    played = re.findall(r'<audio controls preload="none" src="data:audio/flac;base64,([^"]+)">', page)
    assert len(played) == 7
    for sound in played:
        samples, rate = soundfile.read(io.BytesIO(base64.b64decode(sound)))
        assert (rate, len(samples) <= 3 * RATE) == (RATE, True)
    assert "cannot be drawn" in page
    assert len(page) < 1_000_000


def test_signals_are_profiled(folder: Path) -> None:
    found = profile(
        Pipeline("sounds", stages=[MediaReader(str(folder)), AudioSignals()]),
        text_field="file_name",
        filters=list(speech_quality()),
        executor=InlineExecutor(),
        observers=[],
    )
    drops = dict(zip(*(found.to_pandas("filters")[name] for name in ("filter", "drops")), strict=True))
    assert (drops["audio_opposite_phase"], found.documents) == (1, 8)


def test_an_excerpt_is_of_the_segment_and_bounded() -> None:
    loud = np.zeros((10 * 48_000, 2))
    loud[5 * 48_000 :, 0] = 0.5
    data = np.array([5.0, np.nan]).tobytes() + written(loud, 48_000)
    sizes, (waveform, sound) = excerpt(data, {"side": 300})
    samples, rate = soundfile.read(io.BytesIO(sound))
    assert (sizes, rate, len(samples)) == ({"width": 300, "height": 90}, RATE, 3 * RATE)
    assert samples[RATE : 2 * RATE].mean() == pytest.approx(0.5, abs=0.01)
    assert len(waveform) < 5_000
    assert b"script" not in waveform


def test_a_segment_that_was_dropped_is_played_itself(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    path.write_bytes(written(np.concatenate([speech(10), np.zeros(2 * RATE)])))
    rows = pa.table({"media_ref": ref_array([Ref(str(path), start_s=0.0, stop_s=10.0), Ref(str(path), start_s=10.0)])})
    rule = NumberRangeFilter("audio_silence", max_value=0.9)
    stages: list[AnyStage] = [AudioSignals(), ScoreFilter(rule), ParquetWriter(str(tmp_path / "out"))]
    Pipeline("segments", stages=stages).run(
        InlineExecutor(), [DocumentBatch(data=rows)], rejected=str(tmp_path / "rejected"), observers=[]
    )
    page = Path(f"{tmp_path}/out.dcurate/report.html").read_text()
    [played] = re.findall(r'src="data:audio/flac;base64,([^"]+)">', page)
    samples, _ = soundfile.read(io.BytesIO(base64.b64decode(played)))
    assert (len(samples), abs(samples).max()) == (2 * RATE, 0.0)
