"""How well a frame is a mixture of one before and one after it, and the votes of trees on that.

Of a dissolve or a fade a frame is nearly ``(1 - a)`` times the last frame of one shot plus ``a`` times the first of the
next, of a wipe each pixel is of one of both; a frame of a movement is neither.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import ALLOCATING, INLINE, OPTIONS, Scalar

#: Frames of one size as (frames, 3 * pixels), red, green and blue in turn.
Flat = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int32]

#: Distances in frames at which a frame is compared with one before and one after it.
REACHES = (2, 4, 8, 16)
#: Frames that are needed before and after a frame.
AROUND = 16
#: What is measured at each distance, and once.
PER_REACH = ("difference", "share", "residual", "slope", "either", "colours", "contrast")
ONCE = ("step", "median_step", "largest_step", "largest_before", "largest_after", "brightness", "contrast")
FEATURES = len(REACHES) * len(PER_REACH) + len(ONCE)

#: Frames on either side whose steps count as near.
_NEAR = 8
#: Bins of a histogram of colours: 4 of each channel.
_BINS = 64
_f32: Any = np.float32
_i32: Any = np.int32
_i64: Any = np.int64


@njit(**ALLOCATING)
def _zeros(count: Scalar) -> Floats:
    return np.zeros(count, np.float32)


@njit(**ALLOCATING)
def _counts(frames: Scalar) -> Counts:
    return np.zeros((frames, _BINS), np.int32)


@njit(**INLINE)
def _histogram(frame: Flat, counts: Counts) -> None:
    for place in range(0, len(frame), 3):
        counts[(frame[place] >> 6) * 16 + (frame[place + 1] >> 6) * 4 + (frame[place + 2] >> 6)] += 1


@njit(**INLINE)
def _deviation(frame: Flat) -> tuple[Scalar, Scalar]:
    """Mean and standard deviation of all values."""
    total, squares = np.int64(0), np.int64(0)
    for place in range(len(frame)):
        value = _i32(frame[place])
        total += value
        squares += value * value
    mean = total / len(frame)
    return mean, np.sqrt(max(0.0, squares / len(frame) - mean * mean))


@njit(**INLINE)
def _step(one: Flat, other: Flat) -> Scalar:
    """Mean difference of two frames."""
    total = _i32(0)
    for place in range(len(one)):
        total += abs(_i32(one[place]) - _i32(other[place]))
    return total / len(one)


@njit(**INLINE)
def _mixture(a: Flat, x: Flat, b: Flat) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Of a frame x between a and b: mean difference, share of b, what is left, and how far pixels are from either."""
    dd, xd, xx, either, difference = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for place in range(len(a)):
        d = _i32(b[place]) - _i32(a[place])
        e = _i32(x[place]) - _i32(a[place])
        dd += d * d
        xd += e * d
        xx += e * e
        either += min(abs(e), abs(e - d))
        difference += abs(d)
    if dd == 0:
        return 0.0, 0.0, 1.0, 1.0
    share = xd / dd
    left = max(0.0, xx - share * xd)
    return difference / len(a), share, np.sqrt(left / dd), either / max(difference, _i64(1))


@njit(**INLINE)
def _share(a: Flat, x: Flat, b: Flat) -> Scalar:
    dd, xd = np.int64(0), np.int64(0)
    for place in range(len(a)):
        d = _i32(b[place]) - _i32(a[place])
        dd += d * d
        xd += (_i32(x[place]) - _i32(a[place])) * d
    return xd / dd if dd else 0.0


@njit(**OPTIONS)
def mixture_features(frames: Flat, features: Floats) -> None:
    """Measure frames beside those around them.

    Args:
        frames: frames, with 16 before the first and after the last that are measured.
        features: result, shape (frames - 32, 35): for each of `REACHES` the values `PER_REACH`, then `ONCE`.
    """
    count, pixels = len(frames), frames.shape[1] // 3
    steps, deviations, levels = _zeros(count), _zeros(count), _zeros(count)
    near = _zeros(2 * _NEAR + 1)
    histograms = _counts(count)
    for number in range(count):
        _histogram(frames[number], histograms[number])
        mean, deviation = _deviation(frames[number])
        levels[number], deviations[number] = mean, deviation
        steps[number] = _step(frames[number - 1], frames[number]) if number else 0.0
    for number in range(len(features)):
        t = number + AROUND
        at = 0
        for reach in REACHES:
            a, x, b = frames[t - reach], frames[t], frames[t + reach]
            difference, share, left, either = _mixture(a, x, b)
            slope = _share(a, frames[t + 1], b) - _share(a, frames[t - 1], b)
            colours = 0
            for bin_ in range(_BINS):
                colours += abs(histograms[t - reach, bin_] - histograms[t + reach, bin_])
            features[number, at] = difference
            features[number, at + 1] = min(max(share, -1.0), 2.0)
            features[number, at + 2] = min(left, 4.0)
            features[number, at + 3] = min(max(slope, -2.0), 2.0)
            features[number, at + 4] = min(either, 4.0)
            features[number, at + 5] = colours / pixels
            features[number, at + 6] = deviations[t] / (0.5 * (deviations[t - reach] + deviations[t + reach]) + 1.0)
            at += 7
        near[:] = steps[t - _NEAR : t + _NEAR + 1]
        features[number, at] = steps[t]
        features[number, at + 2] = near.max()
        features[number, at + 3] = near[:_NEAR].max()
        features[number, at + 4] = near[_NEAR + 1 :].max()
        near.sort()
        features[number, at + 1] = near[_NEAR]
        features[number, at + 5] = levels[t]
        features[number, at + 6] = deviations[t]


class Trees(NamedTuple):
    """Trees whose sum is the logarithm of the odds.

    Args:
        nodes: table of shape (nodes, 3): feature or -1 in a leaf, and the nodes to go to up to the limit and above it.
        limits: limit of each node.
        values: value of each leaf.
        roots: first node of each tree.
    """

    nodes: Counts
    limits: Floats
    values: Floats
    roots: Counts


@njit(**OPTIONS)
def votes(features: Floats, trees: Trees, sums: npt.NDArray[np.float64]) -> None:
    """Write what trees say of each row of features together."""
    nodes, limits, values = trees.nodes, trees.limits, trees.values
    for row in range(len(features)):
        total = 0.0
        for root in trees.roots:
            node = root
            while nodes[node, 0] >= 0:
                node = nodes[node, 1] if features[row, nodes[node, 0]] <= limits[node] else nodes[node, 2]
            total += values[node]
        sums[row] = total
