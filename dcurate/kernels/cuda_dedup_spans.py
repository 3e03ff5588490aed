"""Spans of texts on a GPU, with their hashes: the functions of `units` and `anchors`.

Bits equal those of the CPU in numba's CUDA simulator; not tested on a GPU. Offsets of spans are those in the bytes on
the GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels import anchors, units
from dcurate.kernels.anchors import AnchorScratch, find_anchors, new_anchor_scratch, write_stretches
from dcurate.kernels.cuda import CudaColumn, tables_on_gpu
from dcurate.kernels.cuda_dedup import ListColumns, Results, TwoPasses, lists_of
from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.layout import INLINE, Bytes, Ints, Rows, Words
from dcurate.kernels.units import (
    Found,
    SpanLimits,
    SpanRule,
    Spans,
    Units,
    is_long_enough,
    new_units,
    read_units,
    write_spans,
)

Span = tuple[int, int]
Places = tuple[Ints, Ints, Words, npt.NDArray[np.uint32]]

#: Where each span begins and ends, and its two hashes.
_TYPES = np.int64, np.int64, np.uint64, np.uint32


@njit(**INLINE)
def _units(data: Bytes, span: Span, tables: tuple[SpanRule, SpanLimits], units: Units, out: Ints) -> None:
    rule, limits = tables
    count = read_units(data, span, rule, limits, units)
    spans = 0
    for first in range(count - limits.units + 1):
        spans += int(is_long_enough(units, first, limits))
    out[0], out[1] = spans, count


@njit(**INLINE)
def _write_units(arrays: Places, span: Span, tables: tuple[SpanRule, SpanLimits], units: Units, out: Ints) -> None:
    starts, stops, keys, checks = arrays
    write_spans(units, out[1], tables[1], Found(starts, stops, keys, checks), span[0])


@njit(**INLINE)
def _anchors(data: Bytes, span: Span, tables: tuple[int, int, Bytes], scratch: AnchorScratch, out: Ints) -> None:
    gram, window, _ = tables
    out[0] = max(find_anchors(data, span, gram, window, scratch) - 1, 0)


@njit(**INLINE)
def _write_stretches(
    arrays: Places, span: Span, tables: tuple[int, int, Bytes], scratch: AnchorScratch, out: Ints
) -> None:
    starts, stops, keys, checks = arrays
    gram, _, data = tables
    write_stretches(data, gram, (scratch.merged, scratch.grams_merged), Found(starts, stops, keys, checks), span)


def unit_spans(column: CudaColumn, rule: SpanRule, limits: SpanLimits) -> Spans:
    """Do as `dcurate.kernels.units.unit_spans`; the result is on the host."""

    def scratch(most: int) -> Units:
        return new_units(most, rule.folding)  # type: ignore[no-any-return]

    def on_cpu(long: Rows) -> Results:
        return _one_by_one(column, long, lambda *text: units.unit_spans(text[0], text[1], rule, limits), 2)

    passes = TwoPasses(_units, _write_units, _TYPES, 2, on_cpu)
    return _spans(lists_of(passes, column, _rows(column), (tables_on_gpu(rule), limits), scratch=Scratch(scratch)))


def anchored_spans(column: CudaColumn, gram: int, window: int) -> Spans:
    """Do as `dcurate.kernels.anchors.anchored_spans`; the result is on the host."""

    def scratch(most: int) -> AnchorScratch:
        return new_anchor_scratch(most, window)  # type: ignore[no-any-return]

    def on_cpu(long: Rows) -> Results:
        return _one_by_one(column, long, lambda *text: anchors.anchored_spans(text[0], text[1], gram, window), 1)

    passes = TwoPasses(_anchors, _write_stretches, _TYPES, 1, on_cpu)
    return _spans(lists_of(passes, column, _rows(column), (gram, window, column.data), scratch=Scratch(scratch)))


def _one_by_one(column: CudaColumn, rows: Rows, find: Callable[[Ints, Any], Spans], notes: int) -> Results:
    """Find spans on the CPU in each of the texts numbered ``rows``.

    Args:
        find: finds them in texts given as offsets and data.
        notes: numbers of each text; the first is how many spans it has, the others are of no use then.
    """
    spans = [find(column.offsets[row : row + 2], column.host) for row in rows]
    noted = np.zeros((len(rows), notes), np.int64)
    noted[:, 0] = [len(text_spans.keys) for text_spans in spans]
    return noted, tuple(map(np.concatenate, zip(*(text_spans[1:] for text_spans in spans), strict=True)))


def _rows(column: CudaColumn) -> Ints:
    return np.arange(len(column.offsets) - 1)


def _spans(lists: ListColumns) -> Spans:
    starts, stops, keys, checks = lists.arrays
    return Spans(lists.bounds, starts, stops, keys, checks)
