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
    found = np.empty((len(rules), 3), np.float64)
    for rule in range(len(rules)):
        if abs(rules[rule, across] - rules[rule, across + 1]) < abs(rules[rule, along] - rules[rule, along + 1]):
            found[count, 0], found[count, 1] = rules[rule, along], rules[rule, along + 1]
            found[count, 2] = (rules[rule, across] + rules[rule, across + 1]) / 2
            count += 1
    found = found[:count]
    key = np.round(found[:, 2] / _NEAR) * 1e5 + found[:, 0]
    found = found[np.argsort(key)]
    kept = 0
    for rule in range(count):
        if kept and abs(found[rule, 2] - found[kept - 1, 2]) <= _NEAR and found[rule, 0] <= found[kept - 1, 1] + _NEAR:
            found[kept - 1, 1] = max(found[kept - 1, 1], found[rule, 1])
        else:
            found[kept] = found[rule]
            kept += 1
    return found[:kept]


@njit(**INLINE)
def _root(parents: Any, at: Any) -> Any:
    while parents[at] != at:
        parents[at] = parents[parents[at]]
        at = parents[at]
    return at


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
    for one in range(many):
        for two in range(more):
            if (
                across[one, 0] - _NEAR <= down[two, 2] <= across[one, 1] + _NEAR
                and down[two, 0] - _NEAR <= across[one, 2] <= down[two, 1] + _NEAR
            ):
                a, b = _root(parents, one), _root(parents, many + two)
                parents[a] = b
    groups = np.empty(many + more, np.int64)
    for one in range(many + more):
        groups[one] = _root(parents, one)
    return across[:many], down[:more], groups
