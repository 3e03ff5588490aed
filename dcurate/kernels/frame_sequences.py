"""The alignment of two films by the hashes of their frames, at an offset and a speed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import ALLOCATING, INLINE, OPTIONS, Scalar

Floats = npt.NDArray[np.float64]
Hashes = npt.NDArray[np.uint64]
TwoFilms = tuple[Hashes, Hashes]
TwoTimes = tuple[Floats, Floats]
Two = tuple[float, float]

#: Most bits in which hashes of one picture differ, and how many bits they must have for each that differs.
_DISTANCE, _BITS_EACH = 24, 3
#: Speeds that are tried on both sides of 1, and the step between them.
_SPEEDS, _SPEED_STEP = 12, 0.01
#: Pairs of frames that vote for an offset, at most, about.
_VOTES = 2**18
#: Width of the window of offsets in seconds, and as a share of the duration.
_WIDTH, _WIDTH_SHARE = 0.7, 0.006
#: Seconds between frames that count as one moment, at most, beside the step between frames.
_MOMENT = 0.1


@njit(**INLINE)
def _ones(word: Scalar) -> Scalar:
    """How many bits are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(**INLINE)
def _alike(left: Hashes, here: Scalar, right: Hashes, there: Scalar) -> Scalar:
    """Whether two frames show one picture."""
    apart, bits = np.int64(0), np.int64(0)
    for word in range(left.shape[1]):
        apart += _ones(left[here, word] ^ right[there, word])
        bits += _ones(left[here, word]) + _ones(right[there, word])
    return apart <= _DISTANCE and _BITS_EACH * apart <= bits


@njit(**ALLOCATING)
def _votes(left: Hashes, right: Hashes) -> npt.NDArray[np.int64]:
    """Pairs of frames that are alike, of shape (pairs, 2); of very many, every n-th."""
    total = 0
    for here in range(len(left)):
        for there in range(len(right)):
            if _alike(left, here, right, there):
                total += 1
    every = total // _VOTES + 1
    votes = np.empty((total // every + 1, 2), np.int64)
    number = count = 0
    for here in range(len(left)):
        for there in range(len(right)):
            if _alike(left, here, right, there):
                if number % every == 0:
                    votes[count, 0], votes[count, 1] = here, there
                    count += 1
                number += 1
    return votes[:count]


@njit(**ALLOCATING)
def _refined(here: Floats, there: Floats, speed: Scalar, offset: Scalar, width: Scalar) -> tuple[float, float]:
    """Fit speed and offset to the votes that are close to them."""
    for _ in range(3):
        close = np.abs(there - speed * here - offset) <= width
        x, y = here[close], there[close]
        if len(x) < 3:
            break
        spread = ((x - x.mean()) ** 2).sum()
        if spread > 1.0:
            slope = ((x - x.mean()) * (y - y.mean())).sum() / spread
            speed = min(max(slope, 1 - (_SPEEDS + 1) * _SPEED_STEP), 1 + (_SPEEDS + 1) * _SPEED_STEP)
        offset = np.median(y - speed * x)
        width = max(_WIDTH, width / 2)
    return speed, offset


@njit(**ALLOCATING)
def _matched(
    hashes: tuple[Hashes, Hashes],
    times: tuple[Floats, Floats],
    line: tuple[float, float],
    span: tuple[float, float],
    near: Scalar,
) -> float:
    """Share of the frames of a span that the other film shows at the same moment; 0 if there are none."""
    speed, offset = line
    inside = matched = 0
    first = 0
    for here in range(len(times[0])):
        if not span[0] <= times[0][here] <= span[1]:
            continue
        inside += 1
        moment = speed * times[0][here] + offset
        while first < len(times[1]) and times[1][first] < moment - near:
            first += 1
        there = first
        while there < len(times[1]) and times[1][there] <= moment + near:
            if _alike(hashes[0], here, hashes[1], there):
                matched += 1
                break
            there += 1
    return matched / inside if inside else 0.0


@njit(**OPTIONS)
def align_frames(hashes: TwoFilms, times: TwoTimes, durations: Two, step: Scalar) -> Scalar:
    """Say how much of two films shows the same: 0 to 1.

    The films are aligned at the offset, and at the speed from 88 % to 112 %, at which most frames agree. The result is
    the part of the longer film that both have, times the share of its frames that agree there, in the film where it is
    less.

    Args:
        hashes: hashes of the frames of the two, of shape (frames, words).
        times: seconds of them from the start of the film, in order.
        durations: seconds of the films.
        step: seconds from frame to frame.
    """
    votes = _votes(hashes[0], hashes[1])
    if len(votes) == 0:
        return 0.0
    here, there = np.empty(len(votes), np.float64), np.empty(len(votes), np.float64)
    for number in range(len(votes)):
        here[number], there[number] = times[0][votes[number, 0]], times[1][votes[number, 1]]
    width = max(_WIDTH, _WIDTH_SHARE * max(durations[0], durations[1]))
    most, speed, offset = 0, 1.0, 0.0
    for number in range(2 * _SPEEDS + 1):  # 1 first, which wins a tie
        trial = 1.0 + (number + 1) // 2 * _SPEED_STEP * (1 - 2 * (number % 2))
        offsets = np.sort(there - trial * here)
        end = 0
        for start in range(len(offsets)):
            while end < len(offsets) and offsets[end] <= offsets[start] + width:
                end += 1
            if end - start > most:
                most, speed, offset = end - start, trial, (offsets[start] + offsets[end - 1]) / 2
    best = _similarity(hashes, times, durations, (speed, offset), step)
    speed, offset = _refined(here, there, speed, offset, width)
    return max(best, _similarity(hashes, times, durations, (speed, offset), step))


@njit(**ALLOCATING)
def _similarity(
    hashes: tuple[Hashes, Hashes],
    times: tuple[Floats, Floats],
    durations: tuple[float, float],
    line: tuple[float, float],
    step: Scalar,
) -> float:
    speed, offset = line
    begin, close = max(0.0, -offset / speed), min(durations[0], (durations[1] - offset) / speed)
    if not close > begin:
        return 0.0
    covered = min(1.0, speed * (close - begin) / max(durations[1], speed * durations[0]))
    near = step + _MOMENT
    share = _matched(hashes, times, line, (begin, close), near)
    back = (1 / speed, -offset / speed)
    span = (speed * begin + offset, speed * close + offset)
    other = _matched((hashes[1], hashes[0]), (times[1], times[0]), back, span, near)
    similarity: float = covered * min(share, other)
    return similarity
