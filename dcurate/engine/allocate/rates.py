"""Estimate seconds per item, outputs per item, and seconds to set a slot up. Pure.

Estimates are plain means over everything since the last change: durations with heavy tails need every sample that there
is, and a drift makes the old ones worthless. So each estimate detects the moment at which its samples changed, and
forgets what was before.
"""

from __future__ import annotations

from collections import deque
from math import expm1, inf, log, sqrt
from statistics import pstdev

#: Calls after which the oldest are forgotten in any case, so that a creeping change is followed too; and for each slot.
MOST_CALLS, MOST_A_SLOT = 16_384, 20
#: Of calls that started together the short ones end first. So a change needs this many calls per slot before it and
#: after it, and a greater shift the fewer there are.
CALLS_A_SLOT = 5
#: A cached rate weighs as many samples as this, and is dropped after ten times as many real ones.
PRIOR_WEIGHT = 3.0
#: Assumed coefficient of variation of an operator with one sample.
ASSUMED_CV = 0.5
#: Few samples of a heavy tail hide it: up to this many, the tail is estimated from the logarithms, but not beyond this
#: cv.
FEW, MOST_CV = 64, 2.5
#: Where durations go up and down, this many periods are remembered, with the mean over all of them. One that lasts
#: for this many seconds is no such disturbance.
PERIODS, PERIOD_S = 8, 60.0
#: Durations below this many seconds are not distinguished.
TICK_S = 1e-6


class Moments:
    """Sums over calls: sufficient for a mean, its error, and a test against other calls."""

    __slots__ = ("amount", "amount2", "amount_items", "calls", "items", "items2", "transformed", "transformed2")

    def __init__(self) -> None:
        self.calls = 0
        self.items = self.items2 = self.amount = self.amount2 = self.amount_items = self.transformed = (
            self.transformed2
        ) = 0.0

    def count(self, items: float, amount: float, transformed: float) -> None:
        """Add one call."""
        self.calls += 1
        self.items += items
        self.items2 += items * items
        self.amount += amount
        self.amount2 += amount * amount
        self.amount_items += amount * items
        self.transformed += transformed
        self.transformed2 += transformed * transformed

    def add(self, other: Moments, sign: int = 1) -> None:
        """Add the other's sums to these, or subtract them with ``sign=-1``."""
        self.calls += sign * other.calls
        self.items += sign * other.items
        self.items2 += sign * other.items2
        self.amount += sign * other.amount
        self.amount2 += sign * other.amount2
        self.amount_items += sign * other.amount_items
        self.transformed += sign * other.transformed
        self.transformed2 += sign * other.transformed2

    def transformed_variance(self) -> float:
        """Variance of the calls' transformed values."""
        return max(0.0, self.transformed2 - self.transformed * self.transformed / self.calls) / max(1, self.calls - 1)

    def mean(self) -> float:
        """Amount per item."""
        return self.amount / self.items

    def cv(self) -> float:
        """Spread of the calls, such that ``cv / sqrt(calls)`` is the relative standard error of the mean."""
        mean = self.mean()
        if mean <= 0 or self.calls < 2:
            return 0.0
        residual = self.amount2 - 2 * mean * self.amount_items + mean * mean * self.items2
        return sqrt(max(0.0, residual) / (self.calls - 1)) * self.calls / self.amount


