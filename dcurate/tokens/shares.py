"""How many tokens of each source a mixture takes. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dcurate.errors import PipelineError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
_SHARES = 1e-6


@dataclass(frozen=True)
class Ask:
    """The request for a source; one of ``share``, ``tokens`` and ``weight`` is given.

    Args:
        share: share of the budget.
        tokens: exact number of tokens.
        weight: relative share of what others leave of the budget, in proportion to all weights.
        max_epochs: how often its documents may come at most.
        min_tokens: at least that many.
    """

    share: float | None = None
    tokens: int | None = None
    weight: float | None = None
    max_epochs: float = 4
    min_tokens: int = 0


def tokens_of(given: int | str, what: str) -> int:
    """Return a number of tokens that is given as a number or as text.

    Raises:
        PipelineError: it is neither.

    Examples:
        >>> tokens_of("1.5B", "budget"), tokens_of("200k", "budget"), tokens_of(12, "budget")
        (1500000000, 200000, 12)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmbgt]?)\s*", str(given).lower().replace("_", "").replace(",", ""))
    if isinstance(given, bool) or match is None:
        raise PipelineError(f"{what}={given!r} is not a number of tokens; give one such as 200_000 or '1.5B'")
    return round(float(match[1]) * _UNITS[match[2]]) if "." in match[1] else int(match[1]) * _UNITS[match[2]]


def asked(asks: Mapping[str, Ask], budget: int) -> dict[str, int]:
    """Return the tokens that are asked of each source, before it is known what there is.

    Raises:
        PipelineError: they are not the budget.
    """
    return _whole(_proportions(asks, budget), budget)


def _proportions(asks: Mapping[str, Ask], budget: int) -> dict[str, float]:
    """The tokens that are asked of each source, with fractions: rounded ones are no proportion of a small budget."""
    fixed = sum(ask.tokens or 0 for ask in asks.values())
    shares = math.fsum(ask.share or 0.0 for ask in asks.values())
    weights = math.fsum(ask.weight or 0.0 for ask in asks.values())
    remaining = budget - fixed - shares * budget
    if remaining < -_SHARES * budget:
        raise PipelineError(
            f"the sources ask for {fixed + shares * budget:,.0f} tokens, more than the budget of {budget:,}; "
            "lower tokens= or share=, or raise the budget"
        )
    if remaining > _SHARES * budget + 1 and not weights:
        raise PipelineError(
            f"the sources ask for {fixed + shares * budget:,.0f} tokens, less than the budget of {budget:,}; raise "
            "share= or tokens=, or give one of them a weight= instead, for what the others leave"
        )
    return {
        name: ask.tokens
        if ask.tokens is not None
        else ask.share * budget
        if ask.share is not None
        else max(remaining, 0) * (ask.weight or 0.0) / (weights or 1)
        for name, ask in asks.items()
    }


def taken(asks: Mapping[str, Ask], budget: int, available: Mapping[str, int]) -> dict[str, int]:
    """Return the tokens that each source gives: where one runs out, the others give more in proportion.

    Sources with ``tokens`` give that number, and not more.

    Args:
        asks: by name.
        budget: number of tokens of all together.
        available: tokens that each has.

    Raises:
        PipelineError: the sources ask for more or less than the budget, or at least for more.

    Examples:
        >>> asks = {"web": Ask(share=0.5), "books": Ask(share=0.3, max_epochs=2), "code": Ask(tokens=200)}
        >>> taken(asks, 1000, {"web": 5000, "books": 100, "code": 900})
        {'web': 600, 'books': 200, 'code': 200}
    """
    wanted = _proportions(asks, budget)
    caps = {name: math.floor(ask.max_epochs * available[name]) for name, ask in asks.items()}
    least = {name: min(ask.min_tokens, caps[name]) for name, ask in asks.items()}
    explicit = [name for name, ask in asks.items() if ask.tokens is not None]
    fixed = {name: min(max(asks[name].tokens or 0, least[name]), caps[name]) for name in explicit}
    flexible = [name for name in asks if name not in fixed]
    remaining = budget - sum(fixed.values())
    if sum(least[name] for name in flexible) > remaining:
        raise PipelineError(f"min_tokens= of the sources are more than the budget of {budget:,} tokens; raise it")
    filled = _filled(flexible, wanted, least, caps, remaining)
    return {name: fixed.get(name, filled.get(name, 0)) for name in asks}


def _filled(
    names: Sequence[str], wanted: Mapping[str, float], least: Mapping[str, int], caps: Mapping[str, int], target: int
) -> dict[str, int]:
    """Tokens in proportion to what is wanted, within bounds, that add up to the target if the bounds allow it."""
    if not names:
        return {}

    def at(level: float) -> dict[str, float]:
        return {name: min(max(level * wanted[name], least[name]), caps[name]) for name in names}

    low, high = 0.0, 1.0
    while math.fsum(at(high).values()) < target and high < 2.0**80:
        high *= 2
    for _ in range(200):
        level = (low + high) / 2
        low, high = (level, high) if math.fsum(at(level).values()) < target else (low, level)
    return _whole(at(high), target, caps)


def _whole(exact: Mapping[str, float], total: int, caps: Mapping[str, int] | None = None) -> dict[str, int]:
    """Whole numbers less than one off, which are the total together where that is within rounding."""
    counts = {name: math.floor(value + 1e-9) for name, value in exact.items()}
    order = sorted(exact, key=lambda name: (counts[name] - exact[name], name))
    missing = total - sum(counts.values())
    for name in order:
        if 0 < missing <= len(order) and exact[name] > 0 and (caps is None or counts[name] < caps[name]):
            counts[name] += 1
            missing -= 1
    return counts
