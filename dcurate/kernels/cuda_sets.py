"""Shingle sets of texts on a GPU, and the similarity of pairs: the functions of `sets`.

Bits equal those of the CPU in numba's CUDA simulator; not tested on a GPU.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels import sets
from dcurate.kernels.cuda import CudaColumn, TextFunction, copied, launch, tables_on_gpu
from dcurate.kernels.cuda_dedup import Results, TwoPasses, lists_of
from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.layout import INLINE, Bytes, Ints, Rows, Scalar
from dcurate.kernels.sets import (
    ALL,
    Floats,
    SetPlan,
    Sets,
    SetScratch,
    Values,
    new_set_scratch,
    set_of_text,
    similarity,
    values_held,
)
from dcurate.kernels.shingles import Rule, word_letters

Span = tuple[int, int]
#: Where sets begin, whether they are whole, and the two numbers of each pair.
Tables = tuple[Ints, npt.NDArray[np.bool_], Ints, Ints]


@njit(**INLINE)
def _set(data: Bytes, span: Span, plan: SetPlan, scratch: SetScratch, out: Ints) -> None:
    out[0], out[1] = set_of_text(data, span, plan, scratch)


@njit(**INLINE)
def _write(arrays: tuple[Values], span: Span, plan: SetPlan, scratch: SetScratch, out: Ints) -> None:
    for number in range(span[1] - span[0]):
        arrays[0][span[0] + number] = scratch.held[number]


@njit(**INLINE)
def _jaccard(values: Values, span: Span, tables: Tables, scratch: Bytes, out: Floats) -> None:
    bounds, complete, left, right = tables
    pair: Scalar = span[0]
    out[0] = similarity((bounds, values, complete), left[pair], right[pair])


def shingle_sets(column: CudaColumn, rows: Rows, rule: Rule, most: int | None) -> Sets:
    """Do as `dcurate.kernels.sets.shingle_sets`; the result is on the host."""

    def scratch(length: int) -> SetScratch:
        return new_set_scratch(rule.size, values_held(length, rule, most))  # type: ignore[no-any-return]

    def on_cpu(long: Rows) -> Results:
        assert column.host is not None
        of_long = sets.shingle_sets(column.offsets, column.host, long, rule, most)
        return np.stack([np.diff(of_long.bounds), of_long.whole], axis=1), (of_long.values,)

    plan = tables_on_gpu(SetPlan(rule, word_letters(), ALL if most is None else most))
    passes = TwoPasses(_set, _write, (np.uint32,), 2, on_cpu)
    lists = lists_of(passes, column, rows, plan, scratch=Scratch(scratch))
    return Sets(lists.bounds, lists.arrays[0], lists.notes[:, 1].astype(np.bool_))


def jaccard_of_sets(sets: Sets, left: Ints, right: Ints) -> Floats:
    """Do as `dcurate.kernels.sets.jaccard_of_sets`, one pair per thread; the largest sets come first."""
    sizes = np.diff(sets.bounds)
    ends = np.concatenate([[0], np.cumsum(sizes[left] + sizes[right])])
    pairs = CudaColumn(ends, copied(np.arange(len(left) + 1)), copied(sets.values))
    known = copied(sets.bounds), copied(sets.whole), copied(left.astype(np.int64)), copied(right.astype(np.int64))
    out = np.empty((len(left), 1), np.float64)
    launch(TextFunction(_jaccard), pairs, np.arange(len(left)), known, out=out)
    return out[:, 0]
