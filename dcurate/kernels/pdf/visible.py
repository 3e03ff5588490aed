"""Which characters a reader of the page sees, and what the page says about its own text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS

#: Text smaller than this, in points, is there for machines.
_TINY = 1.0
#: Share of the visible characters that drawings may cover: if it is more, they are not what covers them.
_COVERED = 0.5
_GRID = 48

#: Places in the figures of `find_visible`.
VISIBLE, INVISIBLE, OVER_IMAGE, BROKEN, COVERED, MODE_3 = range(6)


@njit(**INLINE)
def _is_broken(code: Any, flag: Any) -> Any:
    """Whether a code is no text: private use, replacement, control, noncharacters, surrogates."""
    return (
        (flag & 4) != 0
        or code < 32
        or 0x7F <= code < 0xA0
        or 0xD800 <= code <= 0xF8FF
        or code >= 0xF0000
        or code == 0xFFFD
        or code == 0xFFFE
        or code == 0xFFFF
    )


@njit(**OPTIONS)
def find_visible(
    codes: Any,
    places: Any,
    spots: Any,
    owners: Any,
    flags: Any,
    objects: Any,
    turn: Any,
    box: Any,
    areas: Any,
    times: Any,
    texts: Any,
) -> Any:
    """Mark the characters that run as the frame does and that can be seen, and count what the router asks for.

    Args:
        spots: the middle of each character on the page, in the frame, where it is not that of its place; or empty.
        box: box of the page in the frame; and whether it is one beyond which nothing is shown.
        areas: in the frame: from and to across, from and to downwards.
        times: time at which each area is painted, and its fill.
        texts: addresses of text objects, sorted, and when each is painted.
    """
    count = len(codes)
    visible = np.zeros(count, np.uint8)
    covered = np.zeros(count, np.uint8)
    figures = np.zeros(6, np.int64)
    painted = np.zeros(max(1, len(objects)), np.float64)
    latest = times[:, 0].max() if len(times) else 0.0
    if len(times):
        for number in range(len(objects)):
            at = np.searchsorted(texts[:, 0], objects[number, 0])
            painted[number] = texts[at, 1] if at < len(texts) and texts[at, 0] == objects[number, 0] else np.inf
    # Few areas are looked at one by one; of many, only the first, so that the work stays linear.
    many = min(len(areas), 256)
    all_invisible = True
    before = -1
    for number in range(len(objects)):
        if objects[number, 3] != 3 and objects[number, 3] != 7:
            all_invisible = False
    for number in range(count):
        owner = owners[number]
        begin, end, base, size = places[number, 0], places[number, 1], places[number, 2], places[number, 3]
        if objects[owner, 2] != turn:
            continue
        middle, height = (begin + end) / 2, base - 0.3 * size
        if len(spots):
            middle, height = spots[number, 0], spots[number, 1]
        figures[3] += _is_broken(codes[number], flags[number])
        color = objects[owner, 4]
        mode = objects[owner, 3]
        alpha, red, green, blue = (color >> 24) & 255, (color >> 16) & 255, (color >> 8) & 255, color & 255
        pale = (min(red, green, blue) >= 250 or alpha < 8) and (mode == 0 or mode == 4)
        over_image, on_color, under = False, False, False  # type: Any, Any, Any
        if many and (pale or latest > painted[owner] or times[0, 1] < 0 or mode == 3 or len(times) > 1):
            for area in range(many):
                if areas[area, 0] <= middle <= areas[area, 1] and areas[area, 2] <= height <= areas[area, 3]:
                    fill = times[area, 1]
                    if fill == -1.0:
                        over_image = True
                    if times[area, 0] > painted[owner]:
                        under = under or fill > -2.0
                    elif fill < 0:
                        on_color = True
                    else:
                        shade = np.int64(fill)
                        on_color = min((shade >> 16) & 255, (shade >> 8) & 255, shade & 255) < 245
        figures[2] += over_image
        figures[5] += mode == 3 or mode == 7
        if (mode == 3 or mode == 7) and not (over_image or all_invisible):
            figures[1] += 1
            continue
        if size < _TINY or (pale and not on_color):
            figures[1] += 1
            continue
        cut = box[4] != 0
        off = not (box[2] - 1 <= height <= box[3] + 1) and (
            # Lines that run off the foot of the page.
            cut or not (before >= 0 and abs(places[before, 2] - base) < 3 * size)
        )
        aside = not box[0] - 1 <= middle <= box[1] + 1 and (
            # A line that runs off the side.
            cut or not (before >= 0 and abs(places[before, 2] - base) < 1 and abs(begin - places[before, 1]) < 2 * size)
        )
        if off or aside:
            figures[1] += 1
            continue
        before = number
        visible[number] = 1
        if under and mode != 3 and mode != 7:
            covered[number] = 1
            figures[4] += 1
        figures[0] += 1
    if 0 < figures[4] <= _COVERED * figures[0]:
        for number in range(count):
            if covered[number]:
                visible[number] = 0
        figures[0] -= figures[4]
        figures[1] += figures[4]
    return visible, figures


@njit(**OPTIONS)
def image_share(box: Any, areas: Any, times: Any) -> Any:
    grid = np.zeros((_GRID, _GRID), np.uint8)
    wide, high = (box[1] - box[0]) / _GRID, (box[3] - box[2]) / _GRID
    if wide <= 0 or high <= 0:
        return 0.0
    for area in range(len(areas)):
        if times[area, 1] != -1.0:
            continue
        a = max(0, min(_GRID, int((areas[area, 0] - box[0]) / wide + 0.5)))
        b = max(0, min(_GRID, int((areas[area, 1] - box[0]) / wide + 0.5)))
        c = max(0, min(_GRID, int((areas[area, 2] - box[2]) / high + 0.5)))
        d = max(0, min(_GRID, int((areas[area, 3] - box[2]) / high + 0.5)))
        grid[a:b, c:d] = 1
    return grid.sum() / (_GRID * _GRID)
