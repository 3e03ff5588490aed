"""Clips have the frames, the sound and the times of their films."""

from __future__ import annotations

import functools
import io
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.isolate.errors import MediaError
from dcurate.video.clips import exact as exact_module
from dcurate.video.clips import mp4, output
from dcurate.video.clips.encoders import check_encoder, encoders_of
from tests.video.clips.made import Made, av, cut_file, frames, packets, psnr, video

_G = {"g": "20"}
_H265 = {"x265-params": "keyint=20:min-keyint=20:bframes=3:log-level=none:scenecut=0:open-gop=0"}
#: Films whose clips are stitched.
STITCHED = {
    "h264": Made(options={**_G, "bf": "3"}, sound="aac"),
    "h264 slices": Made(options={**_G, "x264-params": "slices=4:cabac=0"}),
    "h264 baseline": Made(options={**_G, "profile": "baseline"}),
    "h264 10 bits": Made(options=_G, pixels="yuv420p10le"),
    "h264 4:4:4": Made(options=_G, pixels="yuv444p"),
    "h264 transport stream": Made(options=_G, form="mpegts", sound="aac"),
    "h264 mkv": Made(options=_G, form="matroska", sound="libopus", subtitles=True),
    "h264 mov": Made(options=_G, form="mov", sound="pcm_s16le"),
    "h264 flv": Made(options=_G, form="flv"),
    "h265": Made("libx265", options=_H265),
    "h265 open": Made("libx265", options={"x265-params": _H265["x265-params"][:-1] + "1"}),
    "h265 10 bits": Made("libx265", options=_H265, pixels="yuv420p10le"),
    "mpeg4": Made("mpeg4", options=_G, sound="libmp3lame"),
    "mpeg4 avi": Made("mpeg4", form="avi", options={**_G, "bf": "2"}),
    "mpeg2": Made("mpeg2video", form="mpegts", options={**_G, "bf": "2"}),
    "vp8": Made("libvpx", form="webm", options={**_G, "b": "400k"}),
    "vp9": Made("libvpx-vp9", form="webm", options=_G, sound="libopus"),
    "vp9 4:4:4": Made("libvpx-vp9", form="mp4", options=_G, pixels="yuv444p"),
    "av1": Made("libsvtav1", options={**_G, "preset": "10"}),
    "av1 10 bits": Made("libsvtav1", form="webm", options={**_G, "preset": "10"}, pixels="yuv420p10le"),
}
#: Films all of whose clips are encoded, or copied.
OTHERS = {
    "h264 open": Made(options={"x264-params": "keyint=20:open-gop=1:bframes=3:b-pyramid=normal"}),
    "h264 vorbis": Made(options=_G, form="matroska", sound="vorbis"),
    "wmv": Made("wmv2", form="asf", options=_G),
    "intra": Made("prores_ks", form="mov", pixels="yuv422p10le"),
    "mjpeg": Made("mjpeg", form="matroska", pixels="yuvj420p"),
    "ffv1": Made("ffv1", form="matroska", options={"g": "1"}),
}
#: Encoders that take noticeable time to start.
ALL = {**STITCHED, **OTHERS}


@functools.cache
def film(name: str) -> bytes:
    return video(ALL[name])


@functools.cache
def shown(name: str) -> list[tuple[Fraction, np.ndarray]]:
    """The frames of a film, with their times from its start."""
    data = film(name)
    with av.open(io.BytesIO(data)) as container:
        start = Fraction(container.start_time or 0, 10**6)
    return [(time - start, pixels) for time, pixels in frames(data)]


def between(name: str, start: float, stop: float) -> list[tuple[Fraction, np.ndarray]]:
    near = Fraction(1, 10**6)
    return [(time, pixels) for time, pixels in shown(name) if start - near <= time < stop - near]


def assert_equal(clip: list[tuple[Fraction, np.ndarray]], wanted: list[tuple[Fraction, np.ndarray]]) -> int:
    """Compare the times of frames; return how many have equal pixels."""
    assert len(clip) == len(wanted)
    assert clip[0][0] == 0
    for (time, _), (source, _) in zip(clip, wanted, strict=True):
        assert abs(time - (source - wanted[0][0])) <= Fraction(11, 10_000)
    return sum(np.array_equal(left[1], right[1]) for left, right in zip(clip, wanted, strict=True))


