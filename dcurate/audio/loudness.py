"""Loudness by ITU-R BS.1770-4, and its range by EBU Tech 3342."""

from __future__ import annotations

import math
from array import array

import numpy as np
import numpy.typing as npt

from dcurate.audio.grid import FrameGrid
from dcurate.kernels.sound import weigh

#: Loudness in LUFS below which a block does not count: also that of a recording with no other block.
GATE = -70.0
#: Blocks of the gate, and of the range, in tenths of a second.
_BLOCK, _SHORT_TERM = 4, 30
#: How far below the mean a block may be, in LU.
_BELOW, _BELOW_IN_RANGE = 10.0, 20.0
#: Percentiles of the loudness between which the range is.
_PERCENTILES = (10, 95)
#: Rates for which there are filters: the shelf is at 1,682 Hz.
_RATES = range(4_000, 1_000_001)
#: Weights of channels by their number, in the order of WAV and FLAC files; 1 for all others. The low-frequency channel
#: does not count, and those at the sides count more.
_WEIGHTS: dict[int, tuple[float, ...]] = {
    5: (1.0, 1.0, 1.0, 1.41, 1.41),
    6: (1.0, 1.0, 1.0, 0.0, 1.41, 1.41),
    8: (1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.41, 1.41),
}


class Loudness:
    """Measure the loudness of a recording.

    Energies of each tenth of a second are kept: 288 kB an hour.

    Args:
        rate: samples of a channel a second; there is no loudness below 4,000 and above 1,000,000.
        channels: number of channels.

    Examples:
        >>> time = np.arange(5 * 48_000) / 48_000
        >>> loudness = Loudness(48_000, 2)
        >>> sine = 10 ** (-23 / 20) * np.sin(2 * np.pi * 1000 * time)
        >>> loudness.take(np.float32([sine, sine]))
        >>> round(loudness.integrated(), 2), round(loudness.range(), 2)
        (-22.99, 0.0)
    """

    def __init__(self, rate: int, channels: int) -> None:
        self._filters = k_weighting(rate) if rate in _RATES else None
        self._states = np.zeros((channels, 6))
        self._weights = np.array(_WEIGHTS.get(channels, (1.0,) * channels))
        self._rate, self._grid = rate, FrameGrid(rate, 10)
        self._rest, self._frames = 0.0, 0
        self._energies = array("d")

    def take(self, channels: npt.NDArray[np.float32]) -> None:
        """Take the next samples, one row a channel."""
        if self._filters is None:
            return
        frames = channels.shape[1]
        ends = self._grid.ends(frames)
        energies = np.empty((len(channels), len(ends) + 1))
        for samples, state, energy in zip(channels, self._states, energies, strict=True):
            weigh(samples, self._filters, state, ends, energy)
        blocks = self._weights @ energies
        blocks[0] += self._rest
        self._rest, self._frames = float(blocks[-1]), self._frames + frames
        self._energies.frombytes(blocks[:-1].tobytes())

    def integrated(self) -> float | None:
        """Return the loudness in LUFS, -70 or more; None at rates that have none.

        Sound of less than 0.4 seconds is one block.
        """
        if self._filters is None or not self._frames:
            return None
        powers = self._powers(_BLOCK)
        if not len(powers):
            powers = np.array([(sum(self._energies) + self._rest) / self._frames])
        powers = powers[powers > _power(GATE)]
        if len(powers):
            powers = powers[powers > powers.mean() * 10 ** (-_BELOW / 10)]
        return max(GATE, _lufs(float(powers.mean()))) if len(powers) else GATE

    def range(self) -> float | None:
        """Return the loudness range in LU; None for less than 3 seconds, and where all is below -70 LUFS."""
        powers = self._powers(_SHORT_TERM)
        powers = powers[powers >= _power(GATE)]
        if not len(powers):
            return None
        powers = powers[powers >= powers.mean() * 10 ** (-_BELOW_IN_RANGE / 10)]
        low, high = np.percentile(10 * np.log10(powers), _PERCENTILES)
        return float(high - low)

    def _powers(self, tenths: int) -> npt.NDArray[np.float64]:
        """Mean squares of all blocks of a length, one every tenth of a second."""
        energies = np.array(self._energies)
        if len(energies) < tenths:
            return np.empty(0)
        windows = np.lib.stride_tricks.sliding_window_view(energies, tenths)
        sums: npt.NDArray[np.float64] = windows.sum(axis=1) * (10 / (tenths * self._rate))
        return sums


def k_weighting(rate: int) -> npt.NDArray[np.float64]:
    """Return the filters of the K-weighting: the shelf b0, b1, b2, a1, a2, and the high-pass a1, a2 (b: 1, -2, 1).

    At 48,000 Hz they are those of the standard; at other rates, filters of the same frequencies (De Man, "Evaluation of
    implementations of the EBU R128 loudness measurement", AES 145, 2018).

    Args:
        rate: samples a second.

    Examples:
        >>> k_weighting(48_000).round(10).tolist()
        [1.5351248596, -2.6916961894, 1.1983928109, -1.6906592932, 0.7324807742, -1.9900474548, 0.9900722504]
    """
    k, q = math.tan(math.pi * 1681.974450955533 / rate), 0.7071752369554196
    high = 10 ** (3.999843853973347 / 20)
    middle = high**0.4996667741545416
    scale = 1 + k / q + k * k
    shelf = (high + middle * k / q + k * k, 2 * (k * k - high), high - middle * k / q + k * k)
    poles = (2 * (k * k - 1), 1 - k / q + k * k)
    k_low, q_low = math.tan(math.pi * 38.13547087602444 / rate), 0.5003270373238773
    low = (2 * (k_low * k_low - 1), 1 - k_low / q_low + k_low * k_low)
    scale_low = 1 + k_low / q_low + k_low * k_low
    return np.array([value / scale for value in (*shelf, *poles)] + [value / scale_low for value in low])


def loudness_gain(
    loudness: float | None, true_peak: float, target: float = -23.0, max_true_peak: float = -1.0
) -> float:
    """Return the gain in dB that brings a recording to a loudness, or as near as its true peak allows.

    The defaults are those of EBU R 128. The gain is 0 where there is nothing to make louder.

    Args:
        loudness: loudness of the recording in LUFS, as `AudioSignals` measures it.
        true_peak: true peak of the recording in dBTP.
        target: the loudness that is wanted, in LUFS.
        max_true_peak: the highest true peak that the result may have, in dBTP.

    Examples:
        >>> loudness_gain(-30.0, -12.0), loudness_gain(-30.0, -4.0), loudness_gain(-70.0, -120.0)
        (7.0, 3.0, 0.0)
    """
    if loudness is None or loudness <= GATE:
        return 0.0
    return min(target - loudness, max_true_peak - true_peak)


def _lufs(power: float) -> float:
    return -0.691 + 10 * math.log10(power)


def _power(lufs: float) -> float:
    return float(10 ** ((lufs + 0.691) / 10))
