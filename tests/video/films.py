"""Films that tests make."""

from __future__ import annotations

import io
import os
from fractions import Fraction
from typing import Any

import av
import numpy as np

from dcurate.video.policy import FramePolicy
from dcurate.video.watch import watching

#: Encoder, container and options of films with and without reordered frames.
KINDS = {
    "mpeg4": ("mpeg4", "mp4", {}),
    "mpeg4_b": ("mpeg4", "mp4", {"bf": "2"}),
    "vp9": ("libvpx-vp9", "webm", {"deadline": "realtime", "cpu-used": "8"}),
    "avi": ("mpeg4", "avi", {}),
    "mkv": ("mjpeg", "matroska", {}),
}


def picture(number, width=64, height=48):
    """A frame whose mean red tells its number: 2 for each."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0] = 2 * (number % 120)
    pixels[: height // 2, : (number * 3) % width, 1] = 200
    return pixels


def film(kind="mpeg4", frames=50, rate=25, gop=12, *, times=None, pictures=picture):
    """The bytes of a film.

    Args:
        times: time of each frame in seconds, for a variable rate.
        pictures: function of the number of a frame that returns its pixels.
    """
    encoder, container_format, options = KINDS[kind]
    file = io.BytesIO()
    with av.open(file, "w", format=container_format, options={"fflags": "bitexact"}) as container:
        pixels = pictures(0)
        stream = container.add_stream(encoder, rate=rate, options={**options, "threads": "1"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = pixels.shape[1], pixels.shape[0], "yuv420p"
        stream.gop_size = gop
        if kind == "mkv":
            stream.pix_fmt = "yuvj420p"
        base = Fraction(1, 1000) if times is not None else Fraction(1, rate)
        stream.codec_context.time_base = base
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(pictures(number), format="rgb24")
            frame.pts = number if times is None else round(times[number] * 1000)
            frame.time_base = base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def with_sound(data):
    """A film with a tone of its duration beside its pictures.

    Args:
        data: the bytes of a film in MP4.
    """
    file = io.BytesIO()
    with av.open(io.BytesIO(data)) as source, av.open(file, "w", format="mp4", options={"fflags": "bitexact"}) as sink:
        pictures = sink.add_stream_from_template(source.streams.video[0])
        tone = sink.add_stream("aac", rate=16_000, layout="mono")
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = pictures
                sink.mux(packet)
        for number in range(int((source.duration or 0) / 1e6 * 16_000 / 1024) + 1):
            samples = np.sin(np.arange(1024) * 0.1).astype(np.float32)[None] * 0.5
            piece = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
            piece.sample_rate, piece.pts, piece.time_base = 16_000, number * 1024, Fraction(1, 16_000)
            sink.mux(tone.encode(piece))
        sink.mux(tone.encode(None))
    return file.getvalue()


class TimesWatcher:
    """A watcher that notes time and mean red of frames, and may hang, die or swell."""

    def __init__(self, clip, options):
        self.policy = FramePolicy(*options["policy"])
        self.seen = []
        self.fate = options.get("fate")

    def see(self, frame):
        pixels = frame.pixels()
        self.seen.append([round(frame.time_s, 6), float(pixels[..., 0].mean())])
        if self.fate == "dies":
            os.kill(os.getpid(), 11)
        while self.fate == "hangs":
            pass
        return {"n": len(self.seen)}, []

    def end(self):
        return {"seen": self.seen}, []


watch = watching(TimesWatcher)


#: What encoders of subtitles want to know before the first of them.
_ASS_HEAD = b"""[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, \
StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding
Style: Default,Arial,16,&Hffffff,&Hffffff,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,0

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""


def payload(codec, number, text, speaker=""):
    """The bytes of a packet of subtitles."""
    data = text.encode()
    if codec == "mov_text":
        return len(data).to_bytes(2, "big") + data
    return f"{number},0,Default,{speaker},0,0,0,,".encode() + data if codec == "ass" else data


def with_tracks(films, subtitles=(), tones=(), container="matroska"):
    """One container with the pictures of films, tones and subtitles, in this order.

    Args:
        films: the bytes of films, of each of which a track is made.
        subtitles: of each track: codec, cues as (start_s, stop_s, text, speaker or ""), and maybe language and
            disposition.
        tones: amplitude and start in seconds of each track of a second of sound, in FLAC.
    """
    file = io.BytesIO()
    sources = [av.open(io.BytesIO(data)) for data in films]
    queue: list[tuple[float, Any, Any]] = []
    with av.open(file, "w", format=container, options={"fflags": "bitexact"}) as sink:
        for source in sources:
            pictures = sink.add_stream_from_template(source.streams.video[0])
            for found in source.demux(video=0):
                if found.size:
                    queue.append((float((found.dts or 0) * found.time_base), found, pictures))
        for amplitude, start_s in tones:
            tone = sink.add_stream("flac", rate=8000, layout="mono")
            samples = np.full((1, 8000), round(amplitude * 32767), np.int16)
            piece = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
            piece.sample_rate, piece.pts, piece.time_base = 8000, round(start_s * 8000), Fraction(1, 8000)
            for made in [*tone.encode(piece), *tone.encode(None)]:
                queue.append((float((made.pts or 0) * made.time_base), made, tone))
        for codec, cues, *about in subtitles:
            texts = sink.add_stream(codec)
            texts.time_base = texts.codec_context.time_base = Fraction(1, 1000)
            texts.codec_context.subtitle_header = _ASS_HEAD
            if about:
                texts.metadata["language"] = about[0]
            if len(about) > 1:
                texts.disposition = av.stream.Disposition(about[1])
            for number, (start_s, stop_s, text, *speaker) in enumerate(cues):
                packet = av.Packet(payload(codec, number, text, *speaker))
                packet.pts = packet.dts = round(start_s * 1000)
                packet.duration, packet.time_base = round((stop_s - start_s) * 1000), Fraction(1, 1000)
                queue.append((start_s, packet, texts))
        for _, muxed, stream in sorted(queue, key=lambda item: item[0]):
            muxed.stream = stream
            sink.mux(muxed)
    for source in sources:
        source.close()
    return file.getvalue()


def mp4_box(kind, *contents):
    """A box of MP4; numbers are of four bytes."""
    data = b"".join(part if isinstance(part, bytes) else part.to_bytes(4, "big") for part in contents)
    return (8 + len(data)).to_bytes(4, "big") + kind + data


def vtt_cue(text, source=None):
    """A cue of a sample of WebVTT in MP4 (ISO 14496-30); `source` is the number of one of several samples."""
    parts = [mp4_box(b"iden", b"7"), mp4_box(b"sttg", b"line:1"), mp4_box(b"payl", text.encode())]
    return mp4_box(b"vttc", *([] if source is None else [mp4_box(b"vsid", source)]), *parts)


def with_wvtt(data, samples, fragmented=False):
    """A film in MP4 with a track of WebVTT, as packagers make it; FFmpeg cannot write it.

    Args:
        data: the bytes of a film in MP4 that ends with its index.
        samples: start, end and content of each sample; pauses between them are filled.
        fragmented: whether the samples are in a fragment of their own.
    """
    content, at = list[tuple[int, bytes]](), 0
    for start_s, stop_s, sample in samples:
        if round(start_s * 1000) > at:
            content.append((round(start_s * 1000) - at, mp4_box(b"vtte")))
        at = round(stop_s * 1000)
        content.append((at - round(start_s * 1000), sample))
    place = data.index(b"moov") - 4
    movie = data[place + 8 :]
    begun, inside = ([], content) if fragmented else (content, [])
    extends = mp4_box(b"mvex", mp4_box(b"trex", 0, 9, 1, 0, 0, 0)) if fragmented else b""
    size = len(mp4_box(b"moov", movie, _vtt_track(begun, at, 0), extends))
    moved = place + size + 8  # offset of the samples
    made = data[:place] + mp4_box(b"moov", movie, _vtt_track(begun, at, moved), extends)
    if not fragmented:
        return made + mp4_box(b"mdat", *[sample for _, sample in begun])
    runs = [number for duration, sample in inside for number in (duration, len(sample))]
    head = [mp4_box(b"tfhd", 0x020000, 9), mp4_box(b"tfdt", 0, 0)]
    length = len(mp4_box(b"moof", mp4_box(b"mfhd", 0, 1), mp4_box(b"traf", *head, mp4_box(b"trun", 0, 0, 0, *runs))))
    run = mp4_box(b"trun", 0x000301, len(inside), length + 8, *runs)
    fragment = mp4_box(b"moof", mp4_box(b"mfhd", 0, 1), mp4_box(b"traf", *head, run))
    return made + fragment + mp4_box(b"mdat", *[sample for _, sample in inside])


def _vtt_track(samples, duration, place):
    """The box of a track of WebVTT in English whose samples follow each other from a place on."""
    matrix = [0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000]
    header = mp4_box(b"tkhd", 3, 0, 0, 9, 0, duration, 0, 0, 0, 0, *matrix, 0, 0)
    english = b"\x15\xc7\0\0"
    entry = mp4_box(b"wvtt", bytes(6), b"\0\1", mp4_box(b"vttC", b"WEBVTT"))
    tables = [
        mp4_box(b"stsd", 0, 1, entry),
        mp4_box(b"stts", 0, len(samples), *[number for time, _ in samples for number in (1, time)]),
        mp4_box(b"stsc", 0, 1, 1, len(samples), 1) if samples else mp4_box(b"stsc", 0, 0),
        mp4_box(b"stsz", 0, 0, len(samples), *[len(sample) for _, sample in samples]),
        mp4_box(b"stco", 0, 1, place) if samples else mp4_box(b"stco", 0, 0),
    ]
    information = mp4_box(
        b"minf",
        mp4_box(b"nmhd", 0),
        mp4_box(b"dinf", mp4_box(b"dref", 0, 1, mp4_box(b"url ", 1))),
        mp4_box(b"stbl", *tables),
    )
    media = mp4_box(
        b"mdia",
        mp4_box(b"mdhd", 0, 0, 0, 1000, duration, english),
        mp4_box(b"hdlr", 0, 0, b"text", 0, 0, 0, b"\0"),
        information,
    )
    return mp4_box(b"trak", header, media)