@pytest.mark.parametrize("name", [name for name in ALL if name != "wmv"])
def test_a_copied_clip_has_the_packets_and_the_frames_of_its_film(name):
    start, stop = 0.9, 1.72
    clip = cut_file(film(name), start, stop, "remux")
    data = b"".join(clip.pieces)
    if clip.suffix in ("webm", "mkv"):
        assert clip.start_s <= between(name, start, stop)[0][0] + Fraction(1, 1000)
        assert clip.stop_s < stop + 0.2
        start, stop = clip.start_s, clip.stop_s
    wanted = between(name, start - 0.001, stop - 0.001) if clip.suffix in ("webm", "mkv") else between(name, 0.9, 1.72)
    assert assert_equal(frames(data), wanted) == len(wanted) == clip.frames
    assert (clip.how, clip.frames_encoded) == ("remux", 0)
    source, copied = [packet for _, packet in packets(film(name))], [packet for _, packet in packets(data)]
    if not name.startswith("h264 tr"):  # MP4 has sizes where a transport stream has start codes
        begin = source.index(copied[0])
        if clip.suffix == "mkv":  # frames that are shown before the key frame, and decoded after it, are left out
            source = [packet for packet in source if packet in copied]
            begin = source.index(copied[0])
        assert source[begin : begin + len(copied)] == copied
    assert b"".join(cut_file(film(name), 0.9, 1.72, "remux").pieces) == data


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize(("start", "stop"), [(0.5, 1.73), (0.9, 1.0)])
def test_an_exact_clip_has_just_the_frames_between_its_times(name, start, stop):
    clip = cut_file(film(name), start, stop)
    data = b"".join(clip.pieces)
    wanted, made = between(name, start, stop), frames(data)
    equal = assert_equal(made, wanted)
    assert clip.frames == len(wanted)
    assert equal >= len(wanted) - clip.frames_encoded
    bits = 10 if "10 bits" in name or name == "intra" else 8
    assert min(psnr(left[1], right[1], bits) for left, right in zip(made, wanted, strict=True)) > 38
    assert clip.start_s == pytest.approx(float(wanted[0][0]), abs=1e-6)
    assert b"".join(cut_file(film(name), start, stop).pieces) == data


@pytest.mark.parametrize("name", list(STITCHED))
def test_no_more_is_encoded_than_the_frames_up_to_the_next_key_frame(name):
    clip = cut_file(film(name), 0.5, 1.73)
    assert clip.how == "stitched"
    assert clip.frames_encoded == clip.frames_that_must < 10


def test_a_clip_that_begins_with_a_key_frame_is_copied():
    clip = cut_file(film("h264"), 0.8, 1.5)
    assert (clip.how, clip.frames_encoded, clip.frames_that_must) == ("remux", 0, 0)
    assert len(packets(b"".join(clip.pieces))) == clip.frames + 1  # a frame behind the end that others need


def test_a_clip_without_an_encoder_of_its_codec_is_encoded_in_another():
    clip = cut_file(film("wmv"), 0.5, 1.73)
    assert (clip.how, clip.suffix, clip.frames_encoded) == ("encoded", "webm", clip.frames)
    assert 0 < clip.frames_that_must < clip.frames
    clip = cut_file(film("wmv"), 0.5, 1.73, fallback="av1")
    assert clip.suffix == "mp4"
    with av.open(io.BytesIO(b"".join(clip.pieces))) as container:
        assert container.streams.video[0].codec_context.codec.canonical_name == "av1"


@pytest.mark.parametrize("codec", ["h264", "h265", "vp9"])
def test_a_stitched_clip_that_decodes_to_other_frames_is_encoded_instead(monkeypatch, codec):
    digest, written = exact_module._digest, output.written
    files = []

    def recorded(*args):
        files.append(written(*args))
        return files[-1]

    monkeypatch.setattr(exact_module, "written", recorded)
    monkeypatch.setattr(exact_module, "_digest", lambda frame: digest(frame) + bytes([len(files) == 1]))
    clip = cut_file(film(codec), 0.5, 1.73)
    assert (clip.how, clip.frames_encoded) == ("encoded", clip.frames)
    assert len(files) == 2
    assert assert_equal(frames(b"".join(clip.pieces)), between(codec, 0.5, 1.73)) == 0


@given(cuts=st.lists(st.floats(0, 2.4), min_size=1, max_size=4, unique=True))
@settings(max_examples=15, deadline=None)
def test_each_frame_is_in_just_one_of_clips_that_adjoin(cuts):
    edges = [0.0, *sorted(cut for cut in cuts if cut > 0), 9.0]
    times = []
    for start, stop in pairwise(edges):
        if between("h264", start, stop):
            clip = cut_file(film("h264"), start, stop, "remux")
            begin = next(time for time, _ in shown("h264") if abs(time - Fraction(clip.start_s)) < Fraction(1, 10**5))
            times += [begin + time for time, _ in frames(b"".join(clip.pieces))]
    assert times == [time for time, _ in shown("h264")]


