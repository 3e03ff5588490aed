"""Histograms of a filter's scores in a run, with the dropped documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dcurate.core.profile import Bar
from dcurate.core.report import Threshold

_MOST = 50
_COUNTABLE = 100


def numbers_of(counts: Mapping[str, int]) -> dict[float, int] | None:
    """Return the number of rows by score; None if scores are labels.

    Examples:
        >>> numbers_of({"0.25": 3, "12": 1}), numbers_of({"en": 3})
        ({0.25: 3, 12.0: 1}, None)
    """
    try:
        return {float(value): rows for value, rows in counts.items()}
    except ValueError:
        return None


def is_whole(numbers: Mapping[float, int]) -> bool:
    """Return whether all scores are whole numbers."""
    return all(math.isfinite(value) and value == int(value) for value in numbers)


def goes_by_factors(numbers: Mapping[float, int]) -> bool:
    """Return whether scores need a logarithmic scale."""
    finite = [value for value in numbers if math.isfinite(value)]
    return bool(finite) and min(finite) >= 0 and max(finite) > 1000 * max(min(finite), 1.0)


def bars_of(numbers: Mapping[float, int], cuts: Sequence[Threshold] = ()) -> tuple[Bar, ...]:
    """Return the bars of a histogram of scores that were rounded to two digits.

    Examples:
        >>> bars = bars_of({1.0: 2, 2.0: 1, 4.0: 5}, [Threshold(">= 2", 2.0)])
        >>> [(bar.low, bar.count, bar.dropped) for bar in bars]
        [(0.5, 2, 2), (1.5, 1, 0), (2.5, 0, 0), (3.5, 5, 0)]
    """
    finite = sorted(value for value in numbers if math.isfinite(value))
    if not finite:
        return ()
    whole_numbers = is_whole(numbers)
    edges = _edges(finite, whole_numbers)
    counts, dropped = [0] * (len(edges) - 1), [0] * (len(edges) - 1)
    place = 0
    for value in finite:
        while place < len(counts) - 1 and value >= edges[place + 1] - 1e-12 * abs(edges[place + 1]):
            place += 1
        counts[place] += numbers[value]
        if cuts and not is_kept(value, cuts, 0.0 if whole_numbers and value < _COUNTABLE else _width(value) / 2):
            dropped[place] += numbers[value]
    return tuple(Bar(*row) for row in zip(edges[:-1], edges[1:], counts, dropped, strict=True))


def is_kept(value: float, cuts: Sequence[Threshold], within: float = 0.0) -> bool:
    """Return whether a filter with these thresholds keeps a score; ``within`` is added to the score.

    Examples:
        >>> cuts = [Threshold(">= 50", 50.0), Threshold("<= 1000", 1000.0)]
        >>> [is_kept(value, cuts) for value in (49, 50, 1000, 1001)]
        [False, True, True, False]
    """
    for cut in cuts:
        if value + within == cut.value:
            return "=" in cut.keeps
        if value + within < cut.value:
            return cut.keeps.startswith("<")
    return cuts[-1].keeps.startswith(">")


def _width(value: float) -> float:
    """The difference of a number with two digits to the next one.

    Examples:
        >>> _width(0.25), _width(1200.0), _width(0.0)
        (0.01, 100.0, 0.0)
    """
    return float(10.0 ** (math.floor(math.log10(abs(value)) + 1e-9) - 1)) if value else 0.0


def _edges(values: Sequence[float], whole_numbers: bool) -> list[float]:
    """The edges of the bars."""
    low, high = values[0], values[-1]
    if whole_numbers and high - low < _MOST and high < _COUNTABLE:
        return [low - 0.5 + number for number in range(int(high - low) + 2)]
    if low >= 0 and high > 1000 * max(low, 1.0):
        return _by_factors(low, high, whole_numbers)
    if low >= 0 and 0.5 <= high <= 1:
        return [number / _MOST for number in range(_MOST + 1)]
    step = _step((high - low) / _MOST, _width(high))
    first = math.floor(low / step + 1e-9)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 2)]


def _by_factors(low: float, high: float, whole_numbers: bool) -> list[float]:
    """Edges for a logarithmic scale, at most ten bars per factor of ten, with one bar for smaller values."""
    start = max(low, 1.0 if whole_numbers else high * 1e-6)
    count = min(_MOST, 10 * math.ceil(math.log10(high / start)))
    ratio = (high * 1.05 / start) ** (1 / count)
    edges = [start * ratio**number for number in range(count + 1)]
    return [0.0, *edges] if low < start else edges


def _step(least: float, width: float) -> float:
    """A round width of bars, so that each holds as many numbers of two digits as the others.

    Examples:
        >>> _step(0.0196, 0.01), _step(0.3, 1.0)
        (0.02, 1.0)
    """
    wanted = max(least, width, 1e-12)
    power = 10.0 ** math.floor(math.log10(wanted) + 1e-9)
    return float(next(power * digit for digit in (1, 2, 5, 10) if power * digit >= wanted * (1 - 1e-9)))
