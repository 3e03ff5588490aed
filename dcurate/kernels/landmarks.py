"""Landmarks of sound: triplets of peaks of the spectrogram, and the alignment of two recordings by those they share.

After Wang (2003), "An industrial-strength audio search algorithm", with three peaks for two, and with frequencies as
ratios, so that a change of speed by some percent does not matter.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import ALLOCATING, INLINE, OPTIONS, Ints, Scalar, Words

Floats = npt.NDArray[np.float64]
Levels = npt.NDArray[np.float32]
Hashes = npt.NDArray[np.uint32]

#: Frames and frequencies around a peak in which nothing is louder.
NEAR_FRAMES, NEAR_BINS = 5, 8
#: Peaks that one is combined with, and the triplets that they make.
_PARTNERS = 5
TRIPLETS = _PARTNERS * (_PARTNERS - 1) // 2
#: Seconds from a peak to its partners, and the difference of the logarithms of their frequencies, at most.
_SOONEST, _LATEST, _APART = 0.064, 0.8, 1.0
#: Steps of the logarithms of a frequency and of a ratio, and of seconds.
_FREQUENCY, _RATIO, _TIME = 0.08, 0.04, 0.064

#: Speeds that are tried, and the width of the window of offsets: seconds, and a share of the duration.
_SPEEDS, _SPEED_STEP = 11, 0.005
_WIDTH, _WIDTH_SHARE = 0.12, 0.0025
#: Parts of the overlap that must match alike, and the share of the mean rate that is alike.
_PARTS, _ALIKE = 4, 0.25
#: Fewest landmarks that agree, and their least share of those of the recording with fewer.
FEWEST, _SHARE = 6, 0.03


@njit(**OPTIONS)
def find_peaks(levels: Levels, low: Scalar, high: Scalar, floor: Scalar, out: Floats) -> int:
    """Find the peaks of frames that have `NEAR_FRAMES` others on both sides.

    Args:
        levels: logarithms of magnitudes, of shape (frames, frequencies).
        low, high: first frequency, and that behind the last.
        floor: least level.
        out: array of shape (peaks, 3) for frame, frequency, and level of each.

    Returns:
        How many there are; no more than `out` has room for.
    """
    count = 0
    for frame in range(NEAR_FRAMES, levels.shape[0] - NEAR_FRAMES):
        for place in range(low, high):
            level = levels[frame, place]
            if level > floor and count < out.shape[0] and _is_peak(levels, frame, place):
                out[count, 0] = frame + _vertex(levels[frame - 1, place], level, levels[frame + 1, place])
                out[count, 1] = place + _vertex(levels[frame, place - 1], level, levels[frame, place + 1])
                out[count, 2] = level
                count += 1
    return count


@njit(**INLINE)
def _is_peak(levels: Levels, frame: Scalar, place: Scalar) -> bool:
    """Whether a level is above all that come before it in its neighbourhood, and not below those that come after."""
    level = levels[frame, place]
    if levels[frame - 1, place] >= level or levels[frame, place - 1] >= level:
        return False
    if levels[frame + 1, place] > level or levels[frame, place + 1] > level:
        return False
    for row in range(frame - NEAR_FRAMES, frame + NEAR_FRAMES + 1):
        for column in range(max(0, place - NEAR_BINS), min(levels.shape[1], place + NEAR_BINS + 1)):
            before = row < frame or (row == frame and column < place)
            if levels[row, column] > level or (before and levels[row, column] == level):
                return False
    return True


@njit(**INLINE)
def _vertex(before: Scalar, level: Scalar, after: Scalar) -> Scalar:
    """Place of the vertex of the parabola through three levels, from the middle one: -0.5 to 0.5."""
    bend = before - 2 * level + after
    if not bend < -1e-9:
        return 0.0
    return min(0.5, max(-0.5, 0.5 * (before - after) / bend))


@njit(**OPTIONS)
def find_landmarks(times: Floats, frequencies: Floats, hashes: Hashes, moments: Levels) -> int:
    """Hash each peak with two of the next five.

    Args:
        times: seconds of the peaks, in order.
        frequencies: logarithms of their frequencies.
        hashes, moments: room for `TRIPLETS` landmarks a peak: their hashes, and the seconds of their first peaks.

    Returns:
        How many there are.
    """
    count = 0
    ratio, step = np.empty(_PARTNERS, np.int64), np.empty(_PARTNERS, np.int64)
    for first in range(len(times)):
        partners = 0
        for other in range(first + 1, len(times)):
            gap = times[other] - times[first]
            if gap > _LATEST or partners == _PARTNERS:
                break
            apart = frequencies[other] - frequencies[first]
            if gap >= _SOONEST and abs(apart) <= _APART:
                ratio[partners] = math.floor(apart / _RATIO + 0.5)
                step[partners] = int(gap / _TIME)
                partners += 1
        start = int(frequencies[first] / _FREQUENCY)
        for left in range(partners):
            for right in range(left + 1, partners):
                word = np.uint64(start)
                for value in (ratio[left] + 64, step[left], ratio[right] + 64, step[right]):
                    word = word * np.uint64(128) + np.uint64(value)
                hashes[count] = _mixed(word) >> np.uint64(32)
                moments[count] = times[first]
                count += 1
    return count


@njit(**INLINE)
def _mixed(word: Scalar) -> Scalar:
    word = (word + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(**OPTIONS)
def band_keys(hashes: Hashes, factors: Hashes, summands: Hashes, keys: Words) -> None:
    """Make the keys of the bands of MinHash: of two permutations each.

    Args:
        hashes: landmarks of a recording.
        factors, summands: numbers of the permutations, two a band.
        keys: room for a key a band.
    """
    for band in range(len(keys)):
        word = np.uint64(band + 1)
        for number in (2 * band, 2 * band + 1):
            least = np.uint32(0xFFFFFFFF)
            for value in hashes:
                least = min(least, np.uint32(value * factors[number] + summands[number]))
            word = _mixed(word ^ np.uint64(least))
        keys[band] = word


@njit(**OPTIONS)
def align(hashes: tuple[Hashes, Hashes], moments: tuple[Levels, Levels], extents: tuple[Floats, Floats]) -> Scalar:
    """Say how much of two recordings is the same sound: 0 to 1.

    The recordings are aligned at the offset, and at the speed from 97.5 % to 102.5 %, at which most landmarks agree.
    Then the result is the part of the longer one that both have, times the share of it in which they agree alike.

    Args:
        hashes: landmarks of the two, in order, each once.
        moments: seconds of them.
        extents: seconds of the first and the last peak of each.
    """
    left, right = _shared(hashes[0], hashes[1])
    if len(left) < FEWEST:
        return 0.0
    here, there = moments[0][left].astype(np.float64), moments[1][right].astype(np.float64)
    longest = max(extents[0][1] - extents[0][0], extents[1][1] - extents[1][0])
    width = max(_WIDTH, _WIDTH_SHARE * longest)
    most, speed, offset = 0, 1.0, 0.0
    for number in range(_SPEEDS):  # 1 first, which wins a tie
        trial = 1.0 + (number + 1) // 2 * _SPEED_STEP * (1 - 2 * (number % 2))
        offsets = np.sort(there - trial * here)
        end = 0
        for start in range(len(offsets)):
            while end < len(offsets) and offsets[end] <= offsets[start] + width:
                end += 1
            if end - start > most:
                most, speed, offset = end - start, trial, (offsets[start] + offsets[end - 1]) / 2
    if most < FEWEST or most < _SHARE * min(len(hashes[0]), len(hashes[1])):
        return 0.0
    begin = max(extents[0][0], (extents[1][0] - offset) / speed)
    close = min(extents[0][1], (extents[1][1] - offset) / speed)
    if not close > begin:
        return 0.0
    agreed = np.abs(there - speed * here - offset) <= width
    covered = speed * (close - begin) / max(longest, speed * (extents[0][1] - extents[0][0]))
    even = _evenness(moments[0], here[agreed], begin, close)
    return min(1.0, covered) * min(
        even, _evenness(moments[1], there[agreed], speed * begin + offset, speed * close + offset)
    )


@njit(**ALLOCATING)
def _shared(left: Hashes, right: Hashes) -> tuple[Ints, Ints]:
    """Places of the values that two sorted arrays share."""
    lefts, rights = np.empty(len(left), np.int64), np.empty(len(left), np.int64)
    count = here = there = 0
    while here < len(left) and there < len(right):
        if left[here] == right[there]:
            lefts[count], rights[count] = here, there
            count += 1
            here += 1
            there += 1
        elif left[here] < right[there]:
            here += 1
        else:
            there += 1
    return lefts[:count], rights[:count]


@njit(**ALLOCATING)
def _evenness(moments: Levels, agreed: Floats, begin: Scalar, close: Scalar) -> float:
    """Share of the landmarks of a span that lie in parts of it in which enough of them agree."""
    inside = np.sort(moments[(moments >= begin) & (moments <= close)])
    if len(inside) == 0:
        return 0.0
    rate = len(agreed) / len(inside)
    alike = 0
    for part in range(_PARTS):
        start, stop = part * len(inside) // _PARTS, (part + 1) * len(inside) // _PARTS
        if start == stop:
            continue
        last = inside[stop] if stop < len(inside) else np.inf
        first = inside[start] if part else -np.inf
        matches = 0
        for moment in agreed:
            if first <= moment < last:
                matches += 1
        if matches >= _ALIKE * rate * (stop - start):
            alike += stop - start
    return alike / len(inside)
