"""Weighted max-min of whole units. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from math import inf, isfinite
from typing import NamedTuple

#: Halvings of an interval until it is as small as a float can tell.
_HALVINGS = 100


class ShareClaim(NamedTuple):
    """What one of those who share may have.

    Attributes:
        share: its weight.
        least: what it has in any case.
        most: what it can use; at least ``least``.
        before: what it had; of those with equal rights, one that had more goes first.
    """

    share: float = 1.0
    least: int = 0
    most: float = inf
    before: int = 0


def fair_units(units: int, claims: Sequence[ShareClaim]) -> list[int]:
    """Divide units: each goes to the one that has least for its share so far, and can use it.

    Nobody gets less than its ``least``, even if these are more than there is.

    Args:
        units: how many there are.
        claims: of those who share.

    Returns:
        The units of each claim, in order. They add up to ``units``, unless nobody can use more, or the least amounts
        are more.

    Examples:
        >>> fair_units(8, [ShareClaim(), ShareClaim(share=3.0)])
        [2, 6]
        >>> fair_units(8, [ShareClaim(), ShareClaim(most=1), ShareClaim()])
        [4, 1, 3]
    """
    given = _start(units, claims)
    left = units - sum(given)
    # Of equal ones first who had more than this before, then who came first.
    heap = [
        (given[place] / claim.share, given[place] >= claim.before, place)
        for place, claim in enumerate(claims)
        if given[place] < claim.most
    ]
    heapify(heap)
    while left > 0 and heap:
        place = heap[0][2]
        given[place] += 1
        left -= 1
        claim = claims[place]
        if given[place] < claim.most:
            heapreplace(heap, (given[place] / claim.share, given[place] >= claim.before, place))
        else:
            heappop(heap)
    return given


def _start(units: int, claims: Sequence[ShareClaim]) -> list[int]:
    """What each gets in any case: what it would get of a fluid, less what whole units may cost it.

    Of a fluid, all who can use more get the same for their share, the level. Whoever gets more units than of the fluid
    had less than the level one unit before, and nobody had less for its share then.
    """
    if not claims:
        return []
    smallest = min(claim.share for claim in claims)
    low, high = 0.0, (units + 1) / smallest
    for _ in range(_HALVINGS):
        level = (low + high) / 2
        if sum(min(max(level * claim.share, claim.least), claim.most) for claim in claims) > units:
            high = level
        else:
            low = level
    sure = max(0.0, low - 1 / smallest)
    return [
        int(min(max(sure * claim.share, claim.least), claim.most if isfinite(claim.most) else units + claim.least))
        for claim in claims
    ]
