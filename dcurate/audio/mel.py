"""Mel spectrograms, with the filters of Slaney's Auditory Toolbox, as librosa makes them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def mel_powers(samples: Floats, rate: int, *, size: int, hop: int, bands: int) -> Floats:
    """Return the power of a signal in bands of mel, by frame: shape (frames, bands).

    Frames are windowed by Hann, and centred at multiples of `hop`; zeros are before and behind the signal.

    Args:
        samples: the signal.
        rate: its samples a second.
        size: samples of a frame.
        hop: samples between frames.
        bands: number of bands, from 0 to half the rate.

    Examples:
        >>> tone = np.sin(np.arange(16_000) * 2 * np.pi * 1_000 / 16_000).astype(np.float32)
        >>> powers = mel_powers(tone, 16_000, size=400, hop=160, bands=40)
        >>> powers.shape, int(powers[50].argmax())
        ((101, 40), 13)
    """
    padded = np.pad(samples, size // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop]
    spectrum = np.fft.rfft(frames * _hann(size))
    powers = spectrum.real**2 + spectrum.imag**2
    bands_of_frames: Floats = (powers @ mel_filters(rate, size, bands)).astype(np.float32)
    return bands_of_frames


def decibels(powers: Floats, *, least: float = 1e-10, depth: float = 80.0) -> Floats:
    """Return powers in decibels below the greatest of them.

    Args:
        powers: powers of any shape.
        least: smaller powers count as this.
        depth: the least value is so many decibels below the greatest.

    Examples:
        >>> decibels(np.array([100.0, 1.0, 0.0], np.float32)).round(3).tolist()
        [0.0, -20.0, -80.0]
    """
    levels = 10 * np.log10(np.maximum(powers, np.float32(least)))
    below: Floats = np.maximum(levels - levels.max(), np.float32(-depth))
    return below


@lru_cache(maxsize=8)
def mel_filters(rate: int, size: int, bands: int) -> npt.NDArray[np.float64]:
    """Return the weights of the frequencies of a frame in each band: shape (size // 2 + 1, bands).

    Args:
        rate: samples a second.
        size: samples of a frame.
        bands: number of triangular bands of equal area.

    Examples:
        >>> mel_filters(16_000, 400, 40).shape
        (201, 40)
    """
    edges = _hertz(np.linspace(0.0, float(_mels(np.array([rate / 2]))[0]), bands + 2))
    slopes = edges[None, :] - np.fft.rfftfreq(size, 1 / rate)[:, None]
    widths = np.diff(edges)
    rising, falling = -slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]
    weights: npt.NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling)) * (2 / (edges[2:] - edges[:-2]))
    return weights


#: Up to this many hertz mels are linear, then logarithmic.
_BREAK, _PER_MEL = 1_000.0, 200 / 3
_STEP = np.log(6.4) / 27


def _mels(hertz: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    high = _BREAK / _PER_MEL + np.log(np.maximum(hertz, _BREAK) / _BREAK) / _STEP
    mels: npt.NDArray[np.float64] = np.where(hertz < _BREAK, hertz / _PER_MEL, high)
    return mels


def _hertz(mels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    first = _BREAK / _PER_MEL
    hertz: npt.NDArray[np.float64] = np.where(
        mels < first, mels * _PER_MEL, _BREAK * np.exp(_STEP * (np.maximum(mels, first) - first))
    )
    return hertz


@lru_cache(maxsize=8)
def _hann(size: int) -> npt.NDArray[np.float64]:
    window: npt.NDArray[np.float64] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    return window
