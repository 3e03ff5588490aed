"""Texts in which some stretches are replaced by others."""

from __future__ import annotations

import numpy as np
from numba import njit

from dcurate.kernels.layout import OPTIONS, Bytes, Ints, Offsets, frozen


@njit(**OPTIONS)
def _copy(source: Bytes, start: int, stop: int, target: Bytes, at: int) -> None:
    for step in range(stop - start):
        target[at + step] = source[start + step]


@njit(**OPTIONS)
def _splice(
    column: tuple[Offsets, Bytes],
    bounds: Ints,
    stretches: tuple[Ints, Ints],
    pieces: tuple[Offsets, Bytes, Ints],
    out: tuple[Offsets, Bytes],
) -> None:
    offsets, data = column
    starts, stops = stretches
    piece_offsets, piece_data, chosen = pieces
    new_offsets, new_data = out
    for text in range(offsets.size - 1):
        at, place = offsets[text], new_offsets[text]
        for number in range(bounds[text], bounds[text + 1]):
            _copy(data, at, starts[number], new_data, place)
            place += starts[number] - at
            first, last = piece_offsets[chosen[number]], piece_offsets[chosen[number] + 1]
            _copy(piece_data, first, last, new_data, place)
            place += last - first
            at = stops[number]
        _copy(data, at, offsets[text + 1], new_data, place)


def spliced(
    column: tuple[Offsets, Bytes],
    bounds: Ints,
    stretches: tuple[Ints, Ints],
    pieces: tuple[Offsets, Bytes],
    chosen: Ints,
) -> tuple[Offsets, Bytes]:
    """The layout of texts of which some stretches are replaced.

    Args:
        column: the layout of the texts.
        bounds: text ``i`` has the stretches from ``bounds[i]`` to ``bounds[i + 1]``, in order; none overlap.
        stretches: where in ``data`` they begin and end.
        pieces: the replacements, in the Arrow layout.
        chosen: number of the piece that goes in for each stretch.

    Examples:
        >>> column = np.array([0, 5]), np.frombuffer(b"a bad", np.uint8)
        >>> pieces = np.array([0, 4]), np.frombuffer(b"good", np.uint8)
        >>> stretches = np.array([2]), np.array([5])
        >>> spliced(column, np.array([0, 1]), stretches, pieces, np.array([0]))[1].tobytes()
        b'a good'
    """
    offsets, data = column
    starts, stops = stretches
    growth = np.concatenate([[0], np.cumsum(np.diff(pieces[0])[chosen] - (stops - starts))])
    new_offsets = (offsets - offsets[0] + growth[bounds]).astype(np.int64)
    new_data = np.empty(new_offsets[-1], np.uint8)
    _splice(
        (frozen(offsets, np.int64), frozen(data, np.uint8)),
        frozen(bounds, np.int64),
        (frozen(starts, np.int64), frozen(stops, np.int64)),
        (frozen(pieces[0], np.int64), frozen(pieces[1], np.uint8), frozen(chosen, np.int64)),
        (new_offsets, new_data),
    )
    return new_offsets, new_data
