"""Brings together what workers are, what the driver measured and what the decider says; for one run. Pure."""

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
from dcurate.engine.allocate.capacity import Capacity, keep
from dcurate.engine.allocate.inputs import AllocatorInput, Measured
from dcurate.engine.allocate.policy import Decision, decide
from dcurate.engine.allocate.rates import Setup
from dcurate.engine.allocate.requests import OperatorRequest, SlotPoolSpec, WorkerState, form_pools, hosts_of
from dcurate.engine.allocate.transitions import Change
from dcurate.errors import ResourceError

#: A slot that has been set up for so many seconds takes long to set up.
LONG_SETUP_S = 2.0


@dataclass(frozen=True)
class DesiredState:
    """What workers should hold from now on, and what changes by it and why."""

    seating: Assignment
    changes: tuple[Change, ...]


class AllocationController:
    """Says what workers should hold.

    Args:
        demands: what each operator asks for, in order.
        one_at_a_time: whether operators run one after the other (batch mode).
        priors: what earlier runs measured, by operator: of it only ``setup_s`` is used here.
    """

    def __init__(
        self, demands: Sequence[OperatorRequest], one_at_a_time: bool, priors: Mapping[str, Mapping[str, float]]
    ) -> None:
        self.demands = list(demands)
        self.one_at_a_time = one_at_a_time
        self.look_again_s = 1.0
        self.snapshot: AllocatorInput | None = None
        self._last: Decision | None = None
        self._asked: dict[str, float] = {}
        self._began: float | None = None
        self._figures: dict[str, Mapping[str, Any]] = {}
        self._first: dict[str, float] = {}
        self._exhausted = False
        self._setups = {one.operator: Setup(priors.get(one.operator, {}).get("setup_s")) for one in demands}

    def take_in(self, figures: Mapping[str, Any], now: float) -> None:
        """The driver measured something; see `Figures.news`."""
        self._exhausted = figures["exhausted"]
        self._figures = dict(figures["operators"])
        for operator, one in self._figures.items():
            if one["samples"] and operator not in self._first:
                self._first[operator] = now - one["since_first"]

    def set_up(self, operator: str, seconds: float) -> None:
        """A slot was set up in so many seconds."""
        self._setups[operator].took(seconds)

    def decide(
        self, now: float, views: Sequence[WorkerState], asked: Assignment, ready: Mapping[tuple[str, str], int]
    ) -> DesiredState | None:
        """What workers should hold; None if they cannot hold a slot of each operator, as some are missing.

        Args:
            now: seconds on a clock that only goes forward.
            views: the workers that can be counted on.
            asked: what they were asked to hold.
            ready: how many slots are set up, by worker and operator.
        """
        self._began = now if self._began is None else self._began
        try:
            groups = form_pools(self.demands, views, self.one_at_a_time) if views else []
        except ResourceError:
            return None
        if not groups:
            return None
        held, setting_up = _places(groups, views, asked, ready)
        units = tuple(self._measured(each) for each in groups)
        self.snapshot = AllocatorInput(tuple(hosts_of(views)), units, held, setting_up, now, self._began)
        self._last = decide(self.snapshot, self._last)
        self.look_again_s = self._last.look_again_s
        places, changes = self._last.places, self._last.changes
        if self.snapshot.learning:
            places, changes = self._with_idle(groups, self.snapshot, places, changes)
        return DesiredState(assign_slots(groups, views, places, asked), changes)

    def _with_idle(
        self, groups: Sequence[SlotPoolSpec], snapshot: AllocatorInput, places: Allocation, changes: tuple[Change, ...]
    ) -> tuple[Allocation, tuple[Change, ...]]:
        """While rates are not known yet, use what would stand idle, where that costs nobody anything.

        An operator that has its sort of worker to itself takes all of it. So does the last GPU operator that is still
        being set up when all others are ready: it will be the last to be known, most likely as its model is the
        largest, and if it turns out to need fewer slots, the others could not have been given them any sooner.
        Light CPU operators take the cores that no GPU slot could need.
        """
        room = Capacity(snapshot.hosts, (each.unit for each in snapshot.units))
        before, told = count_slots(snapshot.current), {change.unit: change for change in changes}
        keep(room, places)
        spare_cpus = sum(_idle_cpus(host, snapshot) for host in snapshot.hosts)
        for each, measured in zip(groups, snapshot.units, strict=True):
            reason = self._claim(each, measured, snapshot)
            if not reason:
                continue
            light = not measured.unit.on_gpu
            while not (light and room.counts[each.name] >= max(1, spare_cpus)) and room.add(each.name):
                pass
            slots = room.counts[each.name]
            if slots != before.get(each.name, 0):
                sentence = f"{each.name} {before.get(each.name, 0)} -> {slots} slots: {reason}"
                told[each.name] = Change(each.name, before.get(each.name, 0), slots, sentence)
        return +room.taken, tuple(told.values())

    def _claim(self, each: SlotPoolSpec, measured: Measured, snapshot: AllocatorInput) -> str:
        """Why a group may take what is idle; empty if it may not."""
        rivals = [
            other
            for other in snapshot.units
            if other is not measured and other.unit.on_gpu == measured.unit.on_gpu and not other.finished
        ]
        if measured.finished:
            return ""
        if not rivals or all(member.light for member in each.members):
            return "nobody else needs the room"
        ready, coming = count_slots(snapshot.held), count_slots(snapshot.setting_up)
        since = self._asked.setdefault(each.name, snapshot.now) if coming.get(each.name) else snapshot.now
        last = not ready.get(each.name) and all(ready.get(other.name) for other in rivals)
        if measured.unit.on_gpu and last and snapshot.now - since >= LONG_SETUP_S:
            return "idle cards, and it takes longest to set up"
        return ""

    def wanted(self, shapes: Mapping[str, Shape], views: Sequence[WorkerState]) -> dict[str, int]:
        """How many workers of each kind would serve the run best, of a cluster that can have more or fewer.

        Args:
            shapes: the kinds of workers that there may be.
            views: the workers that there are.
        """
        standing = ClusterState(
            numbers=Counter(view.kind for view in views),
            base=tuple(view for view in views if view.kind not in shapes),
        )
        if self.snapshot is None:
            most = {kind: shape.maximum for kind, shape in shapes.items()}
            groups = form_pools(self.demands, [*standing.base, *workers_at(shapes, most)], self.one_at_a_time)
            units = [each.unit() for each in groups]
            return desired_workers(units, shapes, replace(standing, unknown={unit.name for unit in units}))
        now = self.snapshot
        left = 1 / now.throughput(count_slots(now.current)) if now.work_known and any(now.current) else None
        unknown = {each.name for each in now.units if not each.finished and not each.known(now.now)}
        return desired_workers(now.solvable, shapes, replace(standing, work_left_s=left, unknown=unknown))

    # What is known of a group

    def _measured(self, each: SlotPoolSpec) -> Measured:
        members = [member.operator for member in each.members]
        figures = [self._figures.get(name, {}) for name in members]
        seconds: list[float] = [one["seconds"] for one in figures if one.get("seconds") is not None]
        known = len(seconds) == len(members)
        weights = self._weights()
        shares = [s * weights[name] for s, name in zip(seconds, members, strict=True)] if known else []
        total, alone = sum(shares), len(members) == 1
        left = self._left()
        work_left = sum(left[name] * s for s, name in zip(seconds, members, strict=True)) if known and left else None
        return Measured(
            unit=each.unit(),
            seconds=(seconds[0] if alone else total) if known else None,
            samples=min((one.get("samples", 0) for one in figures), default=0),
            cv=_joint_cv([one.get("cv", 0.5) for one in figures], shares),
            remembered=all(one.get("remembered", False) for one in figures),
            first_sample_at=max(self._first[name] for name in members) if set(members) <= set(self._first) else None,
            weight=weights[members[0]] if alone else 1.0,
            left=None if work_left is None else left[members[0]] if alone else work_left / total if total else 0.0,
            setup_s=self._setup(each),
            waiting=sum(one.get("waiting", 0) for one in figures),
            running=sum(one.get("running", 0) for one in figures),
            finished=self._is_finished(members),
        )

    def _setup(self, each: SlotPoolSpec) -> float | None:
        setups = [0.0 if member.light else self._setups[member.operator].seconds for member in each.members]
        return None if None in setups else sum(filter(None, setups))

    def _is_finished(self, members: Sequence[str]) -> bool:
        ended = {name for name, one in self._figures.items() if one["ended"]}
        if self.one_at_a_time:
            active = next((one.operator for one in self.demands if one.operator not in ended), None)
            return active not in members
        return set(members) <= ended

    def _weights(self) -> dict[str, float]:
        """Items of each operator for a source split."""
        weights, weight = {}, 1.0
        for demand in self.demands:
            weights[demand.operator] = weight
            weight *= self._figures.get(demand.operator, {}).get("ratio", 1.0)
        return weights

    def _left(self) -> dict[str, float]:
        """Items that each operator has still to do; empty while the source is not known to its end."""
        left: dict[str, float] = {}
        coming = 0.0
        for demand in self.demands if self._exhausted else ():
            one = self._figures[demand.operator]
            left[demand.operator] = coming + one["waiting"] + one["running"]
            coming = left[demand.operator] * one["ratio"]
        return left


