"""The order of reading: columns by whitespace cuts, then lines from the top."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS

#: Steps across the page in which whitespace is measured.
_BINS = 400
#: Lines that each of two columns needs.
_ROWS = 3
#: Least width of a column, in sizes of its font, and of the gap between two.
_COLUMN = 8.0
_GUTTER = 0.8
#: Least share of a column's width that its lines fill on average: tables fill less.
_FILL = 0.55
_DEPTH = 12


@njit(**INLINE)
def _rows(boxes: Any, chosen: Any, count: Any, row_of: Any) -> Any:
    """Number the rows of segments that are sorted by baseline; returns how many there are."""
    rows = 0
    base, size = 0.0, 0.0
    for at in range(count):
        segment = chosen[at]
        here, big = boxes[segment, 2], boxes[segment, 3]
        if at == 0 or here - base > 0.35 * min(big, size):
            rows += 1
            base, size = here, big
        row_of[at] = rows - 1
    return rows


@njit(**OPTIONS)
def _cut(boxes: Any, chosen: Any, count: Any, row_of: Any, rows: Any, crossings: Any) -> Any:
    """The best gutter of a region: first and last row, and where it begins and ends; no rows if there is none."""
    low, high = np.inf, -np.inf
    sizes = 0.0
    for at in range(count):
        low = min(low, boxes[chosen[at], 0])
        high = max(high, boxes[chosen[at], 1])
        sizes += boxes[chosen[at], 3]
    em = sizes / count
    nothing = (0, -1, 0.0, 0.0)
    if rows < _ROWS or high - low < (2 * _COLUMN + _GUTTER) * em * 0.8:
        return nothing
    step = (high - low) / _BINS
    ink = np.zeros((rows, _BINS), np.uint8)
    first = np.full(rows, _BINS, np.int64)
    last = np.full(rows, -1, np.int64)
    base = np.zeros(rows, np.float64)
    for at in range(count):
        segment, row = chosen[at], row_of[at]
        begin = max(0, min(_BINS - 1, int((boxes[segment, 0] - low) / step)))
        end = max(begin, min(_BINS - 1, int(np.ceil((boxes[segment, 1] - low) / step)) - 1))
        ink[row, begin : end + 1] = 1
        first[row] = min(first[row], begin)
        last[row] = max(last[row], end)
        base[row] = boxes[segment, 2]
    banned = np.zeros(_BINS, np.uint8)
    for _ in range(8):
        best, best_bin, best_from, best_to = 0, -1, 0, -1
        for column in range(2, _BINS - 2):
            if banned[column]:
                continue
            start, left, right = 0, 0, 0
            for row in range(rows + 1):
                if row == rows or ink[row, column]:
                    score = min(left, right)
                    if score > best:
                        best, best_bin, best_from, best_to = score, column, start, row - 1
                    start, left, right = row + 1, 0, 0
                else:
                    left += first[row] < column
                    right += last[row] > column
        if best < _ROWS:
            return nothing
        begin = end = best_bin
        while begin > 0 and not ink[best_from : best_to + 1, begin - 1].any():
            begin -= 1
        while end < _BINS - 1 and not ink[best_from : best_to + 1, end + 1].any():
            end += 1
        wide = (end - begin + 1) * step
        # A row that only the other side has may belong to what follows.
        top, bottom = best_from, best_to
        while top < bottom and first[top] > end:
            top += 1
        if top - best_from >= _ROWS:
            top = best_from
        foot = bottom
        while foot > top and last[foot] < begin:
            foot -= 1
        pitch = (base[foot] - base[top]) / max(1, foot - top)
        for row in range(foot + 1, bottom + 1):
            if base[row] - base[row - 1] > max(1.9 * pitch, 1.9 * em):
                bottom = row - 1
                break
        good = wide >= _GUTTER * em
        if good:
            # How well lines fill both sides.
            for side in range(2):
                edge_from, edge_to = np.inf, -np.inf
                filled, lines = 0.0, 0
                row_ink = np.zeros(rows, np.float64)
                for at in range(count):
                    row = row_of[at]
                    if row < top or row > bottom:
                        continue
                    segment = chosen[at]
                    middle = (boxes[segment, 0] + boxes[segment, 1]) / 2
                    if (middle < low + (begin + end + 1) / 2 * step) != (side == 0):
                        continue
                    edge_from = min(edge_from, boxes[segment, 0])
                    edge_to = max(edge_to, boxes[segment, 1])
                    row_ink[row] += boxes[segment, 1] - boxes[segment, 0]
                for row in range(top, bottom + 1):
                    if row_ink[row] > 0:
                        filled += row_ink[row]
                        lines += 1
                extent = edge_to - edge_from
                if lines < _ROWS or extent < _COLUMN * em or filled / lines < _FILL * extent:
                    good = False
        if good:
            for line in range(len(crossings)):
                # A rule across the gutter makes it a table.
                if (
                    base[top] < crossings[line, 2] < base[bottom]
                    and crossings[line, 0] < low + begin * step - em
                    and crossings[line, 1] > low + (end + 1) * step + em
                ):
                    good = False
                    break
        if good:
            return top, bottom, low + begin * step, low + (end + 1) * step
        banned[begin : end + 1] = 1
    return nothing


@njit(**OPTIONS)
def find_order(boxes: Any, right_to_left: Any, crossings: Any) -> Any:
    """The order in which segments are read.

    Args:
        boxes: of segments.
        right_to_left: whether columns are read from the right.
        crossings: horizontal rules: from, to, height.

    Returns:
        The segments in order, and for each of these the number of its line and of its column.
    """
    count = len(boxes)
    order = np.empty(count, np.int32)
    lines = np.empty(count, np.int32)
    leaves = np.empty(count, np.int32)
    all_of = np.argsort(boxes[:, 2], kind="mergesort").astype(np.int32)
    stack = [all_of]
    depths = [0]
    done, line, leaf = 0, -1, -1
    row_of = np.empty(count, np.int32)
    while stack:
        chosen, depth = stack.pop(), depths.pop()
        many = len(chosen)
        if many == 0:
            continue
        rows = _rows(boxes, chosen, many, row_of)
        top, bottom, begin, end = 0, -1, 0.0, 0.0
        if depth < _DEPTH:
            top, bottom, begin, end = _cut(boxes, chosen, many, row_of, rows, crossings)
        if bottom < top:
            leaf += 1
            start = 0
            while start < many:
                stop = start
                while stop < many and row_of[stop] == row_of[start]:
                    stop += 1
                line += 1
                ahead = np.argsort(boxes[chosen[start:stop], 0], kind="mergesort")
                for at in range(stop - start):
                    place = ahead[stop - start - 1 - at] if right_to_left else ahead[at]
                    order[done] = chosen[start + place]
                    lines[done] = line
                    leaves[done] = leaf
                    done += 1
                start = stop
            continue
        middle = (begin + end) / 2
        above, left, right, below = 0, 0, 0, 0
        side = np.empty(many, np.int8)
        for at in range(many):
            row = row_of[at]
            if row < top:
                side[at] = 0
                above += 1
            elif row > bottom:
                side[at] = 3
                below += 1
            elif (boxes[chosen[at], 0] + boxes[chosen[at], 1]) / 2 < middle:
                side[at] = 1
                left += 1
            else:
                side[at] = 2
                right += 1
        parts = (3, 1, 2, 0) if right_to_left else (3, 2, 1, 0)
        for part in parts:
            stack.append(chosen[side == part])
            depths.append(depth + 1)
    return order, lines, leaves