def sound(data: bytes) -> np.ndarray:
    """The first channel of the sound of a film, from its start on, at 48,000 samples a second."""
    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.audio[0]
        start = Fraction(container.start_time or 0, 10**6)
        resampler = av.AudioResampler(format="fltp", layout="stereo", rate=48000)
        made = np.zeros(48000 * 4, np.float32)
        for frame in container.decode(stream):
            at = round((frame.pts * frame.time_base - start) * 48000)
            for part in resampler.resample(frame):
                samples = part.to_ndarray()[0]
                samples, at = (samples[-at:], 0) if at < 0 else (samples, at)
                made[at : at + len(samples)] = samples[: len(made) - at]
                at += len(samples)
        return made


@pytest.mark.parametrize(
    "name", ["h264", "h264 transport stream", "h264 mkv", "h264 mov", "mpeg4", "vp9", "h264 vorbis"]
)
@pytest.mark.parametrize("how", ["remux", "exact"])
def test_sound_keeps_its_time_to_the_picture(name, how):
    clip = cut_file(film(name), 0.9, 1.72, how)
    made, source = sound(b"".join(clip.pieces)), sound(film(name))
    begin, size = round(clip.start_s * 48000), 24_000
    skip = 4_800  # a container without edit lists begins with whole packets
    left = made[skip : skip + size]
    lags = range(-240, 241)
    errors = [float(np.mean((left - source[begin + skip + lag : begin + skip + lag + size]) ** 2)) for lag in lags]
    best = int(np.argmin(errors))
    assert abs(lags[best]) <= 48, lags[best]
    assert errors[best] < 1e-3 * float(np.mean(left**2))


def test_subtitles_keep_their_time_to_the_picture():
    clip = cut_file(film("h264 mkv"), 0.5, 1.8)
    texts = [
        (float(time), data[2:].decode()) for time, data in packets(b"".join(clip.pieces), "subtitle") if len(data) > 2
    ]
    assert [text for text in texts if text[1]] == [
        (0, "second 0"),
        (pytest.approx(1 - clip.start_s, abs=0.001), "second 1"),
    ]


def rotated(data: bytes) -> bytes:
    """A film that players turn by 90 degrees."""
    turn = b"".join(number.to_bytes(4, "big", signed=True) for number in (0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30))
    at = data.index(b"tkhd") + 4 + 40
    return data[:at] + turn + data[at + 36 :]


@pytest.mark.parametrize(("how", "codec"), [("remux", "libx264"), ("exact", "libx264"), ("exact", "mpeg4")])
def test_the_display_matrix_is_kept(how, codec):
    source = rotated(video(Made(codec, options=_G)))
    for start in (0.5, 0.9):
        data = b"".join(cut_file(source, start, 1.0 if start == 0.9 else 1.7, how).pieces)
        with av.open(io.BytesIO(data)) as container:
            assert next(container.decode(video=0)).rotation == -90


def test_variable_rate_is_kept():
    times = [0, 40, 60, 200, 210, 230, 700, 900, 905, 930, 1000, 1500, 1533, 1600]
    source = video(Made(frames=14, times=times, form="matroska", options={"g": "5", "bf": "2"}))
    for how in ("remux", "exact"):
        clip = cut_file(source, 0.2, 1.55, how)
        made = [round(1000 * time) for time, _ in frames(b"".join(clip.pieces))]
        assert made == [time - 200 for time in times if 200 <= time < 1550], how
        assert clip.stop_s == pytest.approx(1.6)


def with_times(change: dict[int, int], form: str = "matroska") -> bytes:
    """A film with key frames only, of which some have other times, in 1/25 s."""
    source, made = io.BytesIO(video(Made("mpeg4", frames=20, options={"g": "1"}))), io.BytesIO()
    with av.open(source) as film, av.open(made, "w", format=form) as copy:
        stream = copy.add_stream_from_template(film.streams.video[0], opaque=True)
        for number, packet in enumerate(film.demux(film.streams.video[0])):
            if packet.size:
                packet.pts = packet.dts = change.get(number, number)
                packet.time_base = Fraction(1, 25)
                packet.stream = stream
                copy.mux(packet)
    return made.getvalue()


