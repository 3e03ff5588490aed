"""Shingle sets of texts on a GPU, and the similarity of pairs: the functions of `sets`.

The same bits as on the CPU, as far as numba's simulator of CUDA can tell; untested on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda import CudaColumn, constant_on_gpu, copied, launch
from dcurate.kernels.cuda_dedup import TwoPasses, lists_of
from dcurate.kernels.layout import INLINE, Bytes, Ints, Rows, Scalar
from dcurate.kernels.sets import (
    ALL,
    Floats,
    SetPlan,
    SetRoom,
    Sets,
    Values,
    new_set_room,
    set_of_text,
    similarity,
    values_held,
)
from dcurate.kernels.shingles import Reading, Rule, word_letters

Arrays = tuple[npt.NDArray[Any], ...]
Span = tuple[int, int]
Task = tuple[Any, Any, int]


@njit(**INLINE)
def _set(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    plan, rooms, place = task
    state, bounds, hashes, odd, held, spare, counts = rooms
    reading = Reading(state[place], bounds[place], hashes[place], odd[place])
    room = SetRoom(reading, held[place], spare[place], counts[place])
    out[0], out[1] = set_of_text(data, span, plan, room)


@njit(**INLINE)
def _write(arrays: tuple[Values], span: Span, task: Task, out: Ints) -> None:
    _, rooms, place = task
    held = rooms[4][place]
    for number in range(span[1] - span[0]):
        arrays[0][span[0] + number] = held[number]


@njit(**INLINE)
def _jaccard(values: Values, span: Span, task: Task, out: Floats) -> None:
    (bounds, whole, left, right), _, _ = task
    pair: Scalar = span[0]
    out[0] = similarity((bounds, values, whole), left[pair], right[pair])


def shingle_sets(column: CudaColumn, rows: Rows, rule: Rule, most: int | None) -> Sets:
    """The output of `dcurate.kernels.sets.shingle_sets`, on the host."""

    def room(length: int) -> Arrays:
        made = new_set_room(rule.size, values_held(length, rule, most))
        return *made.reading, made.held, made.spare, made.counts

    plan = SetPlan(rule, constant_on_gpu(word_letters), ALL if most is None else most)
    found = lists_of(TwoPasses(_set, _write, (np.uint32,), notes=2), column, rows, plan, room=room)
    return Sets(found.bounds, found.arrays[0], found.notes[:, 1].astype(np.bool_))


def jaccard_of_sets(sets: Sets, left: Ints, right: Ints) -> Floats:
    """CUDA build of `dcurate.kernels.sets.jaccard_of_sets`, one pair per thread; the largest sets come first."""
    sizes = np.diff(sets.bounds)
    ends = np.concatenate([[0], np.cumsum(sizes[left] + sizes[right])])
    pairs = CudaColumn(ends, copied(np.arange(len(left) + 1)), copied(sets.values))
    known = copied(sets.bounds), copied(sets.whole), copied(left.astype(np.int64)), copied(right.astype(np.int64))
    out = np.empty((len(left), 1), np.float64)
    launch(_jaccard, pairs, np.arange(len(left)), known, room=_no_room, out=out)
    return out[:, 0]


def _no_room(most: int) -> Arrays:
    return (np.empty(1, np.uint8),)
