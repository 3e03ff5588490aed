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


def voice(seed: int, seconds: float = 4.0, rate: int = 16_000) -> np.ndarray:
    """Syllables of one made-up voice: a buzz whose pitch glides, through three resonances, and pauses."""
    random = np.random.default_rng(seed)
    sound = np.zeros(int(seconds * rate))
    start = int(random.uniform(0.05, 0.2) * rate)
    while start < len(sound):
        length = int(random.uniform(0.12, 0.35) * rate)
        times = np.arange(length) / rate
        pitch = random.uniform(90, 180) * (1 + random.uniform(-0.4, 0.4) * times)
        phase = 2 * np.pi * np.cumsum(pitch) / rate
        formants = random.uniform(250, 900), random.uniform(900, 2_200), random.uniform(2_200, 3_200)
        glides = random.uniform(-400, 400, 3)
        syllable = np.zeros(length)
        for harmonic in range(1, 30):
            frequency = harmonic * pitch
            near = [
                np.exp(-(((frequency - formant - glide * times) / 120) ** 2))
                for formant, glide in zip(formants, glides, strict=True)
            ]
            syllable += sum(near) * np.sin(harmonic * phase)
        syllable *= np.hanning(length) * random.uniform(0.3, 1.0)
        syllable = syllable[: len(sound) - start]
        sound[start : start + len(syllable)] += syllable
        start += length + int(random.choice([0.02, 0.1, 0.4]) * random.uniform(0.5, 1.5) * rate)
    return 0.5 * sound / np.abs(sound).max()
