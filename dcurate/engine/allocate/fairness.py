"""Divide whole units by weighted max-min fairness. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from math import inf, isfinite
from typing import NamedTuple

#: Number of bisections, after which the interval is as small as floats allow.
_HALVINGS = 100


class ShareClaim(NamedTuple):
    """The claim of one claimant.

    Attributes:
        share: weight.
        least: units that it gets in any case.
        most: units that it can use; at least ``least``.
        before: units that it had before; among equals, a claimant that had more goes first.
    """

    share: float = 1.0
    least: int = 0
    most: float = inf
    before: int = 0


def fair_units(units: int, claims: Sequence[ShareClaim]) -> list[int]:
    """Divide units: each unit goes to the claimant with the fewest units per share so far that can use it.

    No claimant gets less than its ``least``, even if these add up to more than ``units``.

    Args:
        units: number of units.
        claims: the claims.

    Returns:
        The units of each claim, in order. They add up to ``units``, unless nobody can use more, or the least amounts
        add up to more.

    Examples:
        >>> fair_units(8, [ShareClaim(), ShareClaim(share=3.0)])
        [2, 6]
        >>> fair_units(8, [ShareClaim(), ShareClaim(most=1), ShareClaim()])
        [4, 1, 3]
    """
    amounts = _start(units, claims)
    left = units - sum(amounts)
    # Among equals, first those that had more than this before, then in the order of the claims.
    heap = [
        (amounts[place] / claim.share, amounts[place] >= claim.before, place)
        for place, claim in enumerate(claims)
        if amounts[place] < claim.most
    ]
    heapify(heap)
    while left > 0 and heap:
        place = heap[0][2]
        amounts[place] += 1
        left -= 1
        claim = claims[place]
        if amounts[place] < claim.most:
            heapreplace(heap, (amounts[place] / claim.share, amounts[place] >= claim.before, place))
        else:
            heappop(heap)
    return amounts


def _start(units: int, claims: Sequence[ShareClaim]) -> list[int]:
    """Return the units that each claim gets in any case: its part of a fluid, less what rounding may take.

    Of a fluid, all that can use more get the same amount per share, the level. A claimant that gets more whole units
    than its part of the fluid was below the level one unit before, and none was lower then.
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
