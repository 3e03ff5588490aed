"""Sample a slot's work for the report: score distributions, and a few rejected rows."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import ERROR, BatchKey, Rejection, Scored
from dcurate.errors import DataError
from dcurate.events import EXAMPLES, OTHER_LABELS, StageStats
from dcurate.frames.columns import python_rows
from dcurate.frames.excerpts import excerpts
from dcurate.redaction import redacted

#: Share of a slot's time that sampling may take, after the first `FREE_ROWS` rows.
SHARE = 0.003
FREE_ROWS = 10_000
#: Reasons of one stage that are shown with examples, and labels of one score that are counted.
MAX_REASONS, MAX_LABELS = 40, 40

#: A number is a sign, an exponent (moved so that none is below 0) and two digits: one whole number for all of these.
_EXPONENT_SHIFT, _DIGITS, _INFINITE, _SPAN = 400, 100, 90_000, 200_000
_LEAST = 1e-300


@dataclass
class ScoreSampler:
    """Collects samples of one operator in one process; thread-safe.

    Scores are counted in the first `FREE_ROWS` rows (of large batches in samples: see
    `Scored.rows_per_value`), and in some later batches, so that it takes no more than `SHARE` of the time. The first
    `EXAMPLES` rows of each stage and reason are kept.

    Args:
        examples: whether rows are shown at all; False keeps texts out of reports.
    """

    examples: bool = True
    _examples_of: Counter[tuple[str, str]] = field(default_factory=Counter)
    _rows: int = 0
    _sampling_s: float = 0.0
    _work_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __reduce__(self) -> Any:
        return ScoreSampler, (self.examples,)

    def add_work(self, seconds: float) -> None:
        """Add to the time that the stages worked."""
        self._work_s += seconds

    def add(
        self,
        stats: Sequence[StageStats],
        scored: Sequence[Scored],
        rejections: Sequence[Rejection],
        key: BatchKey | None,
    ) -> None:
        """Add scores and rejections to the statistics of their stages.

        Args:
            stats: statistics of the stages that processed a batch.
            scored: the scores; ``rejections`` are the rejected rows.
            key: key of the batch.
        """
        if not scored and not rejections:
            return
        begin = time.perf_counter()
        stages = {stage.name: stage for stage in stats}
        with self._lock:
            if scored and (self._rows < FREE_ROWS or self._sampling_s < SHARE * self._work_s):
                self._rows += max(len(score.values) * score.rows_per_value for score in scored)
                _count(stages, scored)
            if self.examples:
                self._add_examples(stages, rejections, key)
            self._sampling_s += time.perf_counter() - begin

    def _add_examples(
        self, stages: dict[str, StageStats], rejections: Sequence[Rejection], key: BatchKey | None
    ) -> None:
        for rejection in rejections:
            stage = stages.get(rejection.stage) or next(iter(stages.values()))
            place = (stage.name, rejection.reason)
            wanted = EXAMPLES - self._examples_of[place]
            if wanted <= 0 or (place not in self._examples_of and self._is_full(stage.name)):
                continue
            shown = _examples(rejection, wanted, key)
            if shown:
                self._examples_of[place] += len(shown)
                stage.examples.setdefault(rejection.reason, []).extend(shown)

    def _is_full(self, stage: str) -> bool:
        return sum(name == stage for name, _ in self._examples_of) >= MAX_REASONS


def _examples(rejection: Rejection, most: int, key: BatchKey | None) -> list[dict[str, Any]]:
    rows = rejection.first(most)
    if rows is None:
        return []
    try:
        shown = excerpts(rows, most, rejection.column)
    except DataError:  # columns that Arrow has no type for: they are counted, and not shown
        return []
    records = python_rows(rows.slice(0, most)) if rejection.fault and rejection.column == ERROR else []
    for place, row in enumerate(shown):
        row.update({name: redacted(value) for name, value in row.items() if isinstance(value, str)})
        if rejection.scores is not None:
            row["score"] = to_json(rejection.scores[place])
        if key is not None:
            row["source"] = _place(records[place]) if records else key.split
    return shown


def _place(record: Mapping[str, Any]) -> str:
    """Where a row is that a reader could not read.

    Examples:
        >>> _place({"file": "a.jsonl", "line": 2, "byte": 80}), _place({"file": "a.warc", "byte": 80})
        ('a.jsonl line 2', 'a.warc byte 80')
    """
    place = next((f" {unit} {record[unit]}" for unit in ("line", "byte") if record.get(unit) is not None), "")
    return f"{record['file']}{place}"


def to_json(score: Any) -> Any:
    """Convert a score to a JSON value: a number, or text.

    Examples:
        >>> to_json(np.float32(0.5)), to_json(["en", 0.9]), to_json(float("inf"))
        (0.5, "['en', 0.9]", 'inf')
    """
    value = score.item() if isinstance(score, np.generic) else score
    if isinstance(value, bool | int) or value is None:
        return value
    return value if isinstance(value, float) and np.isfinite(value) else str(value)[:80]


def _count(stages: dict[str, StageStats], scored: Sequence[Scored]) -> None:
    """Add the scores to the statistics of their stages; all numbers of a batch are counted together."""
    numbers: list[tuple[Scored, npt.NDArray[np.float64]]] = []
    for score in scored:
        values = _numbers(score.values)
        if values is not None:
            numbers.append((score, values))
        elif score.stage in stages and all(isinstance(value, str) for value in score.values):
            _put(stages[score.stage].scores, score, _labels(score.values))
            if score.dropped is not None and any(score.dropped):
                gone = [value for value, dropped in zip(score.values, score.dropped, strict=True) if dropped]
                _put(stages[score.stage].dropped_labels, score, _labels(gone))
    if not numbers:
        return
    codes = to_code(np.concatenate([values for _, values in numbers]))
    owners = np.repeat(np.arange(len(numbers)), [len(values) for _, values in numbers])
    distinct, counts = np.unique(codes + owners * _SPAN, return_counts=True)
    places = (distinct + _INFINITE) // _SPAN
    bounds = np.searchsorted(places, np.arange(len(numbers) + 1)).tolist()
    pairs = list(zip((distinct - places * _SPAN).tolist(), counts.tolist(), strict=True))
    for (score, _), start, stop in zip(numbers, bounds, bounds[1:], strict=False):
        if score.stage in stages:
            _put(stages[score.stage].scores, score, ((_text(code), count) for code, count in pairs[start:stop]))


def _labels(values: Iterable[str]) -> list[tuple[str, int]]:
    """Count labels, the most frequent ones by name and the others together."""
    counts = Counter(value[:40] for value in values)
    most = counts.most_common(MAX_LABELS)
    n_others = counts.total() - sum(count for _, count in most)
    return [*most, (OTHER_LABELS, n_others)] if n_others else most


def _put(of_stage: dict[str, dict[str, int]], scored: Scored, counts: Iterable[tuple[str, int]]) -> None:
    mine = of_stage.setdefault(scored.name, {})
    for value, count in counts:
        mine[value] = mine.get(value, 0) + count * scored.rows_per_value


def _numbers(values: npt.NDArray[Any] | list[Any]) -> npt.NDArray[np.float64] | None:
    """Return the values as numbers without NaN; None if they are something else."""
    if not isinstance(values, np.ndarray):
        if not all(isinstance(value, int | float | np.number | np.bool_) for value in values):
            return None
        values = np.array(values, np.float64)
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        return None
    numbers: npt.NDArray[np.float64] = values.astype(np.float64)
    return numbers[~np.isnan(numbers)]


def to_code(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Truncate each number to two significant digits, as an integer of the same order.

    Examples:
        >>> [_text(code) for code in to_code(np.array([0.0, 0.2578, -1234.0, 99.9, 100.0, np.inf])).tolist()]
        ['0', '0.25', '-1200', '99', '100', 'inf']
    """
    size = np.abs(numbers)
    usual = (size > _LEAST) & np.isfinite(size)
    some = np.where(usual, size, 1.0)
    exponents = np.floor(np.log10(some))
    digits = np.floor(some / 10.0 ** (exponents - 1) + 1e-9)
    exponents += digits >= _DIGITS
    digits = np.where(digits >= _DIGITS, 10, np.maximum(digits, 10))
    codes = ((exponents + _EXPONENT_SHIFT) * _DIGITS + digits).astype(np.int64)
    codes[size <= _LEAST] = 0
    codes[np.isinf(size)] = _INFINITE
    return np.where(numbers < 0, -codes, codes)


@lru_cache(2**14)
def _text(code: int) -> str:
    if abs(code) == _INFINITE:
        return "inf" if code > 0 else "-inf"
    exponent, digits = divmod(abs(code), _DIGITS)
    return f"{(-1 if code < 0 else 1) * float(f'{digits}e{exponent - _EXPONENT_SHIFT - 1}'):.12g}" if code else "0"
