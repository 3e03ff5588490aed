"""Sound is decoded in windows: each row hears its own segment, whatever else is in its batch."""

import io
import itertools
import struct
import tarfile
import tracemalloc
from dataclasses import dataclass
from typing import ClassVar

import av
import numpy as np
import pyarrow as pa
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DocumentBatch
from dcurate.audio import AudioInfo, AudioSignals, SoundStage
from dcurate.audio.decode import Sound
from dcurate.media.refs import Ref, ref_array
from tests.audio.sounds import voice

RATE = 8000


class Listener:
    def __init__(self):
        self.windows = []

    def hear(self, samples):
        self.windows.append(samples.copy())

    def values(self, truncated):
        samples = np.concatenate(self.windows)
        return len(samples), samples.tobytes(), [len(window) for window in self.windows], truncated


@dataclass
class Hear(SoundStage):
    name: str = "hear"
    columns: ClassVar = {
        "frames": pa.int64(),
        "samples": pa.binary(),
        "windows": pa.list_(pa.int64()),
        "truncated": pa.bool_(),
    }

    def listener(self, sound):
        return Listener()


@dataclass
class Count(SoundStage):
    name: str = "count"
    columns: ClassVar = {"frames": pa.int64()}

    def listener(self, sound):
        return Frames()


class Frames:
    def __init__(self):
        self.frames = 0

    def hear(self, samples):
        self.frames += len(samples)

    def values(self, truncated):
        return [self.frames]


def recording(seconds: float, rate: int = RATE, channels: int = 1) -> np.ndarray:
    return np.random.default_rng(1).uniform(-0.5, 0.5, (round(seconds * rate), channels)).astype(np.float32)


def encoded(samples: np.ndarray, kind: str = "WAV", rate: int = RATE, subtype: str | None = None) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=kind, subtype=subtype)
    return file.getvalue()


def heard(rows: pa.Table, stage: SoundStage | None = None) -> tuple[list[dict], list[str]]:
    batch = (stage or Hear()).process(DocumentBatch(data=rows))
    return batch.to_arrow().to_pylist(), [part.reason for part in batch.rejections for _ in range(part.rows)]


SEGMENTS = [(0.0, 2.0), (1.0, 30.0), (None, None), (29.5, 31.0), (20.0, 20.25), (12.0, None), (0.0, 2.0)]


@pytest.mark.parametrize(
    ("kind", "subtype"),
    [("WAV", None), ("WAV", "MS_ADPCM"), ("FLAC", None), ("OGG", None), ("OGG", "OPUS"), ("MP3", None)],
)
def test_a_segment_sounds_alone_as_among_others(tmp_path, kind, subtype):
    path = tmp_path / "talk"
    path.write_bytes(encoded(recording(31, 16_000), kind, 16_000, subtype))
    refs = [Ref(str(path), start_s=start, stop_s=stop) for start, stop in SEGMENTS]
    together, _ = heard(pa.table({"media_ref": ref_array(refs)}))
    alone = [heard(pa.table({"media_ref": ref_array([ref])}))[0][0] for ref in refs]
    assert [row["samples"] for row in together] == [row["samples"] for row in alone]
    assert [row["windows"] for row in together] == [row["windows"] for row in alone]
    whole = together[2]["samples"]
    for row, (start, stop) in zip(together, SEGMENTS, strict=True):
        frames = slice(round((start or 0) * 16_000) * 4, None if stop is None else round(stop * 16_000) * 4)
        assert row["samples"] == whole[frames]


