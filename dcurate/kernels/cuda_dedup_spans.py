"""Spans of texts on a GPU, with their hashes: the functions of `units` and `anchors`.

The same bits as on the CPU, as far as numba's simulator of CUDA can tell; untested on a GPU. Places of spans are those
in the bytes that are on the card.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.anchors import Room, find_anchors, new_room, write_stretches
from dcurate.kernels.cuda import CudaColumn, copied
from dcurate.kernels.cuda_dedup import Lists, TwoPasses, lists_of
from dcurate.kernels.folding import Folding
from dcurate.kernels.layout import INLINE, Bytes, Ints, Words
from dcurate.kernels.units import Found, Limits, Rule, Spans, Units, is_long_enough, new_units, read_units, write_spans

Arrays = tuple[npt.NDArray[Any], ...]
Span = tuple[int, int]
Task = tuple[Any, Any, int]
Places = tuple[Ints, Ints, Words, npt.NDArray[np.uint32]]

#: Where each span begins and ends, and its two hashes.
_TYPES = np.int64, np.int64, np.uint64, np.uint32


@njit(**INLINE)
def _own_units(task: Task) -> Units:
    _, rooms, place = task
    starts, keys, checks, characters, words, points, folded = rooms
    return Units(
        starts[place], keys[place], checks[place], characters[place], words[place], points[place], folded[place]
    )


@njit(**INLINE)
def _units(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    rule, limits = task[0]
    units = _own_units(task)
    count = read_units(data, span, rule, limits, units)
    spans = 0
    for first in range(count - limits.units + 1):
        spans += int(is_long_enough(units, first, limits))
    out[0], out[1] = spans, count


@njit(**INLINE)
def _write_units(arrays: Places, span: Span, task: Task, out: Ints) -> None:
    starts, stops, keys, checks = arrays
    write_spans(_own_units(task), out[1], task[0][1], Found(starts, stops, keys, checks), span[0])


@njit(**INLINE)
def _own_room(task: Task) -> Room:
    _, rooms, place = task
    rings, counts, places, grams, merged, grams_merged = rooms
    return Room(rings[place], counts[place], places[place], grams[place], merged[place], grams_merged[place])


@njit(**INLINE)
def _anchors(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    gram, window, _ = task[0]
    out[0] = max(find_anchors(data, span, gram, window, _own_room(task)) - 1, 0)


@njit(**INLINE)
def _write_stretches(arrays: Places, span: Span, task: Task, out: Ints) -> None:
    starts, stops, keys, checks = arrays
    gram, _, data = task[0]
    room = _own_room(task)
    write_stretches(data, gram, (room.merged, room.grams_merged), Found(starts, stops, keys, checks), span)


def unit_spans(column: CudaColumn, rule: Rule, limits: Limits) -> Spans:
    """The output of `dcurate.kernels.units.unit_spans`, on the host."""

    def room(most: int) -> Arrays:
        return tuple(new_units(most, rule.folding))

    known = _on_gpu(rule), limits
    return _spans(lists_of(TwoPasses(_units, _write_units, _TYPES, notes=2), column, _rows(column), known, room=room))


def anchored_spans(column: CudaColumn, gram: int, window: int) -> Spans:
    """The output of `dcurate.kernels.anchors.anchored_spans`, on the host."""

    def room(most: int) -> Arrays:
        return tuple(new_room(most, window))

    passes = TwoPasses(_anchors, _write_stretches, _TYPES)
    return _spans(lists_of(passes, column, _rows(column), (gram, window, column.data), room=room))


def _on_gpu(rule: Rule) -> Rule:
    """A rule with its tables on the GPU: a megabyte, shared by all texts."""
    folding: list[Any] = [copied(value) if isinstance(value, np.ndarray) else value for value in rule.folding]
    return Rule(rule.kind, Folding(*folding), copied(rule.marks))


def _rows(column: CudaColumn) -> Ints:
    return np.arange(len(column.offsets) - 1)


def _spans(found: Lists) -> Spans:
    starts, stops, keys, checks = found.arrays
    return Spans(found.bounds, starts, stops, keys, checks)
