"""Waveforms and the first seconds of recordings, for people to look at and to play."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.audio.decode import Sound
from dcurate.audio.stage import Mono
from dcurate.core.extras import needed
from dcurate.isolate.errors import MediaError

#: Seconds of a waveform at most, and of the sound; samples a second of the sound at most.
_DRAWN_S, _PLAYED_S, _RATE = 600.0, 3.0, 16_000
#: Frames of a recording that are looked at, at most: what is left is not drawn.
_MOST = 2**25
#: Pixels of a waveform: its height as a share of its width, and columns that are drawn.
_HEIGHT, _COLUMNS = 0.3, 150


def excerpt(data: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Draw the waveform of a recording and cut its first seconds; called in a `dcurate.isolate.sandbox.Sandbox`.

    The waveform is of the first 10 minutes, of all channels; the sound is 3 seconds of the first channel.

    Args:
        data: start and end of the segment in seconds, two float64 of 8 bytes, where an end that is not known is NaN;
            and the bytes of the file.
        options: ``side``: pixels of the longer side.

    Returns:
        ``width`` and ``height`` in pixels; the waveform as SVG, and the sound as FLAC.

    Raises:
        MediaError: it cannot be decoded.

    Examples:
        >>> import soundfile
        >>> file = io.BytesIO()
        >>> soundfile.write(file, np.zeros(8000), 8000, format="WAV")
        >>> sizes, (waveform, sound) = excerpt(struct.pack("<2d", 0.5, math.nan) + file.getvalue(), {"side": 300})
        >>> sizes, waveform[:4], len(soundfile.read(io.BytesIO(sound))[0])
        ({'width': 300, 'height': 90}, b'<svg', 4000)
    """
    start_s, stop_s = struct.unpack_from("<2d", data)
    recording = Sound(io.BytesIO(memoryview(data)[16:]))
    rate = recording.rate
    start = round(start_s * rate)
    seconds = _DRAWN_S if math.isnan(stop_s) else min(_DRAWN_S, stop_s - start_s)
    mono = Mono(rate, min(rate, _RATE))
    highs, lows, played = list[float](), list[float](), [np.empty(0, np.float32)]
    step, left = max(1, recording.window // 64), round(_PLAYED_S * rate)
    for samples in recording.windows(start, start + max(1, min(_MOST, round(seconds * rate)))):
        if left > 0:
            played.append(mono.take(np.ascontiguousarray(samples[:left, :1])).copy())
            left -= len(samples)
        for first in range(0, len(samples), step):
            highs.append(float(samples[first : first + step].max()))
            lows.append(float(samples[first : first + step].min()))
    if not highs:
        raise MediaError("bad segment", "it begins behind the end of the recording")
    played.append(mono.rest())
    width = int(options["side"])
    height = round(width * _HEIGHT)
    waveform = _svg(np.array(highs), np.array(lows), width, height)
    return {"width": width, "height": height}, [waveform, _flac(np.concatenate(played), min(rate, _RATE))]


def _svg(highs: npt.NDArray[np.float64], lows: npt.NDArray[np.float64], width: int, height: int) -> bytes:
    places = np.linspace(0, len(highs), min(_COLUMNS, len(highs)), endpoint=False).astype(np.int64)
    middle = height / 2
    tops = middle - middle * np.maximum.reduceat(highs, places).clip(-1, 1)
    bottoms = middle - middle * np.minimum.reduceat(lows, places).clip(-1, 1)
    step = width / len(places)
    lines = " ".join(
        f"M{(place + 0.5) * step:.1f} {top - 0.5:.1f}V{bottom + 0.5:.1f}"
        for place, (top, bottom) in enumerate(zip(tops, bottoms, strict=True))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<path d="{lines}" stroke="#2a78d6" stroke-width="{step * 0.8:.2f}"/></svg>'
    ).encode()


def _flac(samples: npt.NDArray[np.float32], rate: int) -> bytes:
    file = io.BytesIO()
    library = needed("soundfile", "playing sound", "audio")
    library.write(file, samples.clip(-1, 1), rate, "PCM_16", format="FLAC")
    return file.getvalue()
