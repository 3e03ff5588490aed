"""Films that tests make."""

from __future__ import annotations

import io
import os
from fractions import Fraction

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
