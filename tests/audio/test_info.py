"""`AudioInfo` against the standard library, libsndfile and files made by hand, and on hostile files."""

from __future__ import annotations

import io
import struct
import tarfile
import wave
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch
from dcurate.audio import AudioInfo
from dcurate.media import FileReading, Ref, ref_array
from dcurate.media.heads import HEAD
from dcurate.testing import check_stage
from tests.audio.sounds import box, mp4, noise, wav

#: What libsndfile writes, and the codec that a header names.
WRITTEN = {
    ("WAV", "PCM_16"): "pcm",
    ("WAV", "PCM_24"): "pcm",
    ("WAV", "PCM_U8"): "pcm",
    ("WAV", "FLOAT"): "float",
    ("WAV", "DOUBLE"): "float",
    ("WAV", "ULAW"): "ulaw",
    ("WAV", "ALAW"): "alaw",
    ("WAV", "MS_ADPCM"): "ms_adpcm",
    ("WAV", "IMA_ADPCM"): "ima_adpcm",
    ("WAV", "GSM610"): "gsm610",
    ("WAVEX", "PCM_16"): "pcm",
    ("WAVEX", "FLOAT"): "float",
    ("RF64", "PCM_16"): "pcm",
    ("FLAC", "PCM_16"): "flac",
    ("FLAC", "PCM_24"): "flac",
    ("OGG", "VORBIS"): "vorbis",
    ("OGG", "OPUS"): "opus",
    ("MP3", "MPEG_LAYER_III"): "mp3",
}


def info(*files: bytes) -> DocumentBatch:
    return AudioInfo().process(DocumentBatch(data=pa.table({"bytes": pa.array(files, pa.large_binary())})))


def values(batch: DocumentBatch) -> list[dict[str, Any]]:
    return [
        {name.removeprefix("audio_"): value for name, value in row.items() if name.startswith("audio_")}
        for row in batch.to_arrow().to_pylist()
    ]


def reasons(*files: bytes) -> list[str]:
    return [info(file).rejections[0].reason for file in files]


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 200_000), st.integers(1, 500))
def test_it_says_what_the_standard_library_says(channels: int, width: int, rate: int, frames: int) -> None:
    data = wav(channels, width, rate, frames)
    with wave.open(io.BytesIO(data)) as sound:
        expected = [sound.getframerate(), sound.getnchannels(), 8 * sound.getsampwidth(), sound.getnframes()]
    [row] = values(info(data))
    assert list(row.values()) == ["wav", "pcm", *expected, frames / rate]


@pytest.mark.parametrize(("form", "subtype"), WRITTEN)
@pytest.mark.parametrize("seconds", [0.05, 1.3, 20.0])
def test_it_says_what_libsndfile_says(form: str, subtype: str, seconds: float) -> None:
    data = noise(form, subtype, seconds=seconds, rate=8_000)
    known = soundfile.info(io.BytesIO(data))
    [row] = values(info(data))
    assert row["codec"] == WRITTEN[form, subtype]
    # libsndfile counts what fills the last block, too, where the header tells what was recorded
    frames = int(seconds * 8_000) if subtype in ("MS_ADPCM", "GSM610") else known.frames
    assert (row["sample_rate"], row["channels"], row["frames"]) == (known.samplerate, 1, frames)
    assert row["duration_s"] == frames / known.samplerate


def test_big_endian_wav_files_are_read() -> None:
    form = struct.pack(">HHIIHH", 1, 2, 8_000, 32_000, 4, 16)
    data = b"RIFX\0\0\0\0WAVEfmt " + struct.pack(">I", 16) + form + b"data" + struct.pack(">I", 400) + bytes(400)
    [row] = values(info(data))
    assert (row["sample_rate"], row["channels"], row["frames"]) == (8_000, 2, 100)


@pytest.mark.parametrize("size", [0, 2**32 - 1])
def test_a_stream_of_no_stated_size_is_as_long_as_its_bytes(size: int) -> None:
    data = wav(frames=400)
    [row] = values(info(data[:40] + struct.pack("<I", size) + data[44:]))
    assert row["frames"] == 400


def test_an_mp3_file_without_a_tag_has_an_estimate_and_large_tags_before_it_are_passed_over() -> None:
    data = noise("MP3", seconds=5.0)
    tag = b"ID3\4\0\0\0\x12\0\0" + bytes(0x12 << 14)
    untagged = data[data.index(data[:2], 4) :]  # the tag is in a frame of its own
    exact, tagged, estimated = values(info(data, tag + data, untagged))
    assert tagged == exact
    assert exact["frames"] == 80_000
    assert estimated["frames"] is None
    assert estimated["duration_s"] == pytest.approx(5.0, abs=0.2)


