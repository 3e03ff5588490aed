"""Films that are odd, cut or lie: each is a row that is right or in quarantine with its reason, within bounds."""

import io
import random

import av
import pyarrow as pa
import pytest

from dcurate import DocumentBatch
from dcurate.video import VideoInfo, VideoReading
from dcurate_testing.film_frames import CountFrames
from dcurate_testing.hostile_films import HOSTILE, FilmKind, fragmented, hostile_film, is_right, many
from tests.video.films import film

pytestmark = pytest.mark.program

#: Why a film goes to quarantine.
REASONS = {
    "no key frame": "no key frame",
    "large header": "too many pixels",
    "large frames": "damaged",
    "JPEG named .mp4": "not a film: JPEG",
    "PNG named .mp4": "not a film: PNG",
    "sound alone": "no pictures",
    "cover alone": "no pictures",
}


def looked(stage, films):
    """For each film its row, or the reason for which it is in quarantine."""
    rows = pa.table({"file": list(films), "bytes": list(films.values())})
    try:
        batch = stage.process(DocumentBatch(data=rows))
    finally:
        stage.teardown()
    answers = {row["file"]: row for row in batch.to_arrow().drop_columns(["bytes"]).to_pylist()}
    for rejection in batch.rejections:
        answers |= dict.fromkeys(rejection.data["file"].to_pylist(), rejection.reason)
    return answers


@pytest.fixture(scope="module")
def films():
    return {name: hostile.make() for name, hostile in HOSTILE.items()}


def test_each_hostile_film_is_decoded_or_has_its_reason(films):
    counted = looked(CountFrames(), films)
    assert list(filter(lambda name: not is_right(vars(HOSTILE[name]), counted.get(name)), HOSTILE)) == []
    assert {name: answer for name, answer in counted.items() if isinstance(answer, str)} == REASONS
    assert not any(row["damaged"] for row in counted.values() if not isinstance(row, str))


def test_what_containers_say_of_hostile_films_is_what_is_decoded(films):
    counted, told = looked(CountFrames(), films), looked(VideoInfo(), films)
    assert {name: answer for name, answer in told.items() if isinstance(answer, str)} == REASONS
    good = {name: row for name, row in told.items() if not isinstance(row, str)}
    behind_key = {"late key frame": 11}  # frames before the first key frame are in the container, but not decoded
    assert {name: row["video_frames"] - behind_key.get(name, 0) for name, row in good.items()} == {
        name: counted[name]["frames"] for name in good
    }
    assert good["late start"]["video_duration_s"] == pytest.approx(2.0, abs=0.05)
    assert good["negative times"]["video_duration_s"] == pytest.approx(1.0, abs=0.05)
    assert [name for name, row in good.items() if row["video_truncated"]] == ["cut while written, MP4"]
    assert [name for name, row in good.items() if row["video_interlaced"]] == ["interlaced"]
    assert {name: row["video_bits"] for name, row in good.items() if row["video_bits"] != 8} == {
        "10 bit": 10,
        "16 bit grey": 16,
    }
    assert good["rotated"]["video_width"] == 48


@pytest.mark.parametrize("muxer", ["mpegts", "matroska"])
def test_a_jump_of_an_hour_is_told_apart_from_a_film_of_an_hour(muxer):
    """Its duration is that of the clock, as FFmpeg says it; the gap is beside it, so that rules can choose."""
    file = io.BytesIO()
    with av.open(file, "w", format=muxer) as container:
        stream = container.add_stream("mpeg2video", rate=25)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 64, 48, "yuv420p", 10
        made = [packet for _ in range(100) for packet in stream.encode(av.VideoFrame(64, 48, "yuv420p"))]
        for number, packet in enumerate([*made, *stream.encode(None)]):
            ahead = round(3600 / packet.time_base) if number >= 50 else 0
            packet.pts, packet.dts = (packet.pts or 0) + ahead, (packet.dts or 0) + ahead
            container.mux_one(packet)
    films = looked(VideoInfo(), {"jump": file.getvalue(), "none": film(frames=50)})
    row = films["jump"]
    assert row["video_frames"] == 100
    assert row["video_duration_s"] == pytest.approx(3604, abs=0.1)
    assert row["video_longest_gap_s"] == pytest.approx(3600.04, abs=0.01)
    assert films["none"]["video_longest_gap_s"] == pytest.approx(0.04, abs=1e-3)


def test_fragments_that_are_cut_anywhere_are_told_but_at_the_end_of_one():
    """A file that ends with a whole fragment is one that its writer may have ended there."""
    data = fragmented()
    size, ends = 0, []
    while size < len(data):
        size += int.from_bytes(data[size : size + 4], "big")
        ends.append(size)
    cuts = {f"{cut}": data[:cut] for cut in (*range(ends[-2] - 60, len(data), 17), *ends[-4:])}
    for stage, column in ((CountFrames(), "truncated"), (VideoInfo(), "video_truncated")):
        rows = looked(stage, cuts)
        assert {int(name) for name, row in rows.items() if not row[column]} == {ends[-4], *ends[-2:]}


def test_bytes_that_are_changed_or_missing_cost_their_film_alone(films):
    chance = random.Random(7)
    broken = {}
    for name, data in films.items():
        for number in range(4):
            changed = bytearray(data[: chance.randrange(1, len(data) + 1)] if number % 2 else data)
            for _ in range(8):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            broken[f"{name} {number}"] = bytes(changed)
    broken["good"] = film(frames=20)
    for stage in (CountFrames(), VideoInfo()):
        answers = looked(stage, broken)
        assert answers.keys() == broken.keys()
        assert not isinstance(answers["good"], str)
        reasons = {answer for answer in answers.values() if isinstance(answer, str)}
        assert not {reason for reason in reasons if reason.startswith(("crashed", "timed out"))}


@pytest.mark.parametrize("container", ["mp4", "matroska"])
def test_memory_does_not_grow_with_the_frames_of_a_film(container):
    peaks = []
    for count in (1_000, 12_000):
        data = {"long": hostile_film(FilmKind(container=container), 3, many(count))}
        row = looked(CountFrames(peak=True), data)["long"]
        assert row["frames"] == count
        assert looked(VideoInfo(), data)["long"]["video_frames"] == count
        peaks.append(row["peak_mb"])
    assert peaks[1] < peaks[0] + 10, peaks


def test_a_frame_that_is_larger_than_its_header_says_is_not_decoded(films):
    whole = looked(CountFrames(peak=True), {"large frames": films["large frames"], "small": film(frames=5)})
    assert whole["large frames"] == "damaged"
    assert whole["small"]["peak_mb"] < 300  # 16,000 x 16,000 pixels alone are 384 MB
    small = {"larger": hostile_film(FilmKind("mjpeg", "matroska", "yuvj420p"))}
    assert looked(CountFrames(reading=VideoReading(max_pixels=64 * 48)), small)["larger"]["frames"] == 50
