"""What is cut out of a recording has its samples, and the same rows give the same bytes."""

import io
import json
import subprocess
import sys

import lhotse
import numpy as np
import pyarrow as pa
import pytest
import soundfile
import soxr

from dcurate import DocumentBatch, PipelineError, WebDatasetReader, WebDatasetWriter
from dcurate.audio import AudioSignals, CutAudio, LhotseSharWriter, NemoManifestReader
from dcurate.audio.layouts.cut import checksum, with_serial
from dcurate.media import Ref, ref_array
from dcurate.testing import check_stage
from tests.audio.layouts.test_nemo import reasons, run


def sound(seed=0, channels=1, frames=20_000, rate=8000, form="WAV", subtype=None):
    shape = (frames, channels)
    samples = np.random.default_rng(seed).integers(-(2**15), 2**15, shape, dtype=np.int16)
    file = io.BytesIO()
    soundfile.write(file, samples, rate, subtype, format=form)
    return file.getvalue(), samples


def cut(data, *segments, **settings):
    refs = ref_array([Ref("a/talk.wav", None, None, None, *segment) for segment in segments], segments=True)
    rows = pa.table({"bytes": pa.array([data] * len(segments), pa.large_binary()), "media_ref": refs})
    return CutAudio(**settings).process(DocumentBatch(data=rows))


def read(data, dtype="int16"):
    return soundfile.read(io.BytesIO(data), dtype=dtype, always_2d=True)


@pytest.mark.parametrize("form", ["wav", "flac"])
@pytest.mark.parametrize("channels", [1, 2])
def test_cuts_have_the_samples_of_the_recording(form, channels):
    data, samples = sound(channels=channels)
    segments = [(None, None), (0.5, 1.25), (1.0, None), (0.75, 2.0), (2.0, 9.0)]
    rows = cut(data, *segments, audio_format=form).to_arrow().to_pylist()
    bounds = [(0, 20_000), (4000, 10_000), (8000, 20_000), (6000, 16_000), (16_000, 20_000)]
    for row, (start, stop) in zip(rows, bounds, strict=True):
        made, rate = read(row["bytes"])
        assert rate == 8000
        assert np.array_equal(made, samples[start:stop])
    assert [row["file_name"] for row in rows] == [
        f"talk{times}.{form}" for times in ("", "-0.5-1.25", "-1-", "-0.75-2", "-2-9")
    ]
    assert rows[1]["source_ref"]["start_s"] == 0.5


def test_24_bits_are_kept_where_they_are_asked_for():
    samples = np.random.default_rng(1).integers(-(2**23), 2**23, (5000, 1), dtype=np.int32) << 8
    file = io.BytesIO()
    soundfile.write(file, samples, 8000, "PCM_24", format="FLAC")
    [row] = cut(file.getvalue(), (None, None), bits=24).to_arrow().to_pylist()
    assert np.array_equal(read(row["bytes"], "int32")[0], samples)


def test_resampling_and_the_mean_of_channels_are_those_of_soxr():
    data, samples = sound(channels=2, frames=200_000)
    settings = {"sample_rate": 16_000, "channels": "mono", "audio_format": "wav", "bits": 24}
    [row] = cut(data, (None, None), **settings).to_arrow().to_pylist()
    made, rate = read(row["bytes"], "float32")
    mean = (samples / 2**15).mean(axis=1, dtype=np.float32)
    expected = np.clip(soxr.resample(mean, 8000, 16_000, quality="HQ"), -1, 1)
    assert (rate, made.shape) == (16_000, (400_000, 1))
    assert np.abs(made[:, 0] - expected).max() < 1e-5


@pytest.mark.program
def test_ogg_is_the_same_in_every_process_and_is_still_ogg():
    data, _ = sound(channels=2)
    [row] = cut(data, (0.0, 2.0), audio_format="ogg").to_arrow().to_pylist()
    made, rate = read(row["bytes"], "float32")
    assert (rate, made.shape) == (8000, (16_000, 2))
    script = (
        "import sys, tests.audio.layouts.test_cut as t\n"
        "[row] = t.cut(t.sound(channels=2)[0], (0.0, 2.0), audio_format='ogg').to_arrow().to_pylist()\n"
        "sys.stdout.buffer.write(row['bytes'])"
    )
    again = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    assert again == row["bytes"]


def test_pages_of_ogg_have_the_checksum_that_libsndfile_gives_them():
    data, _ = sound(form="OGG", subtype="VORBIS")
    serial = int.from_bytes(data[14:18], "little")
    assert with_serial(data, serial) == data
    assert checksum(b"") == 0