def test_times_that_jump_forward_are_kept():
    source = with_times({number: number + 100 for number in range(10, 20)})
    made = [round(25 * time) for time, _ in frames(b"".join(cut_file(source, 0.2, 4.5).pieces))]
    assert made == [0, 1, 2, 3, 4, 105, 106, 107]


@pytest.mark.parametrize("how", ["remux", "exact"])
def test_bad_films_have_a_reason_or_a_right_clip(how):
    whole = film("h264")
    reasons = {
        "no index": whole[: whole.rindex(b"moov") - 4],
        "empty": b"",
        "a page": b"<html><body></body></html>" * 40,
        "sound alone": sound_alone(),
    }
    for name, data in reasons.items():
        with pytest.raises(MediaError) as error:
            cut_file(data, 0.5, 1.5, how)
        assert error.value.fault.reason in ("damaged", "empty", "not a film: HTML or XML", "no pictures"), name
    with pytest.raises(MediaError, match="no frame begins from 7 s to its end"):
        cut_file(whole, 7, None, how)
    with pytest.raises(MediaError, match="too large"):
        cut_file(whole, 0, None, how, limit=2_000)


def sound_alone() -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("aac", 48000)
        frame = av.AudioFrame.from_ndarray(np.zeros((2, 1024), np.float32), format="fltp", layout="stereo")
        frame.sample_rate = 48000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def test_what_is_there_of_a_film_that_was_cut_while_it_was_written_is_cut():
    whole = film("vp9")
    clip = cut_file(whole[: len(whole) * 2 // 3], 0.9, 2.3)
    made = frames(b"".join(clip.pieces))
    wanted = between("vp9", 0.9, 2.3)
    assert 5 < len(made) == clip.frames < len(wanted)
    assert clip.stop_s < 2.3


def test_frames_before_the_first_key_frame_are_left_out():
    source, made = io.BytesIO(film("vp9")), io.BytesIO()
    with av.open(source) as film_, av.open(made, "w", format="webm") as copy:
        stream = copy.add_stream_from_template(film_.streams.video[0], opaque=True)
        for number, packet in enumerate(film_.demux(film_.streams.video[0])):
            if packet.size and number >= 7:
                packet.stream = stream
                copy.mux(packet)
    clip = cut_file(made.getvalue(), 0, 1)
    assert clip.start_s == pytest.approx(0.8 - 0.28, abs=0.01)
    assert len(frames(b"".join(clip.pieces))) == clip.frames == 12


def test_a_film_without_key_frames_has_a_reason():
    source, made = io.BytesIO(film("vp9")), io.BytesIO()
    with av.open(source) as film_, av.open(made, "w", format="webm") as copy:
        stream = copy.add_stream_from_template(film_.streams.video[0], opaque=True)
        for packet in film_.demux(film_.streams.video[0]):
            if packet.size and not packet.is_keyframe:
                packet.stream = stream
                copy.mux(packet)
    with pytest.raises(MediaError, match="no key frame"):
        cut_file(made.getvalue(), 0.2, 1)


def test_a_clip_of_a_clip_whose_hidden_frames_have_negative_times_is_that_of_the_film():
    outer = cut_file(film("h264"), 0.5, 2.2, "remux")
    inner = cut_file(b"".join(outer.pieces), 0.4, 1.0, "remux")
    wanted = between("h264", outer.start_s + 0.4, outer.start_s + 1.0)
    assert assert_equal(frames(b"".join(inner.pieces)), wanted) == len(wanted)


def test_a_codec_without_an_encoder_is_refused_in_one_sentence(monkeypatch):
    check_encoder("vp9", "cut_video")
    monkeypatch.setattr(
        "dcurate.video.clips.encoders.encoders_of", lambda codec: [] if codec == "h264" else encoders_of(codec)
    )
    with pytest.raises(Exception, match="has no encoder of h264 .*choose 'vp9' or 'av1'|has no encoder of h264"):
        check_encoder("h264", "cut_video")


def test_a_file_has_its_index_first_and_no_times_of_day():
    data = b"".join(cut_file(film("h264"), 0.5, 1.73).pieces)
    kinds = [kind for kind, _ in mp4.boxes(data)]
    assert kinds[:2] == [b"ftyp", b"moov"]
    index = bytes(dict(mp4.boxes(data))[b"moov"])
    at = index.index(b"mvhd")
    assert index[at + 8 : at + 16] == bytes(8)
    assert b"Lavf" not in data
