"""Small videos made with PyAV, and what is in them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dcurate.video.clips.cut import cut_one
from dcurate.video.clips.footage import Footage
from dcurate.video.clips.remux import CutClip, Stretch

av: Any = pytest.importorskip("av")


@dataclass
class Made:
    """How a video is made.

    Args:
        codec: name of the encoder.
        form: container.
        frames: how many.
        rate: frames a second.
        pixels: format of the pixels.
        size: width and height.
        options: options of the encoder.
        sound: encoder of a second stream with a tone, or none.
        subtitles: whether there is a stream of subtitles.
        times: time of each frame in units of 1/1000 s; by the rate if None.
    """

    codec: str = "libx264"
    form: str = "mp4"
    frames: int = 60
    rate: int = 25
    pixels: str = "yuv420p"
    size: tuple[int, int] = (96, 64)
    options: dict[str, str] = field(default_factory=dict)
    sound: str | None = None
    subtitles: bool = False
    times: list[int] | None = None


def picture(number: int, size: tuple[int, int]) -> np.ndarray[Any, Any]:
    """A frame that differs from every other: waves that move, and its number as bars."""
    width, height = size
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    red = 128 + 100 * np.sin((x + 3 * number) / 9)
    green = 128 + 100 * np.cos((y - 2 * number) / 7)
    frame = np.stack([red, green, (x + y + number) % 256], axis=2).clip(0, 255).astype(np.uint8)
    for bit in range(8):
        frame[: height // 8, bit * width // 8 : (bit + 1) * width // 8] = 255 if number >> bit & 1 else 0
    return frame


def video(made: Made) -> bytes:
    """The bytes of a video."""
    file = io.BytesIO()
    with av.open(file, "w", format=made.form) as container:
        stream = container.add_stream(made.codec, made.rate, options={"threads": "1", **made.options})
        stream.width, stream.height = made.size
        stream.pix_fmt = made.pixels
        if made.times is not None:
            stream.codec_context.time_base = Fraction(1, 1000)
        sound = container.add_stream(made.sound, 48000, options={"strict": "experimental"}) if made.sound else None
        text = container.add_mux_stream("subrip") if made.subtitles else None
        if text is not None:
            text.time_base = Fraction(1, 1000)
        if sound is not None:
            _put_sound(container, sound, made)
        for number in range(made.frames):
            frame = av.VideoFrame.from_ndarray(picture(number, made.size), format="rgb24").reformat(format=made.pixels)
            if made.times is not None:
                frame.pts, frame.time_base = made.times[number], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        for second in range(made.frames // made.rate if text is not None else 0):
            packet = av.Packet(f"second {second}".encode())
            packet.stream, packet.time_base = text, Fraction(1, 1000)
            packet.pts = packet.dts = 1000 * second
            packet.duration = 900
            container.mux(packet)
    return file.getvalue()


def _put_sound(container: Any, stream: Any, made: Made) -> None:
    count = 48000 * made.frames // made.rate
    wave = np.sin(np.arange(count) * 440 * 2 * np.pi / 48000 * (1 + np.arange(count) / count))
    size = 960
    for at in range(0, count - size + 1, size):
        part = (wave[at : at + size] * 12000).astype(np.int16).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(np.repeat(part, 2, 0).T.reshape(1, -1).copy(), format="s16", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = 48000, at, Fraction(1, 48000)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def frames(data: bytes) -> list[tuple[Fraction, np.ndarray[Any, Any]]]:
    """Times and pixels of the frames of a video that a decoder shows."""
    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        return [(frame.pts * Fraction(stream.time_base), planes(frame)) for frame in container.decode(stream)]


def planes(frame: Any) -> np.ndarray[Any, Any]:
    """The samples of a frame as numbers, without padding."""
    wide = max(component.bits for component in frame.format.components) > 8
    parts = []
    for plane in frame.planes:
        rows = np.frombuffer(plane, np.uint16 if wide else np.uint8).reshape(plane.height, -1)
        parts.append(rows[:, : plane.width].ravel())
    return np.concatenate(parts).astype(np.int32)


def packets(data: bytes, kind: str = "video") -> list[tuple[Fraction, bytes]]:
    """Times and bytes of the packets of the first stream of a kind, those included that an edit list hides."""
    with av.open(io.BytesIO(data)) as container:
        stream = next(stream for stream in container.streams if stream.type == kind)
        tick = Fraction(stream.time_base)
        return [(packet.pts * tick, bytes(packet)) for packet in container.demux(stream) if packet.size]


def psnr(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], bits: int = 8) -> float:
    """The peak signal-to-noise ratio of two frames in dB; infinite for equal ones."""
    error = float(np.mean((left.astype(np.float64) - right) ** 2))
    return float("inf") if error == 0 else 10 * float(np.log10((2**bits - 1) ** 2 / error))


def cut_file(data: bytes, start_s: float, stop_s: float | None, how: str = "exact", **options: Any) -> CutClip:
    """A clip of a film, cut in this process."""
    footage = Footage(io.BytesIO(data))
    steps = cut_one(
        Stretch.of(footage, start_s, stop_s, options.pop("limit", 2**28)),
        {"cut": how, "fallback": "vp9", **options},
    )
    clips: list[CutClip] = []

    def end() -> Iterator[None]:
        clips.append((yield from steps))

    assert all(sign is None for sign in end())
    return clips[0]