class RateHistory:
    """Calls since their last change, in buckets that are finer the newer they are.

    Changes are detected by the likelihood ratio for one shift in the mean of normal values of unknown variance, at
    every border between buckets. What was before a change is forgotten, unless the values come back to where they have
    been: then they are disturbed, and all periods between changes count until one of them lasts.

    Args:
        threshold: twice the log likelihood ratio above which a change is accepted.
        least: calls that a change needs after it; with one slot, one call before it suffices, as a first one may be
            slow.
        smallest: a smaller shift of the transformed values is no change.
        periods: how many periods before changes are remembered, to recognise disturbances.

    Attributes:
        changes: how many changes there were, and after how many of them what was before was forgotten.
    """

    def __init__(self, threshold: float = 25.0, least: int = 3, smallest: float = 0.05, periods: int = 0) -> None:
        self.threshold, self.least, self.smallest = threshold, least, smallest
        self.changes = self.shifts = 0
        self._periods: deque[Moments] = deque(maxlen=periods)
        self._disturbed = False
        self.slots = 1
        self._closed = Moments()
        self._buckets: list[Moments] = []
        self._open = Moments()

    @property
    def calls(self) -> int:
        """Calls since the last change, or in all periods if values are disturbed."""
        before = sum(period.calls for period in self._periods) if self._disturbed else 0
        return self._closed.calls + self._open.calls + before

    @property
    def wobble(self) -> float:
        """Relative standard error of the mean over periods; 0 if values are not disturbed."""
        if not self._disturbed:
            return 0.0
        means = [period.transformed / period.calls for period in (*self._periods, self._closed) if period.calls]
        return pstdev(means) / sqrt(len(means) - 1) if len(means) > 1 else 0.0

    @property
    def total(self) -> Moments:
        """The sums over these calls."""
        total = Moments()
        total.add(self._closed)
        total.add(self._open)
        for period in self._periods if self._disturbed else ():
            total.add(period)
        return total

    def add(self, items: float, amount: float, transformed: float) -> None:
        """Add a call: its number of items, the amount for all of them, and the transformed value that is tested."""
        self._open.count(items, amount, transformed)
        if self._open.calls >= min(16, self._closed.calls // 16):
            self._buckets.append(self._open)
            self._closed.add(self._open)
            self._open = Moments()
            self._forget()

    def _forget(self) -> None:
        if len(self._buckets) > 64:
            self._merge_buckets()
        keep, most = self._find_change(), max(MOST_CALLS, MOST_A_SLOT * self.slots)
        self.changes += keep > 0
        while keep == 0 and self._closed.calls > most and len(self._buckets) > 1:
            self._closed.add(self._buckets.pop(0), sign=-1)
        if keep:
            before, self._buckets, self._closed = self._closed, self._buckets[-keep:], Moments()
            for bucket in self._buckets:
                self._closed.add(bucket)
            before.add(self._closed, sign=-1)
            self._changed(before)
        elif self._periods and self._closed.amount > PERIOD_S * self.slots:
            self._periods.clear()
            self._disturbed = False

    def _changed(self, before: Moments) -> None:
        """Look whether values came back to where they have been, in and around the range of earlier periods."""
        is_fragment = before.calls < 2 * CALLS_A_SLOT * self.slots  # of the period before, as borders are found roughly
        if before.amount > PERIOD_S * self.slots:
            self._periods.clear()
        elif is_fragment and self._periods:
            self._periods[-1].add(before)
        elif not is_fragment:
            self._periods.append(before)
        means = [period.transformed / period.calls for period in self._periods]
        low, high = min(means, default=0.0), max(means, default=0.0)
        beyond = (high - low) / 2
        now = self._closed.transformed / self._closed.calls
        self._disturbed = len(means) > 1 and low - beyond <= now <= high + beyond
        self.shifts += not self._disturbed and not is_fragment

    def _find_change(self) -> int:
        """How many of the newest buckets came after a change; 0 if there was none."""
        total, best, keep = self._closed, self.threshold, 0
        least = CALLS_A_SLOT * self.slots if self.slots > 1 else 1
        recent, transformed, transformed2 = 0, 0.0, 0.0
        for count, bucket in enumerate(reversed(self._buckets), 1):
            recent, transformed, transformed2 = (
                recent + bucket.calls,
                transformed + bucket.transformed,
                transformed2 + bucket.transformed2,
            )
            before = total.calls - recent
            if before < least:
                break
            if recent < max(least, self.least):
                continue
            shift = transformed / recent - (total.transformed - transformed) / before
            if abs(shift) < self.smallest:
                continue
            within = (
                total.transformed2
                - transformed * transformed / recent
                - (total.transformed - transformed) ** 2 / before
            )
            within = max(within, total.calls * (self.smallest / 2) ** 2)
            if abs(shift) < sqrt(within / total.calls) * (self.slots - 1) / min(recent, before):
                continue
            ratio = total.calls * log(1 + shift * shift * recent * before / total.calls / within)
            if ratio > best:
                best, keep = ratio, count
        return keep

    def _merge_buckets(self) -> None:
        """Join neighbours: a bucket may hold a quarter as many calls as all newer ones together."""
        merged: list[Moments] = []
        newer = 0
        for bucket in reversed(self._buckets):
            if merged and merged[-1].calls + bucket.calls <= (newer - merged[-1].calls) / 4:
                merged[-1].add(bucket)
            else:
                merged.append(bucket)
            newer += bucket.calls
        self._buckets = merged[::-1]


class Rate:
    """Service time of an operator: seconds per item and slot.

    A rate of earlier runs may be given. It counts as a few samples, and is dropped once there are enough real ones, or
    as soon as they contradict it.

    Args:
        prior: seconds per item of earlier runs.
        prior_cv: their coefficient of variation.

    Examples:
        >>> rate = Rate()
        >>> rate.seconds is None
        True
        >>> rate.record(1.5, items=3)
        >>> for _ in range(39): rate.record(0.5)
        >>> rate.seconds, rate.samples
        (0.5, 40)
        >>> for _ in range(8): rate.record(2.0)
        >>> rate.seconds, rate.samples, rate.changes > 0
        (2.0, 8, True)
    """

    def __init__(self, prior: float | None = None, prior_cv: float = ASSUMED_CV) -> None:
        self._history = RateHistory(periods=PERIODS)
        self._prior = prior
        self._prior_cv = prior_cv

    def record(self, seconds: float, items: int = 1, slots: int = 1) -> None:
        """Record a call of some items that took some seconds in its slot, without any waiting.

        Args:
            slots: number of slots of the operator now. Of calls that started together the short ones end first; no
                change is concluded from that.
        """
        self._history.slots = slots
        per_item = max(seconds / items, TICK_S)
        self._history.add(items, per_item * items, log(per_item))
        if self._prior is not None and self._outdated(self._prior):
            self._prior = None

    @property
    def samples(self) -> int:
        """Calls since the last change, without cached ones."""
        return self._history.calls

    @property
    def changes(self) -> int:
        """How often the rate has changed."""
        return self._history.changes

    @property
    def shifts(self) -> int:
        """How often it has changed to what it had not been before."""
        return self._history.shifts

    @property
    def wobble(self) -> float:
        """Relative standard error of `seconds` from disturbances that come and go; 0 if there are none."""
        return self._history.wobble

    @property
    def cached(self) -> bool:
        """Whether a rate of earlier runs still counts."""
        return self._prior is not None

    @property
    def seconds(self) -> float | None:
        """Seconds per item; None if unknown."""
        total = self._history.total
        if self._prior is None:
            return total.mean() if total.calls else None
        measured = total.calls * total.mean() if total.calls else 0.0
        return (PRIOR_WEIGHT * self._prior + measured) / (PRIOR_WEIGHT + total.calls)

    @property
    def cv(self) -> float:
        """Coefficient of variation. For few samples it is a cautious guess, since they hide a heavy tail."""
        total = self._history.total
        if not total.calls:
            return self._prior_cv
        spread = total.cv()
        if total.calls < FEW:
            by_logarithms = sqrt(expm1(min(total.transformed_variance(), log(1 + MOST_CV**2))))
            spread = max(spread, by_logarithms)
        assumed = self._prior_cv if self._prior is not None else ASSUMED_CV
        return sqrt((assumed**2 + spread**2 * total.calls) / (1 + total.calls))

    @property
    def error(self) -> float:
        """Relative standard error of `seconds`, including what running calls may add; infinite if nothing is known."""
        weight = self.samples + (PRIOR_WEIGHT if self._prior is not None else 0)
        return self.cv * sqrt(1 / weight + (self.cv * (self._history.slots - 1) / weight) ** 2) if weight else inf

    def _outdated(self, prior: float) -> bool:
        total = self._history.total
        if total.calls >= 10 * PRIOR_WEIGHT:
            return True
        error = max(self.cv / sqrt(total.calls), 0.05)
        return total.calls >= 3 and abs(log(total.mean() / max(prior, TICK_S))) > 3 * error


class Ratio:
    """Outputs of an operator per item: more than 1 where it fans out, less where it filters.

    It counts ended calls only, so it is right while the pipeline fills. Weights of later operators are products of
    these.

    Args:
        prior: the ratio of earlier runs, counted like a few samples.

    Examples:
        >>> ratio = Ratio()
        >>> ratio.value
        1.0
        >>> ratio.record(inputs=4, outputs=1)
        >>> ratio.value
        0.25
    """

    def __init__(self, prior: float | None = None) -> None:
        self._history = RateHistory(threshold=36.0, least=20, smallest=0.02)
        self._prior = prior

    def record(self, inputs: int, outputs: int) -> None:
        """Record a call with its numbers of inputs and outputs."""
        self._history.add(inputs, outputs, outputs / inputs)
        if self.samples >= 10 * PRIOR_WEIGHT:
            self._prior = None

    @property
    def samples(self) -> int:
        """Calls since the last change."""
        return self._history.calls

    @property
    def value(self) -> float:
        """Outputs per input; 1 if nothing is known."""
        total = self._history.total
        if not total.calls:
            return 1.0 if self._prior is None else self._prior
        if self._prior is None:
            return total.mean()
        return (PRIOR_WEIGHT * self._prior + total.calls * total.mean()) / (PRIOR_WEIGHT + total.calls)

    @property
    def error(self) -> float:
        """Relative standard error of `value`; 0 while every call has made the same."""
        total = self._history.total
        return total.cv() / sqrt(total.calls) if total.calls else 0.0


class Setup:
    """Seconds to set a slot up.

    Args:
        prior: seconds of a set-up in earlier runs; counts until the first is measured.

    Examples:
        >>> setup = Setup(prior=60.0)
        >>> setup.seconds
        60.0
        >>> setup.record(40.0); setup.record(20.0); setup.seconds
        30.0
    """

    def __init__(self, prior: float | None = None) -> None:
        self._prior = prior
        self._sum = 0.0
        self.samples = 0

    def record(self, seconds: float) -> None:
        """Record how long a slot took to set up."""
        self._sum += seconds
        self.samples += 1

    @property
    def seconds(self) -> float | None:
        """The mean; None if nothing is known."""
        return self._sum / self.samples if self.samples else self._prior
