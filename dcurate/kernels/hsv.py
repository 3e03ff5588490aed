"""Hue, saturation and brightness of small frames, and how much they change from one to the next.

The whole numbers are those of OpenCV's conversion of 8 bits: hue from 0 to 179, saturation and brightness from 0 to
255.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import ALLOCATING, INLINE, OPTIONS, Bytes, Ints, Scalar

#: Frames in RGB, of shape (frames, height, width, 3).
Frames = npt.NDArray[np.uint8]
Small = npt.NDArray[np.int32]

#: What `hsv_changes` sums up, in the order of its columns.
HUE, SATURATION, BRIGHTNESS, COLOURS = range(4)

_i32: Any = np.int32
_f32: Any = np.float32

#: Fixed point: bits behind it, and one half.
_SHIFT, _HALF = _i32(12), _i32(1 << 11)
#: Steps of the circle of hues, and the numbers whose quotients are factors in fixed point.
_HUES = _i32(180)
_OF_SATURATION, _OF_HUE = _f32(255 << 12), _f32((180 << 12) // 6)
#: Pixels whose colours are parted at a time, so that the compiler can use wide instructions.
_PIXELS = 256


@njit(**INLINE)
def _factor(whole: Scalar, part: Scalar) -> Scalar:
    """The quotient to the nearest whole number, as in OpenCV's tables."""
    return _i32(np.rint(whole / _f32(max(part, _i32(1)))))


@njit(**ALLOCATING)
def _colours() -> Small:
    return np.empty((3, _PIXELS), np.int32)


@njit(**INLINE)
def _parted(pixels: Bytes, count: Scalar, colours: Small) -> None:
    """Write red, green and blue apart."""
    for place in range(count):
        colours[0, place] = pixels[3 * place]
        colours[1, place] = pixels[3 * place + 1]
        colours[2, place] = pixels[3 * place + 2]


@njit(**OPTIONS)
def hsv_changes(frames: Frames, before: Small, sums: Ints) -> None:
    """Sum up, for each frame, the differences to the frame before it, and its colours.

    Args:
        frames: frames of one size.
        before: hue, saturation and brightness of the frame before the first, of shape (3, pixels); then of the last.
        sums: result, shape (frames, 4): sums over the pixels of the differences of hue, saturation and
            brightness, and of the values of red, green and blue.
    """
    pixels = before.shape[1]
    flat = frames.reshape(frames.shape[0], 3 * pixels)
    colours = _colours()
    reds, greens, blues = colours[0], colours[1], colours[2]
    for number in range(flat.shape[0]):
        sums[number, :] = 0
        for first in range(0, pixels, _PIXELS):
            count = min(_PIXELS, pixels - first)
            _parted(flat[number, 3 * first : 3 * (first + count)], count, colours)
            hues_before = before[0, first : first + count]
            saturations_before = before[1, first : first + count]
            values_before = before[2, first : first + count]
            by_hue, by_saturation, by_value, total = _i32(0), _i32(0), _i32(0), _i32(0)
            for place in range(count):
                red, green, blue = reds[place], greens[place], blues[place]
                value = max(red, green, blue)
                difference = _i32(value - min(red, green, blue))
                saturation = _i32((difference * _factor(_OF_SATURATION, value) + _HALF) >> _SHIFT)
                is_red = _i32(value == red)
                is_green = _i32(value == green) * (_i32(1) - is_red)
                is_blue = _i32(1) - is_red - is_green
                turn = _i32(
                    is_red * (green - blue)
                    + is_green * (blue - red + _i32(2) * difference)
                    + is_blue * (red - green + _i32(4) * difference)
                )
                hue = _i32((turn * _factor(_OF_HUE, difference) + _HALF) >> _SHIFT)
                hue = _i32(hue + _HUES * _i32(hue < 0))
                by_hue = _i32(by_hue + abs(_i32(hue - hues_before[place])))
                by_saturation = _i32(by_saturation + abs(_i32(saturation - saturations_before[place])))
                by_value = _i32(by_value + abs(_i32(value - values_before[place])))
                total = _i32(total + red + green + blue)
                hues_before[place], saturations_before[place], values_before[place] = hue, saturation, value
            sums[number, HUE] += by_hue
            sums[number, SATURATION] += by_saturation
            sums[number, BRIGHTNESS] += by_value
            sums[number, COLOURS] += total