def _idle_cpus(host: Host, snapshot: AllocatorInput) -> int:
    """Cores of a host that are left if every card took as many as a GPU slot may ask for."""
    most = max((each.unit.cpus for each in snapshot.units if each.unit.on_gpu and not each.finished), default=0.0)
    return max(0, min(host.seats, int(host.cpus - most * len(host.cards))))


def _joint_cv(cvs: Sequence[float], shares: Sequence[float]) -> float:
    """Variation of a sum of independent times, over its mean."""
    total = sum(shares)
    if len(cvs) == 1 or not total:
        return max(cvs)
    return sqrt(sum((cv * share) ** 2 for cv, share in zip(cvs, shares, strict=True))) / total


def _places(
    groups: Sequence[SlotPoolSpec],
    views: Sequence[WorkerState],
    asked: Assignment,
    ready: Mapping[tuple[str, str], int],
) -> tuple[Allocation, Allocation]:
    """Where slots of each group stand: those that are set up, and those that are being set up."""
    held: Allocation = Counter()
    setting_up: Allocation = Counter()
    for view in views:
        seats = asked.get(view.address, {})
        for each in groups:
            members = [member.operator for member in each.members if member.operator in seats]
            if not members:
                continue
            most = max(members, key=lambda name: seats[name].slots)
            place = SlotLocation(view.host, each.name, seats[most].cards)
            slots = seats[most].slots
            set_up = min(slots, ready.get((view.address, most), 0))
            held[place] += set_up
            setting_up[place] += slots - set_up
    return +held, +setting_up
