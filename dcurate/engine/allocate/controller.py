"""Combine what is known of workers and rates into the desired state of a run's slots. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from dcurate.cluster.worker_shape import Shape
from dcurate.engine.allocate.allocation import Allocation, Host, SlotLocation, count_slots
from dcurate.engine.allocate.assignment import Assignment, assign_slots
from dcurate.engine.allocate.autoscaler import ClusterState, desired_workers, workers_at
from dcurate.engine.allocate.explain import Change
from dcurate.engine.allocate.inputs import AllocatorInput, Measured
from dcurate.engine.allocate.model import Capacity, place_all
from dcurate.engine.allocate.policy import Decision, decide
from dcurate.engine.allocate.rates import Setup
from dcurate.engine.allocate.requests import OperatorRequest, SlotPoolSpec, WorkerState, form_pools, hosts_of
from dcurate.errors import ResourceError

#: A slot whose setup has run for longer than this, in seconds, is slow to set up.
LONG_SETUP_S = 2.0


@dataclass(frozen=True)
class DesiredState:
    """The slots that workers should have, and the changes with their reasons."""

    assignment: Assignment
    changes: tuple[Change, ...]


class AllocationController:
    """Decides which slots the workers should have.

    Args:
        requests: of the operators, in order.
        sequential: whether operators run one after the other (batch mode).
        priors: measurements of earlier runs by operator; only ``setup_s`` is used here.
    """

    def __init__(
        self, requests: Sequence[OperatorRequest], sequential: bool, priors: Mapping[str, Mapping[str, float]]
    ) -> None:
        self.requests = list(requests)
        self.sequential = sequential
        self.next_check_s = 1.0
        self.snapshot: AllocatorInput | None = None
        self._last: Decision | None = None
        self._setup_since: dict[str, float] = {}
        self._started: float | None = None
        self._stats: dict[str, Mapping[str, Any]] = {}
        self._first: dict[str, float] = {}
        self._exhausted = False
        self._setups = {one.operator: Setup(priors.get(one.operator, {}).get("setup_s")) for one in requests}

    def record_stats(self, stats: Mapping[str, Any], now: float) -> None:
        """Record statistics of the driver; see `ThroughputTracker.report`."""
        self._exhausted = stats["exhausted"]
        self._stats = dict(stats["operators"])
        for operator, one in self._stats.items():
            if one["samples"] and operator not in self._first:
                self._first[operator] = now - one["since_first"]

    def record_setup(self, operator: str, seconds: float) -> None:
        """Record how long a slot took to set up."""
        self._setups[operator].record(seconds)

    def decide(
        self, now: float, workers: Sequence[WorkerState], requested: Assignment, ready: Mapping[tuple[str, str], int]
    ) -> DesiredState | None:
        """Return the desired state; None if the workers cannot hold a slot of each operator, as some are missing.

        Args:
            now: seconds on a monotonic clock.
            workers: the workers that are available.
            requested: the slots that were requested from them.
            ready: how many slots are set up, by worker and operator.
        """
        self._started = now if self._started is None else self._started
        try:
            pools = form_pools(self.requests, workers, self.sequential) if workers else []
        except ResourceError:
            return None
        if not pools:
            return None
        ready_slots, setting_up = _current_slots(pools, workers, requested, ready)
        units = tuple(self._measured(pool) for pool in pools)
        self.snapshot = AllocatorInput(tuple(hosts_of(workers)), units, ready_slots, setting_up, now, self._started)
        self._last = decide(self.snapshot, self._last)
        self.next_check_s = self._last.next_check_s
        allocation, changes = self._last.allocation, self._last.changes
        if self.snapshot.learning:
            allocation, changes = self._use_idle(pools, self.snapshot, allocation, changes)
        return DesiredState(assign_slots(pools, workers, allocation, requested), changes)

    def _use_idle(
        self,
        pools: Sequence[SlotPoolSpec],
        snapshot: AllocatorInput,
        allocation: Allocation,
        changes: tuple[Change, ...],
    ) -> tuple[Allocation, tuple[Change, ...]]:
        """While rates are unknown, use idle capacity where that costs no other operator anything.

        An operator that has a kind of worker to itself takes all of it. So does the last GPU operator that is still
        being set up when all others are ready: it will be measured last, most likely because its model is the largest,
        and if it turns out to need fewer slots, the others could not have had them any sooner. Light CPU operators take
        the cores that no GPU slot could need.
        """
        capacity = Capacity(snapshot.hosts, (pool.unit for pool in snapshot.units))
        before, by_unit = count_slots(snapshot.current), {change.unit: change for change in changes}
        place_all(capacity, allocation)
        spare_cpus = sum(_idle_cpus(host, snapshot) for host in snapshot.hosts)
        for pool, measured in zip(pools, snapshot.units, strict=True):
            reason = self._idle_reason(pool, measured, snapshot)
            if not reason:
                continue
            light = not measured.unit.on_gpu
            while not (light and capacity.counts[pool.name] >= max(1, spare_cpus)) and capacity.add(pool.name):
                pass
            slots = capacity.counts[pool.name]
            if slots != before.get(pool.name, 0):
                sentence = f"{pool.name} {before.get(pool.name, 0)} -> {slots} slots: {reason}"
                by_unit[pool.name] = Change(pool.name, before.get(pool.name, 0), slots, sentence)
        return +capacity.taken, tuple(by_unit.values())

    def _idle_reason(self, pool: SlotPoolSpec, measured: Measured, snapshot: AllocatorInput) -> str:
        """Why a pool may take idle capacity; empty if it may not."""
        rivals = [
            other
            for other in snapshot.units
            if other is not measured and other.unit.on_gpu == measured.unit.on_gpu and not other.finished
        ]
        if measured.finished:
            return ""
        if not rivals or all(member.light for member in pool.members):
            return "nobody else needs the room"
        ready, coming = count_slots(snapshot.ready), count_slots(snapshot.setting_up)
        since = self._setup_since.setdefault(pool.name, snapshot.now) if coming.get(pool.name) else snapshot.now
        last = not ready.get(pool.name) and all(ready.get(other.name) for other in rivals)
        if measured.unit.on_gpu and last and snapshot.now - since >= LONG_SETUP_S:
            return "idle GPUs, and it takes longest to set up"
        return ""

    def desired_workers(self, shapes: Mapping[str, Shape], workers: Sequence[WorkerState]) -> dict[str, int]:
        """Return how many workers of each kind suit the run best, in a cluster that scales.

        Args:
            shapes: of the kinds of workers.
            workers: the current workers.
        """
        state = ClusterState(
            numbers=Counter(worker.kind for worker in workers),
            base=tuple(worker for worker in workers if worker.kind not in shapes),
        )
        if self.snapshot is None:
            most = {kind: shape.maximum for kind, shape in shapes.items()}
            pools = form_pools(self.requests, [*state.base, *workers_at(shapes, most)], self.sequential)
            units = [pool.unit() for pool in pools]
            return desired_workers(units, shapes, replace(state, unknown={unit.name for unit in units}))
        now = self.snapshot
        left = 1 / now.throughput(count_slots(now.current)) if now.work_known and any(now.current) else None
        unknown = {pool.name for pool in now.units if not pool.finished and not pool.known(now.now)}
        return desired_workers(now.solvable, shapes, replace(state, work_left_s=left, unknown=unknown))

    # What is known of a group

    def _measured(self, pool: SlotPoolSpec) -> Measured:
        members = [member.operator for member in pool.members]
        stats = [self._stats.get(name, {}) for name in members]
        seconds: list[float] = [one["seconds"] for one in stats if one.get("seconds") is not None]
        known = len(seconds) == len(members)
        weights = self._weights()
        shares = [s * weights[name] for s, name in zip(seconds, members, strict=True)] if known else []
        total, alone = sum(shares), len(members) == 1
        left = self._items_left()
        work_left = sum(left[name] * s for s, name in zip(seconds, members, strict=True)) if known and left else None
        return Measured(
            unit=pool.unit(),
            seconds=(seconds[0] if alone else total) if known else None,
            samples=min((one.get("samples", 0) for one in stats), default=0),
            cv=_joint_cv([one.get("cv", 0.5) for one in stats], shares),
            cached=all(one.get("cached", False) for one in stats),
            first_sample_at=max(self._first[name] for name in members) if set(members) <= set(self._first) else None,
            weight=weights[members[0]] if alone else 1.0,
            left=None if work_left is None else left[members[0]] if alone else work_left / total if total else 0.0,
            setup_s=self._setup(pool),
            waiting=sum(one.get("waiting", 0) for one in stats),
            running=sum(one.get("running", 0) for one in stats),
            finished=self._is_finished(members),
        )

    def _setup(self, pool: SlotPoolSpec) -> float | None:
        setups = [0.0 if member.light else self._setups[member.operator].seconds for member in pool.members]
        return None if None in setups else sum(filter(None, setups))

    def _is_finished(self, members: Sequence[str]) -> bool:
        ended = {name for name, one in self._stats.items() if one["ended"]}
        if self.sequential:
            active = next((one.operator for one in self.requests if one.operator not in ended), None)
            return active not in members
        return set(members) <= ended

    def _weights(self) -> dict[str, float]:
        """Items of each operator per source split."""
        weights, weight = {}, 1.0
        for request in self.requests:
            weights[request.operator] = weight
            weight *= self._stats.get(request.operator, {}).get("ratio", 1.0)
        return weights

    def _items_left(self) -> dict[str, float]:
        """Items that each operator has still to do; empty until the source is exhausted."""
        left: dict[str, float] = {}
        coming = 0.0
        for request in self.requests if self._exhausted else ():
            one = self._stats[request.operator]
            left[request.operator] = coming + one["waiting"] + one["running"]
            coming = left[request.operator] * one["ratio"]
        return left


def _idle_cpus(host: Host, snapshot: AllocatorInput) -> int:
    """Cores of a host that are left if every GPU's slots took as many as a GPU slot may ask for."""
    most = max((pool.unit.cpus for pool in snapshot.units if pool.unit.on_gpu and not pool.finished), default=0.0)
    return max(0, min(host.max_slots, int(host.cpus - most * len(host.gpus))))


def _joint_cv(cvs: Sequence[float], shares: Sequence[float]) -> float:
    """The coefficient of variation of a sum of independent times."""
    total = sum(shares)
    if len(cvs) == 1 or not total:
        return max(cvs)
    return sqrt(sum((cv * share) ** 2 for cv, share in zip(cvs, shares, strict=True))) / total


def _current_slots(
    pools: Sequence[SlotPoolSpec],
    workers: Sequence[WorkerState],
    requested: Assignment,
    ready: Mapping[tuple[str, str], int],
) -> tuple[Allocation, Allocation]:
    """Return the locations of each pool's slots: those that are ready, and those that are being set up."""
    ready_slots: Allocation = Counter()
    setting_up: Allocation = Counter()
    for worker in workers:
        claims = requested.get(worker.address, {})
        for pool in pools:
            members = [member.operator for member in pool.members if member.operator in claims]
            if not members:
                continue
            most = max(members, key=lambda name: claims[name].slots)
            location = SlotLocation(worker.host, pool.name, claims[most].gpus)
            slots = claims[most].slots
            record_setup = min(slots, ready.get((worker.address, most), 0))
            ready_slots[location] += record_setup
            setting_up[location] += slots - record_setup
    return +ready_slots, +setting_up
