"""Statistics of a run on the driver: seconds per item, outputs per input, and the work that is left. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dcurate.engine.allocate.rates import Rate, Ratio
from dcurate.engine.flow import Flow, Task

#: The least time between two reports, in seconds.
MIN_INTERVAL_S = 0.25
#: Tasks after which a measured rate is worth caching.
MIN_SAMPLES = 10


class ThroughputTracker:
    """Measures the operators of a run, and reports to the slot manager.

    Args:
        operators: their names, in order.
        priors: rates of earlier runs by operator: ``seconds``, ``cv`` and ``ratio``.
    """

    def __init__(self, operators: Sequence[str], priors: Mapping[str, Mapping[str, float]]) -> None:
        self.operators = list(operators)
        known = [priors.get(name, {}) for name in operators]
        self.rates = [Rate(prior["seconds"], prior["cv"]) if prior else Rate() for prior in known]
        self.ratios = [Ratio(prior["ratio"]) if prior else Ratio() for prior in known]
        self._first: dict[int, float] = {}
        self._reported: tuple[Any, ...] = ()
        self._reported_at = -MIN_INTERVAL_S
        self._changed = False

    def record(self, operator: int, task: Task, summary: Mapping[str, Any], slots: int) -> None:
        """Record a finished task, of an operator that has `slots` slots."""
        items = len(task.inputs)
        self._changed = True
        self.ratios[operator].record(items, sum(len(sizes) for sizes in summary["sizes"]))
        if not task.deaths:
            self.rates[operator].record(summary["seconds"], items, max(1, slots))

    def report(self, flow: Flow, now: float) -> dict[str, Any] | None:
        """Return a report as plain values; None if nothing has changed or the last one is recent.

        Args:
            now: seconds on a monotonic clock.
        """
        for operator, rate in enumerate(self.rates):
            if rate.samples and operator not in self._first:
                self._first[operator] = now
        ended = tuple(flow.is_finished(operator) for operator in range(len(self.operators)))
        state = (len(self._first), flow.exhausted, ended)
        if state == self._reported and (not self._changed or now - self._reported_at < MIN_INTERVAL_S):
            return None
        self._reported, self._reported_at, self._changed = state, now, False
        return {
            "exhausted": flow.exhausted,
            "operators": {
                name: {
                    "seconds": self.rates[number].seconds,
                    "samples": self.rates[number].samples,
                    "cv": self.rates[number].cv,
                    "wobble": self.rates[number].wobble,
                    "shifts": self.rates[number].shifts,
                    "cached": self.rates[number].cached,
                    "since_first": now - self._first.get(number, now),
                    "ratio": self.ratios[number].value,
                    "waiting": flow.operators[number].items_waiting,
                    "running": sum(len(task.inputs) for task in flow.operators[number].running.values()),
                    "calls": len(flow.operators[number].running),
                    "ended": ended[number],
                }
                for number, name in enumerate(self.operators)
            },
        }

    def measured(self) -> dict[str, dict[str, float]]:
        """Return seconds per item, their variation and the ratio of each operator with enough samples."""
        return {
            name: {"seconds": rate.seconds, "cv": rate.cv, "ratio": ratio.value}
            for name, rate, ratio in zip(self.operators, self.rates, self.ratios, strict=True)
            if rate.seconds is not None and rate.samples >= MIN_SAMPLES
        }
