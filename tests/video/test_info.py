import io

import av
import numpy as np
import pyarrow as pa
import pytest

from dcurate import DocumentBatch
from dcurate.media.refs import Ref, ref_array
from dcurate.video import VideoInfo
from tests.video.films import film, with_sound

pytestmark = pytest.mark.program


def info(rows):
    stage = VideoInfo()
    try:
        return stage.process(DocumentBatch(data=pa.table(rows)))
    finally:
        stage.teardown()


def values(batch, *names):
    return [tuple(row.values()) for row in batch.to_arrow().select([f"video_{name}" for name in names]).to_pylist()]


def key_frames(data):
    with av.open(io.BytesIO(data)) as container:
        return sum(packet.is_keyframe for packet in container.demux(video=0) if packet.size)


def test_containers_say_what_was_put_in():
    data = [
        with_sound(film("mpeg4", 50, gop=12)),
        film("mpeg4_b", 50, gop=12),
        film("vp9", 50, rate=30, gop=20),
        film("avi", 30),
        film("mkv", 25),
    ]
    batch = info({"bytes": data})
    assert values(batch, "container", "codec", "width", "height", "fps", "frames") == [
        ("mov", "mpeg4", 64, 48, 25.0, 50),
        ("mov", "mpeg4", 64, 48, 25.0, 50),
        ("matroska", "vp9", 64, 48, 30.0, 50),
        ("avi", "mpeg4", 64, 48, 25.0, 30),
        ("matroska", "mjpeg", 64, 48, 25.0, 25),
    ]
    assert values(batch, "variable_rate", "truncated") == [(False, False)] * 5
    assert [keys for (keys,) in values(batch, "key_frames")] == [key_frames(film) for film in data]
    assert [duration for (duration,) in values(batch, "duration_s")] == pytest.approx(
        [2.048, 2.0, 5 / 3, 1.2, 1.0], abs=0.05
    )
    assert values(batch, "sounds", "sound_codec", "sound_rate", "sound_channels")[:2] == [
        (1, "aac", 16000, 1),
        (0, None, None, None),
    ]


def test_a_variable_rate_and_a_cut_file_are_noticed():
    varying = film("vp9", frames=7, times=[0.0, 0.04, 0.3, 1.1, 1.14, 2.9, 3.0])
    steady = film("vp9", frames=200, rate=24)
    batch = info({"bytes": [varying, steady, steady[: len(steady) // 2]]})
    assert values(batch, "variable_rate", "truncated") == [(True, False), (False, False), (False, True)]


def test_a_clip_has_its_own_duration_and_frames(tmp_path):
    (tmp_path / "a.mp4").write_bytes(film(frames=100, gop=25))
    refs = [Ref(str(tmp_path / "a.mp4"), None, None, None, *span) for span in [(1.0, 3.0), (3.5, None), (5.0, 6.0)]]
    batch = info({"media_ref": ref_array(refs)})
    assert values(batch, "duration_s", "frames", "key_frames") == [(2.0, 50, 2), (0.5, 12, 0)]
    assert [rejection.reason for rejection in batch.rejections] == ["bad segment"]


def test_a_rotated_film_is_told_upright():
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.set_display_rotation(90)
        for _ in range(3):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8))))
        container.mux(stream.encode())
    width, height, rotation = values(info({"bytes": [file.getvalue()]}), "width", "height", "rotation")[0]
    assert (width, height) == (48, 64)
    assert rotation in (90, 270)


def test_ten_bits_and_high_dynamic_range_are_told():
    file = io.BytesIO()
    with av.open(file, "w", format="mov") as container:
        stream = container.add_stream("prores_ks", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv422p10le"
        stream.codec_context.color_trc, stream.codec_context.color_primaries = 16, 9
        picture = av.VideoFrame(64, 48, "yuv422p10le")
        picture.color_trc = 16
        container.mux(stream.encode(picture))
        container.mux(stream.encode())
    assert values(info({"bytes": [file.getvalue()]}), "bits", "hdr", "pixel_format") == [(10, "pq", "yuv422p10le")]
