"""Signals and hashes of decoded pictures, from one look at their pixels.

Sums are of whole numbers, and floats are added in one order, so that a picture has the same signals and hashes on every
machine. Casts to small integers let the compiler use wide instructions; values never leave the type's range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import ALLOCATING, INLINE, OPTIONS, Scalar

Plane = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

#: Bytes of all hashes of a picture.
HASH_BYTES = 56
#: Names of the values that `measure` fills in, in order.
MEASURED = (
    "brightness", "contrast", "entropy", "saturation", "colourfulness", "one_colour", "gray", "sharpness", "edges",
    "blockiness", "border", "detail",
)  # fmt: skip
#: Sides of the thumbnail that hashes are made from, and frequencies of its cosine transform.
SIDE, WAVES = 64, 17
#: Length of rows of waves, of which the first 17 count: wide instructions take 16 at a time.
PADDED = 32

#: n * log2(n) of small numbers, from 0.
_LOGS = np.arange(1024) * np.log2(np.maximum(1, np.arange(1024)))

_u8: Any = np.uint8
_u16: Any = np.uint16
_u32: Any = np.uint32
_u64: Any = np.uint64
_i16: Any = np.int16
_i32: Any = np.int32
_i64: Any = np.int64
_f32: Any = np.float32

#: Pixels of the rows and of the grid that colours and the histogram are taken from, about.
_COLOUR_PIXELS, _GRID_PIXELS = 8_192, 4_096
#: Pixels side by side that colours are taken from.
_STRETCH = 64
#: Rows up to which details are taken from all rows; from every second one of larger pictures.
_ALL_ROWS = 200
#: |dx| + |dy| of central differences from which a pixel is on an edge.
_EDGE = 40
#: Greatest difference between channels of a pixel without colour, and the share of pixels that may have more.
_GRAY, _GRAY_SHARE = 12, 0.005
#: Levels of brightness that differ in a row of a border.
_BORDER = 10


@njit(**OPTIONS)
def luma(pixels: npt.NDArray[np.uint8], plane: Plane) -> None:
    """Fill in the brightness of each pixel: 0.30 red + 0.59 green + 0.11 blue."""
    flat, out = pixels.reshape(-1), plane.reshape(-1)
    for place in range(out.size):
        red, green, blue = _u16(flat[3 * place]), _u16(flat[3 * place + 1]), _u16(flat[3 * place + 2])
        out[place] = _u8(_u16(_u16(77) * red + _u16(150) * green + _u16(29) * blue + _u16(128)) >> _u16(8))


@njit(**OPTIONS)
def shrink(plane: Plane, thumbnail: Floats) -> None:
    """Fill in the means of the areas that a grid of 64 x 64 cells covers; cells may be smaller than a pixel."""
    height, width = plane.shape
    if min(width, height) >= 4 * SIDE and width % 2 == 0 and height % 2 == 0:  # quicker, and nearly the same
        half = np.empty((height // 2, width // 2), np.uint16)
        _halve(plane, half)
        _area_means(half, thumbnail, _f32(0.25))
    else:
        _area_means(plane, thumbnail, _f32(1.0))


@njit(**ALLOCATING)
def _halve(plane: Plane, half: npt.NDArray[np.uint16]) -> None:
    """Sums of 2 x 2 pixels."""
    rows, columns = half.shape
    for y in range(rows):
        upper, lower, out = plane[2 * y], plane[2 * y + 1], half[y]
        for x in range(columns):
            out[x] = _u16(
                _u16(_u16(upper[2 * x]) + _u16(upper[2 * x + 1])) + _u16(_u16(lower[2 * x]) + _u16(lower[2 * x + 1]))
            )


@njit(**ALLOCATING)
def _area_means(plane: npt.NDArray[Any], thumbnail: Floats, unit: Scalar) -> None:
    height, width = plane.shape
    sums, before = np.zeros(width + 1, np.uint32), np.zeros(width + 1, np.int64)
    area = _f32(_f32(16) * _f32(height) * _f32(width))
    for row in range(SIDE):
        start, stop = row * height * 4, (row + 1) * height * 4  # places in 256ths of a pixel
        sums[:] = _u32(0)
        for y in range(start >> 8, (stop + 255) >> 8):
            weight = _u32(min(stop, (y + 1) << 8) - max(start, y << 8))
            line = plane[y]
            for x in range(width):
                sums[x] = _u32(sums[x] + _u32(weight * _u32(line[x])))
        total = _i64(0)
        for x in range(width):
            before[x] = total
            total += sums[x]
        before[width] = total
        left = _i64(0)
        for cell in range(SIDE):
            end = (cell + 1) * width * 4
            right = (before[end >> 8] << 8) + _i64(sums[end >> 8]) * (end & 255)
            thumbnail[row, cell] = _f32(right - left) / area * unit
            left = right


@njit(**OPTIONS)
def transform(thumbnail: Floats, cosines: Floats, upright: Floats, waves: Floats) -> None:
    """Fill in the 17 x 17 lowest frequencies of the cosine transform of a thumbnail.

    Even waves are symmetric, and odd ones are but for the sign, so that the two halves of a picture are first added and
    subtracted.

    Args:
        thumbnail: 64 x 64.
        cosines: 17 x 64, a wave a row.
        upright: the same, 64 x 32, padded with zeros.
        waves: 17 x 32, vertical frequency first; filled in.
    """
    folded = np.empty((2, SIDE // 2, SIDE), np.float32)
    for y in range(SIDE // 2):
        line, mirrored = thumbnail[y], thumbnail[SIDE - 1 - y]
        for x in range(SIDE):
            folded[0, y, x] = line[x] + mirrored[x]
            folded[1, y, x] = line[x] - mirrored[x]
    half = np.empty(SIDE, np.float32)
    for row in range(WAVES):
        half[:] = _f32(0)
        _add_lines(cosines[row], folded[row & 1], half)
        waves[row, :] = _f32(0)
        _add_lines(half, upright, waves[row])


@njit(**INLINE)
def _add_lines(factors: Floats, lines: Floats, out: Floats) -> None:
    """Add each line times its factor, in order; four at a time, so that sums stay in registers."""
    for y in range(0, len(lines), 4):
        one, two, three, four = factors[y], factors[y + 1], factors[y + 2], factors[y + 3]
        first, second, third, fourth = lines[y], lines[y + 1], lines[y + 2], lines[y + 3]
        for x in range(len(out)):
            out[x] = (((out[x] + one * first[x]) + two * second[x]) + three * third[x]) + four * fourth[x]


@njit(**OPTIONS)
def hash_bits(thumbnail: Floats, waves: Floats, found: npt.NDArray[np.uint8]) -> Scalar:
    """Fill in the hashes of a thumbnail as bits, and return how much detail it has, 0 to 100.

    Args:
        thumbnail: 64 x 64, brightness 0 to 255.
        waves: 17 x 32, of `transform`.
        found: 56 bytes, filled in: aHash, dHash and pHash with 8 bytes each, then 32 of the 256-bit hash. The first
            bit of each is the highest of its first byte.
    """
    found[:] = _u8(0)
    means = np.empty((8, 8), np.float32)
    total = _f32(0)
    for y in range(8):
        for x in range(8):
            cell = _f32(0)
            for line in range(8 * y, 8 * y + 8):
                for column in range(8 * x, 8 * x + 8):
                    cell += thumbnail[line, column]
            means[y, x] = cell
            total += cell
    middle = total / _f32(64)
    for place in range(64):
        if means[place >> 3, place & 7] > middle:
            found[place >> 3] |= _u8(128 >> (place & 7))
    _gradients(thumbnail, found)
    low = waves[:8, :8].copy().reshape(-1)
    middle = _median(low)
    for place in range(64):
        if low[place] > middle:
            found[16 + (place >> 3)] |= _u8(128 >> (place & 7))
    high = waves[1:, 1:WAVES].copy().reshape(-1)
    middle = _median(high)
    for place in range(256):
        if high[place] > middle:
            found[24 + (place >> 3)] |= _u8(128 >> (place & 7))
    return _detail(thumbnail)


@njit(**ALLOCATING)
def _gradients(thumbnail: Floats, hashes: npt.NDArray[np.uint8]) -> None:
    """The bits of dHash: whether each of 8 rows of 9 cells gets brighter to the right."""
    cells = np.empty(9, np.float32)
    for y in range(8):
        for cell in range(9):  # places in 9ths of a column
            start, stop = cell * SIDE, (cell + 1) * SIDE
            value = _f32(0)
            for x in range(start // 9, (stop + 8) // 9):
                weight = _f32(min(stop, 9 * (x + 1)) - max(start, 9 * x))
                for line in range(8 * y, 8 * y + 8):
                    value += weight * thumbnail[line, x]
            cells[cell] = value
        for x in range(8):
            if cells[x + 1] > cells[x]:
                hashes[8 + y] |= _u8(128 >> x)


@njit(**ALLOCATING)
def _median(values: Floats) -> Scalar:
    rank = len(values) // 2 - 1
    return np.partition(values, rank)[rank]


@njit(**ALLOCATING)
def _detail(thumbnail: Floats) -> Scalar:
    """The sum of the differences of neighbours, as PDQ counts its quality."""
    total = _i32(0)
    unit = _f32(100) / _f32(255)
    for y in range(SIDE):
        line = thumbnail[y]
        for x in range(SIDE - 1):
            total = _i32(total + _i32(abs(line[x + 1] - line[x]) * unit))
    for y in range(SIDE - 1):
        line, below = thumbnail[y], thumbnail[y + 1]
        for x in range(SIDE):
            total = _i32(total + _i32(abs(below[x] - line[x]) * unit))
    return min(total // 90, 100)


@njit(**OPTIONS)
def measure(
    pixels: npt.NDArray[np.uint8],
    block: int,
    waves: tuple[Floats, Floats],
    found: npt.NDArray[np.float64],
    hashes: npt.NDArray[np.uint8],
) -> None:
    """Fill in the signals and hashes of a picture.

    Args:
        pixels: height x width x 3.
        block: pixels of a side of the blocks that a JPEG consists of at the scale of the pixels: 8, 4 or 2; 0 for
            pictures too small for them.
        waves: ``cosines`` and ``upright`` of `transform`.
        found: array of as many values as `MEASURED`; filled in. NaN where a picture is too small.
        hashes: 56 bytes, see `hash_bits`; filled in. None are made for an empty array, and ``detail`` is NaN.
    """
    plane = np.empty(pixels.shape[:2], np.uint8)
    luma(pixels, plane)
    _colours(pixels, found)
    _grid(pixels, plane, found)
    _details(plane, found)
    found[9] = _blockiness(plane, block)
    found[10] = _border(plane)
    found[11] = np.nan
    if len(hashes):
        thumbnail, frequencies = np.empty((SIDE, SIDE), np.float32), np.empty((WAVES, PADDED), np.float32)
        shrink(plane, thumbnail)
        transform(thumbnail, waves[0], waves[1], frequencies)
        found[11] = hash_bits(thumbnail, frequencies, hashes)


@njit(**INLINE)
def _scattered(row: Scalar, place: Scalar) -> Scalar:
    """A number of 32 bits that looks random: where a pixel is taken from a cell, so that no pattern is met in step."""
    mixed = _u32(_u32(row) * _u32(0x85EBCA77)) ^ _u32(_u32(place) * _u32(0x9E3779B1))
    mixed = _u32(_u32(mixed ^ (mixed >> _u32(15))) * _u32(0x2C1B3C6D))
    return _u32(mixed ^ (mixed >> _u32(13)))


@njit(**INLINE)
def _within(part: Scalar, cell: Scalar, step: Scalar, size: Scalar) -> Scalar:
    """The place within a cell of `step` pixels that 16 bits choose, of `size` pixels in all."""
    return min(_i64(cell) * step + (_i64(part) * step >> 16), size - 1)


@njit(**ALLOCATING)
def _colours(pixels: npt.NDArray[np.uint8], signals: npt.NDArray[np.float64]) -> None:
    height, width = pixels.shape[0], pixels.shape[1]
    step = max(1, height * width // _COLOUR_PIXELS)
    saturation, coloured = _i64(0), _i64(0)
    across, across2, along, along2, seen = _i64(0), _i64(0), _i64(0), _i64(0), _i64(0)
    for row in range((height + step - 1) // step):
        for begin in range(0, width, _STRETCH):
            y = _within(_scattered(row, begin) >> _u32(16), row, step, height)
            line = pixels[y, begin : begin + _STRETCH].reshape(-1)
            s, c, a, a2, b, b2 = _i32(0), _i32(0), _i32(0), _i32(0), _i32(0), _i32(0)
            for x in range(len(line) // 3):
                red, green, blue = _i32(line[3 * x]), _i32(line[3 * x + 1]), _i32(line[3 * x + 2])
                most, least = _i32(max(red, green, blue)), _i32(min(red, green, blue))
                chroma = _i32(most - least)
                s = _i32(s + _i32(_f32(chroma) * _f32(1024) / _f32(max(most, _i32(1)))))
                c = _i32(c + _i32(chroma > _i32(_GRAY)))
                red_green, yellow_blue = _i32(red - green), _i32(red + green - 2 * blue)
                a, a2 = _i32(a + red_green), _i32(a2 + _i32(red_green * red_green))
                b, b2 = _i32(b + yellow_blue), _i32(b2 + _i32(yellow_blue * yellow_blue))
            saturation, coloured, across, across2 = saturation + s, coloured + c, across + a, across2 + a2
            along, along2, seen = along + b, along2 + b2, seen + len(line) // 3
    signals[3] = saturation / seen / 1024
    mean_across, mean_along = across / seen, along / seen / 2
    deviation = across2 / seen - mean_across**2 + along2 / seen / 4 - mean_along**2
    signals[4] = np.sqrt(max(0.0, deviation)) + 0.3 * np.sqrt(mean_across**2 + mean_along**2)
    signals[6] = 1.0 if coloured <= _GRAY_SHARE * seen else 0.0


@njit(**ALLOCATING)
def _grid(pixels: npt.NDArray[np.uint8], plane: Plane, signals: npt.NDArray[np.float64]) -> None:
    """Brightness, its standard deviation and entropy, and the largest share of pixels of one colour, from a grid.

    Colours are the same if the upper 4 bits of each channel are.
    """
    height, width = plane.shape
    step = max(1, _i64(np.sqrt(height * width / _GRID_PIXELS) + 0.5))
    levels, colours = np.zeros(256, np.int32), np.zeros(4096, np.int32)
    flat, bright = pixels.reshape(-1), plane.reshape(-1)
    for row in range((height + step - 1) // step):
        for place in range((width + step - 1) // step):
            chosen = _scattered(row, place)
            y = _within(chosen >> _u32(16), row, step, height)
            at = _u64(y * width + _within(chosen & _u32(0xFFFF), place, step, width))
            start = _u64(3) * at
            red, green, blue = _u64(flat[start]), _u64(flat[start + _u64(1)]), _u64(flat[start + _u64(2)])
            colours[(red >> _u64(4)) << _u64(8) | (green >> _u64(4)) << _u64(4) | blue >> _u64(4)] += _i32(1)
            levels[bright[at]] += _i32(1)
    most = _i32(0)
    for count in colours:
        most = _i32(max(most, count))
    seen, first, second = _i64(0), _i64(0), _i64(0)
    for level in range(256):
        seen += levels[level]
        first += level * levels[level]
        second += level * level * levels[level]
    entropy = 0.0
    for count in levels:
        entropy += _LOGS[count] if count < len(_LOGS) else count * np.log2(count)
    entropy = max(0.0, np.log2(seen) - entropy / seen)
    signals[0] = first / seen / 255
    signals[1] = np.sqrt(max(0.0, second / seen - (first / seen) ** 2)) / 255
    signals[2] = entropy
    signals[5] = most / seen


@njit(**ALLOCATING)
def _details(plane: Plane, signals: npt.NDArray[np.float64]) -> None:
    """The variance of the Laplacian, and the share of pixels on edges, of pixels with four neighbours."""
    height, width = plane.shape
    if height < 3 or width < 3:
        signals[7], signals[8] = np.nan, np.nan
        return
    first, second, edges = _i64(0), _i64(0), _i64(0)
    step = 2 if height > _ALL_ROWS else 1
    for y in range(1, height - 1, step):
        for begin in range(0, width - 2, 1024):  # so that the sums stay in their range
            end = min(width, begin + 1026)
            above, line, below = plane[y - 1, begin:end], plane[y, begin:end], plane[y + 1, begin:end]
            line_sum, line_squares, count = _i32(0), _i32(0), _i16(0)
            for x in range(1, end - begin - 1):
                around = _i16(_i16(above[x]) + _i16(below[x]) + _i16(line[x - 1]) + _i16(line[x + 1]))
                value = _i32(_i16(around - 4 * _i16(line[x])))
                line_sum, line_squares = _i32(line_sum + value), _i32(line_squares + _i32(value * value))
            for x in range(1, end - begin - 1):
                right, down = _i16(_i16(line[x + 1]) - _i16(line[x - 1])), _i16(_i16(below[x]) - _i16(above[x]))
                count = _i16(count + _i16(_i16(abs(right) + abs(down)) > _i16(_EDGE)))
            first, second, edges = first + line_sum, second + line_squares, edges + count
    seen = -(-(height - 2) // step) * (width - 2)
    signals[7] = second / seen - (first / seen) ** 2
    signals[8] = edges / seen


@njit(**ALLOCATING)
def _blockiness(plane: Plane, block: Scalar) -> Scalar:
    """How much more neighbours differ across the borders of blocks than within them: 1 where there are none."""
    height, width = plane.shape
    if block < 2 or height < 4 * block or width < 4 * block:
        return np.nan
    columns, part = np.zeros(width - 1, np.int32), np.zeros(width - 1, np.uint16)
    step = 4 if height > _ALL_ROWS else 1
    for begin in range(0, height, 256 * step):  # so that the sums stay in their range
        part[:] = _u16(0)
        for y in range(begin, min(height, begin + 256 * step), step):
            line = plane[y]
            for x in range(width - 1):
                part[x] = _u16(part[x] + _u16(abs(_i16(_i16(line[x + 1]) - _i16(line[x])))))
        for x in range(width - 1):
            columns[x] = _i32(columns[x] + _i32(part[x]))
    rows = np.empty(height - 1, np.int64)
    for y in range(height - 1):
        line, below = plane[y], plane[y + 1]
        total = _i32(0)
        for x in range(width):
            total = _i32(total + _i32(abs(_i32(_i32(line[x]) - _i32(below[x])))))  # one wide instruction has this form
        rows[y] = total
    across = _excess(columns, block, -(-height // step))
    return (across + _excess(rows, block, width)) / 2


@njit(**ALLOCATING)
def _excess(differences: npt.NDArray[Any], block: Scalar, length: Scalar) -> Scalar:
    sums, counts = np.zeros(8, np.float64), np.zeros(8, np.float64)
    for place in range(len(differences)):
        sums[place % block] += differences[place]
        counts[place % block] += length
    most, total, seen = 0.0, 0.0, 0.0
    at = 0
    for place in range(block):
        if sums[place] / counts[place] > most:
            most, at = sums[place] / counts[place], place
    for place in range(block):
        if place != at:
            total, seen = total + sums[place], seen + counts[place]
    return (most + 1) / (total / seen + 1)


@njit(**ALLOCATING)
def _border(plane: Plane) -> Scalar:
    """The share of the picture in rows and columns at its edges that have one brightness."""
    height, width = plane.shape
    top = 0
    while top < height and _even(plane[top], plane[0, 0]):
        top += 1
    if top == height:
        return 1.0
    bottom = 0
    while top + bottom < height and _even(plane[height - 1 - bottom], plane[height - 1, 0]):
        bottom += 1
    if top + bottom == height:
        return 1.0
    inner = plane[top : height - bottom]
    left = _even_columns(inner, 0, 1)
    right = min(_even_columns(inner, width - 1, -1), width - left)
    return 1.0 - (height - top - bottom) * (width - left - right) / (height * width)


@njit(**ALLOCATING)
def _even_columns(plane: Plane, start: int, step: int) -> Scalar:
    """The number of columns from one side on that have the brightness of the first row's outermost pixel.

    Rows are read in pieces of 32 columns, as reading columns one by one takes far longer.
    """
    height, width = plane.shape
    level, most = plane[0, start], np.empty(32, np.uint8)
    for begin in range(0, width, 32):
        count = min(32, width - begin)
        first = begin if step > 0 else width - begin - count
        most[:] = _u8(0)
        for y in range(height):
            line = plane[y, first : first + count]
            for x in range(count):
                most[x] = max(most[x], _u8(max(line[x], level) - min(line[x], level)))
        for place in range(count):
            if most[place if step > 0 else count - 1 - place] > _BORDER:
                return begin + place
    return width


@njit(**INLINE)
def _even(line: npt.NDArray[np.uint8], level: Scalar) -> Scalar:
    most, least = _u8(level), _u8(level)
    for begin in range(0, len(line) & -64, 64):  # without a branch for each value
        for place in range(64):
            most, least = max(most, line[begin + place]), min(least, line[begin + place])
        if most - level > _BORDER or level - least > _BORDER:
            return False
    for place in range(len(line) & -64, len(line)):
        most, least = max(most, line[place]), min(least, line[place])
    return most - level <= _BORDER and level - least <= _BORDER
