"""What the driver knows of a run's speed: seconds an item, items made of an item, and the work that is left. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dcurate.engine.allocate.rates import Rate, Ratio
from dcurate.engine.flow import Flow

#: The least time between two reports, in seconds.
OFTEN_S = 0.25
#: Calls after which what was measured is worth remembering.
ENOUGH = 10


class ThroughputTracker:
    """Measures the operators of a run, and says what the governor must know.

    Args:
        operators: their names, in order.
        priors: what earlier runs measured, by operator: ``seconds``, ``cv`` and ``ratio``.
    """

    def __init__(self, operators: Sequence[str], priors: Mapping[str, Mapping[str, float]]) -> None:
        self.operators = list(operators)
        known = [priors.get(name, {}) for name in operators]
        self.rates = [Rate(one["seconds"], one["cv"]) if one else Rate() for one in known]
        self.ratios = [Ratio(one["ratio"]) if one else Ratio() for one in known]
        self._first: dict[int, float] = {}
        self._told: tuple[Any, ...] = ()
        self._told_at = -OFTEN_S
        self._news = False

    def done(self, operator: int, items: int, deaths: int, summary: Mapping[str, Any]) -> None:
        """A call of so many items is over."""
        self._news = True
        self.ratios[operator].made(items, sum(len(sizes) for sizes in summary["sizes"]))
        if not deaths:
            self.rates[operator].took(summary["seconds"], items)

    def news(self, flow: Flow, now: float) -> dict[str, Any] | None:
        """What is to be told now, in plain values; None if nothing has changed or it is too soon.

        Args:
            now: seconds, on any clock that only goes forward.
        """
        for operator, rate in enumerate(self.rates):
            if rate.samples and operator not in self._first:
                self._first[operator] = now
        ended = tuple(flow.finished_for_good(operator) for operator in range(len(self.operators)))
        state = (len(self._first), flow.exhausted, ended)
        if state == self._told and (not self._news or now - self._told_at < OFTEN_S):
            return None
        self._told, self._told_at, self._news = state, now, False
        return {
            "exhausted": flow.exhausted,
            "operators": {
                name: {
                    "seconds": self.rates[number].seconds,
                    "samples": self.rates[number].samples,
                    "cv": self.rates[number].cv,
                    "changes": self.rates[number].changes,
                    "remembered": self.rates[number].remembered,
                    "since_first": now - self._first.get(number, now),
                    "ratio": self.ratios[number].value,
                    "waiting": flow.operators[number].items_waiting,
                    "running": sum(len(task.inputs) for task in flow.operators[number].running.values()),
                    "ended": ended[number],
                }
                for number, name in enumerate(self.operators)
            },
        }

    def measured(self) -> dict[str, dict[str, float]]:
        """Seconds an item, their variation and the ratio of each operator that was seen often enough."""
        return {
            name: {"seconds": rate.seconds, "cv": rate.cv, "ratio": ratio.value}
            for name, rate, ratio in zip(self.operators, self.rates, self.ratios, strict=True)
            if rate.seconds is not None and rate.samples >= ENOUGH
        }
