"""Estimates of what a run will take, kept until the report of the run says how far they were off."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Self

from rich.filesize import decimal

from dcurate.core.report import RunReport
from dcurate.fs.atomic import atomic_write
from dcurate.runs.text import many, number_text, seconds_text

#: Largest number of estimates that are kept.
_MOST = 200

#: Calls a second that a scheduler can handle: 1.43 ms of its CPU each (`benchmarks/results/scheduler.txt`).
CALLS_PER_S = 700

#: Quantiles of Student's distribution at 97.5 % for 1, 2, ... degrees of freedom.
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)


@dataclass(frozen=True)
class Range:
    """An estimated value and its 95 % confidence interval.

    Args:
        value: the estimate.
        low: lower end of the interval.
        high: upper end of the interval.
    """

    value: float
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def widened(self, fraction: float) -> Range:
        """Return the range with a further relative error, beside that of the sample.

        Examples:
            >>> Range(100.0, 70.0, 130.0).widened(0.4)
            Range(value=100.0, low=50.0, high=150.0)
        """
        more = fraction * self.value
        low, high = math.hypot(self.value - self.low, more), math.hypot(self.high - self.value, more)
        return Range(self.value, max(0.0, self.value - low), self.value + high)

    def times(self, factor: float) -> Range:
        """Return the range in another unit."""
        return Range(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Stratum:
    """Splits of like size, some of which were measured.

    Args:
        size: total size of all splits.
        sizes: size of each split that was measured.
        amounts: measured amount of each of these splits.
        whole: whether all splits were measured.
    """

    size: float
    sizes: Sequence[float]
    amounts: Sequence[float]
    whole: bool

    @property
    def total(self) -> float:
        """Estimated amount of all splits: as much per size as of those that were measured."""
        return sum(self.amounts) if self.whole else self.size * sum(self.amounts) / sum(self.sizes)

    @property
    def variance(self) -> float:
        """Variance of the total."""
        count = len(self.sizes)
        if self.whole:
            return 0.0
        if count < 2:
            return self.total**2
        ratio = sum(self.amounts) / sum(self.sizes)
        pairs = zip(self.sizes, self.amounts, strict=True)
        spread = sum((amount - ratio * size) ** 2 for size, amount in pairs) / (count - 1)
        left = max(0.0, 1 - sum(self.sizes) / self.size)
        return float((self.size * count / sum(self.sizes)) ** 2 * spread / count * left)


def total(strata: Sequence[Stratum]) -> Range:
    """Return the estimated amount of all strata.

    Examples:
        >>> whole = Stratum(4.0, [2.0, 2.0], [10.0, 30.0], whole=True)
        >>> total([whole])
        Range(value=40.0, low=40.0, high=40.0)
        >>> total([Stratum(8.0, [2.0, 2.0], [10.0, 10.0], whole=False), whole])
        Range(value=80.0, low=80.0, high=80.0)
    """
    value = sum(stratum.total for stratum in strata)
    variance = sum(stratum.variance for stratum in strata)
    error = _quantile(strata, variance) * math.sqrt(variance)
    seen = sum(sum(stratum.amounts) for stratum in strata)
    return Range(value, max(seen, value - error), value + error)


def _quantile(strata: Sequence[Stratum], variance: float) -> float:
    """Return Student's quantile, with Satterthwaite's degrees of freedom for strata of unlike variance."""
    lost = sum(stratum.variance**2 / max(1, len(stratum.sizes) - 1) for stratum in strata)
    freedom = max(1, int(variance**2 / lost)) if lost else 1
    return _T[freedom - 1] if freedom <= len(_T) else _T[-1]


@dataclass(frozen=True)
class Estimate:
    """Estimate of what a run will take, from a sample of its input.

    Attributes:
        key: identifier of the pipeline and its input.
        splits: number of source splits.
        sampled: number of source splits of which rows were read.
        slots: number of slots that work at the same time, which ``seconds`` is for.
        bytes_read: bytes of the input files, which are known.
        rows_in: rows of the input.
        rows_out: rows of the output.
        bytes_written: bytes of the output files.
        cpu_s: seconds of CPU of all calls of stages.
        gpu_s: seconds of GPU of all calls of stages.
        seconds: time by the clock, without the start of workers and the set-up of models.
        call_s: average duration of a call on a worker, in seconds.
        cost: cost of ``cpu_s`` and ``gpu_s``; None without prices.
    """

    key: str
    splits: int
    sampled: int
    slots: int
    bytes_read: int
    rows_in: Range
    rows_out: Range
    bytes_written: Range
    cpu_s: Range
    gpu_s: Range
    seconds: Range
    call_s: Range
    cost: Range | None = None

    def __str__(self) -> str:
        """Return the estimate as lines of text."""
        sample = f"from {self.sampled:,} of {many(self.splits, 'split')}, with ranges that hold in 95 % of cases"
        return "\n".join([f"estimate {sample}:", *(f"  {name}: {text}" for name, text in self._lines())])

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield "documents in", _text(self.rows_in, number_text)
        yield "documents out", _text(self.rows_out, number_text)
        yield "read", decimal(self.bytes_read)
        yield "written", _text(self.bytes_written, lambda value: decimal(int(value)))
        yield "CPU", _text(self.cpu_s, seconds_text)
        if self.gpu_s.high:
            yield "GPU", _text(self.gpu_s, seconds_text)
        yield f"time on {many(self.slots, 'slot')}", _text(self.seconds, seconds_text)
        if self.cost is not None:
            yield "cost", _text(self.cost, number_text)

    def overload(self) -> str:
        """Return a sentence if the scheduler cannot keep up with so many slots and so small splits; empty if it can."""
        call_s = self.call_s.value
        needed_s = self.slots / CALLS_PER_S
        if self.splits <= self.slots or call_s >= needed_s:
            return ""
        grow = f"{math.ceil(needed_s / call_s):,} times" if call_s > 0 else "many times"
        return (
            f"a call takes {seconds_text(call_s)}, and a scheduler handles about {CALLS_PER_S:,} calls a second, so of "
            f"{self.slots:,} slots only about {int(CALLS_PER_S * call_s) or 1:,} would work at the same time; use "
            f"splits that are {grow} as large (blocksize= or files_per_partition= of the reader), or fewer slots"
        )

    def error_of(self, report: RunReport) -> str:
        """Return how far the estimate was off, as a sentence for the report of the run.

        Args:
            report: report of the run when it has ended.
        """
        actual = {
            "documents out": (self.rows_out, float(report.stages[-1].rows_out), number_text),
            "CPU": (self.cpu_s, report.cpu_s, seconds_text),
        }
        if report.gpu_s or self.gpu_s.high:
            actual["GPU"] = self.gpu_s, report.gpu_s, seconds_text
        if report.output_path:
            actual["bytes written"] = self.bytes_written, float(report.bytes_written), number_text
        if report.cost is not None and self.cost is not None:
            actual["cost"] = self.cost, report.cost, number_text
        if not report.splits_before:
            actual["time"] = self.seconds, report.seconds, seconds_text
        parts = [
            f"{name} {show(value)}, estimated {_text(expected, show)}{_off(expected.value, value)}"
            for name, (expected, value, show) in actual.items()
        ]
        return f"the estimate from {self.sampled:,} splits: {'; '.join(parts)}"

    @classmethod
    def from_dict(cls, values: dict[str, object]) -> Self:
        """The opposite of `dataclasses.asdict`."""
        return cls(**{name: Range(**value) if isinstance(value, dict) else value for name, value in values.items()})  # type: ignore[arg-type]


def _text(expected: Range, show: object) -> str:
    assert callable(show)
    value, low, high = (show(number) for number in (expected.value, expected.low, expected.high))
    return value if low == high else f"{value} ({low} to {high})"


def _off(expected: float, value: float) -> str:
    if not expected or not value:
        return ""
    off = 100 * (value / expected - 1)
    return f", {abs(off):.3g} % {'more' if off > 0 else 'less'}" if abs(off) >= 0.05 else ", as estimated"


def _file() -> Path:
    """Return the file of estimates, beside the cached rates of stages."""
    folder = os.environ.get("DCURATE_CACHE")
    above = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(folder or os.path.join(above, "dcurate")) / "estimates.json"


def _known() -> dict[str, dict[str, object]]:
    try:
        known = json.loads(_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def keep(estimate: Estimate) -> None:
    """Keep an estimate in the user's cache, for `kept`; does nothing if the cache cannot be written."""
    known = _known()
    known.pop(estimate.key, None)
    known[estimate.key] = asdict(estimate)
    latest = dict(list(known.items())[-_MOST:])
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(str(_file()), str(_file().parent)) as file:
            file.write(json.dumps(latest).encode())
    except OSError:
        return


def kept(key: str) -> Estimate | None:
    """Return the latest estimate of a pipeline and its input; None if there is none that can be read."""
    values = _known().get(key)
    expected = {field.name for field in fields(Estimate)}
    if not isinstance(values, dict) or set(values) != expected:
        return None
    try:
        return Estimate.from_dict(values)
    except TypeError:
        return None
