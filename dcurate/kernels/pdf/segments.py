"""Characters to segments: stretches of text on one baseline without a wide gap."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS

#: A gap of this many font sizes ends a segment.
WIDE_GAP = 0.9
#: A gap of this many font sizes parts words where the file has no space.
WORD_GAP = 0.28
#: A space that pdfium added counts from this gap on.
MADE_WORD_GAP = 0.1

#: Columns of the boxes of segments.
FROM, TO, BASE, SIZE = range(4)


@njit(**INLINE)
def is_rtl(code: Any) -> Any:
    """Whether a letter runs to the left: Hebrew, Arabic, Syriac, Thaana, N'Ko and their presentation forms."""
    return 0x590 <= code <= 0x8FF or 0xFB1D <= code <= 0xFDFF or 0xFE70 <= code <= 0xFEFC or 0x10800 <= code <= 0x10FFF


@njit(**INLINE)
def is_cjk(code: Any) -> Any:
    """Whether a character is written without spaces between words: Han, kana, Thai, Lao, Khmer, full-width forms."""
    return (
        0x2E80 <= code <= 0x312F
        or 0x31A0 <= code <= 0x4DBF
        or 0x4E00 <= code <= 0x9FFF
        or 0xF900 <= code <= 0xFAFF
        or 0xFE30 <= code <= 0xFE4F
        or 0xFF00 <= code <= 0xFFEF
        or 0x20000 <= code <= 0x3FFFF
        or 0x0E00 <= code <= 0x0EFF
        or 0x1780 <= code <= 0x17FF
    )