def test_what_cannot_be_cut_is_in_quarantine():
    for channels, segment, reason in ((9, (None, None), "cannot be encoded"), (1, (5.0, 6.0), "bad segment")):
        made = cut(sound(channels=channels, frames=800)[0], segment)
        assert made.num_items == 0
        assert [rejection.reason for rejection in made.rejections] == [reason]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_cuts_go_to_shards_and_shar_folders_as_files_of_their_own(tmp_path):
    data, samples = sound()
    (tmp_path / "talk.wav").write_bytes(data)
    lines = [{"audio_filepath": "talk.wav", "offset": start, "duration": 0.5, "text": str(start)} for start in (0.5, 1)]
    lines.append({"audio_filepath": "talk.wav", "offset": 7.0, "duration": 1.0, "text": "behind the end"})
    (tmp_path / "m.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    reader = NemoManifestReader(str(tmp_path / "m.json"))
    run(reader, CutAudio(), LhotseSharWriter(str(tmp_path / "shar")))
    cuts = list(lhotse.CutSet.from_shar(in_dir=tmp_path / "shar"))
    assert [(cut.start, cut.duration, cut.supervisions[0].text) for cut in cuts] == [(0, 0.5, "0.5"), (0, 0.5, "1")]
    assert np.array_equal(cuts[1].load_audio()[0], samples[8000:12_000, 0] / np.float32(2**15))
    assert reasons(tmp_path) == {"bad segment": 1}
    run(reader, CutAudio(audio_format="wav"), WebDatasetWriter(str(tmp_path / "wds"), members={"text": "text"}))
    [batch] = run(WebDatasetReader(str(tmp_path / "wds" / "*.tar"), texts=["text"]))
    assert batch.to_arrow()["media_ref"].type.get_field_index("start_s") == -1


def test_loudness_is_brought_to_the_wanted_one_or_to_the_highest_peak():
    file, loud = io.BytesIO(), io.BytesIO()
    sine = np.sin(2 * np.pi * 997 / 16_000 * np.arange(80_000))
    soundfile.write(file, 0.02 * sine, 16_000, "FLOAT", format="WAV")
    sine[:100] *= 20
    soundfile.write(loud, 0.04 * sine, 16_000, "FLOAT", format="WAV")
    silent = io.BytesIO()
    soundfile.write(silent, 0 * sine, 16_000, "FLOAT", format="WAV")
    data = pa.array([each.getvalue() for each in (file, loud, silent)], pa.large_binary())
    measured = AudioSignals().process(DocumentBatch(data=pa.table({"bytes": data})))
    made = CutAudio(audio_format="wav", bits=24, loudness_lufs=-16.0).process(measured).to_arrow()
    again = AudioSignals(prefix="new_").process(DocumentBatch(data=made)).to_arrow().to_pylist()
    assert again[0]["new_loudness_lufs"] == pytest.approx(-16.0, abs=0.02)
    assert again[1]["new_true_peak_db"] == pytest.approx(-1.0, abs=0.05)
    assert again[2]["new_peak_db"] == -120
    gain = 10 ** ((-16.0 - measured.to_arrow()["audio_loudness_lufs"][0].as_py()) / 20)
    assert (
        np.abs(
            read(made["bytes"][0].as_py(), "float32")[0][:, 0] - gain * read(file.getvalue(), "float32")[0][:, 0]
        ).max()
        < 1e-6
    )


def test_the_stage_is_what_the_engine_relies_on():
    refs = ref_array([Ref("a.wav", None, None, None, 0.5, 1.0), Ref("b.wav"), Ref("c.wav")], segments=True)
    data = pa.array([sound()[0], sound(1)[0], b"<html>"], pa.large_binary())
    check_stage(CutAudio(), DocumentBatch(data=pa.table({"bytes": data, "media_ref": refs})))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"audio_format": "mp3"}, "audio_format='mp3' is not one of"),
        ({"channels": "left"}, "channels='left' is not one of"),
        ({"bits": 8}, "bits=8 must be 16 or 24"),
        ({"audio_format": "ogg", "bits": 24}, "bits=24 has no effect on Vorbis"),
        ({"loudness_lufs": 3.0}, "loudness_lufs=3.0 must be above -70"),
        ({"sample_rate": 0}, "sample_rate=0 must be from 1,000"),
        ({"sample_rate": True}, "sample_rate=True must be from 1,000"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(PipelineError, match=message):
        CutAudio(**settings)
