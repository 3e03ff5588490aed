"""Characters of a page with their boxes, read in bulk."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS
from dcurate.kernels.pdf import calls
from dcurate.kernels.pdf.calls import (
    call_p,
    call_p_pointer,
    call_pi,
    call_pi_double,
    call_pi_pointer,
    call_pip,
    call_pipp,
    call_ppp,
    call_ppppp,
    place_of,
)
from dcurate.kernels.pdf.segments import is_cjk

#: Columns of `Characters.places`: from and to along the line, the baseline downwards, the size of the font.
FROM, TO, BASE, SIZE = range(4)

#: Columns of `Characters.objects`: the object's address, the font's number (-1: one too many),
#: the direction (0 to 3 quarter turns against
#: the clock, 4 oblique, 5 upright letters below each other), the render mode, the fill colour as 0xAARRGGBB, and the
#: angle against the clock, in millionths of a radian.
OBJECT, FONT, TURN, MODE, COLOR, ANGLE = range(6)
OBLIQUE, UPRIGHT = 4, 5

#: Tangent of the angle to the nearest quarter turn from which text is oblique: over a line, a tenth of its height.
_STRAIGHT = 0.002
#: Shares of the height of a font's letters that its size may be; that of a Type 3 font can be in any unit.
_SIZES, _HEIGHT = (0.28, 2.5), 1.2

#: Font sizes by which a character of vertical writing may be beside, and must be below, the one before.
_ACROSS, _DOWN = 0.3, (0.3, 2.0)
#: Characters below each other that make vertical writing of single ones, and those side by side in a vertical line.
_RUN, _ABREAST = 4, 4

#: Fonts of a page that are distinguished.
_MOST_FONTS = 256

#: Bits of `Characters.flags`.
SPACE_BEFORE, MADE_SPACE_BEFORE, MAP_ERROR, BREAK_BEFORE = 1, 2, 4, 8


@njit(**INLINE)
def _step(places: Any, sides: Any, first: Any, second: Any) -> Any:
    """Whether a character is below another one, as in vertical writing: 1; at the same place: 0; elsewhere: -1."""
    size, least = max(places[first, 3], places[second, 3]), min(places[first, 3], places[second, 3])
    across, down = abs(sides[second, 0] - sides[first, 0]), places[second, 2] - places[first, 2]
    if across > _ACROSS * size or least < 0.75 * size:
        return -1
    return 1 if _DOWN[0] * size <= down <= _DOWN[1] * size else 0 if abs(down) < 0.05 * size else -1


@njit(**OPTIONS)
def _find_upright(codes: Any, places: Any, sides: Any, owners: Any, objects: Any) -> None:
    """Find upright characters below each other, and give them places in a frame in which their lines run to the right.

    Objects of several characters show it by themselves. Those of one go with their neighbours, and so do a few digits
    side by side within a vertical line; without such neighbours, a run of some characters of East Asia does.

    Args:
        sides: for each character where it begins across, its top and its bottom.
    """
    # Of each object: steps down, steps elsewhere, its first character, and its last.
    steps = np.zeros((len(objects), 4), np.int64)
    for at in range(len(codes)):
        owner = owners[at]
        if at == 0 or owners[at - 1] != owner:
            steps[owner, 2] = at
        else:
            step = _step(places, sides, at - 1, at)
            steps[owner, 0] += step == 1
            steps[owner, 1] += step == -1
        steps[owner, 3] = at
    some, run = False, 0
    for owner in range(len(objects)):
        if objects[owner, 2] == 0 and steps[owner, 0] and not steps[owner, 1]:
            objects[owner, 2], some = UPRIGHT, True
    for owner in range(1, len(objects)):
        last, first = steps[owner - 1, 3], steps[owner, 2]
        single = objects[owner - 1, 2] == 0 == objects[owner, 2] and not steps[owner - 1, 1] and not steps[owner, 1]
        below = single and _step(places, sides, last, first) == 1
        run = run + 1 if below and is_cjk(codes[last]) and is_cjk(codes[first]) else 0
        if run == _RUN - 1:
            objects[owner - run : owner + 1, 2] = UPRIGHT
            some, run = True, 0
    if not some:
        return
    for owner in range(1, len(objects)):
        last, first, stop = steps[owner - 1, 3], steps[owner, 2], steps[owner, 3]
        if objects[owner, 2] != 0 or objects[owner - 1, 2] != UPRIGHT:
            continue
        if not steps[owner, 1]:
            if _step(places, sides, last, first) == 1:
                objects[owner, 2] = UPRIGHT
        elif stop - first < _ABREAST:
            size, left = places[last, 3], sides[last, 0]
            down = places[first, 2] - places[last, 2]
            near = places[first, 0] >= left - 0.3 * size and places[stop, 1] <= left + 1.3 * size
            if near and _DOWN[0] * size <= down <= _DOWN[1] * size:
                objects[owner, 2] = UPRIGHT
                top, part = sides[last, 1] - down, size / (stop + 1 - first)
                for at in range(first, stop + 1):
                    sides[at, 0], sides[at, 1] = left, top
                    top -= part
                    sides[at, 2] = top
    for owner in range(len(objects) - 2, -1, -1):
        if objects[owner, 2] == 0 and objects[owner + 1, 2] == UPRIGHT and not steps[owner, 1]:
            if _step(places, sides, steps[owner, 3], steps[owner + 1, 2]) == 1:
                objects[owner, 2] = UPRIGHT
    for at in range(len(codes)):
        if objects[owners[at], 2] == UPRIGHT:
            # Narrow characters begin further in.
            if (
                at
                and objects[owners[at - 1], 2] == UPRIGHT
                and abs(sides[at, 0] - sides[at - 1, 0]) <= (_ACROSS * places[at, 3])
            ):
                sides[at, 0] = sides[at - 1, 0]
            places[at, 0], places[at, 1], places[at, 2] = -sides[at, 1], -sides[at, 2], -sides[at, 0]


@njit(**INLINE)
def _size_seen(size: Any, angle: Any, wide: Any, high: Any, place: Any) -> Any:
    """The size of a font without a name: that of the file, or by the height of its letters if it is far from it.

    Args:
        angle: in millionths of a radian.
        wide: width of a character's box, which is not turned; `high` is its height.
        place: place of the character: from and to along the line.
    """
    cosine, sine = abs(np.cos(angle / 1e6)), abs(np.sin(angle / 1e6))
    length = place[1] - place[0]
    height = (high - length * sine) / cosine if cosine >= sine else (wide - length * cosine) / sine
    return size if height <= 0 or _SIZES[0] * height <= size <= _SIZES[1] * height else height / _HEIGHT


@njit(**INLINE)
def _in_quarter(x: Any, y: Any, quarter: Any) -> Any:
    """A point of the page in a frame turned by quarters: along the line, and downwards."""
    if quarter == 0:
        return x, -y
    if quarter == 1:
        return y, x
    if quarter == 2:
        return -x, y
    return -y, -x


@njit(**OPTIONS)
def read_characters(page: Any, calls_at: Any, most: Any) -> Any:
    """Read the characters of a text page of pdfium; see `dcurate.documents.pdf.native.Characters`.

    Oblique text is turned upright, each object around the origin of its first character, in the frame of the nearest
    quarter turn; where its characters are on the page is in the last array, which is empty for a page without any.
    """
    count = call_p(calls_at[calls.COUNT_CHARS], page)
    left_out = max(0, count - most)
    count = max(0, min(count, most))
    codes = np.empty(count, np.int32)
    places = np.empty((count, 4), np.float32)
    owners = np.empty(count, np.int32)
    flags = np.empty(count, np.uint8)
    objects = np.empty((64, 6), np.int64)
    fonts = np.zeros(_MOST_FONTS, np.int64)
    nameless = np.zeros(_MOST_FONTS, np.uint8)  # Type 3
    n_fonts = 0
    box = np.zeros(4, np.float32)
    matrix = np.zeros(6, np.float32)
    point = np.zeros(2, np.float64)
    color = np.zeros(4, np.uint32)
    sides = np.empty((count, 3), np.float32)
    box_at, matrix_at, point_at, color_at = place_of(box), place_of(matrix), place_of(point), place_of(color)
    spots = np.empty((count, 2), np.float32)
    kept, many, oblique = 0, 0, 0
    flag, begun = 0, False
    last, turn, size = np.int64(0), np.int64(0), 0.0
    quarter, cosine, sine, start_along, start_down, start_x, start_y = np.int64(0), 1.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for number in range(count):
        code = call_pi(calls_at[calls.UNICODE], page, number)
        if code <= 32 or code == 0xA0 or code == 0x3000 or 0x2000 <= code <= 0x200B or code == 0xFEFF or code == 0xAD:
            if code == 13 or code == 10:
                flag |= 8
                continue
            if code == 2 or code == 0xAD:
                # What pdfium gives for a hyphen at the end of a line.
                code = 45
            elif code == 32 or code == 9 or code > 32:
                if code != 0x200B and code != 0xFEFF:
                    flag |= 2 if call_pi(calls_at[calls.IS_GENERATED], page, number) == 1 else 1
                continue
            else:
                code = 0xFFFD
        elif code == 0xFFFE:
            code = 45
        owner = call_pi_pointer(calls_at[calls.TEXT_OBJECT], page, number)
        if owner == 0:
            continue
        if owner != last:
            last = owner
            if many == len(objects):
                grown = np.empty((2 * many, 6), np.int64)
                grown[:many] = objects
                objects = grown
            matrix[0], matrix[1], matrix[2], matrix[3] = 1.0, 0.0, 0.0, 1.0
            call_pip(calls_at[calls.TEXT_MATRIX], page, number, matrix_at)
            a, b, c, d = matrix[0], matrix[1], matrix[2], matrix[3]
            size = call_pi_double(calls_at[calls.FONT_SIZE], page, number)
            if size < 0:  # letters of a negative size are turned by half
                a, b, size = -a, -b, -size
            size *= np.sqrt(c * c + d * d)
            angle = np.floor(np.arctan2(b, a) * 1e6 + 0.5) / 1e6
            quarter = np.int64(np.floor(angle / (np.pi / 2) + 0.5)) & 3
            turn = quarter
            if min(abs(a), abs(b)) > _STRAIGHT * max(abs(a), abs(b)):
                turn = np.int64(4)
                tilt = angle - np.floor(angle / (np.pi / 2) + 0.5) * (np.pi / 2)
                cosine, sine = np.cos(tilt), np.sin(tilt)
            begun = False
            color[0], color[1], color[2], color[3] = 0, 0, 0, 255
            call_ppppp(calls_at[calls.FILL_COLOR], owner, color_at, color_at + 4, color_at + 8, color_at + 12)
            objects[many, 0] = owner
            font = call_p_pointer(calls_at[calls.FONT], owner)
            place = n_fonts - 1
            while place >= 0 and fonts[place] != font:
                place -= 1
            if place < 0 and n_fonts < len(fonts):
                place = n_fonts
                fonts[place] = font
                nameless[place] = call_ppp(calls_at[calls.FONT_NAME], font, 0, 0) <= 1
                n_fonts += 1
            objects[many, 1] = place
            objects[many, 2] = turn
            objects[many, 3] = call_p(calls_at[calls.RENDER_MODE], owner)
            objects[many, 4] = (
                (np.int64(color[3]) << 24) | (np.int64(color[0]) << 16) | (np.int64(color[1]) << 8) | np.int64(color[2])
            )
            objects[many, 5] = np.int64(np.floor(angle * 1e6 + 0.5))
            many += 1
        call_pip(calls_at[calls.LOOSE_BOX], page, number, box_at)
        call_pipp(calls_at[calls.ORIGIN], page, number, point_at, point_at + 8)
        left, top, right, bottom = box[0], box[1], box[2], box[3]
        sides[kept, 0], sides[kept, 1], sides[kept, 2] = point[0], top, bottom
        if turn == 4:
            x, y = _in_quarter(point[0], point[1], quarter)
            middle_x, middle_y = _in_quarter((left + right) / 2, (bottom + top) / 2, quarter)
            along, down = x * cosine - y * sine, x * sine + y * cosine
            width = 2 * (middle_x * cosine - middle_y * sine - along)
            if not begun:
                start_along, start_down, start_x, start_y = along, down, x, y
            x = start_x + along - start_along
            places[kept, 0], places[kept, 1] = min(x, x + width), max(x, x + width)
            places[kept, 2] = start_y + down - start_down
            spots[kept, 0], spots[kept, 1] = middle_x, middle_y
            oblique += 1
        elif turn == 0:
            places[kept, 0], places[kept, 1], places[kept, 2] = left, right, -point[1]
        elif turn == 1:
            places[kept, 0], places[kept, 1], places[kept, 2] = bottom, top, point[0]
        elif turn == 2:
            places[kept, 0], places[kept, 1], places[kept, 2] = -right, -left, point[1]
        else:
            places[kept, 0], places[kept, 1], places[kept, 2] = -top, -bottom, -point[0]
        if not begun:
            begun = True
            if objects[many - 1, 1] >= 0 and nameless[objects[many - 1, 1]]:
                size = _size_seen(size, objects[many - 1, 5], right - left, top - bottom, places[kept])
        places[kept, 3] = size
        if 0xD800 <= code < 0xE000 and kept and flag == 0 and owners[kept - 1] == many - 1:
            before = codes[kept - 1]
            same = places[kept - 1, 0] == places[kept, 0] and places[kept - 1, 2] == places[kept, 2]
            if same and 0xD800 <= before < 0xE000 and (before ^ code) & 0x400:
                # The halves of a letter beyond the basic plane, which pdfium gives as UTF-16; in lines that run to the
                # left, the second half first.
                high, low = min(before, code), max(before, code)
                codes[kept - 1] = ((high & 0x3FF) << 10) + (low & 0x3FF) + 0x10000
                continue
        if call_pi(calls_at[calls.MAP_ERROR], page, number) == 1:
            flag |= 4
        codes[kept] = code
        owners[kept] = many - 1
        flags[kept] = flag
        kept += 1
        flag = 0
    _find_upright(codes[:kept], places, sides, owners, objects[:many])
    if oblique:
        for at in range(kept):
            if objects[owners[at], 2] != OBLIQUE:
                spots[at, 0] = (places[at, 0] + places[at, 1]) / 2
                spots[at, 1] = places[at, 2] - 0.3 * places[at, 3]
    return (
        codes[:kept],
        places[:kept],
        owners[:kept],
        flags[:kept],
        objects[:many],
        fonts[:n_fonts],
        left_out,
        spots[: kept if oblique else 0],
    )
