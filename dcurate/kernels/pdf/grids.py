"""Rules of a page to grids: lines that cross each other belong together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS

#: Points within which lines touch.
_NEAR = 2.0
#: A page with more lines across or down is a drawing.
_MOST = 1_500


@njit(**OPTIONS)
def _merged(rules: Any, along: Any) -> Any:
    """Lines of one direction, with those that go on joined: from, to, place. ``along`` is the column of from."""
    across = 2 - along
    count = 0
    lines = np.empty((len(rules), 3), np.float64)
    for rule in range(len(rules)):
        if abs(rules[rule, across] - rules[rule, across + 1]) < abs(rules[rule, along] - rules[rule, along + 1]):
            lines[count, 0], lines[count, 1] = rules[rule, along], rules[rule, along + 1]
            lines[count, 2] = (rules[rule, across] + rules[rule, across + 1]) / 2
            count += 1
    lines = lines[:count]
    key = np.round(lines[:, 2] / _NEAR) * 1e5 + lines[:, 0]
    lines = lines[np.argsort(key)]
    kept = 0
    for rule in range(count):
        if kept and abs(lines[rule, 2] - lines[kept - 1, 2]) <= _NEAR and lines[rule, 0] <= lines[kept - 1, 1] + _NEAR:
            lines[kept - 1, 1] = max(lines[kept - 1, 1], lines[rule, 1])
        else:
            lines[kept] = lines[rule]
            kept += 1
    return lines[:kept]


@njit(**INLINE)
def _root(parents: Any, at: Any) -> Any:
    while parents[at] != at:
        parents[at] = parents[parents[at]]
        at = parents[at]
    return at


@njit(**OPTIONS)
def frame(boxes: Any, turn: Any) -> Any:
    """Boxes (left, bottom, right, top) as from and to across, from and to downwards, in a turned frame."""
    framed = np.empty((len(boxes), 4), np.float64)
    for at in range(len(boxes)):
        left, bottom, right, top = boxes[at, 0], boxes[at, 1], boxes[at, 2], boxes[at, 3]
        if turn == 1:
            framed[at, 0], framed[at, 1], framed[at, 2], framed[at, 3] = bottom, top, left, right
        elif turn == 2:
            framed[at, 0], framed[at, 1], framed[at, 2], framed[at, 3] = -right, -left, bottom, top
        elif turn == 3:
            framed[at, 0], framed[at, 1], framed[at, 2], framed[at, 3] = -top, -bottom, -right, -left
        else:
            framed[at, 0], framed[at, 1], framed[at, 2], framed[at, 3] = left, right, -top, -bottom
    return framed


@njit(**OPTIONS)
def _places(values: Any, near: Any) -> Any:
    """Values in order, without those that are nearly the same."""
    ordered = np.sort(values)
    kept = 0
    for at in range(len(ordered)):
        if kept == 0 or ordered[at] - ordered[kept - 1] > near:
            ordered[kept] = ordered[at]
            kept += 1
    return ordered[:kept]


@njit(**INLINE)
def _nearest(places: Any, value: Any) -> Any:
    best = 0
    for at in range(len(places)):
        if abs(places[at] - value) < abs(places[best] - value):
            best = at
    return best


@njit(**OPTIONS)
def make_grid(across: Any, down: Any, near: Any) -> Any:
    """A grid of lines that belong together.

    Returns:
        Places of the lines down and of the lines across, and for each field the number of the cell that it belongs
        to: fields that no line parts have one.
    """
    edges = np.concatenate((down[:, 2], across[:, 0], across[:, 1]))
    xs = _places(edges, near)
    ys = _places(np.concatenate((across[:, 2], down[:, 0], down[:, 1])), near)
    rows, columns = len(ys) - 1, len(xs) - 1
    below = np.zeros((rows + 1, columns), np.uint8)
    beside = np.zeros((rows, columns + 1), np.uint8)
    for line in range(len(across)):
        row = _nearest(ys, across[line, 2])
        for column in range(columns):
            if across[line, 0] < (xs[column] + xs[column + 1]) / 2 < across[line, 1]:
                below[row, column] = 1
    for line in range(len(down)):
        column = _nearest(xs, down[line, 2])
        for row in range(rows):
            if down[line, 0] < (ys[row] + ys[row + 1]) / 2 < down[line, 1]:
                beside[row, column] = 1
    roots = np.empty((rows, columns), np.int64)
    for row in range(rows):
        for column in range(columns):
            roots[row, column] = row * columns + column
            if column and not beside[row, column]:
                roots[row, column] = roots[row, column - 1]
            elif row and not below[row, column]:
                roots[row, column] = roots[row - 1, column]
    return xs, ys, roots


@njit(**OPTIONS)
def assign_cells(places: Any, visible: Any, xs: Any, ys: Any, roots: Any, begin: Any, cells: Any) -> Any:
    """Write into ``cells`` the cell of each visible character that is in a grid, numbered from ``begin``."""
    for number in range(len(places)):
        middle = (places[number, 0] + places[number, 1]) / 2
        height = places[number, 2] - 0.3 * places[number, 3]
        if visible[number] and xs[0] < middle < xs[-1] and ys[0] < height < ys[-1]:
            row = min(np.searchsorted(ys, height), len(ys) - 1) - 1
            column = min(np.searchsorted(xs, middle), len(xs) - 1) - 1
            cells[number] = begin + roots[max(row, 0), max(column, 0)]


@njit(**OPTIONS)
def keep_words(places: Any, flags: Any, breaks: Any, cells: Any) -> Any:
    """Put words that run over the edge of a cell into the cell where they begin."""
    for number in range(1, len(places)):
        size = places[number, 3]
        if (
            cells[number] > 0
            and cells[number - 1] > 0
            and flags[number] & breaks == 0
            and abs(places[number, 2] - places[number - 1, 2]) < 0.1 * size
            and abs(places[number, 0] - places[number - 1, 1]) < 0.3 * size
        ):
            cells[number] = cells[number - 1]


@njit(**OPTIONS)
def find_grids(rules: Any) -> Any:
    """Group the rules of a page.

    Args:
        rules: in the frame: from and to across, from and to downwards.

    Returns:
        Lines across and lines down, each with from, to, place, and the number of its grid.
    """
    across, down = _merged(rules, 0), _merged(rules, 2)
    many, more = len(across), len(down)
    if many > _MOST or more > _MOST:
        many, more = 0, 0
    parents = np.arange(many + more)
    for row in range(many):
        for column in range(more):
            if (
                across[row, 0] - _NEAR <= down[column, 2] <= across[row, 1] + _NEAR
                and down[column, 0] - _NEAR <= across[row, 2] <= down[column, 1] + _NEAR
            ):
                a, b = _root(parents, row), _root(parents, many + column)
                parents[a] = b
    groups = np.empty(many + more, np.int64)
    for line in range(many + more):
        groups[line] = _root(parents, line)
    return across[:many], down[:more], groups
