"""Lines of text, and how each joins the one before it: words broken by a hyphen, sentences that go on, paragraphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS
from dcurate.kernels.pdf.segments import is_cjk

#: How a line joins the one before it.
FIRST, SPACED, DIRECT, HYPHEN, NEW_LINE, PARAGRAPH = range(6)

#: Columns of the table of lines.
FROM, TO, BASE, SIZE, GAP, LEAF, RTL, SEGMENTS, BOLD, MONO = range(10)

#: A gap of this many font sizes makes a line a row of cells.
CELL_GAP = 1.8


@njit(**OPTIONS)
def make_lines(
    order: Any,
    line_of: Any,
    leaves: Any,
    spans: Any,
    kept: Any,
    words: Any,
    codes: Any,
    boxes: Any,
    rtl: Any,
    styles: Any,
) -> Any:
    """Write lines as code points.

    Args:
        styles: style of each character: 1 bold, 2 of one width.

    Returns:
        The code points of all lines, with spaces between words; where each line begins and ends in them; the table of
        lines; and where each segment begins and ends in the code points, in the order given.
    """
    count = len(order)
    total = line_of[count - 1] + 1 if count else 0
    letters = np.empty(2 * len(kept) + count, np.uint32)
    places = np.zeros((total, 2), np.int32)
    table = np.zeros((total, 10), np.float32)
    cells = np.zeros((count, 2), np.int32)
    out = 0
    previous = -1
    for at in range(count):
        segment, line = order[at], line_of[at]
        begin, end = boxes[segment, 0], boxes[segment, 1]
        first, last = spans[segment]
        if line == previous and last == first:
            cells[at] = out
            continue
        if line != previous or places[line, 1] == places[line, 0]:
            places[line] = out
            table[line, 0], table[line, 1] = begin, end
            table[line, 2], table[line, 3] = boxes[segment, 2], boxes[segment, 3]
            table[line, 4], table[line, 5], table[line, 7] = 0, leaves[at], 0
            widest = last - first
            previous = line
        else:
            gap = max(begin - table[line, 1], table[line, 0] - end)
            size = max(table[line, 3], boxes[segment, 3])
            table[line, 4] = max(table[line, 4], gap / max(size, 0.1))
            near = gap < 0.15 * size
            if not near and is_cjk(codes[kept[first]]) and is_cjk(letters[out - 1]):
                near = gap < 0.6 * size
            if not near:
                letters[out] = 32
                out += 1
            table[line, 0] = min(table[line, 0], begin)
            table[line, 1] = max(table[line, 1], end)
            if last - first > widest:
                table[line, 3], widest = boxes[segment, 3], last - first
        table[line, 6] = max(table[line, 6], rtl[segment])
        table[line, 7] += 1
        cells[at, 0] = out
        for number in range(first, last):
            if words[number] and number > first:
                letters[out] = 32
                out += 1
            letters[out] = codes[kept[number]]
            out += 1
            style = styles[kept[number]]
            table[line, 8] += style & 1
            table[line, 9] += style >> 1
        cells[at, 1] = out
        places[line, 1] = out
    for line in range(total):
        shown = 0
        for at in range(places[line, 0], places[line, 1]):
            shown += letters[at] != 32
        table[line, 8] /= max(1, shown)
        table[line, 9] /= max(1, shown)
    return letters[:out], places, table, cells


@njit(**INLINE)
def _is_lower(code: Any) -> Any:
    """Whether a letter may go on a word: no capital, of the scripts that have them."""
    if code < 128:
        return 97 <= code <= 122
    if code < 0x180:
        return 0xDF <= code <= 0xFF or (code > 0xFF and (code & 1 == 1 or 0x130 <= code <= 0x148))
    if 0x370 <= code <= 0x3FF:
        return code >= 0x3AC
    if 0x400 <= code <= 0x4FF:
        return 0x430 <= code <= 0x45F or (code >= 0x460 and code & 1 == 1)
    if 0x180 <= code <= 0x24F or 0x1E00 <= code <= 0x1EFF:
        return code & 1 == 1 or code >= 0x1D0
    return code >= 0x530


@njit(**INLINE)
def _is_letter(code: Any) -> Any:
    return 65 <= code <= 90 or 97 <= code <= 122 or (code >= 0xC0 and code < 0x2000) or 0x2C00 <= code < 0x2E00


@njit(**INLINE)
def _is_digit(code: Any) -> Any:
    return 48 <= code <= 57


@njit(**INLINE)
def _begins_item(letters: Any, start: Any, stop: Any) -> Any:
    """Whether a line begins as an item of a list does: a bullet, or a number or a letter and a point or bracket."""
    code = letters[start]
    if stop - start > 1 and letters[start + 1] == 32:
        if (
            code == 0x2022
            or 0x25A0 <= code <= 0x25FF
            or code == 0x2013
            or code == 0x2014
            or code == 45
            or code == 42
            or code == 0xB7
            or code == 0x2023
            or code == 0x2043
            or 0x2700 <= code <= 0x27BF
            or 0xF000 <= code <= 0xF0FF
        ):
            return True
    at = start
    if code == 40:
        at += 1
    begin = at
    while at < stop and at - begin < 3 and _is_digit(letters[at]):
        at += 1
    if at == begin and at < stop and (65 <= letters[at] <= 90 or 97 <= letters[at] <= 122):
        at += 1
    if at == begin or at + 1 >= stop:
        return False
    return (letters[at] == 46 or letters[at] == 41) and letters[at + 1] == 32


@njit(**OPTIONS)
def find_joints(letters: Any, places: Any, table: Any, dropped: Any) -> Any:
    """How each line joins the one before it that is not dropped."""
    total = len(places)
    joints = np.zeros(total, np.uint8)
    # Edges and the usual distance between lines of each column.
    columns = int(table[total - 1, 5]) + 1 if total else 0
    low = np.full(columns, np.inf)
    high = np.full(columns, -np.inf)
    pitches = np.zeros(columns)
    steps = np.empty(max(total, 1), np.float64)
    start = 0
    while start < total:
        leaf = int(table[start, 5])
        stop, many, before = start, 0, -1
        while stop < total and int(table[stop, 5]) == leaf:
            if not dropped[stop]:
                low[leaf] = min(low[leaf], table[stop, 0])
                high[leaf] = max(high[leaf], table[stop, 1])
                if before >= 0:
                    step = table[stop, 2] - table[before, 2]
                    size = table[stop, 3]
                    if 0.7 * size < step < 3 * size and abs(size - table[before, 3]) < 0.08 * size:
                        steps[many] = step / size
                        many += 1
                before = stop
            stop += 1
        pitches[leaf] = np.sort(steps[:many])[int(0.4 * many)] if many else 1.35
        start = stop
    before = -1
    for line in range(total):
        first, last = places[line]
        if dropped[line] or last <= first:
            continue
        if before < 0:
            before = line
            continue
        leaf, size = int(table[line, 5]), max(table[line, 3], 0.1)
        old_first, old_last = places[before]
        end, begin = letters[old_last - 1], letters[first]
        step = table[line, 2] - table[before, 2]
        alike = abs(size - table[before, 3]) < 0.08 * size and (table[line, 8] > 0.7) == (table[before, 8] > 0.7)
        mirrored = table[line, 6] > 0.3 or table[before, 6] > 0.3
        hyphen = (
            (end == 45 or end == 0x2010) and old_last - old_first > 2 and _is_letter(letters[old_last - 2]) and alike
        )
        if int(table[before, 5]) != leaf:
            joint = HYPHEN if hyphen and _is_lower(begin) and step < 0 else PARAGRAPH
        elif step <= 0 or not alike or step > max(1.25 * pitches[leaf], 1.0) * size * 1.02:
            joint = PARAGRAPH
        else:
            if mirrored:
                left_over = table[before, 0] - low[leaf]
                indent, old_indent = high[leaf] - table[line, 1], high[leaf] - table[before, 1]
            else:
                left_over = high[leaf] - table[before, 1]
                indent, old_indent = table[line, 0] - low[leaf], table[before, 0] - low[leaf]
            word = first
            while word < last and letters[word] != 32 and not is_cjk(letters[word]):
                word += 1
            word = max(word, first + 1)
            need = (word - first) * (table[line, 1] - table[line, 0]) / (last - first) + 0.3 * size
            code = min(table[line, 9], table[before, 9]) > 0.7
            if hyphen and not code and left_over < max(need, 6 * size):
                joint = HYPHEN if _is_lower(begin) else DIRECT
            elif (
                code
                or max(table[line, 4], table[before, 4]) >= CELL_GAP
                or _begins_item(letters, first, last)
                or left_over > need + 0.5 * size
                or (
                    indent > old_indent + 0.9 * size
                    and not _begins_item(letters, old_first, old_last)
                    and left_over > 2 * size
                )
            ):
                joint = NEW_LINE
            elif (is_cjk(end) and is_cjk(begin)) or (
                (end == 45 or end == 0x2010) and old_last - old_first > 1 and letters[old_last - 2] != 32
            ):
                joint = DIRECT
            else:
                joint = SPACED
        joints[line] = joint
        before = line
    return joints
