"""Small frames of films compared with each other, and motion vectors of codecs as a field of flow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import ALLOCATING, INLINE, OPTIONS, Scalar

Plane = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

#: Brightness up to which a pixel is black: 10 % of the range, as FFmpeg's ``blackdetect`` has it.
BLACK = 25
#: Names of the values that `compare` fills in, in order.
COMPARED = ("brightness", "black", "change", "slope", "farthest")
#: Sides of blocks, width and height in pixels, in the order in which they are drawn.
_BLOCKS = np.array([[8, 8], [16, 16], [16, 8], [8, 16]], np.int32)
#: Columns of vectors.
VECTOR = ("w", "h", "dst_x", "dst_y", "motion_x", "motion_y", "motion_scale")

_u8: Any = np.uint8
_i32: Any = np.int32
_i64: Any = np.int64
_f32: Any = np.float32


@njit(**OPTIONS)
def compare(frame: Plane, before: Plane, anchor: Plane, extremes: Plane, found: npt.NDArray[np.float64]) -> None:
    """Compare a small frame with the one before, and with another.

    Args:
        frame: height x width, brightness 0 to 255.
        before, anchor: frames of the same shape.
        extremes: 2 x (height + width): the least and the most brightness so far of each row, then of each column;
            updated.
        found: array of as many values as `COMPARED`, filled in: the mean brightness, 0 to 255; the share of black
            pixels; the mean difference to `before`; the mean of the differences of neighbours, along and across; and
            the largest difference to `anchor`.
    """
    height, width = frame.shape
    bright, black, change, slope, farthest = _i64(0), _i64(0), _i64(0), _i64(0), _u8(0)
    least, most = extremes[0, height:], extremes[1, height:]
    for y in range(height):
        line, last, other, above = frame[y], before[y], anchor[y], frame[max(y - 1, 0)]
        bright_sum, black_sum, change_sum, slope_sum = _i32(0), _i32(0), _i32(0), _i32(0)
        low, high = _u8(255), _u8(0)
        for x in range(width):
            value = line[x]
            bright_sum = _i32(bright_sum + _i32(value))
            black_sum = _i32(black_sum + _i32(value <= _u8(BLACK)))
            change_sum = _i32(change_sum + _i32(abs(_i32(_i32(value) - _i32(last[x])))))
            slope_sum = _i32(slope_sum + _i32(abs(_i32(_i32(value) - _i32(above[x])))))
            farthest = max(farthest, _u8(max(value, other[x]) - min(value, other[x])))
            low, high = min(low, value), max(high, value)
            least[x], most[x] = min(least[x], value), max(most[x], value)
        for x in range(width - 1):
            slope_sum = _i32(slope_sum + _i32(abs(_i32(_i32(line[x + 1]) - _i32(line[x])))))
        extremes[0, y], extremes[1, y] = min(extremes[0, y], low), max(extremes[1, y], high)
        bright, black = bright + bright_sum, black + black_sum
        change, slope = change + change_sum, slope + slope_sum
    size = height * width
    found[0], found[1], found[2], found[3] = bright / size, black / size, change / size, slope / size
    found[4] = farthest


@njit(**OPTIONS)
def draw_motion(vectors: npt.NDArray[np.int32], plane: Floats, taps: tuple[Any, Any], sums: Any) -> Scalar:
    """Draw the length of motion vectors into a plane, and return the sum of all its pixels.

    Vectors of other blocks than 8 x 8, 16 x 16, 16 x 8 and 8 x 16 are not drawn. Later ones cover earlier ones.

    Args:
        vectors: vectors x 7, see `VECTOR`.
        plane: height x width; filled in: lengths as shares of the sum of width and height.
        taps: rows and columns of pixels, pairs x 2 each.
        sums: pairs of rows x pairs of columns; the mean of the four pixels of each crossing is added.
    """
    height, width = plane.shape
    plane[:] = _f32(0)
    for kind in range(len(_BLOCKS)):
        wide, high = _BLOCKS[kind, 0], _BLOCKS[kind, 1]
        for number in range(len(vectors)):
            vector = vectors[number]
            if vector[0] == wide and vector[1] == high:
                length = _length(vector) / _f32(width + height)
                left, right = _clipped(vector[2], wide, width)
                top, bottom = _clipped(vector[3], high, height)
                for y in range(top, bottom):
                    plane[y, left:right] = length
    rows, columns = taps
    for row in range(len(rows)):
        upper, lower = plane[rows[row, 0]], plane[rows[row, 1]]
        for column in range(len(columns)):
            left, right = columns[column, 0], columns[column, 1]
            sums[row, column] += (upper[left] + upper[right] + lower[left] + lower[right]) / 4
    return _total(plane)


@njit(**INLINE)
def _length(vector: npt.NDArray[np.int32]) -> Scalar:
    scale = _f32(max(vector[6], _i32(1)))
    across, along = _f32(vector[4]) / scale, _f32(vector[5]) / scale
    return np.sqrt(across * across + along * along)


@njit(**INLINE)
def _clipped(middle: Scalar, length: Scalar, size: Scalar) -> Scalar:
    """First and last place of a block, of which what is outside is at the edge."""
    first, last = _i64(middle) - length // 2, _i64(middle) + length // 2 - 1
    return min(max(first, 0), size - 1), min(max(last, 0), size - 1) + 1


@njit(**ALLOCATING)
def _total(plane: Floats) -> Scalar:
    total = 0.0
    for y in range(plane.shape[0]):
        line = 0.0
        for value in plane[y]:
            line += value
        total += line
    return total
