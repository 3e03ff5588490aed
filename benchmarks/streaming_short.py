"""Short runs of real Dask processes: how near to the exact optimum, start included, cold and with remembered rates."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.hosts import nothing_remembered
from benchmarks.scenario import Phase, Scenario, Step
from benchmarks.sleeping import Sleeping, SleepingSource, children
from benchmarks.timeline import Timeline

#: Shares of the optimum that a run must reach, by what it knows of earlier runs.
GOALS = {"cold": 0.90, "warm": 0.96}


def _scenario(name: str, counts: Sequence[int], rate: float, *steps: Step, gpus: int = 0) -> Scenario:
    """A scenario on one host that has exactly what the optimum needs.

    Args:
        counts: slots of each step at the optimum.
        rate: source tasks a second at the optimum.
    """
    cpus = sum(count for count, step in zip(counts, steps, strict=True) if not step.gpus)
    phase = Phase(1.0, tuple(step.seconds for step in steps), tuple(counts), rate)
    return Scenario(name, steps, ((max(cpus, 1), gpus, 80),), (phase,))


#: One seldom meets them alone: set-ups, few rows that are left, many that are made, calls of very unequal length.
SHORT = (
    _scenario("loaded_1_3_2", (1, 3, 2), 2.0, *(Step(f"model_{n}", n / 2, setup_s=2.0) for n in (1, 3, 2))),
    _scenario("setup_10_s", (1, 4), 4.0, Step("prepare", 0.25), Step("model", 1.0, setup_s=10.0)),
    _scenario("drops_95", (3, 3), 15.0, Step("filter", 0.2), Step("model", 4.0, fanout=0.05, setup_s=2.0)),
    _scenario("fanout_30", (1, 6), 1.0, Step("split", 1.0), Step("clip", 0.2, fanout=30, setup_s=2.0)),
    _scenario("heavy_tail", (1, 4), 4.0, Step("prepare", 0.25), Step("model", 1.0, cv=2.5, setup_s=2.0)),
    _scenario(
        "fractions_of_gpus",
        (2, 3),
        2.0,
        Step("detect", 1.0, gpus=0.25, setup_s=2.0),
        Step("caption", 1.5, gpus=0.5, setup_s=2.0),
        gpus=2,
    ),
)


def least_seconds(scenario: Scenario, splits: int) -> float:
    """Seconds of a run whose right slots are set up from the start and that takes batches in their order.

    With calls of very unequal length it ends later than the optimum says: the last long calls have no others beside
    them.

    Examples:
        >>> least_seconds(_scenario("s", (1, 2), 1.0, Step("a", 1.0), Step("b", 2.0, setup_s=1.0)), 4)
        6.0
    """
    ready = [(0.0, number, number) for number in range(splits)]
    for stage, count in zip(scenario.pipeline(splits, 1.0, "").stages, scenario.phases[0].counts, strict=True):
        assert isinstance(stage, Sleeping | SleepingSource)
        work, made = stage.work, []
        slots = [work.setup_s] * count
        for moment, number, split in ready:
            end = max(moment, heapq.heappop(slots)) + work.pace.of(number, split)
            heapq.heappush(slots, end)
            made += [(end, child, split) for child in (children(number, work.ratio) if work.ratio else (number,))]
        ready = sorted(made)
    return ready[-1][0]


def short_runs(run: Callable[[Scenario, int], Timeline], seconds: float, only: Sequence[str]) -> list[dict[str, Any]]:
    """Run each scenario twice: knowing nothing, and with the rates that the first run remembered.

    Args:
        run: a function of a scenario and a number of splits that returns the run's timeline.
        seconds: length of a run at the optimum.
        only: names of scenarios; empty for all.

    Returns:
        A record for each scenario: for ``cold`` and ``warm`` the share of the optimum with the start included, the
        share of `least_seconds`, and seconds to the right counts.
    """
    records = []
    for scenario in SHORT:
        if only and scenario.name not in only:
            continue
        record: dict[str, Any] = {"name": scenario.name}
        with nothing_remembered():
            for knowledge, goal in GOALS.items():
                splits = round(seconds * scenario.phases[0].rate)
                timeline = run(scenario, splits)
                right, least = timeline.right_from(0), least_seconds(scenario, splits)
                record[knowledge] = round(timeline.makespan_ratio, 4)
                record[f"{knowledge}_of_least"] = round(least / (timeline.ended - timeline.began), 4)
                record[f"{knowledge}_right_counts_s"] = None if right is None else round(right - timeline.began, 2)
                record[f"{knowledge}_reached"] = record[knowledge] >= goal
        print(record, flush=True)
        records.append(record)
    return records
