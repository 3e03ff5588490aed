"""Recordings of each format, made by other programs or by hand."""

from __future__ import annotations

import io
import struct
import wave

import numpy as np
import soundfile


def wav(channels: int = 1, width: int = 2, rate: int = 16_000, frames: int = 100) -> bytes:
    """A silent WAV file of the standard library."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((channels, width, rate, 0, "NONE", ""))
        sound.writeframes(bytes(channels * width * frames))
    return file.getvalue()


def noise(form: str, subtype: str | None = None, *, seconds: float = 0.5, rate: int = 16_000, **options: str) -> bytes:
    """Noise in one channel, written by libsndfile."""
    samples = np.random.default_rng(1).uniform(-0.5, 0.5, int(seconds * rate))
    file = io.BytesIO()
    soundfile.write(file, samples, rate, subtype, format=form, **options)
    return file.getvalue()


def box(kind: bytes, *contents: bytes) -> bytes:
    """A box of an MP4 file."""
    content = b"".join(contents)
    return struct.pack(">I4s", 8 + len(content), kind) + content


def mp4(codec: bytes = b"mp4a", *, scale: int = 44_100, length: int = 88_200, index_last: bool = False) -> bytes:
    """The boxes of an M4A file with one second or more of sound, and 2,000 bytes in place of it."""
    entry = box(codec, bytes(6), struct.pack(">HQHHI", 1, 0, 2, 16, 0), struct.pack(">I", min(scale, 65_535) << 16))
    track = box(
        b"trak",
        box(
            b"mdia",
            box(b"mdhd", struct.pack(">IIIII", 0, 0, 0, scale, length), bytes(4)),
            box(b"hdlr", bytes(8), b"soun", bytes(12)),
            box(b"minf", box(b"stbl", box(b"stsd", struct.pack(">II", 0, 1), entry))),
        ),
    )
    movie, sound = box(b"moov", track), box(b"mdat", bytes(200_000))
    return box(b"ftyp", b"M4A ", bytes(4)) + (sound + movie if index_last else movie + sound)
