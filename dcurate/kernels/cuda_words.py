"""Word-id signals on a GPU, with the functions of `traits` and `repeats`: one text per thread.

The words are numbered on the CPU, in a table of the process; the numbers go to the card, four bytes a word. Untested on
a GPU, as all of `dcurate.kernels.cuda`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels import repeats, traits
from dcurate.kernels.cuda import CudaColumn, carried, copied, launch
from dcurate.kernels.interning import Numbered
from dcurate.kernels.layout import INLINE, Ints, Places, Rows, frozen

Span = tuple[int, int]
#: What texts are held against, scratch arrays of all threads, and which of these are the thread's own.
Task = tuple[Any, Any, int]


@njit(**INLINE)
def _traits(numbers: Places, span: Span, task: Task, out: Ints) -> None:
    known, rooms, place = task
    room = traits.TraitRoom(rooms[0][place], rooms[1][place], rooms[2][place])
    traits.measure_traits(numbers, span, known, room, out)


@njit(**INLINE)
def _sought(numbers: Places, span: Span, task: Task, out: Ints) -> None:
    places, rooms, place = task
    seen = rooms[0][place]
    seen[:] = 0
    traits.measure_sought(numbers, span, places, (seen, 0), out)


@njit(**INLINE)
def _repeats(numbers: Places, span: Span, task: Task, out: Ints) -> None:
    asked, rooms, place = task
    values, factors, joined, leaders, counts, ends, table, base = rooms
    room = repeats.RepeatRoom(
        values[place],
        factors[place],
        joined[place],
        leaders[place],
        counts[place],
        ends[place],
        table[place],
        base[place],
    )
    room.table[:] = 0
    room.base[0] = 0
    repeats.measure_repeats(numbers, span, asked, room, out)


def _on_gpu(found: Numbered, rows: Rows) -> tuple[CudaColumn, Rows]:
    """The word ids of texts as a column, and its rows for these texts: those between are empty."""
    bounds = np.stack([found.begins[rows], found.begins[rows] + found.counts[rows]], axis=1).ravel()
    bounds = frozen(np.append(bounds, bounds[-1:]), np.int64)
    return CudaColumn(bounds, copied(bounds), copied(frozen(found.numbers, np.int32))), 2 * np.arange(len(rows))


def _trait_room(most: int) -> tuple[npt.NDArray[Any], ...]:
    return (*traits.new_trait_room(),)


def _seen(different: int, most: int) -> tuple[npt.NDArray[Any], ...]:
    return (np.empty(different + 1, np.int32),)


def trait_signals(found: Numbered, known: tuple[Places, npt.NDArray[np.uint8]], rows: Rows) -> traits.TraitSignals:
    """CUDA build of `dcurate.kernels.traits.trait_signals`.

    Args:
        found: the words by number, ``begins`` and ``counts`` by text.
        known: the length and the traits of each different word.
        rows: numbers of texts.
    """
    out = np.empty((len(rows), traits.TRAIT_NUMBERS), np.int64)
    tables = frozen(known[0], np.int32), frozen(known[1], np.uint8)
    launch(_traits, *_on_gpu(found, rows), carried(tables), room=_trait_room, out=out)
    return traits.as_traits(out.T)


def sought_signals(found: Numbered, places: Places, rows: Rows) -> traits.SoughtSignals:
    """CUDA build of `dcurate.kernels.traits.sought_signals`."""
    out = np.empty((len(rows), 2), np.int64)
    room = partial(_seen, int(places.max(initial=0)))
    launch(_sought, *_on_gpu(found, rows), copied(frozen(places, np.int32)), room=room, out=out)
    return traits.SoughtSignals(*out.T)


def repeat_signals(
    found: Numbered,
    known: tuple[Places, npt.NDArray[np.uint64], npt.NDArray[np.uint64]],
    rows: Rows,
    sizes: tuple[tuple[int, ...], tuple[int, ...]],
    how: repeats.Counting,
) -> repeats.RepeatSignals:
    """CUDA build of `dcurate.kernels.repeats.repeat_signals`."""
    sought = repeats.sought_grams(sizes, how)
    out = np.empty((len(rows), 3, len(sought[0])), np.int64)
    tables = frozen(known[0], np.int32), frozen(known[1], np.uint64), frozen(known[2], np.uint64)
    asked = carried(tables), carried(sought)
    launch(_repeats, *_on_gpu(found, rows), asked, room=repeats.new_repeat_room, out=out)
    return repeats.RepeatSignals(*np.moveaxis(out, 1, 0))
