"""Balance slots between operators: grow into idle capacity, and move slots to where they are needed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf, sqrt

from dcurate.engine.allocate.allocation import Allocation, Host, SlotLocation, count_slots
from dcurate.engine.allocate.assignment import Assignment, assign_slots
from dcurate.engine.allocate.capacity import Capacity, place_all
from dcurate.engine.allocate.decide import AllocationRules, Decision, decide
from dcurate.engine.allocate.explain import Change
from dcurate.engine.allocate.inputs import AllocatorInput, Measured
from dcurate.engine.allocate.problem import bound
from dcurate.engine.allocate.requests import OperatorRequest, SlotPoolSpec, WorkerState, form_pools, hosts_of
from dcurate.engine.allocate.solve import solve_in_place
from dcurate.engine.policies.view import Allocate, LookAgain, OperatorView, RunView, Suggestion
from dcurate.errors import ResourceError


@dataclass
class _LastRun:
    """What balancing remembers of its last run."""

    decision: Decision | None = None
    due: float = 0.0
    pinned: Mapping[str, int] = field(default_factory=dict)
    setup_since: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Balancing(AllocationRules):
    """Gives every operator the slots that make the run as a whole fastest, and moves them when rates change.

    Its constants are those of `AllocationRules`, and these.

    Args:
        interval_s: the longest time between two decisions, in seconds; the executor's ``autoscale_interval_s`` if not
            given.
        pause_s: a worker that is paused for longer than this, in seconds, gets no slots.
        long_setup_s: a slot whose setup has run for longer than this, in seconds, is slow to set up.
        slow_setup: if it has also run this many times as long as the setups of all others.
        times_gpu: the last GPU operator to be set up is assumed to take this many times as long for a call as the
            slowest other GPU operator; the others are left the capacity that they need beside it then.
        left_to_known: but no more than they need for this share of what they could do if it kept one slot.
        times_cpu: if there is no other GPU operator, it is assumed to take this many times as long as the slowest of
            the CPU operators.
        early_cpus: before that is known, the only GPU operator gets slots with at most this share of the CPUs.
    """

    interval_s: float | None = None
    pause_s: float = 10.0
    long_setup_s: float = 2.0
    slow_setup: float = 1.25
    times_gpu: float = 1.5
    left_to_known: float = 0.25
    times_cpu: float = 0.5
    early_cpus: float = 1 / 6
    _last: _LastRun = field(default_factory=_LastRun, init=False, repr=False, compare=False)

    def run(self, view: RunView) -> Iterator[Suggestion]:
        """Suggest slots for all workers."""
        last = self._last
        if not view.changed and view.time < last.due and view.pinned == last.pinned:
            yield LookAgain(last.due - view.time)
            return
        last.pinned = view.pinned
        workers = [
            worker_view.info for worker_view in view.workers.values() if (worker_view.paused_s or 0.0) < self.pause_s
        ]
        measured = measured_pools(view, workers)
        if measured is None:
            return
        pools, snapshot = measured
        decision = self.allocate(pools, snapshot)
        next_check_s = min(decision.next_check_s, self.interval_s or view.interval_s)
        last.due = view.time + next_check_s
        requested = {worker: dict(worker_view.claims) for worker, worker_view in view.workers.items()}
        recycling = {address for address, worker in view.workers.items() if worker.recycling}
        assignment = assign_slots(pools, workers, decision.allocation, requested, recycling)
        explained = {change.unit for change in decision.changes}
        other_changes = self._other_changes([pool for pool in pools if pool.name not in explained], view, assignment)
        yield Allocate(assignment, (*decision.changes, *other_changes))
        yield LookAgain(next_check_s)

    def allocate(self, pools: Sequence[SlotPoolSpec], snapshot: AllocatorInput) -> Decision:
        """Decide how many slots each of the `pools` gets, and where."""
        decided = self._last.decision = decide(snapshot, self._last.decision, self)
        if not snapshot.learning:
            return decided
        allocation, changes = self._use_idle(pools, snapshot, decided.allocation, decided.changes)
        return replace(decided, allocation=allocation, changes=changes)

    def _other_changes(self, pools: Sequence[SlotPoolSpec], view: RunView, assignment: Assignment) -> Iterator[Change]:
        """Explain what happens to slots on which nothing was decided: their worker is paused, or others hold them."""
        for pool in pools:
            names = [member.operator for member in pool.members]
            before, after = (
                {
                    (address, name): claims[name]
                    for address, claims in claims_of.items()
                    for name in names
                    if name in claims
                }
                for claims_of in ({address: worker.claims for address, worker in view.workers.items()}, assignment)
            )
            if before != after:
                were, are = (
                    max(
                        sum(claim.slots for (_, name), claim in claims.items() if name == operator)
                        for operator in names
                    )
                    for claims in (before, after)
                )
                paused = any((view.workers[address].paused_s or 0.0) >= self.pause_s for address, _ in before)
                why = "a worker that is paused keeps none" if paused else "other worker processes hold them"
                yield Change(pool.name, were, are, f"{pool.name} {were} -> {are} slots: {why}")

    def _use_idle(
        self,
        pools: Sequence[SlotPoolSpec],
        snapshot: AllocatorInput,
        allocation: Allocation,
        changes: tuple[Change, ...],
    ) -> tuple[Allocation, tuple[Change, ...]]:
        """While rates are unknown, use idle capacity where that costs no other operator anything.

        An operator that has a kind of worker to itself takes it, but few of the CPUs that others share. The last GPU
        operator that is still being set up when all others are measured takes what they hardly need: it will be
        measured last, most likely because its model is the largest, and the others could not have had these GPUs any
        sooner. Slots that it gets too many of are thrown away when it is measured, so a part is left to the others,
        whose slots are set up meanwhile. Light CPU operators take the cores that no GPU slot could need.
        """
        capacity = Capacity(snapshot.hosts, (pool.unit for pool in snapshot.units))
        before, reasons = count_slots(snapshot.current), {change.unit: change.reason for change in changes}
        place_all(capacity, allocation)
        for pool, measured in zip(pools, snapshot.units, strict=True):
            if measured.finished:
                continue
            reason, taken = self._idle_slots(pool, measured, snapshot, capacity)
            held = capacity.counts.copy()
            place_all(capacity, _slots_of(pool.name, taken), taken)
            for name, slots in capacity.counts.items():
                if slots != held[name]:
                    why = reason if name == pool.name else f"needed beside {pool.name}, which is still being set up"
                    reasons[name] = f"{name} {before.get(name, 0)} -> {slots} slots: {why}"
        return +capacity.taken, tuple(
            Change(name, before.get(name, 0), capacity.counts[name], reasons[name])
            for name in capacity.units
            if name in reasons
        )

    def _idle_slots(
        self, pool: SlotPoolSpec, measured: Measured, snapshot: AllocatorInput, capacity: Capacity
    ) -> tuple[str, Allocation]:
        """Return the slots that a pool has with those that it may take of idle capacity, and why it may."""
        rivals = [
            rival
            for rival in snapshot.units
            if rival is not measured and rival.unit.on_gpu == measured.unit.on_gpu and not rival.finished
        ]
        on_gpu, most = measured.unit.on_gpu, inf
        if self._is_last(measured, rivals, snapshot):
            names = {pool.name, *_may_grow_beside(measured, snapshot)}
            taken = self._beside_others(measured, snapshot)
            allowed = Counter({place: slots for place, slots in taken.items() if place.unit in names})
            return "idle GPUs, and it takes longest to set up", allowed
        if rivals and not all(member.cheap_setup for member in pool.members):
            return "", Counter()
        if not on_gpu:
            most = max(1, sum(_idle_cpus(host, snapshot) for host in snapshot.hosts))
        elif measured.unit.cpus and len(snapshot.units) > 1:
            most = self.early_cpus * sum(host.cpus for host in snapshot.hosts) // measured.unit.cpus
        trial = Capacity(snapshot.hosts, (candidate.unit for candidate in snapshot.units))
        place_all(trial, capacity.taken)
        while trial.counts[pool.name] < most and trial.add(pool.name):
            pass
        return "nobody else needs the capacity", _slots_of(pool.name, trial.taken)

    def _is_last(self, measured: Measured, rivals: Sequence[Measured], snapshot: AllocatorInput) -> bool:
        """Whether a GPU operator is still being set up when the others are ready and, if they have work, measured."""
        ready, coming = count_slots(snapshot.ready), count_slots(snapshot.setting_up)
        if not measured.unit.on_gpu or not coming.get(measured.name) or ready.get(measured.name):
            return False
        since = self._last.setup_since.setdefault(measured.name, snapshot.now)
        slow_s = max(self.long_setup_s, self.slow_setup * max((rival.setup_s or 0.0 for rival in rivals), default=0.0))
        peers = rivals or [peer for peer in snapshot.units if peer is not measured and not peer.finished]
        return snapshot.now - since >= slow_s and all(
            ready.get(peer.name) and (peer.known(snapshot.now) or not peer.running) for peer in peers
        )

    def _beside_others(self, measured: Measured, snapshot: AllocatorInput) -> Allocation:
        """Return the slots of a unit that fit beside those that the others need, and these."""
        throughput = self._left_to_others(measured, snapshot)
        units = [
            replace(unit, seconds=1.0, weight=1.0)
            if unit.name == measured.name
            else replace(unit, seconds=0.0, fixed=unit.fixed or max(1, ceil(throughput * unit.seconds * unit.weight)))
            for unit in snapshot.working
        ]
        solution = solve_in_place(units, snapshot.hosts, snapshot.current)
        return solution.allocation if solution else Counter()

    def _left_to_others(self, measured: Measured, snapshot: AllocatorInput) -> float:
        """Return the throughput for which the others are left capacity; 0 if none of them is measured."""
        known = [
            candidate
            for candidate in snapshot.units
            if candidate is not measured and candidate.known(snapshot.now) and not candidate.finished
        ]
        on_gpus = [rival.estimate for rival in known if rival.unit.on_gpu]
        if on_gpus:
            slowest = self.times_gpu * max(on_gpus)
        else:
            slowest = self.times_cpu * max((rival.estimate for rival in known), default=0.0)
        weight = (measured.left if snapshot.work_known else measured.weight) or 1.0
        assumed = [
            replace(unit, seconds=slowest, weight=weight) if unit.name == measured.name else unit
            for unit in snapshot.working
        ]
        least = bound(assumed, snapshot.hosts)
        if on_gpus:
            least = min(least, self.left_to_known * bound(snapshot.working, snapshot.hosts))
        return least if least < inf else 0.0


def _may_grow_beside(last: Measured, snapshot: AllocatorInput) -> Iterator[str]:
    """Yield the units whose need is known while the last one is still being set up.

    Those behind it get nothing to do before it works. What is quick to set up waits until all others are measured.
    """
    rivals = [rival for rival in snapshot.units if rival is not last and not rival.finished]
    behind = snapshot.units[snapshot.units.index(last) :]
    unknown = [rival for rival in rivals if not rival.known(snapshot.now) and (rival.running or rival not in behind)]
    for rival in rivals:
        if rival.known(snapshot.now) and not any(unmeasured.cheap <= rival.cheap for unmeasured in unknown):
            yield rival.name


def _slots_of(unit: str, allocation: Allocation) -> Allocation:
    return Counter({place: slots for place, slots in allocation.items() if place.unit == unit})


def measured_pools(view: RunView, workers: Sequence[WorkerState]) -> tuple[list[SlotPoolSpec], AllocatorInput] | None:
    """Return the pools of operators, and what is known of them; None if the workers cannot hold a slot of each."""
    try:
        pools = form_pools(_requests(view), workers, view.sequential) if workers else []
    except ResourceError:
        return None
    if not pools:
        return None
    ready, setting_up = _current_slots(pools, workers, view)
    units = tuple(_measured(pool, view) for pool in pools)
    return pools, AllocatorInput(tuple(hosts_of(workers)), units, ready, setting_up, view.time, view.started)


def _requests(view: RunView) -> list[OperatorRequest]:
    """The requests of the operators, with the numbers of slots that policies set."""
    return [
        operator.request
        if operator.name not in view.pinned
        else replace(
            operator.request,
            num_workers=min(view.pinned[operator.name], operator.request.max_workers or view.pinned[operator.name]),
            num_workers_per_node=None,
        )
        for operator in view.operators.values()
    ]


def _measured(pool: SlotPoolSpec, view: RunView) -> Measured:
    members = [view.operators[member.operator] for member in pool.members]
    seconds = [operator.seconds for operator in members if operator.seconds is not None]
    known = len(seconds) == len(members)
    weights = _weights(view)
    shares = [s * weights[operator.name] for s, operator in zip(seconds, members, strict=True)] if known else []
    total, alone = sum(shares), len(members) == 1
    items = items_left(view)
    work_left = (
        sum(items[operator.name] * s for s, operator in zip(seconds, members, strict=True)) if known and items else None
    )
    firsts = [operator.first_sample_at for operator in members if operator.first_sample_at is not None]
    return Measured(
        unit=pool.unit(),
        seconds=(seconds[0] if alone else total) if known else None,
        samples=min(operator.samples for operator in members),
        cv=_joint_cv([operator.cv for operator in members], shares),
        wobble=max(operator.wobble for operator in members),
        shifted_at=max((operator.shifted_at for operator in members if operator.shifted_at is not None), default=None),
        cached=all(operator.cached for operator in members),
        first_sample_at=max(firsts) if len(firsts) == len(members) else None,
        weight=weights[members[0].name] if alone else 1.0,
        left=None if work_left is None else items[members[0].name] if alone else work_left / total if total else 0.0,
        setup_s=_setup(members),
        waiting=sum(operator.waiting for operator in members),
        running=sum(operator.running for operator in members),
        elapsed=max(
            (
                operator.elapsed_s * (1.0 if alone else weights[operator.name])
                for operator in members
                if operator.seconds is None
            ),
            default=0.0,
        ),
        finished=_is_finished(members, view),
    )


def _setup(members: Sequence[OperatorView]) -> float | None:
    setups = [0.0 if member.request.cheap_setup else member.setup_s for member in members]
    return None if None in setups else sum(filter(None, setups))


def _is_finished(members: Sequence[OperatorView], view: RunView) -> bool:
    if view.sequential:
        active = next((operator for operator in view.operators.values() if not operator.finished), None)
        return active not in members
    return all(operator.finished for operator in members)


def _weights(view: RunView) -> dict[str, float]:
    """Items of each operator per source split."""
    weights, weight = {}, 1.0
    for operator in view.operators.values():
        weights[operator.name] = weight
        weight *= operator.outputs_per_input
    return weights


def items_left(view: RunView) -> dict[str, float]:
    """Items that each operator has still to do; empty until the source is exhausted."""
    remaining: dict[str, float] = {}
    coming = 0.0
    for operator in view.operators.values() if view.exhausted else ():
        remaining[operator.name] = coming + operator.waiting + operator.running
        coming = remaining[operator.name] * operator.outputs_per_input
    return remaining


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
    pools: Sequence[SlotPoolSpec], workers: Sequence[WorkerState], view: RunView
) -> tuple[Allocation, Allocation]:
    """Return the locations of each pool's slots: those that are ready, and those that are being set up."""
    ready_slots: Allocation = Counter()
    setting_up: Allocation = Counter()
    for worker in workers:
        claims, ready = view.workers[worker.address].claims, view.workers[worker.address].ready
        for pool in pools:
            members = [member.operator for member in pool.members if member.operator in claims]
            if not members:
                continue
            most = max(members, key=lambda name: claims[name].slots)
            location = SlotLocation(worker.host, pool.name, claims[most].gpus)
            slots = claims[most].slots
            set_up = min(slots, ready.get(most, 0))
            ready_slots[location] += set_up
            setting_up[location] += slots - set_up
    return +ready_slots, +setting_up
