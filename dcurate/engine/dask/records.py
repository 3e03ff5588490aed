"""What the slot manager of a run knows of workers and operators."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from dcurate.engine.allocate.assignment import SlotClaim
from dcurate.engine.allocate.rates import Setup
from dcurate.engine.allocate.requests import OperatorRequest, WorkerState

#: The memory of a worker is known of this many ticks.
MEMORY_TICKS = 20
#: After this many deaths in a row of a host's workers that set an operator up, which has no slot anywhere, the run
#: ends. Workers that die within some seconds of each other have died of one cause.
MAX_SETUP_DEATHS, ONE_DEATH_S = 4, 0.5


@dataclass
class WorkerRecord:
    """A worker from its registration until it leaves. Times are of `time.monotonic`, in seconds.

    Attributes:
        info: the worker as it registered.
        name: name that its cluster gave it.
        joined: when it registered.
        requested: slots that it was asked for, by operator.
        ready: slots that it has set up, by operator; 0 where it had some.
        leaving: operators of which it tears slots down.
        paused: when it was paused as its memory was full; None if it is not.
        grown: bytes besides results at the last ticks, the newest last.
        memory: bytes that it used at its last heartbeat, and its limit.
    """

    info: WorkerState
    name: str
    joined: float
    requested: dict[str, SlotClaim] = field(default_factory=dict)
    ready: dict[str, int] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    paused: float | None = None
    grown: deque[int] = field(default_factory=lambda: deque(maxlen=MEMORY_TICKS))
    memory: tuple[int, int] = (0, 0)

    @property
    def gpu(self) -> str:
        """Its own GPU, as a name in the cluster; empty if it has none."""
        return f"{self.info.host}/{self.info.gpus[0][0]}" if self.info.gpus else ""


@dataclass
class OperatorRecord:
    """An operator of a run, as measured so far. Times are of `time.monotonic`, in seconds.

    Attributes:
        request: what a slot needs, and limits that the user set.
        setup: seconds of a set-up.
        statistics: what the driver reported last; None if nothing yet.
        first_sample_at: when the first duration of a call was measured.
        shifts: how often its seconds have changed for good.
        shifted_at: when they did last.
    """

    request: OperatorRequest
    setup: Setup
    statistics: Mapping[str, Any] | None = None
    first_sample_at: float | None = None
    shifts: int = 0
    shifted_at: float | None = None

    @property
    def ended(self) -> bool:
        """Whether the driver has nothing for it to do, now or later."""
        return self.statistics is not None and bool(self.statistics["ended"])

    def measured(self, statistics: Mapping[str, Any], now: float) -> None:
        """Add what the driver reports."""
        self.statistics = statistics
        if statistics["samples"] and self.first_sample_at is None:
            self.first_sample_at = now - statistics["since_first"]
        if statistics["shifts"] > self.shifts:
            self.shifts, self.shifted_at = statistics["shifts"], now

    def copied(self) -> Self:
        """Return a copy that another thread may read."""
        return replace(self, setup=copy(self.setup))


class SetupDeaths:
    """Counts deaths in a row of workers that set an operator up, by host and operator."""

    def __init__(self) -> None:
        self._deaths: dict[tuple[str, str], tuple[int, float]] = {}

    def forget(self, host: str, operator: str) -> None:
        """Start again from zero: a worker of the host has set the operator up."""
        self._deaths.pop((host, operator), None)

    def count(self, host: str, operator: str, works: bool) -> str:
        """Count a death; return the sentence that the run ends with, or "" if it goes on.

        Args:
            host: host of the worker.
            operator: operator that the worker was setting up.
            works: whether the operator has a slot anywhere.

        Examples:
            >>> SetupDeaths().count("a", "tag", works=False)
            ''
        """
        count, last = self._deaths.get((host, operator), (0, -ONE_DEATH_S))
        now = time.monotonic()
        if now - last < ONE_DEATH_S:
            return ""
        count += 1
        self._deaths[host, operator] = (count, now)
        if works or count < MAX_SETUP_DEATHS:
            return ""
        return (
            f"operator {operator!r}: worker processes end while they set it up, {count} times in a row on host {host}; "
            "find what ends them, such as a crash in setup() or too little memory, and start the run again with "
            "resume=True to go on"
        )
