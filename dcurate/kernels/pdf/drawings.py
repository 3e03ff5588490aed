"""Lines, filled areas and pictures of a page, in the order in which they are painted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS
from dcurate.kernels.pdf import calls
from dcurate.kernels.pdf.calls import (
    call_p,
    call_pi_pointer,
    call_pp,
    call_ppp,
    call_ppppp,
    place_of,
)

#: Kinds of page objects in pdfium.
TEXT, PATH, IMAGE, SHADING, FORM = range(1, 6)

#: Rules thicker than this are areas; shorter ones are dots and parts of letters.
_THIN = 3.0
_SHORT = 4.0
_DEEPEST = 6
_MOST_RULES = 20_000
_MOST_EDGES = 2_000


@njit(**INLINE)
def _edge(rules: Any, count: Any, x0: Any, y0: Any, x1: Any, y1: Any) -> Any:
    """Add a line if it runs straight across or down."""
    wide, high = abs(x1 - x0), abs(y1 - y0)
    if count < len(rules) and min(wide, high) <= 1.0 and max(wide, high) >= _SHORT:
        rules[count, 0], rules[count, 1] = min(x0, x1), min(y0, y1)
        rules[count, 2], rules[count, 3] = max(x0, x1), max(y0, y1)
        return count + 1
    return count


@njit(**OPTIONS)
def read_drawings(page: Any, at: Any, most: Any) -> Any:
    rules = np.empty((_MOST_RULES, 4), np.float32)
    areas = np.empty((256, 6), np.float64)
    texts = np.empty((256, 2), np.int64)
    n_rules, n_areas, n_texts = 0, 0, 0
    bounds, point, matrix = np.zeros(4, np.float32), np.zeros(2, np.float32), np.zeros(6, np.float32)
    modes, color = np.zeros(2, np.int32), np.zeros(4, np.uint32)
    bounds_at, point_at, matrix_at = place_of(bounds), place_of(point), place_of(matrix)
    modes_at, color_at = place_of(modes), place_of(color)
    # A stack of the page and the forms that are open: what holds objects, how many, the next; its matrix, and whether
    # what is below can be seen through it.
    holders = np.zeros((_DEEPEST, 3), np.int64)
    frames = np.zeros((_DEEPEST, 7), np.float64)
    frames[0, 0] = frames[0, 3] = 1.0
    holders[0, 0], holders[0, 1] = page, call_p(at[calls.COUNT_OBJECTS], page)
    depth, painted = 0, 0
    while depth >= 0 and painted < most:
        if holders[depth, 2] >= holders[depth, 1]:
            depth -= 1
            continue
        number = holders[depth, 2]
        holders[depth, 2] += 1
        painted += 1
        page_object = call_pi_pointer(
            at[calls.GET_OBJECT if depth == 0 else calls.FORM_OBJECT], holders[depth, 0], number
        )
        if page_object == 0:
            continue
        kind = call_p(at[calls.OBJECT_TYPE], page_object)
        if kind == TEXT:
            if n_texts == len(texts):
                more = np.empty((2 * n_texts, 2), np.int64)
                more[:n_texts] = texts
                texts = more
            texts[n_texts, 0], texts[n_texts, 1] = page_object, painted
            n_texts += 1
            continue
        f = frames[depth]
        if kind == FORM:
            if depth + 1 < _DEEPEST and call_pp(at[calls.OBJECT_MATRIX], page_object, matrix_at):
                depth += 1
                holders[depth, 0], holders[depth, 1], holders[depth, 2] = (
                    page_object,
                    call_p(at[calls.FORM_COUNT], page_object),
                    0,
                )
                g = frames[depth]
                g[0] = matrix[0] * f[0] + matrix[1] * f[2]
                g[1] = matrix[0] * f[1] + matrix[1] * f[3]
                g[2] = matrix[2] * f[0] + matrix[3] * f[2]
                g[3] = matrix[2] * f[1] + matrix[3] * f[3]
                g[4] = matrix[4] * f[0] + matrix[5] * f[2] + f[4]
                g[5] = matrix[4] * f[1] + matrix[5] * f[3] + f[5]
                color[3] = 255
                call_ppppp(at[calls.FILL_COLOR], page_object, color_at, color_at + 4, color_at + 8, color_at + 12)
                g[6] = f[6] or color[3] < 250
            continue
        if not call_ppppp(at[calls.BOUNDS], page_object, bounds_at, bounds_at + 4, bounds_at + 8, bounds_at + 12):
            continue
        xa, ya = bounds[0] * f[0] + bounds[1] * f[2] + f[4], bounds[0] * f[1] + bounds[1] * f[3] + f[5]
        xb, yb = bounds[2] * f[0] + bounds[3] * f[2] + f[4], bounds[2] * f[1] + bounds[3] * f[3] + f[5]
        x0, x1, y0, y1 = min(xa, xb), max(xa, xb), min(ya, yb), max(ya, yb)
        wide, high = x1 - x0, y1 - y0
        fill = -1.0
        if kind == PATH:
            if not call_ppp(at[calls.DRAW_MODE], page_object, modes_at, modes_at + 4) or not (modes[0] or modes[1]):
                continue
            if min(wide, high) <= _THIN:
                if max(wide, high) >= _SHORT and n_rules < _MOST_RULES:
                    if wide > high:
                        y0 = y1 = (y0 + y1) / 2
                    else:
                        x0 = x1 = (x0 + x1) / 2
                    n_rules = _edge(rules, n_rules, x0, y0, x1, y1)
                continue
            edges = call_p(at[calls.COUNT_SEGMENTS], page_object)
            straight = 0
            if edges <= _MOST_EDGES and n_rules < _MOST_RULES:
                if not call_pp(at[calls.OBJECT_MATRIX], page_object, matrix_at):
                    continue
                a, b, c, d, e, g5 = matrix[0], matrix[1], matrix[2], matrix[3], matrix[4], matrix[5]
                xs = ys = x_from = y_from = 0.0
                for edge in range(edges):
                    part = call_pi_pointer(at[calls.PATH_SEGMENT], page_object, edge)
                    if part == 0 or not call_ppp(at[calls.SEGMENT_POINT], part, point_at, point_at + 4):
                        break
                    px, py = point[0] * a + point[1] * c + e, point[0] * b + point[1] * d + g5
                    qx, qy = px * f[0] + py * f[2] + f[4], px * f[1] + py * f[3] + f[5]
                    type_of = call_p(at[calls.SEGMENT_TYPE], part)
                    if type_of == 2:
                        xs, ys = qx, qy
                    elif type_of == 0:
                        before = n_rules
                        n_rules = _edge(rules, n_rules, x_from, y_from, qx, qy)
                        straight += n_rules - before
                    x_from, y_from = qx, qy
                    if call_p(at[calls.SEGMENT_CLOSE], part):
                        before = n_rules
                        n_rules = _edge(rules, n_rules, x_from, y_from, xs, ys)
                        straight += n_rules - before
                        x_from, y_from = xs, ys
            if not modes[0] or straight < 3 or edges > 6:
                continue
            color[3] = 255
            if call_ppppp(at[calls.FILL_COLOR], page_object, color_at, color_at + 4, color_at + 8, color_at + 12):
                fill = float((np.int64(color[0]) << 16) | (np.int64(color[1]) << 8) | np.int64(color[2]))
            if f[6] or color[3] < 250 or call_p(at[calls.TRANSPARENCY], page_object):
                continue
        elif kind != IMAGE and kind != SHADING:
            continue
        if n_areas == len(areas):
            grown = np.empty((2 * n_areas, 6), np.float64)
            grown[:n_areas] = areas
            areas = grown
        areas[n_areas, 0], areas[n_areas, 1], areas[n_areas, 2], areas[n_areas, 3] = x0, y0, x1, y1
        # Text can be seen through some pictures, which are as if painted before it.
        areas[n_areas, 4] = 0 if f[6] or call_p(at[calls.TRANSPARENCY], page_object) else painted
        areas[n_areas, 5] = fill if kind == PATH else (-1.0 if kind == IMAGE else -2.0)
        n_areas += 1
    while depth >= 0 and holders[depth, 2] >= holders[depth, 1]:
        depth -= 1
    return rules[:n_rules].copy(), areas[:n_areas], texts[:n_texts], depth >= 0
