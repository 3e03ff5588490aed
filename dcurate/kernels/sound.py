"""Levels, peaks, loudness and spectra of sound, from one look at each sample.

Floats are added in one order, 16 sums side by side, so that a recording has the same values on every machine, and the
compiler can use wide instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import ALLOCATING, INLINE, OPTIONS, Ints, Scalar

#: Samples of one channel.
Channel = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]

#: Places of `measure`'s totals.
SUM, SQUARES, SIZES, LOGS, SOUNDING, FULL, HIGH, LOW = range(8)
TOTALS = 8
#: From here on a sample is at full scale: 32,767 of 16 bits.
FULL_SCALE = 0.9999
#: Levels of frames: the lowest in dB, as samples may be far above 1, and the width of a class of them.
LOWEST_DB, STEP_DB = -150.0, 0.1
#: Equal samples in a row at the largest value that are a flat top, and the least value that can be one.
_FLAT, _FLAT_LEVEL = 3, 0.05
#: Sums side by side; rows of so many samples whose mantissas have a product that float32 can hold.
_LANES, _ROWS = 16, 64
#: Taps of a phase of the filter of true peaks.
TAPS = 12
#: Samples that are interpolated together.
_STRETCH = 64
#: Least power in the spectrum, as in librosa.
_LEAST = 1e-10
#: Share of the magnitudes below the roll-off, as in librosa.
_ROLLED = 0.85

_f32: Any = np.float32
_f64: Any = np.float64
_i32: Any = np.int32
_i64: Any = np.int64

_MAGNITUDE, _MANTISSA, _EXPONENT, _BIAS = _i32(0x7FFFFFFF), _i32(0x7FFFFF), _i32(23), 127
_SCALE = _f32(2.0**-23)


@njit(**OPTIONS)
def measure(channel: Channel, bits: npt.NDArray[np.int32], ends: Ints, totals: Values, frames: Values) -> Scalar:
    """Add up samples of a channel; return the highest and the lowest of these samples.

    Args:
        channel: samples, of less than 1e15.
        bits: the same memory as whole numbers.
        ends: places within the samples at which frames end.
        totals: the sum of samples, of squares, of magnitudes, and of logarithms of magnitudes; the number of samples
            that are not 0, and of those at full scale; the highest and the lowest sample. Added to.
        frames: sums of squares and of samples in each frame, and behind the last end; filled in.
    """
    squares, sums, sizes = _blank(), _blank(), _blank()
    high, low, products = _blank(), _blank(), _blank()
    full, zeros, exponents = np.empty(_LANES, np.int32), np.empty(_LANES, np.int32), np.empty(_LANES, np.int32)
    high[:], low[:] = _f32(-np.inf), _f32(np.inf)
    start = 0
    for frame in range(len(frames)):
        stop = ends[frame] if frame < len(ends) else len(channel)
        frames[frame, 0], frames[frame, 1] = 0.0, 0.0
        while stop - start >= _LANES:
            count = min(_ROWS, (stop - start) // _LANES) * _LANES
            squares[:], sums[:], sizes[:], products[:] = _f32(0.0), _f32(0.0), _f32(0.0), _f32(1.0)
            full[:], zeros[:], exponents[:] = _i32(0), _i32(0), _i32(0)
            for first in range(start, start + count, _LANES):
                values, raw = channel[first : first + _LANES], bits[first : first + _LANES]
                for lane in range(_LANES):
                    value = values[lane]
                    size = abs(value)
                    squares[lane] += value * value
                    sums[lane] += value
                    sizes[lane] += size
                    full[lane] += _i32(size >= _f32(FULL_SCALE))
                    high[lane], low[lane] = max(high[lane], value), min(low[lane], value)
                for lane in range(_LANES):
                    magnitude = _i32(raw[lane] & _MAGNITUDE)
                    none = magnitude <= _MANTISSA  # 0, or too small to have an exponent
                    products[lane] *= _f32(1.0) + _f32(_i32(0) if none else _i32(magnitude & _MANTISSA)) * _SCALE
                    exponents[lane] += _i32(magnitude >> _EXPONENT)
                    zeros[lane] += _i32(none)
            product, exponent, silent = 1.0, _i64(0), _i64(0)
            for lane in range(_LANES):
                frames[frame, 0] += _f64(squares[lane])
                frames[frame, 1] += _f64(sums[lane])
                totals[SIZES] += _f64(sizes[lane])
                totals[FULL] += full[lane]
                product *= _f64(products[lane])
                exponent, silent = exponent + exponents[lane], silent + zeros[lane]
            totals[LOGS] += np.log(product) + (exponent - _BIAS * (count - silent)) * np.log(2.0)
            totals[SOUNDING] += count - silent
            start += count
        for place in range(start, stop):
            wide = _f64(channel[place])
            frames[frame, 0] += wide * wide
            frames[frame, 1] += wide
            totals[SIZES] += abs(wide)
            totals[FULL] += abs(wide) >= FULL_SCALE
            if _i32(bits[place] & _MAGNITUDE) > _MANTISSA:
                totals[LOGS] += np.log(abs(wide))
                totals[SOUNDING] += 1
            high[0], low[0] = max(high[0], channel[place]), min(low[0], channel[place])
        start = stop
        totals[SQUARES] += frames[frame, 0]
        totals[SUM] += frames[frame, 1]
    most, least = -np.inf, np.inf
    for lane in range(_LANES):
        most, least = max(most, _f64(high[lane])), min(least, _f64(low[lane]))
    totals[HIGH], totals[LOW] = max(totals[HIGH], most), min(totals[LOW], least)
    return most, least


@njit(**OPTIONS)
def tally(frames: npt.NDArray[np.float64], edges: Ints, means: Values, silence: Scalar, levels: Any) -> Scalar:
    """Count frames by level; return the samples in silent ones.

    Args:
        frames: sums of squares and of samples of each channel in each frame, as `measure` has them.
        edges: places at which frames begin, and where the last of them ends.
        means: mean of each channel, which is no sound.
        silence: power below which a frame is silent.
        levels: frames of each level, from `LOWEST_DB` on by `STEP_DB`, and the sum of their powers; added to.
    """
    silent = 0
    for frame in range(len(edges) - 1):
        power, length = 0.0, edges[frame + 1] - edges[frame]
        for channel, mean in enumerate(means):
            squares, total = frames[channel, frame]
            power += (squares - 2.0 * mean * total) / length + mean * mean
        power /= len(means)
        if power < 1e-15:  # what rounding leaves
            power = 0.0
        if power < silence:
            silent += length
        if power > 0.0:
            place = int((10.0 * np.log10(power) - LOWEST_DB) / STEP_DB)
            place = max(0, min(levels.shape[1] - 1, place))
            levels[0, place] += 1.0
            levels[1, place] += power
    return silent


@njit(**ALLOCATING)
def _blank() -> Channel:
    return np.empty(_LANES, np.float32)


@njit(**OPTIONS)
def flat_tops(channel: Channel, state: Values, side: Scalar) -> None:
    """Count samples in flat tops: three or more equal samples in a row, at the highest sample of all so far.

    Args:
        channel: samples.
        state: the highest sample, the samples in flat tops at it, and in the row that is not over; changed.
        side: 1, or -1 for the lowest sample.
    """
    high, count, row = state[0], state[1], state[2]
    for place in range(len(channel)):
        value = side * _f64(channel[place])
        if value == high:
            row += 1
            count += _FLAT if row == _FLAT else row > _FLAT
        elif value > high:
            high, count, row = value, 0.0, 1.0
        else:
            row = 0.0
    state[0], state[1], state[2] = high, count if high >= _FLAT_LEVEL else 0.0, row


@njit(**OPTIONS)
def zero_runs(channels: npt.NDArray[np.float32], least: Scalar, state: Ints) -> None:
    """Count frames in stretches in which all channels are exactly 0.

    Of a stretch that is long enough, every frame whose number is a multiple of `least` cannot be missed: others are not
    looked at.

    Args:
        channels: samples, one row a channel.
        least: frames of the shortest stretch that counts.
        state: frames in such stretches, the longest of them, and the stretch that is not over; changed.
    """
    total, longest, row = state[0], state[1], state[2]
    count, place = channels.shape[1], 0
    while place < count:
        if row < least:  # where the stretch would be long enough, back to the last frame with sound
            last = min(count, place + least - row) - 1
            while last >= place and _is_silent(channels, last):
                last -= 1
            if last >= place:
                row, place = 0, last + 1
                continue
            reached = min(count, place + least - row)
            row, place = row + reached - place, reached
            total += row if row == least else 0
        elif _is_silent(channels, place):
            row, total, place = row + 1, total + 1, place + 1
        else:
            longest, row = max(longest, row), 0
    state[0], state[1], state[2] = total, max(longest, row) if row >= least else longest, row


@njit(**INLINE)
def _is_silent(channels: npt.NDArray[np.float32], place: Scalar) -> Scalar:
    silent = True
    for channel in range(len(channels)):
        silent = silent and channels[channel, place] == _f32(0.0)
    return silent


@njit(**OPTIONS)
def true_peak(channel: Channel, phases: npt.NDArray[np.float32], bound: Scalar, peak: Scalar) -> Scalar:
    """Return the largest magnitude between samples, of those seen before and these.

    Stretches that cannot have a larger one are not interpolated.

    Args:
        channel: samples, of which the first `TAPS` - 1 are those before.
        phases: filters of the places between samples, newest sample first.
        bound: the most that interpolated samples can be, for samples of magnitude 1.
        peak: the largest magnitude before.
    """
    values = np.empty(_STRETCH, np.float32)
    bits, raw = channel.view(np.int32), values.view(np.int32)
    largest = np.empty(2, np.float32)
    level = largest.view(np.int32)
    largest[1] = peak / bound
    for start in range(TAPS - 1, len(channel), _STRETCH):
        stop = min(len(channel), start + _STRETCH)
        if _largest(bits[start - TAPS + 1 : stop]) <= level[1]:
            continue
        for phase in range(len(phases)):
            values[:] = _f32(0.0)
            for tap in range(TAPS):
                factor, shifted = phases[phase, tap], channel[start - tap : stop - tap]
                for place in range(len(shifted)):
                    values[place] += factor * shifted[place]
            level[0] = _largest(raw[: stop - start])
            peak = max(peak, _f64(largest[0]))
        largest[1] = peak / bound
    return peak


@njit(**INLINE)
def _largest(bits: npt.NDArray[np.int32]) -> Scalar:
    """The largest magnitude of floats, as whole numbers, whose order is the same."""
    most = _i32(0)
    for place in range(len(bits)):
        most = max(most, _i32(bits[place] & _MAGNITUDE))
    return most


@njit(fastmath={"contract"}, **OPTIONS)
def weigh(channel: Channel, filters: Values, state: Values, ends: Ints, energies: Values) -> None:
    """Add the energies of a channel behind the two filters of the K-weighting.

    Args:
        channel: samples.
        filters: b0, b1, b2, a1, a2 of the shelf, and a1, a2 of the high-pass.
        state: the last two samples, and the last two behind each filter; changed.
        ends: places within the samples at which blocks end.
        energies: the sum of squares in each block, and behind the last end; filled in.
    """
    b0, b1, b2, a1, a2, c1, c2 = filters
    x1, x2, y1, y2, z1, z2 = state
    start = 0
    for block in range(len(energies)):
        stop = ends[block] if block < len(ends) else len(channel)
        if abs(x1) + abs(x2) + abs(y1) + abs(y2) + abs(z1) + abs(z2) < 1e-30:  # numbers too small are slow
            x1 = x2 = y1 = y2 = z1 = z2 = 0.0
        total = 0.0
        for place in range(start, stop):
            x = _f64(channel[place])
            y = ((b0 * x + b1 * x1 + b2 * x2) - a2 * y2) - a1 * y1
            z = ((y - 2.0 * y1 + y2) - c2 * z2) - c1 * z1
            x2, x1 = x1, x
            y2, y1 = y1, y
            z2, z1 = z1, z
            total += z * z
        energies[block] = total
        start = stop
    state[0], state[1], state[2], state[3], state[4], state[5] = x1, x2, y1, y2, z1, z2


@njit(**OPTIONS)
def product_sum(first: Channel, second: Channel) -> Scalar:
    """Return the sum of products of samples of two channels."""
    lanes = np.zeros(_LANES)
    rows = len(first) // _LANES
    for row in range(rows):
        for lane in range(_LANES):
            lanes[lane] += _f64(first[row * _LANES + lane]) * _f64(second[row * _LANES + lane])
    total = 0.0
    for lane in range(_LANES):
        total += lanes[lane]
    for place in range(rows * _LANES, len(first)):
        total += _f64(first[place]) * _f64(second[place])
    return total


@njit(**OPTIONS)
def cut_frames(samples: Channel, step: Scalar, window: Channel, frames: npt.NDArray[np.float32]) -> None:
    """Fill in frames, one every `step` samples, each multiplied with a window."""
    for number in range(len(frames)):
        frame, source = frames[number], samples[number * step : number * step + len(window)]
        for place in range(len(window)):
            frame[place] = source[place] * window[place]


@njit(**OPTIONS)
def spectra(frames: npt.NDArray[np.float32], powers: Values, sums: Values) -> None:
    """Add up spectra.

    Args:
        frames: one row a frame: real and imaginary parts by turns, of 257 frequencies, or another power of 2
            and one more.
        powers: the sum of powers at each frequency; added to.
        sums: the sum of the flatness of each frame (geometric by arithmetic mean of powers), and of the frequency, in
            bins, below which 85 % of its magnitudes are; added to.
    """
    count = len(powers)
    power, size, parts = np.empty(count, np.float32), np.empty(count, np.float32), np.empty(count // _LANES, np.float32)
    lanes, exponents = np.empty((2, _LANES), np.float32), np.empty(_LANES, np.int32)
    raw = power.view(np.int32)
    for frame in range(len(frames)):
        line = frames[frame]
        for place in range(count):
            real, imaginary = line[2 * place], line[2 * place + 1]
            value = real * real + imaginary * imaginary
            size[place], power[place] = np.sqrt(value), max(value, _f32(_LEAST))
            powers[place] += _f64(value)
        sums[1] += _rolled(size, parts)
        sums[0] += _flatness(power, raw, lanes, exponents)


@njit(**INLINE)
def _sum16(values: Channel, first: Scalar) -> Scalar:
    """The sum of 16 values, in pairs."""
    low = (values[first] + values[first + 1]) + (values[first + 2] + values[first + 3])
    low += (values[first + 4] + values[first + 5]) + (values[first + 6] + values[first + 7])
    high = (values[first + 8] + values[first + 9]) + (values[first + 10] + values[first + 11])
    high += (values[first + 12] + values[first + 13]) + (values[first + 14] + values[first + 15])
    return low + high


@njit(**INLINE)
def _rolled(size: Channel, parts: Channel) -> Scalar:
    """The first place up to which the sum of values is 85 % of all; `parts` is room for sums of 16."""
    last = len(size) - 1
    total = size[last]
    for part in range(len(parts)):
        parts[part] = _sum16(size, part * _LANES)
        total += parts[part]
    wanted, reached, part = _f32(_ROLLED) * total, _f32(0.0), 0
    while part < len(parts) and reached + parts[part] < wanted:
        reached += parts[part]
        part += 1
    place = part * _LANES
    while place < last and reached + size[place] < wanted:
        reached += size[place]
        place += 1
    return place


@njit(**INLINE)
def _product16(values: Channel) -> Scalar:
    """The product of 16 values below 2^16."""
    first = (values[0] * values[1]) * (values[2] * values[3])
    second = (values[4] * values[5]) * (values[6] * values[7])
    third = (values[8] * values[9]) * (values[10] * values[11])
    fourth = (values[12] * values[13]) * (values[14] * values[15])
    return (_f64(first) * _f64(second)) * (_f64(third) * _f64(fourth))


@njit(**INLINE)
def _flatness(power: Channel, raw: npt.NDArray[np.int32], lanes: Channel, exponents: npt.NDArray[np.int32]) -> Scalar:
    """The geometric mean of values above 0, by their arithmetic mean.

    `raw` is the memory of the values; `lanes`, of two rows, and `exponents` are room.
    """
    last, products, sums = len(power) - 1, lanes[0], lanes[1]
    products[:], sums[:], exponents[:] = _f32(1.0), _f32(0.0), _i32(0)
    for first in range(0, last, _LANES):
        values, bits = power[first : first + _LANES], raw[first : first + _LANES]
        for lane in range(_LANES):
            products[lane] *= _f32(1.0) + _f32(_i32(bits[lane] & _MANTISSA)) * _SCALE
            exponents[lane] += _i32(bits[lane] >> _EXPONENT)
            sums[lane] += values[lane]
    product = _product16(products) * _f64(_f32(1.0) + _f32(_i32(raw[last] & _MANTISSA)) * _SCALE)
    exponent = _i64(raw[last] >> _EXPONENT)
    for lane in range(_LANES):
        exponent += exponents[lane]
    total = _f64(_sum16(sums, 0)) + _f64(power[last])
    mean = (np.log(product) + (exponent - _BIAS * (last + 1)) * np.log(2.0)) / (last + 1)
    return np.exp(mean) * (last + 1) / total
