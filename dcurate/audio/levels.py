"""Levels of samples and of short frames: peaks, clipping, silence, and the signal-to-noise ratio."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dcurate.audio.grid import FrameGrid
from dcurate.kernels import sound
from dcurate.kernels.sound import (
    FULL,
    FULL_SCALE,
    HIGH,
    LOGS,
    LOW,
    SIZES,
    SOUNDING,
    SQUARES,
    STEP_DB,
    SUM,
    TAPS,
    TOTALS,
)

#: The level in dB of what is silent, or of less.
FLOOR_DB = -120.0
#: Frames a second.
_HERTZ = 50
#: Classes of levels of frames.
_LEVELS = 4_000
#: Seconds of the shortest stretch of zeros that counts.
_ZEROS_S = 0.01
#: Shares of frames, of those that are not digital silence, whose level is that of the noise, and of the sound.
_QUIET, _LOUD = 0.15, 0.95
#: From so far below the level of the sound on, frames are sound, in dB.
_SOUND_DB = 15.0
#: Correlation of channels at which they cancel out in a mix.
_OPPOSITE = -0.9

#: The filter of ITU-R BS.1770-4, annex 2: two phases, and the same backwards.
_PHASES = (
    (0.0017089843750, 0.0109863281250, -0.0196533203125, 0.0332031250000, -0.0594482421875, 0.1373291015625,
     0.9721679687500, -0.1022949218750, 0.0476074218750, -0.0266113281250, 0.0148925781250, -0.0083007812500),
    (-0.0291748046875, 0.0292968750000, -0.0517578125000, 0.0891113281250, -0.1665039062500, 0.4650878906250,
     0.7797851562500, -0.2003173828125, 0.1015625000000, -0.0582275390625, 0.0330810546875, -0.0189208984375),
)  # fmt: skip
FILTER = np.array([*_PHASES, _PHASES[1][::-1], _PHASES[0][::-1]], np.float32)
#: The most that the filter can give for samples of magnitude 1.
_BOUND = float(np.abs(FILTER).sum(axis=1).max()) * (1 + 1e-6)

#: ln E|z| - E ln|z| of speech with gamma-distributed samples of shape 0.4, in Gaussian noise, for signal-to-noise
#: ratios of -20 to 100 dB (Kim and Stern, 2008); integrated numerically.
WADA = (
    0.409435, 0.409459, 0.409498, 0.409556, 0.409644, 0.409777, 0.409974, 0.410265, 0.410687, 0.411293, 0.412148,
    0.413339, 0.414969, 0.417164, 0.420066, 0.423839, 0.428654, 0.434691, 0.442128, 0.451128, 0.461837, 0.474368,
    0.488795, 0.505151, 0.523423, 0.543551, 0.565434, 0.588934, 0.613881, 0.640087, 0.667346, 0.695450, 0.724191,
    0.753365, 0.782784, 0.812272, 0.841671, 0.870839, 0.899654, 0.928012, 0.955825, 0.983020, 1.009541, 1.035341,
    1.060388, 1.084657, 1.108135, 1.130813, 1.152691, 1.173772, 1.194065, 1.213581, 1.232336, 1.250346, 1.267630,
    1.284208, 1.300102, 1.315332, 1.329921, 1.343892, 1.357266, 1.370065, 1.382311, 1.394026, 1.405231, 1.415945,
    1.426190, 1.435983, 1.445345, 1.454293, 1.462844, 1.471016, 1.478825, 1.486286, 1.493414, 1.500225, 1.506731,
    1.512947, 1.518885, 1.524557, 1.529975, 1.535150, 1.540093, 1.544814, 1.549324, 1.553631, 1.557745, 1.561674,
    1.565426, 1.569010, 1.572433, 1.575702, 1.578824, 1.581806, 1.584654, 1.587373, 1.589971, 1.592451, 1.594820,
    1.597083, 1.599243, 1.601306, 1.603277, 1.605159, 1.606956, 1.608673, 1.610312, 1.611877, 1.613372, 1.614800,
    1.616163, 1.617465, 1.618708, 1.619896, 1.621030, 1.622113, 1.623147, 1.624135, 1.625078, 1.625979, 1.626839,
)  # fmt: skip
WADA_DB = np.arange(-20.0, 101.0)


class Levels:
    """Measure levels of a recording.

    Args:
        rate: samples of a channel a second.
        channels: number of channels.
        silence_db: level below which a frame of 20 ms is silent, in dB of full scale.

    Examples:
        >>> levels = Levels(8000, 1, -50.0)
        >>> levels.take(np.float32([np.clip(2 * np.sin(np.arange(8000) / 20), -1, 1)]))
        >>> levels.end()
        >>> levels.peak(), round(levels.clipped(), 3), levels.silence()
        (0.0, 0.666, 0.0)
    """

    def __init__(self, rate: int, channels: int, silence_db: float) -> None:
        self._totals = np.zeros((channels, TOTALS))
        self._totals[:, HIGH], self._totals[:, LOW] = -np.inf, np.inf
        self._tops = np.zeros((channels, 2, 3))
        self._before = np.zeros((channels, TAPS - 1), np.float32)
        self._products = np.zeros(max(0, channels - 1))
        self._between = 0.0  # the largest sample between samples
        self._zeros, self._least_zeros = np.zeros(3, np.int64), max(1, math.ceil(_ZEROS_S * rate))
        self._grid, self._rate = FrameGrid(rate, _HERTZ), rate
        self._rest, self._pending = np.zeros((channels, 2)), 0  # of the frame that is not over: sums, and its samples
        self._levels = np.zeros((2, _LEVELS))
        self._silence, self._silent = 10 ** (silence_db / 10), 0
        self.frames = 0

    def take(self, channels: npt.NDArray[np.float32]) -> None:
        """Take the next samples, one row a channel."""
        count = channels.shape[1]
        ends = self._grid.ends(count)
        frames = np.empty((len(channels), len(ends) + 1, 2))
        for samples, totals, sums, tops in zip(channels, self._totals, frames, self._tops, strict=True):
            high, low = sound.measure(samples, samples.view(np.int32), ends, totals, sums)
            for top, side, most in zip(tops, (1, -1), (high, -low), strict=True):
                if most >= top[0]:
                    sound.flat_tops(samples, top, side)
                else:
                    top[2] = 0
        for number, (samples, neighbour) in enumerate(pairwise(channels)):
            self._products[number] += sound.product_sum(samples, neighbour)
        sound.zero_runs(channels, self._least_zeros, self._zeros)
        self._interpolate(channels)
        self.frames += count
        frames[:, 0] += self._rest
        self._add(frames, np.concatenate([[-self._pending], ends]))
        self._rest = frames[:, -1].copy()
        self._pending = count - int(ends[-1]) if len(ends) else self._pending + count

    def end(self) -> None:
        """Take the frame that is not over."""
        if self._pending:
            self._add(self._rest[:, None], np.array([-self._pending, 0]))
        self._interpolate(np.zeros_like(self._before))

    def _interpolate(self, channels: npt.NDArray[np.float32]) -> None:
        held = np.concatenate([self._before, channels[:, : TAPS - 1]], axis=1)
        for edge, samples in zip(held, channels, strict=True):
            for stretch in (edge, samples):
                self._between = sound.true_peak(stretch, FILTER, _BOUND, self._between)
        last = channels if channels.shape[1] >= TAPS - 1 else held
        self._before = last[:, 1 - TAPS :].copy()

    def _add(self, frames: npt.NDArray[np.float64], edges: npt.NDArray[np.int64]) -> None:
        """Count the levels of frames: mean squares over all channels, about the mean of all samples up to here."""
        means = self._totals[:, SUM] / max(1, self.frames)
        self._silent += sound.tally(frames, edges, means, self._silence, self._levels)

    def peak(self) -> float:
        """Return the level of the largest sample, in dB of full scale; -120 or more."""
        return _decibels(self._largest)

    def true_peak(self) -> float:
        """Return the level of the largest sample of all and between them, in dBTP; -120 or more."""
        return _decibels(max(self._largest, self._between))

    @property
    def _largest(self) -> float:
        return float(max(self._totals[:, HIGH].max(), -self._totals[:, LOW].min()))

    def clipped(self) -> float:
        """Return the share of samples at full scale or beyond, or in flat tops at the extremes of a channel."""
        flat = np.where(self._tops[:, :, 0] < FULL_SCALE, self._tops[:, :, 1], 0.0)
        return float((self._totals[:, FULL].sum() + flat.sum()) / self._samples)

    @property
    def _samples(self) -> int:
        return self.frames * len(self._totals)

    def offset(self) -> float:
        """Return the largest mean of a channel, without its sign."""
        return float(np.abs(self._totals[:, SUM]).max() / self.frames)

    def silence(self) -> float:
        """Return the share of time in silent frames."""
        return self._silent / self.frames

    def zeros(self) -> float:
        """Return the share of time in stretches of 10 ms or more in which all channels are exactly 0."""
        return float(self._zeros[0] / self.frames)

    def longest_zeros(self) -> float:
        """Return the seconds of the longest such stretch; 0 if there is none."""
        return float(self._zeros[1] / self._rate)

    def silent_channels(self) -> int:
        """Return how many channels have one value throughout."""
        return int((self._totals[:, HIGH] == self._totals[:, LOW]).sum())

    def correlation(self) -> float | None:
        """Return the lowest correlation of neighbouring channels; None if no two channels have sound."""
        means = self._totals[:, SUM] / self.frames
        variances = self._totals[:, SQUARES] / self.frames - means * means
        variances[self._totals[:, HIGH] == self._totals[:, LOW]] = 0.0
        covariances = self._products / self.frames - means[:-1] * means[1:]
        scales = np.sqrt(np.maximum(0.0, variances[:-1])) * np.sqrt(np.maximum(0.0, variances[1:]))
        correlations = covariances[scales > 0] / scales[scales > 0]
        return float(correlations.clip(-1, 1).min()) if len(correlations) else None

    def is_opposite(self) -> bool:
        """Whether two neighbouring channels are so much in opposite phase that a mix of them loses the sound."""
        correlation = self.correlation()
        return correlation is not None and correlation <= _OPPOSITE

    def snr(self) -> float | None:
        """Return the level of loud frames above that of quiet frames, less the noise in them, in dB.

        Quiet are the 15 % of frames with the lowest levels; loud are those up to 15 dB below the level that 5 % of
        frames exceed. Frames of digital silence do not count. None if all are that; 100 dB at most.
        """
        counts, powers = self._levels
        total = int(counts.sum())
        if not total:
            return None
        until = np.cumsum(counts)
        quiet = int(np.searchsorted(until, math.ceil(_QUIET * total)))
        loud = max(quiet, int(np.searchsorted(until, math.ceil(_LOUD * total)) - _SOUND_DB / STEP_DB))
        noise = powers[: quiet + 1].sum() / counts[: quiet + 1].sum()
        both = powers[loud:].sum() / counts[loud:].sum()
        if both <= noise:
            return -20.0
        return min(100.0, max(-20.0, 10 * math.log10((both - noise) / noise)))

    def wada(self) -> float | None:
        """Return the signal-to-noise ratio by the distribution of amplitudes (WADA), -20 to 100 dB.

        It is that of the channel with the most energy; samples that are 0 do not count. None if all are.
        """
        totals = self._totals[self._totals[:, SQUARES].argmax()]
        if not totals[SOUNDING] or not totals[SIZES]:
            return None
        gap = math.log(totals[SIZES] / totals[SOUNDING]) - totals[LOGS] / totals[SOUNDING]
        return float(np.interp(gap, WADA, WADA_DB))


def _decibels(size: float) -> float:
    return max(FLOOR_DB, 20 * math.log10(size)) if size > 0 else FLOOR_DB