def test_samples_of_lossless_files_are_those_that_were_written():
    samples = recording(20, channels=2)
    rows = pa.table({"bytes": [encoded(samples, kind, subtype="FLOAT") for kind in ("WAV", "AIFF", "CAF")]})
    assert [row["samples"] for row in heard(rows)[0]] == [samples.tobytes()] * 3


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "MP3", "OGG"])
def test_windows_hold_the_samples_of_a_file_that_is_read_at_once(kind):
    """soundfile's own reads in blocks do not, of MP3: it seeks after each, and the next begins with an error."""
    samples = np.concatenate([voice(seed, 4.0) for seed in range(5)])  # frames of MP3 lend each other bits
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, format=kind)
    file.seek(0)
    expected, _ = soundfile.read(file, dtype="float32")
    windows = [window[:, 0] for window in Sound(file).windows(0, None)]
    assert len(windows) == 5
    np.testing.assert_allclose(np.concatenate(windows), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("archive", [False, True])
def test_a_large_file_is_read_in_ranges(tmp_path, archive):
    samples = np.zeros((30 * 60 * 16_000, 1), np.int16)
    data = encoded(samples, "WAV", 16_000)
    path = tmp_path / ("shard.tar" if archive else "long.wav")
    if archive:
        with tarfile.open(path, "w") as file:
            entry = tarfile.TarInfo("long.wav")
            entry.size = len(data)
            file.addfile(entry, io.BytesIO(data))
        ref = Ref(str(path), "long.wav", 512, len(data))
    else:
        path.write_bytes(data)
        ref = Ref(str(path))
    heard(pa.table({"bytes": [encoded(recording(1))]}))  # imports
    tracemalloc.start()
    rows, _ = heard(pa.table({"media_ref": ref_array([ref])}), Count())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rows[0]["frames"] == len(samples)
    assert peak < len(data) / 8


def test_what_is_left_of_a_cut_file_is_heard():
    samples = recording(10)
    whole = {kind: encoded(samples, kind) for kind in ("WAV", "FLAC", "MP3")}
    rows, reasons = heard(pa.table({"bytes": [data[: len(data) // 2] for data in whole.values()]}))
    assert reasons == []
    for row in rows:
        assert row["truncated"]
        assert 0.3 < row["frames"] / len(samples) < 0.7


def test_segments_before_damage_are_whole(tmp_path):
    path = tmp_path / "cut.flac"
    data = encoded(recording(60), "FLAC")
    path.write_bytes(data[: len(data) // 2])
    spans = [(40.0, 50.0), (1.0, 2.0), (29.0, 33.0), (5.0, 6.0), (41.0, 42.0)]
    refs = [Ref(str(path), start_s=start, stop_s=stop) for start, stop in spans]
    rows, reasons = heard(pa.table({"n": range(5), "media_ref": ref_array(refs)}))
    assert [(row["n"], row["truncated"]) for row in rows] == [(1, False), (2, True), (3, False)]
    assert reasons == ["bad segment"] * 2


@pytest.mark.parametrize(
    ("segment", "reason"),
    [
        ((5.0, 6.0), "bad segment"),
        ((-1.0, 1.0), "bad segment"),
        ((1.0, 1.0), "bad segment"),
        ((1.0, 0.5), "bad segment"),
        ((float("nan"), 1.0), "bad segment"),
        ((0.0, float("nan")), "bad segment"),
        ((1e300, None), "bad segment"),
    ],
)
def test_segments_that_no_recording_has(tmp_path, segment, reason):
    path = tmp_path / "a.wav"
    path.write_bytes(encoded(recording(2)))
    refs = [Ref(str(path), start_s=segment[0], stop_s=segment[1]), Ref(str(path))]
    rows, reasons = heard(pa.table({"media_ref": ref_array(refs)}))
    assert (len(rows), rows[0]["frames"], reasons) == (1, 2 * RATE, [reason])


def test_a_segment_may_reach_past_the_end(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(encoded(recording(2)))
    rows, _ = heard(pa.table({"media_ref": ref_array([Ref(str(path), start_s=1.5, stop_s=9.0)])}))
    assert rows[0]["frames"] == RATE // 2


def test_samples_that_are_not_numbers(tmp_path):
    samples = recording(30)
    samples[20 * RATE] = np.nan
    path = tmp_path / "a.wav"
    path.write_bytes(encoded(samples, subtype="FLOAT"))
    spans = [(0.0, 15.0), (None, None), (18.0, 22.0), (25.0, 30.0)]
    refs = [Ref(str(path), start_s=start, stop_s=stop) for start, stop in spans]
    rows, reasons = heard(pa.table({"n": range(4), "media_ref": ref_array(refs)}))
    assert ([row["n"] for row in rows], reasons) == ([0, 3], ["not a number"] * 2)
    assert rows[1]["samples"] == samples[25 * RATE :].tobytes()


def test_files_of_many_channels_have_short_windows():
    rows, _ = heard(pa.table({"bytes": [encoded(np.zeros((40_000, 64), np.int16))]}))
    assert rows[0]["windows"] == [16_384, 16_384, 7_232]


def test_the_sound_of_films_is_heard():
    av = pytest.importorskip("av")
    file, samples = io.BytesIO(), recording(3, 48_000)
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("aac", rate=48_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples.T), format="fltp", layout="mono")
        frame.rate = 48_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    rows, reasons = heard(pa.table({"bytes": [file.getvalue(), file.getvalue()[:500]]}))
    assert len(rows) == 1
    assert abs(rows[0]["frames"] - len(samples)) <= 2048
    assert reasons == ["damaged"]


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_recording_that_ends_with_a_block(tmp_path, blocks):
    samples = recording(blocks * 65_536 / RATE)
    path = tmp_path / "a.wav"
    path.write_bytes(encoded(samples, subtype="FLOAT"))
    spans = [(None, None), (0.0, 1.0), (8.0, None), (100.0, None)]
    refs = [Ref(str(path), start_s=start, stop_s=stop) for start, stop in spans]
    rows, reasons = heard(pa.table({"n": range(4), "media_ref": ref_array(refs)}))
    assert rows[0]["samples"] == samples.tobytes()
    assert rows[1]["samples"] == samples[:RATE].tobytes()
    assert rows[2]["samples"] == samples[8 * RATE :].tobytes()
    assert ([row["truncated"] for row in rows], reasons) == ([False] * 3, ["bad segment"])


def test_far_segments_of_a_large_file(tmp_path):
    samples = recording(900, 16_000)
    path = tmp_path / "a.flac"
    path.write_bytes(encoded(samples, "FLAC", 16_000, subtype="PCM_24"))
    spans = [(800.0, 801.0), (10.0, 10.5), (899.5, 1000.0), (300.0, 301.0), (10.25, 300.5)]
    refs = [Ref(str(path), start_s=start, stop_s=stop) for start, stop in spans]
    rows, _ = heard(pa.table({"media_ref": ref_array(refs)}))
    for row, (start, stop) in zip(rows, spans, strict=True):
        part = np.frombuffer(row["samples"], np.float32)
        np.testing.assert_allclose(part, samples[round(start * 16_000) : round(stop * 16_000), 0], atol=2**-22)


def pages(data: bytes) -> list[bytes]:
    places = []
    at = 0
    while at < len(data):
        places.append(at)
        lengths = data[at + 27 : at + 27 + data[at + 26]]
        at += 27 + len(lengths) + sum(lengths)
    return [data[start:stop] for start, stop in itertools.pairwise([*places, len(data)])]


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_an_ogg_file_is_whole_up_to_the_flag_of_its_last_page_only(subtype):
    data = encoded(recording(20, 16_000), "OGG", 16_000, subtype)
    parts = pages(data)
    assert len(parts) > 6
    other, slower = (encoded(recording(1, rate), "OGG", rate, subtype) for rate in (16_000, RATE))
    cut = [
        b"".join(parts[:-1]),
        data[:-1],
        data[: -len(parts[-1]) + 10],
        data[: -len(parts[-1]) + 2],
        data[: len(data) // 2],
    ]
    whole = [data, data + other, data + b"TAG" + bytes(125)]
    cut += [data + other[:-1], data + slower]  # whose second recording is not heard
    rows = truncations(cut + whole)
    assert rows == [True] * len(cut) + [False] * len(whole)
    live = b"".join([*parts[:-1], parts[-1][:5] + b"\0" + parts[-1][6:]])
    assert truncations([live]) == [True]


def truncations(files: list[bytes]) -> list[bool]:
    stage = AudioSignals()
    made = stage.process(DocumentBatch(data=pa.table({"bytes": pa.array(files, pa.large_binary())})))
    assert made.rejections == ()
    return made.to_arrow()["audio_truncated"].to_pylist()


@pytest.mark.parametrize("riff", [0, 0xFFFFFFFF, None])
@pytest.mark.parametrize("size", [0, 0xFFFFFFFF])
@pytest.mark.parametrize("kind", ["WAV", "RIFX"])
def test_a_wav_file_of_a_stream_is_as_long_as_its_bytes(kind, size, riff):
    samples = recording(20, channels=2)
    endian = "BIG" if kind == "RIFX" else "FILE"
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, "PCM_16", endian, format="WAV")
    data = bytearray(file.getvalue())
    order, place = ">" if kind == "RIFX" else "<", data.index(b"data") + 4
    data[place : place + 4] = struct.pack(order + "I", size)
    if riff is not None:
        data[4:8] = struct.pack(order + "I", riff)
    batch = DocumentBatch(data=pa.table({"bytes": [bytes(data)]}))
    [row] = AudioSignals().process(AudioInfo().process(batch)).to_arrow().to_pylist()
    assert (row["audio_frames"], row["audio_decoded_s"], row["audio_truncated"]) == (len(samples), 20.0, False)
    stream, whole = (heard(pa.table({"bytes": [content]}))[0][0] for content in (bytes(data), file.getvalue()))
    assert stream["samples"] == whole["samples"]


def test_a_wav_file_without_sound_has_none_whatever_comes_after_it():
    empty = encoded(np.zeros((0, 1), np.int16))
    tags = b"LIST" + struct.pack("<I", 6) + b"INFO\1\2" + b"id3 " + struct.pack("<I", 3) + b"abc\0"
    assert struct.unpack_from("<I", empty, empty.index(b"data") + 4) == (0,)
    for data in (empty, empty + tags):
        assert heard(pa.table({"bytes": [data]})) == ([], ["no sound"])
        assert AudioInfo().process(DocumentBatch(data=pa.table({"bytes": [data]}))).to_arrow()[
            "audio_frames"
        ].to_pylist() == [0]


CHAINS = st.lists(st.tuples(st.sampled_from(["VORBIS", "OPUS"]), st.integers(1, 30_000)), min_size=2, max_size=4)


@given(CHAINS, st.tuples(st.integers(0, 90_000), st.integers(1, 90_000)))
@settings(max_examples=20, deadline=None)
def test_recordings_one_after_the_other_in_an_ogg_file_are_heard_as_one(chain, span):
    links = [encoded(recording(frames / RATE), "OGG", RATE, kind) for kind, frames in chain]
    sound = Sound(io.BytesIO(b"".join(links)))
    alone = np.concatenate([window.copy() for link in links for window in Sound(io.BytesIO(link)).windows(0, None)])
    together = np.concatenate([window.copy() for window in sound.windows(0, None)])
    assert np.array_equal(together, alone)
    assert len(alone) == sum(frames for _, frames in chain)
    assert not sound.truncated
    start, stop = span[0], span[0] + span[1]
    part = [np.empty((0, 1), np.float32), *(window.copy() for window in sound.windows(start, stop))]
    assert np.array_equal(np.concatenate(part), alone[start:stop])


TAGS = st.sampled_from([b"", b"ID3\4\0\0\0\0\1\0" + bytes(128), b"ID3\4\0\0\0\2\1\0" + bytes(2**15 + 128)])
PIECES = st.lists(st.tuples(TAGS, st.integers(3_000, 30_000), st.booleans()), min_size=1, max_size=4)


@given(PIECES, st.sampled_from([b"", bytes(1000), b"\xff" * 1000, b"ID3"]))
@settings(max_examples=20, deadline=None)
def test_mp3_files_that_were_joined_are_heard_as_one(pieces, junk):
    """Also with tags between them, and with other bytes behind them."""
    files = [
        tag + encoded(recording(frames / RATE), "MP3") + (b"TAG" + bytes(125) if is_tagged else b"")
        for tag, frames, is_tagged in pieces
    ]
    alone = np.concatenate([window.copy() for file in files for window in Sound(io.BytesIO(file)).windows(0, None)])
    assert len(alone) == sum(frames for _, frames, _ in pieces)
    sound = Sound(io.BytesIO(b"".join(files) + junk))
    assert np.array_equal(np.concatenate([window.copy() for window in sound.windows(0, None)]), alone)
    assert not sound.truncated
    slower = Sound(io.BytesIO(b"".join(files) + encoded(recording(1, 16_000), "MP3", 16_000)))
    assert sum(len(window) for window in slower.windows(0, None)) == len(alone)
    assert slower.truncated


def test_flac_whose_header_does_not_say_its_length_is_whole():
    data = bytearray(encoded(recording(20), "FLAC"))
    data[21] &= 0xF0
    data[22:26] = bytes(4)  # the number of samples, 36 bits
    assert truncations([bytes(data)]) == [False]
    cut = bytes(data[: len(data) // 2])
    stage = AudioSignals()
    [row] = stage.process(DocumentBatch(data=pa.table({"bytes": [cut]}))).to_arrow().to_pylist()
    assert 5 < row["audio_decoded_s"] < 15


def test_aac_behind_a_tag_is_heard():
    file = io.BytesIO()
    with av.open(file, "w", format="adts") as container:
        track = container.add_stream("aac", rate=16_000, layout="mono")
        piece = av.AudioFrame.from_ndarray(recording(2, 16_000).T, format="fltp", layout="mono")
        piece.sample_rate = 16_000
        container.mux([*track.encode(piece), *track.encode(None)])
    tag = b"ID3\4\0\0\0\0\1\0" + bytes(128)
    [plain, tagged, twice], reasons = heard(
        pa.table({"bytes": [start + file.getvalue() for start in (b"", tag, tag * 2)]})
    )
    assert reasons == []
    assert plain["frames"] >= 32_000
    assert plain["samples"] == tagged["samples"] == twice["samples"]
