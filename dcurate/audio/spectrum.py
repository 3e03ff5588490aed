"""Bandwidth and shape of spectra, as NeMo Curator and librosa measure them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import needed
from dcurate.kernels.sound import cut_frames, spectra

#: Samples of a frame, and frames that are transformed together.
_SIZE, _TOGETHER = 512, 128
#: Seconds between frames.
_STRIDE_S = 0.01
#: Decibels below the peak at which the bandwidth ends, and power below which there is none.
_THRESHOLD_DB, _LEAST = -50.0, 1e-10
#: The range of levels that is looked at, in dB below the peak.
_TOP_DB = 100.0

#: The Blackman-Harris window, periodic.
_PHASE = 2 * np.pi * np.arange(_SIZE) / _SIZE
_WINDOW = (
    0.35875 - 0.48829 * np.cos(_PHASE) + 0.14128 * np.cos(2 * _PHASE) - 0.01168 * np.cos(3 * _PHASE)
).astype(np.float32)  # fmt: skip

#: Bins of a slope, half the width of a line in the spectrum; bins below it whose mean counts; least height in dB.
_SLOPE, _BELOW, _DROP_DB = 4, 8, 20.0


class Spectrum:
    """Measure spectra of a recording: 512 samples every 10 ms, the first around sample 0, zeros before and after it.

    Args:
        rate: samples a second.

    Examples:
        >>> rate = 16_000
        >>> spectrum = Spectrum(rate)
        >>> spectrum.take(np.sin(2 * np.pi * 3000 * np.arange(rate) / rate).astype(np.float32))
        >>> spectrum.end()
        >>> spectrum.bandwidth(), spectrum.cutoff(), spectrum.frames
        (3593, 3218.75, 101)
    """

    def __init__(self, rate: int) -> None:
        self._rate, self._hop = rate, max(1, int(rate * _STRIDE_S))
        self._rest = np.zeros(_SIZE // 2, np.float32)
        self._skip = 0  # samples before the next frame, where frames are further apart than they are long
        #: Sums of powers of frames with zeros before or after the recording in them, and of the others.
        self._padded, self._inner = np.zeros(_SIZE // 2 + 1), np.zeros(_SIZE // 2 + 1)
        self._first = -(-_SIZE // 2 // self._hop)  # frames with zeros before the recording
        self._inner_frames, self._sums = 0, np.zeros(2)
        self._frames = np.empty((_TOGETHER, _SIZE), np.float32)
        self._fft = needed("scipy.fft", "spectra of sound", "audio")
        self.frames = 0

    def take(self, samples: npt.NDArray[np.float32]) -> None:
        """Take the next samples of one channel."""
        if self._skip:
            skipped = min(self._skip, len(samples))
            samples, self._skip = samples[skipped:], self._skip - skipped
        held = np.concatenate([self._rest, samples])
        count = (len(held) - _SIZE) // self._hop + 1 if len(held) >= _SIZE else 0
        first = min(count, max(0, self._first - self.frames))
        self._add(held, 0, first, self._padded)
        self._add(held, first, count, self._inner)
        self._inner_frames += count - first
        self._rest = held[count * self._hop :].copy()
        self._skip += max(0, count * self._hop - len(held))

    def end(self) -> None:
        """Take the zeros behind the last sample."""
        inner, self._inner, frames = self._inner, self._padded, self._inner_frames
        self.take(np.zeros(_SIZE // 2, np.float32))
        self._inner, self._inner_frames = inner, frames

    def _add(self, samples: npt.NDArray[np.float32], start: int, stop: int, powers: npt.NDArray[np.float64]) -> None:
        for number in range(start, stop, _TOGETHER):
            frames = self._frames[: min(_TOGETHER, stop - number)]
            cut_frames(samples[number * self._hop :], self._hop, _WINDOW, frames)
            spectra(self._fft.rfft(frames).view(np.float32), powers, self._sums)
        self.frames += stop - start

    def bandwidth(self) -> int:
        """Return the highest frequency, in hertz, with a mean power of at most 50 dB below the peak.

        It is the figure of NeMo Curator's `BandwidthEstimationStage`. Of silence it is half of the sample rate.
        """
        levels = _levels(self._padded + self._inner, self.frames)
        highest = np.flatnonzero(levels - levels.max() > _THRESHOLD_DB)[-1]
        return int(highest * (self._rate / _SIZE))

    def flatness(self) -> float:
        """Return the mean over frames of the spectral flatness: 0 for tones to 1 for silence; 0.56 for white noise."""
        return float(self._sums[0] / self.frames)

    def rolloff(self) -> float:
        """Return the mean over frames of the frequency, in hertz, below which 85 % of the magnitudes are."""
        return float(self._sums[1] / self.frames * self._rate / _SIZE)

    def cutoff(self) -> float:
        """Return the frequency in hertz above which there is next to nothing: codecs and resampling leave such edges.

        The mean power falls there by 20 dB or more within 8 bins of rate / 512, and all above is 50 dB or more below
        the peak. It is half of the sample rate where there is no such edge, and for silence. Frames at both ends do
        not count: a recording that begins at once has all frequencies there.
        """
        if not self._inner_frames:
            return self._rate / 2
        levels = _levels(self._inner, self._inner_frames)
        highest = np.maximum.accumulate(levels[::-1])[::-1]  # of a bin and those above
        means = np.convolve(levels, np.ones(_BELOW) / _BELOW, "valid")  # of a bin and the next seven
        above = highest[_BELOW + 2 * _SLOPE :]
        drops = means[: len(above)] - above
        edges = np.flatnonzero((drops >= _DROP_DB) & (above - levels.max() <= _THRESHOLD_DB))
        if not len(edges):
            return self._rate / 2
        edge = edges[: int(np.argmax(np.diff(edges, append=len(drops) + 1) > 1)) + 1]  # the lowest
        return float((edge[drops[edge].argmax()] + _BELOW - 1 + _SLOPE) * self._rate / _SIZE)


def _levels(powers: npt.NDArray[np.float64], frames: int) -> npt.NDArray[np.float64]:
    """Mean powers in dB, at most 100 below the peak."""
    means = np.maximum(_LEAST, (powers / frames).astype(np.float32))
    levels = 10 * np.log10(means) - 10 * math.log10(_SIZE)
    limited: npt.NDArray[np.float64] = np.maximum(levels, levels.max() - _TOP_DB)
    return limited