@njit(**OPTIONS)
def find_segments(codes: Any, places: Any, flags: Any, visible: Any, cells: Any) -> Any:
    """Find the segments of the visible characters.

    Args:
        cells: the cell of a table that each character is in, or 0; a segment stays in its cell. May be empty.

    Returns:
        - numbers of the characters, those of a segment side by side, without what is printed twice;
        - for each of these whether a word begins with it;
        - where each segment begins and ends in them, in the order of the file;
        - boxes: from and to along the line, the baseline downwards, the size of most of its characters;
        - for each segment, the share of its letters that run to the left.
    """
    count = len(codes)
    kept = np.empty(count, np.int32)
    words = np.zeros(count, np.uint8)
    spans = np.empty((count, 2), np.int32)
    boxes = np.empty((count, 4), np.float32)
    rtl = np.zeros(count, np.float32)
    bits = 4
    while (1 << bits) < 2 * count:
        bits += 1
    mask = (1 << bits) - 1
    seen = np.full(1 << bits, -1, np.int32)
    held, many = 0, -1
    letters_rtl, main = 0, 0
    before, space = -1, 0
    for number in range(count):
        flag = flags[number]
        space |= flag & 11
        if not visible[number]:
            continue
        code = codes[number]
        begin, end, base, size = places[number, 0], places[number, 1], places[number, 2], places[number, 3]
        # Printed twice: the same character at nearly the same place, but no part of a ligature.
        cell = max(size * 0.5, 0.5)
        column, row = int(np.floor(begin / cell)), int(np.floor(base / cell))
        double = False
        du = 1 if begin / cell - column > 0.5 else -1
        dv = 1 if base / cell - row > 0.5 else -1
        for step in range(4):
            key = (
                (column + (du if step & 1 else 0)) * 73856093
                ^ (row + (dv if step & 2 else 0)) * 19349663
                ^ code * 83492791
            )
            at = key & mask
            for _ in range(8):
                earlier = seen[at]
                if earlier < 0:
                    break
                if (
                    codes[earlier] == code
                    and abs(places[earlier, 0] - begin) < 0.12 * size
                    and abs(places[earlier, 2] - base) < 0.12 * size
                    and abs(places[earlier, 3] - size) < 0.2 * size
                    and number - earlier > 3
                ):
                    double = True
                    break
                at = (at + 1) & mask
            if double:
                break
        if double:
            continue
        at = (column * 73856093 ^ row * 19349663 ^ code * 83492791) & mask
        for _ in range(8):
            if seen[at] < 0:
                seen[at] = number
                break
            at = (at + 1) & mask

        joins, word = False, False
        if before >= 0 and (len(cells) == 0 or cells[number] == cells[before]):
            big = max(size, boxes[many, 3])
            small = min(size, boxes[many, 3])
            shift = abs(base - boxes[many, 2])
            gap = begin - places[before, 1]
            towards_left = is_rtl(code) or letters_rtl > 0
            if towards_left and end <= places[before, 0] + 0.5 * size:
                gap = places[before, 0] - end
            same = abs(begin - places[before, 0]) < 0.01 and abs(end - places[before, 1]) < 0.01
            if same:
                gap = 0.0
            if shift <= 0.12 * big:
                joins = -0.7 * big <= gap <= WIDE_GAP * big
            elif shift <= 0.7 * big and small <= 0.88 * big:
                joins = -0.35 * big <= gap <= 0.35 * big
            elif is_rtl(code) and shift <= 0.7 * big:
                # Marks of vowels.
                joins = -1.2 * big <= gap <= 0.2 * big
            if joins:
                if space & 1:
                    word = gap > -0.3 * big
                elif space & 10:
                    word = gap > MADE_WORD_GAP * small
                else:
                    word = gap > WORD_GAP * small
                if word and is_cjk(code) and is_cjk(codes[kept[held - 1]]) and not space & 1:
                    word = gap > 0.6 * small
        if joins:
            boxes[many, 0] = min(boxes[many, 0], begin)
            boxes[many, 1] = max(boxes[many, 1], end)
            if size > 1.05 * boxes[many, 3] and main < 4:
                boxes[many, 2], boxes[many, 3] = base, size
                main = 0
            main += abs(size - boxes[many, 3]) < 0.05 * size
        else:
            if many >= 0:
                rtl[many] = letters_rtl / max(1, held - spans[many, 0])
            many += 1
            spans[many, 0] = held
            boxes[many, 0], boxes[many, 1], boxes[many, 2], boxes[many, 3] = begin, end, base, size
            letters_rtl, main = 0, 1
            word = True
        letters_rtl += is_rtl(code)
        kept[held] = number
        words[held] = word
        held += 1
        spans[many, 1] = held
        before, space = number, 0
    if many >= 0:
        rtl[many] = letters_rtl / max(1, held - spans[many, 0])
    many += 1
    return kept[:held], words[:held], spans[:many], boxes[:many], rtl[:many]


#: Numbers of lines that make a column of them.
_NUMBERS = 8


@njit(**OPTIONS)
def find_line_numbers(codes: Any, kept: Any, spans: Any, boxes: Any) -> Any:
    """Mark segments that number the lines of a page: digits alone to the left of all text, beside lines of prose."""
    count = len(spans)
    marks = np.zeros(count, np.uint8)
    values = np.full(count, -1, np.int64)
    edge, size, letters = np.inf, 0.0, 0
    for segment in range(count):
        first, last = spans[segment]
        value = np.int64(0)
        for at in range(first, last):
            code = codes[kept[at]]
            value = value * 10 + code - 48 if 48 <= code <= 57 and 0 <= value < 10**5 else np.int64(-1)
        if last - first <= 5 and value >= 0:
            values[segment] = value
        else:
            edge = min(edge, boxes[segment, 0])
            size += boxes[segment, 3] * (last - first)
            letters += last - first
    size /= max(1, letters)
    many, steady, before = 0, 0, -1
    for segment in np.argsort(boxes[:, 2], kind="mergesort"):
        if values[segment] >= 0 and boxes[segment, 1] < edge and boxes[segment, 3] <= 0.95 * size:
            marks[segment] = 1
            many += 1
            steady += before < 0 or 0 < values[segment] - values[before] <= 10
            before = segment
    if many < _NUMBERS or steady < 0.9 * many:
        marks[:] = 0
    return marks