@pytest.mark.parametrize("index_last", [False, True])
def test_mp4_files_are_read_wherever_their_index_is(index_last: bool) -> None:
    aac, alac = values(info(mp4(index_last=index_last), mp4(b"alac", index_last=index_last)))
    assert list(aac.values()) == ["mp4", "aac", 44_100, 2, None, None, 2.0]
    assert list(alac.values()) == ["mp4", "alac", 44_100, 2, 16, 88_200, 2.0]


@pytest.mark.parametrize(("form", "subtype"), [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", None)])
def test_large_files_are_known_by_their_ends_and_segments_have_their_own_duration(
    tmp_path: Path, form: str, subtype: str | None
) -> None:
    data = noise(form, subtype, seconds=60.0)
    assert len(data) > 200_000
    path = tmp_path / "long"
    path.write_bytes(data)
    refs = [Ref(str(path), None, 0, len(data), *times) for times in ((), (1.5, 4.0), (50.0, None), (50.0, 99.0))]
    refs += [Ref(str(path), None, 0, len(data), *times) for times in ((61.0, None), (3.0, 2.0), (-1.0, 2.0))]
    stage = AudioInfo(reading=FileReading(max_file_bytes="100kB"))  # no file is fetched whole
    result = stage.process(DocumentBatch(data=pa.table({"media_ref": ref_array(refs)})))
    rows = values(result)
    assert [row["duration_s"] for row in rows] == [60.0, 2.5, 10.0, 10.0]
    assert [row["frames"] for row in rows] == [960_000, 40_000, 160_000, 160_000]
    assert [(lost.reason, lost.rows) for lost in result.rejections] == [("bad segment", 3)]


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_the_end_of_a_member_of_a_shard_is_its_own(tmp_path: Path, subtype: str) -> None:
    data, other = noise("OGG", subtype, seconds=40.0), noise("OGG", subtype, seconds=1.0)
    assert len(data) > 2 * HEAD
    path = tmp_path / "shard.tar"
    with tarfile.open(path, "w") as shard:
        for name, content in (("a.ogg", other), ("b.ogg", data), ("c.ogg", other)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            shard.addfile(member, io.BytesIO(content))
    with tarfile.open(path) as shard:
        refs = [Ref(str(path), member.name, member.offset_data, member.size) for member in shard]
    result = AudioInfo().process(DocumentBatch(data=pa.table({"media_ref": ref_array(refs)})))
    assert [row["duration_s"] for row in values(result)] == [1.0, 40.0, 1.0]


def test_bad_files_have_their_reasons() -> None:
    good, ogg = wav(), noise("OGG", "VORBIS")
    no_rate = good[:24] + bytes(4) + good[28:]
    many_channels = good[:22] + b"\xff\xff" + good[24:]
    unknown = good[:20] + b"\x99\x99" + good[22:]
    assert reasons(b"", b"%PDF-1.7" + bytes(20), good[:30], good[:-1], ogg[:-1], mp4()[:-1]) == [
        "empty",
        "not a recording: PDF",
        *["truncated"] * 4,
    ]
    assert reasons(no_rate, many_channels, good[:12] + good[36:], unknown) == [*["damaged"] * 3, "unsupported codec"]
    assert reasons(noise("AIFF"), b"ID3\4\0\0\0\0\0\4abcd", box(b"ftyp") + box(b"moov")) == [
        "unsupported format",
        "no sound",
        "no sound",
    ]


@given(
    st.sampled_from([wav(), noise("FLAC"), noise("OGG", "VORBIS"), noise("OGG", "OPUS"), noise("MP3"), mp4()]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=8),
    st.integers(0, 2_000),
)
def test_damaged_files_are_in_quarantine_or_have_their_columns(
    file: bytes, changes: list[tuple[int, int]], kept: int
) -> None:
    damaged = bytearray(file)
    for place, value in changes:
        damaged[place % len(file)] = value
    result = info(bytes(damaged), bytes(damaged[:kept]), wav())
    assert result.num_items + sum(lost.rows for lost in result.rejections) == 3
    assert values(result)[-1]["frames"] == 100


def test_it_keeps_the_contract_of_stages() -> None:
    check_stage(AudioInfo(), DocumentBatch(data=pa.table({"bytes": [wav(), b"<html>", noise("OGG", "VORBIS")]})))
