"""Compare thumbnails of pictures pair by pair: aligned, with the tone of one fitted to that of the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS, Ints, Scalar

Floats = npt.NDArray[np.float32]
Grays = npt.NDArray[np.uint8]
Colours = npt.NDArray[np.int8]

#: What `thumbnail_differences` measures of a pair, in the order of its columns.
MEASURES = ("residual", "worst", "texture", "peak", "hue", "brightness", "contrast", "colour", "shift")

#: Times that the alignment is improved.
_STEPS = 3
#: Most pixels of the thumbnail, in 32nds of its side, that it may be moved or stretched.
_MOST_SHIFT = 1.6
#: Standard deviation below which a picture counts as flat: its noise is not blown up.
_FLAT = 4.0
#: Unknowns: move and stretch along both axes, and the four coefficients of a cubic tone curve.
_UNKNOWNS, _MOVES = 8, 4
_CELLS = 8
_WORST = 4
_COLOURED = 3.0


class _Work(NamedTuple):
    """Arrays for one pair."""

    one: Floats
    other: Floats
    moved_one: Floats
    moved_other: Floats
    rows: Floats
    residual: Floats
    smooth: Floats
    normal: npt.NDArray[np.float64]
    right: npt.NDArray[np.float64]
    found: npt.NDArray[np.float64]
    cells: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]


@njit(**INLINE)
def _standardised(gray: Grays, out: Floats) -> tuple[Scalar, Scalar]:
    """Write a thumbnail with mean 0 and deviation 1; return its mean and deviation."""
    side = gray.shape[0]
    total, squares = 0.0, 0.0
    for y in range(side):
        for x in range(side):
            value = np.float64(gray[y, x])
            total += value
            squares += value * value
    mean = total / (side * side)
    deviation = np.sqrt(max(0.0, squares / (side * side) - mean * mean))
    scale = 1.0 / max(deviation, _FLAT)
    for y in range(side):
        for x in range(side):
            out[y, x] = (gray[y, x] - mean) * scale
    return mean, deviation


@njit(**INLINE)
def _places(work: _Work, place: Scalar, side: Scalar) -> Scalar:
    """Write the four weights of cubic interpolation at a place; return the pixel before it."""
    place = min(max(place, 0.0), side - 1.0)
    first = min(np.int64(place), side - 1)
    t = place - first
    work.weights[0] = t * (-0.5 + t * (1.0 - 0.5 * t))
    work.weights[1] = 1.0 + t * t * (1.5 * t - 2.5)
    work.weights[2] = t * (0.5 + t * (2.0 - 1.5 * t))
    work.weights[3] = t * t * (0.5 * t - 0.5)
    return first


@njit(**INLINE)
def _move(work: _Work, image: Floats, sign: Scalar, out: Floats) -> None:
    """Write a thumbnail moved and stretched by half of what was found, towards the other one."""
    side = image.shape[0]
    middle = (side - 1) / 2.0
    for y in range(side):
        away = (y - middle) / (side / 2.0)
        first = _places(work, y + sign * (work.found[2] + work.found[3] * away), side)
        for x in range(side):
            total = 0.0
            for tap in range(4):
                row = min(max(first + tap - 1, 0), side - 1)
                total += work.weights[tap] * image[row, x]
            work.rows[y, x] = total
    for x in range(side):
        away = (x - middle) / (side / 2.0)
        first = _places(work, x + sign * (work.found[0] + work.found[1] * away), side)
        for y in range(side):
            total = 0.0
            for tap in range(4):
                column = min(max(first + tap - 1, 0), side - 1)
                total += work.weights[tap] * work.rows[y, column]
            out[y, x] = total


@njit(**INLINE)
def _solve(work: _Work, first: Scalar) -> None:
    """Solve the normal equations of the unknowns from `first` on, by elimination; they are positive definite."""
    for pivot in range(first, _UNKNOWNS):
        for row in range(pivot + 1, _UNKNOWNS):
            factor = work.normal[row, pivot] / work.normal[pivot, pivot]
            for column in range(pivot, _UNKNOWNS):
                work.normal[row, column] -= factor * work.normal[pivot, column]
            work.right[row] -= factor * work.right[pivot]
    for row in range(_UNKNOWNS - 1, first - 1, -1):
        total = work.right[row]
        for column in range(row + 1, _UNKNOWNS):
            total -= work.normal[row, column] * work.right[column]
        work.right[row] = total / work.normal[row, row]


@njit(**INLINE)
def _basis(work: _Work, y: Scalar, x: Scalar, basis: npt.NDArray[np.float64]) -> None:
    """Write how a pixel changes with each of the unknowns."""
    first, second, side = work.moved_one, work.moved_other, work.one.shape[0]
    middle = 0.5 * (first[y, x] + second[y, x])
    across = 0.25 * (first[y, x + 1] + second[y, x + 1] - first[y, x - 1] - second[y, x - 1])
    down = 0.25 * (first[y + 1, x] + second[y + 1, x] - first[y - 1, x] - second[y - 1, x])
    basis[0], basis[1] = across, across * (x - (side - 1) / 2.0) / (side / 2.0)
    basis[2], basis[3] = down, down * (y - (side - 1) / 2.0) / (side / 2.0)
    basis[4], basis[5], basis[6], basis[7] = 1.0, middle, middle * middle, middle * middle * middle


@njit(**INLINE)
def _fit(work: _Work, first: Scalar, basis: npt.NDArray[np.float64]) -> None:
    """Fit the difference of the two by the unknowns from `first` on; the outermost pixels do not count."""
    side = work.one.shape[0]
    for row in range(_UNKNOWNS):
        work.right[row] = 0.0
        for column in range(_UNKNOWNS):
            work.normal[row, column] = 0.0
    for y in range(1, side - 1):
        for x in range(1, side - 1):
            _basis(work, y, x, basis)
            difference = work.moved_one[y, x] - work.moved_other[y, x]
            for row in range(first, _UNKNOWNS):
                work.right[row] += basis[row] * difference
                for column in range(row, _UNKNOWNS):
                    work.normal[row, column] += basis[row] * basis[column]
    pixels = (side - 2) * (side - 2)
    for row in range(first, _UNKNOWNS):
        work.normal[row, row] += pixels * (1e-3 if row < _MOVES else 1e-4)
        for column in range(row):
            work.normal[row, column] = work.normal[column, row]
    _solve(work, first)


@njit(**INLINE)
def _align(work: _Work, basis: npt.NDArray[np.float64]) -> None:
    """Move both thumbnails onto each other, fit the tone, and write what is left."""
    side = work.one.shape[0]
    most = 0.5 * _MOST_SHIFT * side / 32.0
    for unknown in range(_MOVES):
        work.found[unknown] = 0.0
    _move(work, work.one, 0.0, work.moved_one)
    _move(work, work.other, 0.0, work.moved_other)
    for _ in range(_STEPS):
        _fit(work, 0, basis)
        for unknown in range(_MOVES):
            work.found[unknown] = min(max(work.found[unknown] + 0.5 * work.right[unknown], -most), most)
        _move(work, work.one, -1.0, work.moved_one)
        _move(work, work.other, 1.0, work.moved_other)
    _fit(work, _MOVES, basis)
    for y in range(side):
        for x in range(side):
            work.residual[y, x] = 0.0
    for y in range(1, side - 1):
        for x in range(1, side - 1):
            _basis(work, y, x, basis)
            residual = work.moved_one[y, x] - work.moved_other[y, x]
            for unknown in range(_MOVES, _UNKNOWNS):
                residual -= basis[unknown] * work.right[unknown]
            work.residual[y, x] = residual


@njit(**INLINE)
def _fine(work: _Work, image: Floats) -> None:
    """Subtract from a picture its mean over 5 x 5 pixels."""
    side = image.shape[0]
    for y in range(side):
        for x in range(side):
            total = 0.0
            for step in range(-2, 3):
                total += image[y, min(max(x + step, 0), side - 1)]
            work.rows[y, x] = total
    for x in range(side):
        for y in range(side):
            total = 0.0
            for step in range(-2, 3):
                total += work.rows[min(max(y + step, 0), side - 1), x]
            work.smooth[y, x] = total / 25.0
    for y in range(side):
        for x in range(side):
            image[y, x] -= work.smooth[y, x]


@njit(**INLINE)
def _of_cell(image: Floats, cell: Scalar) -> Scalar:
    """The mean square of the pixels of a cell of an 8 x 8 grid."""
    width = image.shape[0] // _CELLS
    top, left = cell // _CELLS * width, cell % _CELLS * width
    total = 0.0
    for y in range(top, top + width):
        for x in range(left, left + width):
            total += image[y, x] * image[y, x]
    return total / (width * width)


@njit(**INLINE)
def _largest(cells: npt.NDArray[np.float64]) -> Scalar:
    """The mean of the four largest values; they are taken out."""
    total = 0.0
    for _ in range(_WORST):
        best = 0
        for cell in range(cells.size):
            if cells[cell] > cells[best]:
                best = cell
        total += cells[best]
        cells[best] = -1.0
    return total / _WORST


@njit(**INLINE)
def _colours(colours: Colours, other_colours: Colours, out: Floats) -> None:
    """Write how much hue and colour differ; hue is 0 where one of the two is gray."""
    first, second, both, apart = 0.0, 0.0, 0.0, 0.0
    for place in range(colours.size):
        a, b = np.float64(colours[place]), np.float64(other_colours[place])
        first += a * a
        second += b * b
        both += a * b
        apart += (a - b) * (a - b)
    first, second = np.sqrt(first / colours.size), np.sqrt(second / colours.size)
    out[4] = 1.0 - both / colours.size / (first * second) if min(first, second) > _COLOURED else 0.0
    out[7] = np.sqrt(apart / colours.size)


@njit(**INLINE)
def _measure(work: _Work, basis: npt.NDArray[np.float64], out: Floats) -> None:
    """Write what is left of a pair after it is aligned."""
    _align(work, basis)
    cells, total = work.cells, 0.0
    for cell in range(cells.size):
        cells[cell] = _of_cell(work.residual, cell)
        total += cells[cell]
    out[0], out[1] = total / cells.size, _largest(cells)
    out[8] = 2.0 * max(abs(work.found[0]), abs(work.found[1]), abs(work.found[2]), abs(work.found[3]))
    out[8] *= 32.0 / work.one.shape[0]
    _fine(work, work.residual)
    _fine(work, work.moved_one)
    _fine(work, work.moved_other)
    peak = 0.0
    for cell in range(cells.size):
        energy = _of_cell(work.moved_one, cell) + _of_cell(work.moved_other, cell)
        cells[cell] = _of_cell(work.residual, cell) / (energy + 0.02)
    side = work.one.shape[0]
    for y in range(1, side - 1):
        for x in range(1, side - 1):
            peak = max(peak, abs(work.residual[y, x]))
    out[2], out[3] = _largest(cells), peak


@njit(**OPTIONS)
def thumbnail_differences(grays: Grays, colours: Colours, left: Ints, right: Ints, mirrored: Scalar) -> Floats:
    """Measure how thumbnails differ, pair by pair.

    Args:
        grays: their luma, of shape (pictures, side, side); the side is a multiple of 8.
        colours: their colours, of shape (pictures, 2, 8, 8): Cb and Cr.
        left, right: the pairs.
        mirrored: whether the right one is flipped, left to right.

    Returns:
        Of shape (pairs, measures), see `MEASURES`.
    """
    side = grays.shape[1]
    out = np.zeros((left.size, 9), np.float32)
    flat = np.empty((7, side, side), np.float32)
    work = _Work(
        flat[0],
        flat[1],
        flat[2],
        flat[3],
        flat[4],
        flat[5],
        flat[6],
        np.empty((_UNKNOWNS, _UNKNOWNS), np.float64),
        np.empty(_UNKNOWNS, np.float64),
        np.empty(_MOVES, np.float64),
        np.empty(_CELLS * _CELLS, np.float64),
        np.empty(4, np.float64),
    )
    basis = np.empty(_UNKNOWNS, np.float64)
    turned = np.empty((side, side), np.uint8)
    turned_colours = np.empty((2, _CELLS, _CELLS), np.int8)
    for pair in range(left.size):
        picture, other_picture = left[pair], right[pair]
        for y in range(side):
            for x in range(side):
                turned[y, x] = grays[other_picture, y, side - 1 - x if mirrored else x]
        for plane in range(2):
            for y in range(_CELLS):
                for x in range(_CELLS):
                    turned_colours[plane, y, x] = colours[other_picture, plane, y, _CELLS - 1 - x if mirrored else x]
        mean_one, deviation_one = _standardised(grays[picture], work.one)
        mean_other, deviation_other = _standardised(turned, work.other)
        _measure(work, basis, out[pair])
        _colours(colours[picture].ravel(), turned_colours.ravel(), out[pair])
        out[pair, 5] = abs(mean_one - mean_other)
        out[pair, 6] = min(deviation_one, deviation_other)
    return out
