"""Find the thresholds of filters by probing them, which works for custom filters too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcurate.core.report import Threshold
from dcurate.text.rules import Rule, is_called_by_score, kept_by, name_of, one_each, one_or_many
from dcurate.text.score import AnyStage, Filter, ScoreFilter

#: Says of scores which are kept.
Keeps: TypeAlias = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.bool_]]

_SCALES = [sign * digit * 10.0**power for sign in (-1, 1) for power in range(-4, 10) for digit in (1, 2.5, 5)]
#: Scores at which every filter is asked.
_PROBES = np.unique([0.0, *_SCALES, *np.linspace(0, 1, 81), *range(101)])
_STEPS, _NARROW = 65, 9
#: Seconds after which no more scores are tried: the function of a user may take long for each.
LONGEST_S = 0.5


def thresholds(stages: Iterable[AnyStage]) -> dict[str, dict[str, list[Threshold]]]:
    """The thresholds of the filters of a pipeline, by stage and filter.

    A filter whose scores are no numbers, that keeps all or nothing, or that takes longer than `LONGEST_S`, has none.

    Examples:
        >>> from dcurate.text.filters.words import WordCountFilter
        >>> by_stage = thresholds([ScoreFilter(WordCountFilter(min_words=50, max_words=1000))])
        >>> [threshold.keeps for threshold in by_stage["word_count"]["word_count"]]
        ['>= 50', '<= 1000']
    """
    by_stage: dict[str, dict[str, list[Threshold]]] = {}
    for stage in stages:
        for rule, invert in _rules(stage):
            cuts = _cuts(rule, invert)
            if cuts:
                by_stage.setdefault(stage.name, {})[name_of(rule)] = cuts
    return by_stage


def _rules(stage: AnyStage) -> list[tuple[Rule, bool]]:
    if not isinstance(stage, ScoreFilter | Filter):
        return []
    rules = stage.filters if isinstance(stage, ScoreFilter) else one_or_many(stage.filter_fn)
    return list(zip(rules, one_each(stage.invert, len(rules), "invert"), strict=True))


def _cuts(rule: Rule, invert: bool) -> list[Threshold]:
    end = time.monotonic() + LONGEST_S

    def keeps(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        pieces = np.array_split(scores, len(scores)) if is_called_by_score(rule) else [scores]
        kept = []
        for piece in pieces:
            if time.monotonic() > end:
                raise TimeoutError
            kept.append(kept_by(rule, piece))
        return np.concatenate(kept) ^ invert

    try:
        with np.errstate(all="ignore"):
            kept = keeps(_PROBES)
            turns = np.flatnonzero(kept[1:] != kept[:-1]).tolist()
            return [_threshold(keeps, _PROBES[at], _PROBES[at + 1], bool(kept[at])) for at in turns]
    except Exception:  # a custom filter may raise anything when it is probed with scores of no text
        return []


def _threshold(keeps: Keeps, low: float, high: float, below: bool) -> Threshold:
    """The single point between two scores where the kept range ends (``below``) or begins."""
    for _ in range(_NARROW):
        grid = np.linspace(low, high, _STEPS)
        turn = int(np.argmax(keeps(grid) != below))
        low, high = float(grid[turn - 1]), float(grid[turn])
    value = _shortest(low, high)
    same = bool(keeps(np.array([value]))[0])
    return Threshold(f"{'<' if below else '>'}{'=' if same else ''} {value:.12g}", value)


def _shortest(low: float, high: float) -> float:
    """The shortest decimal number between two nearby numbers.

    Examples:
        >>> _shortest(0.24999999999, 0.25000000001), _shortest(0.0, 3e-21)
        (0.25, 0.0)
    """
    if low <= 0 <= high:
        return 0.0
    middle = (low + high) / 2
    candidates = (float(f"{middle:.{digits}g}") for digits in range(1, 17))
    return next((value for value in candidates if low <= value <= high), high)
