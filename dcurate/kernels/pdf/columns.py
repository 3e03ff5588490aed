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


@njit(**INLINE)
def _is_column(ink: Any, top: Any, bottom: Any, edge: Any, way: Any, least: Any, step: Any, em: Any) -> Any:
    """Whether the text beside a gutter, up to the next one, is wide enough and its lines fill it.

    Args:
        edge: the bin beside the gutter.
        way: -1 to the left, 1 to the right.
        least: bins of a gutter.
    """
    far, empty, at = edge, 0, edge
    while 0 <= at < _BINS and empty < least:
        inked = False
        for row in range(top, bottom + 1):
            if ink[row, at]:
                inked = True
                break
        if inked:
            far, empty = at, 0
        else:
            empty += 1
        at += way
    low, high = min(edge, far), max(edge, far)
    filled, lines = 0, 0
    for row in range(top, bottom + 1):
        here = 0
        for at in range(low, high + 1):
            here += ink[row, at]
        filled += here
        lines += here > 0
    wide = high - low + 1
    return lines >= _ROWS and wide * step >= _COLUMN * em and filled >= _FILL * wide * lines


@njit(**OPTIONS)
def _cut(boxes: Any, chosen: Any, count: Any, row_of: Any, rows: Any) -> Any:
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
            least = max(1, int(_GUTTER * em / step))
            good = _is_column(ink, top, bottom, begin - 1, -1, least, step, em) and _is_column(
                ink, top, bottom, end + 1, 1, least, step, em
            )
        if good:
            return top, bottom, low + begin * step, low + (end + 1) * step
        banned[begin : end + 1] = 1
    return nothing


@njit(**OPTIONS)
def _order_row(boxes: Any, rtl: Any, chosen: Any, start: Any, stop: Any, right_to_left: Any) -> Any:
    """Put the segments of a row in order: from the left, or as the file has them where some run to the left.

    pdfium has put characters of both directions in their order already, as long as they follow each other in the file.
    """
    low, high = chosen[start], chosen[start]
    strong = right_to_left
    for at in range(start, stop):
        low, high = min(low, chosen[at]), max(high, chosen[at])
        strong = strong or rtl[chosen[at]] > 0.3
    in_file = strong and high - low + 1 == stop - start
    keys = np.empty(stop - start, np.float64)
    for at in range(start, stop):
        keys[at - start] = chosen[at] if in_file else (-boxes[chosen[at], 0] if strong else boxes[chosen[at], 0])
    chosen[start:stop] = chosen[start:stop][np.argsort(keys, kind="mergesort")]


@njit(**OPTIONS)
def find_order(boxes: Any, rtl: Any, right_to_left: Any) -> Any:
    """The order in which segments are read.

    Args:
        boxes: boxes of segments; rules and tables take part as segments without text.
        rtl: for each segment the share of its letters that run to the left.
        right_to_left: whether columns are read from the right.

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
            top, bottom, begin, end = _cut(boxes, chosen, many, row_of, rows)
        if bottom < top:
            leaf += 1
            start = 0
            while start < many:
                stop = start
                while stop < many and row_of[stop] == row_of[start]:
                    stop += 1
                line += 1
                _order_row(boxes, rtl, chosen, start, stop, right_to_left)
                for at in range(start, stop):
                    order[done] = chosen[at]
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


@njit(**OPTIONS)
def order_cells(boxes: Any, cells: Any, right_to_left: Any) -> Any:
    """The order of segments within cells of tables; as `find_order` gives it, with a column for each cell."""
    count = len(boxes)
    order = np.argsort(boxes[:, 2], kind="mergesort")
    order = order[np.argsort(cells[order], kind="mergesort")].astype(np.int32)
    lines = np.empty(count, np.int32)
    leaves = np.empty(count, np.int32)
    line, leaf, start = -1, -1, 0
    base = 0.0
    while start < count:
        segment = order[start]
        if start == 0 or cells[segment] != cells[order[start - 1]]:
            leaf += 1
        base = boxes[segment, 2]
        stop = start
        while (
            stop < count
            and cells[order[stop]] == cells[segment]
            and boxes[order[stop], 2] - base <= 0.35 * boxes[segment, 3]
        ):
            stop += 1
        line += 1
        if stop - start > 1:
            keys = boxes[order[start:stop], 0]
            order[start:stop] = order[start:stop][np.argsort(-keys if right_to_left else keys, kind="mergesort")]
        lines[start:stop] = line
        leaves[start:stop] = leaf
        start = stop
    return order, lines, leaves
