"""Decide when to change the allocation of slots, and why: from a run's state to a decision. Pure and quick.

While a unit that could be known soon is not, each has as few slots as possible. Then the best of these is chosen: to
stay; to grow into idle capacity; to shift in place; to allocate from scratch. Changes that tear nothing down are made
if they help before the end. Changes that tear slots down must also gain more than the uncertainty of the estimates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf, log

from dcurate.engine.allocate.allocation import Allocation, Host, SchedulingUnit, count_slots
from dcurate.engine.allocate.capacity import Capacity, grow, place_all, surplus_slots
from dcurate.engine.allocate.explain import Change, explain_changes, explain_infeasible
from dcurate.engine.allocate.inputs import CHEAP_S, LEAST_GAIN, SOON_S, AllocationChange, AllocatorInput
from dcurate.engine.allocate.problem import bound
from dcurate.engine.allocate.solve import add_slack, solve, solve_in_place
from dcurate.engine.constants import check_constants


@dataclass(frozen=True)
class AllocationRules:
    """The constants by which decisions are made.

    Args:
        friction: a preempting change must save at least this share of the time that it takes.
        saved_s: nothing is changed to finish less than this many seconds earlier.
        no_gain: a gain below this share is ignored.
        slack: slots of cheap units where nobody else needs the capacity, relative to need.
        uneven: a unit whose durations have a greater coefficient of variation than this is uneven.
        slack_uneven: ``slack`` for uneven units.
        estimate_moved: an estimate that has moved by less than this share is unchanged.
        estimate_moved_errors: an estimate that has moved by less than this share of its error is unchanged, too.
        soon_again_s: seconds to the next decision while rates are awaited.
        later_s: seconds to the next decision otherwise, if nothing happens before.
    """

    friction: float = 0.25
    saved_s: float = 0.25
    no_gain: float = 0.002
    slack: float = 1.3
    uneven: float = 1.0
    slack_uneven: float = 1.8
    estimate_moved: float = 0.01
    estimate_moved_errors: float = 0.5
    soon_again_s: float = 0.5
    later_s: float = 5.0

    def __post_init__(self) -> None:
        check_constants(self)


#: The rules of decisions for which no others are given.
RULES = AllocationRules()


@dataclass(frozen=True)
class Basis:
    """The inputs of a decision, to detect changes since: a new input of `decide` is compared here, too."""

    hosts: tuple[Host, ...]
    units: tuple[SchedulingUnit, ...]
    starting: frozenset[str]
    learning: bool
    ahead_s: float


@dataclass(frozen=True)
class Decision:
    """The desired allocation and its reasons.

    Attributes:
        allocation: number of slots of each unit at each location, in all.
        now: source splits per second of the current slots.
        expected: source splits per second of the desired slots.
        changes: by unit, with the reason.
        next_check_s: seconds after which to decide again, if nothing happens before.
        infeasible: why units without slots cannot have any; None if all have some.
        basis: the inputs.
    """

    allocation: Allocation
    now: float
    expected: float
    changes: tuple[Change, ...]
    next_check_s: float
    infeasible: str | None = None
    basis: Basis | None = field(default=None, repr=False, compare=False)


def decide(snapshot: AllocatorInput, last: Decision | None = None, rules: AllocationRules = RULES) -> Decision:
    """Decide on the allocation of slots.

    Args:
        snapshot: snapshot of the run.
        last: the decision before, so that nothing is computed while nothing changes.
        rules: constants.

    Examples:
        >>> from dcurate.engine.allocate.allocation import SlotLocation
        >>> from dcurate.engine.allocate.inputs import Measured
        >>> read = Measured(SchedulingUnit("read"), seconds=0.5, samples=50, setup_s=0.0)
        >>> score = Measured(SchedulingUnit("score"), seconds=1.0, samples=50, setup_s=4.0)
        >>> ready = Counter({SlotLocation("a", "read"): 1, SlotLocation("a", "score"): 1})
        >>> decision = decide(AllocatorInput((Host("a", cpus=3),), (read, score), ready, Counter(), now=100.0))
        >>> decision.changes[0].reason
        'score 1 -> 2 slots: bottleneck, +1 splits/s, setup 4 s paid back in 4 s'
    """
    basis = _basis(snapshot)
    if last is not None and _unchanged(rules, snapshot, last, basis):
        return replace(last, changes=(), next_check_s=_next_check_s(rules, snapshot, settled=True))
    move = _warm_up(snapshot) if snapshot.learning or _misses_pin(snapshot) else None
    if move is None or not (snapshot.learning or move.gained):
        move = _choose(rules, snapshot)
    spare = Counter() if snapshot.learning else _headroom(rules, snapshot, move)
    changes = explain_changes(move, spare)
    missing_slots = any(not move.counts.get(unit.name) for unit in snapshot.working)
    return Decision(
        allocation=move.after + spare,
        now=snapshot.splits_a_second(snapshot.counts),
        expected=snapshot.splits_a_second(move.counts),
        changes=changes,
        next_check_s=_next_check_s(rules, snapshot, settled=not changes and not missing_slots),
        infeasible=explain_infeasible(snapshot.working, snapshot.hosts) if missing_slots else None,
        basis=basis,
    )


# While units are unknown


def _warm_up(snapshot: AllocatorInput) -> AllocationChange:
    """Keep the current slots, and add what every unit needs to work: no more than that."""
    counts = snapshot.counts
    capped = tuple(
        unit
        if measured.finished or unit.fixed is not None or unit.fixed_per_host is not None
        else replace(unit, max_slots=min(unit.max_slots or counts.get(unit.name, 1), counts.get(unit.name, 1)))
        for unit, measured in zip(snapshot.solvable, snapshot.units, strict=True)
    )
    solution = solve_in_place(capped, snapshot.hosts, snapshot.current) or solve(
        capped, snapshot.hosts, snapshot.current
    )
    return (
        AllocationChange(snapshot, snapshot.current) if solution is None else _constrain(snapshot, solution.allocation)
    )


# When all are known


def _choose(rules: AllocationRules, snapshot: AllocatorInput) -> AllocationChange:
    """Choose the change that does most in the time that is left."""
    stay = AllocationChange(snapshot, snapshot.current)
    most = bound(snapshot.working, snapshot.hosts)
    if stay.throughput >= most * (1 - rules.no_gain) and not _misses_fixed(snapshot):
        return stay
    if snapshot.work_known and stay.throughput * rules.saved_s >= 1:
        return stay
    best, needed = stay, _needed(snapshot, stay)
    moves = list(_candidates(snapshot, stay, needed, most))
    if not moves or moves[0].preempting:
        moves += _scale_up(snapshot, needed)
    for move in moves:
        if not move.preempting and _gain(move, best) > rules.no_gain and _worth_it(rules, move, best, stay):
            best = move
    non_preempting = best
    for move in moves:
        if (
            move.preempting
            and _gain(move, non_preempting) > max(LEAST_GAIN, move.uncertainty)
            and _worth_it(rules, move, best, stay)
        ):
            best = move
    return _drop_late(best)


def _drop_late(move: AllocationChange) -> AllocationChange:
    """Drop slots that would be ready only when all is done."""
    snapshot, after = move.snapshot, Counter(move.after)
    if not snapshot.work_known:
        return move
    end, kept = move.seconds_for(1.0), move.kept_counts
    for location, slots in (move.after - move.kept).items():
        if kept.get(location.unit) and snapshot.by_name[location.unit].setup >= max(end, CHEAP_S):
            after[location] -= slots
    return AllocationChange(snapshot, +after)


def _needed(snapshot: AllocatorInput, stay: AllocationChange) -> Allocation:
    """The current slots without unneeded cheap ones that may be taken; these come back where there is capacity."""
    excess = surplus_slots(
        snapshot.solvable, snapshot.current, stay.throughput * (1 + max(LEAST_GAIN, stay.uncertainty))
    )
    needed: Allocation = Counter()
    for location, slots in snapshot.current.items():
        free = slots - snapshot.untouchable[location] if snapshot.cheap(location.unit) else 0
        beyond = min(free, excess[location.unit])
        excess[location.unit] -= beyond
        needed[location] = slots - beyond
    return +needed


def _scale_up(snapshot: AllocatorInput, needed: Allocation) -> Iterator[AllocationChange]:
    """Changes that tear down nothing but unneeded cheap slots: cheap units grow, or all do."""
    every = {unit.name for unit in snapshot.working}
    cheap = {name for name in every if snapshot.cheap(name)}
    counts = count_slots(needed)
    slowest = min(snapshot.working, key=lambda unit: unit.rate(counts.get(unit.name, 0)))
    for may_grow in (cheap, every) if slowest.name in cheap and cheap != every else (every,):
        capacity = Capacity(snapshot.hosts, snapshot.solvable)
        before = place_all(capacity, needed)
        if grow(capacity, snapshot.working, may_grow) != before:
            yield AllocationChange(snapshot, place_all(capacity, snapshot.current))


def _candidates(
    snapshot: AllocatorInput, stay: AllocationChange, needed: Allocation, most: float
) -> Iterator[AllocationChange]:
    """Changes proposed by the solver: in place, and from scratch where that promises more."""
    units, hosts = snapshot.solvable, snapshot.hosts
    in_place = solve_in_place(units, hosts, needed)
    reached = stay.throughput
    if in_place is not None:
        reached = max(reached, in_place.throughput)
        yield _constrain(snapshot, in_place.allocation)
    if in_place is None or reached < most * (1 - LEAST_GAIN):
        from_scratch = solve(units, hosts, needed)
        if from_scratch is not None and from_scratch.throughput > reached * (1 + LEAST_GAIN):
            yield _constrain(snapshot, from_scratch.allocation)


def _constrain(snapshot: AllocatorInput, allocation: Allocation) -> AllocationChange:
    """Move to `allocation`, keeping untouchable slots and any current slot that is not in the way."""
    if not snapshot.current - allocation:
        return AllocationChange(snapshot, allocation)
    capacity = Capacity(snapshot.hosts, snapshot.solvable)
    return AllocationChange(
        snapshot, place_all(capacity, snapshot.untouchable, allocation, snapshot.costly, snapshot.current)
    )


def _gain(move: AllocationChange, over: AllocationChange) -> float:
    if over.throughput <= 0:
        return inf if move.throughput > 0 else 0.0
    return move.throughput / over.throughput - 1


def _worth_it(rules: AllocationRules, move: AllocationChange, best: AllocationChange, stay: AllocationChange) -> bool:
    """Whether a change finishes more work sooner than the best so far."""
    snapshot = move.snapshot
    if best.throughput <= 0:
        return True
    if snapshot.work_known:
        work = 1.0
    else:
        ahead = (
            min(snapshot.ahead_s, _steady_s(snapshot)) if move.preempting else max(snapshot.ahead_s, 3 * move.done_in)
        )
        work = (stay.throughput or best.throughput) * ahead
    saved = best.seconds_for(work) - move.seconds_for(work)
    least = rules.saved_s if snapshot.work_known else 0.0
    return saved > (max(least, rules.friction * move.done_in) if move.preempting else least)


def _steady_s(snapshot: AllocatorInput) -> float:
    """Seconds for which estimates may be expected to hold: as long as they have held since one of them changed."""
    shifts = (
        measured.shifted_at for measured in snapshot.units if measured.shifted_at is not None and not measured.finished
    )
    return snapshot.now - max(shifts, default=-inf)


def _misses_fixed(snapshot: AllocatorInput) -> bool:
    counts = snapshot.counts
    return any(
        unit.fixed_per_host is not None or (unit.fixed is not None and counts.get(unit.name, 0) != unit.fixed)
        for unit in snapshot.working
    )


def _misses_pin(snapshot: AllocatorInput) -> bool:
    """Whether a unit that has some slots has fewer than were set for it since."""
    counts = snapshot.counts
    return any(unit.fixed is not None and 0 < counts.get(unit.name, 0) < unit.fixed for unit in snapshot.working)


def _headroom(rules: AllocationRules, snapshot: AllocatorInput, move: AllocationChange) -> Allocation:
    """Extra slots of cheap units where nothing else can use the capacity, to absorb uneven durations."""
    counts = move.counts
    if snapshot.work_known and move.seconds_for(1.0) < rules.later_s:
        return Counter()
    enough: dict[float, list[str]] = {}
    for measured, unit in zip(snapshot.units, snapshot.solvable, strict=True):
        slack = rules.slack if measured.cv < rules.uneven else rules.slack_uneven
        if (
            measured.cheap
            and measured.known(snapshot.now)
            and unit.rate(counts.get(measured.name, 0)) < slack * move.throughput
        ):
            enough.setdefault(slack, []).append(measured.name)
    allocation = move.after
    for slack, names in enough.items():
        allocation = add_slack(snapshot.solvable, snapshot.hosts, allocation, slack, names)
    return allocation - move.after


# Whether to look at all


def _basis(snapshot: AllocatorInput) -> Basis:
    starting = frozenset(location.unit for location, slots in snapshot.setting_up.items() if slots)
    return Basis(snapshot.hosts, snapshot.solvable, starting, snapshot.learning, _seconds_left(snapshot))


def _seconds_left(snapshot: AllocatorInput) -> float:
    if not snapshot.work_known:
        return snapshot.ahead_s
    throughput = snapshot.throughput(snapshot.counts)
    return 1 / throughput if throughput > 0 else inf


def _unchanged(rules: AllocationRules, snapshot: AllocatorInput, last: Decision, new: Basis) -> bool:
    """Whether nothing has changed since the last decision that could change it."""
    old = last.basis
    if old is None or last.infeasible is not None or snapshot.requested != last.allocation:
        return False
    if (old.starting, old.learning, old.hosts) != (new.starting, new.learning, new.hosts):
        return False
    if not (0.8 < (new.ahead_s + 1e-9) / (old.ahead_s + 1e-9) < 1.25):
        return False
    return _same_shares(rules, snapshot, old.units, new.units)


def _same_shares(
    rules: AllocationRules,
    snapshot: AllocatorInput,
    old: tuple[SchedulingUnit, ...],
    new: tuple[SchedulingUnit, ...],
) -> bool:
    """Whether units take the same shares of the work as before, as far as the estimates tell."""
    if len(old) != len(new):
        return False
    was, now = (sum(unit.seconds * unit.weight for unit in units) or 1.0 for units in (old, new))
    for before, after in zip(old, new, strict=True):
        if replace(before, seconds=0.0, weight=0.0) != replace(after, seconds=0.0, weight=0.0):
            return False
        a, b = before.seconds * before.weight / was, after.seconds * after.weight / now
        if (before.weight > 0) != (after.weight > 0) or (a > 0) != (b > 0):
            return False
        error = snapshot.error(after.name)
        if a > 0 and abs(log(b / a)) > max(rules.estimate_moved, rules.estimate_moved_errors * error):
            return False
    return True


def _next_check_s(rules: AllocationRules, snapshot: AllocatorInput, settled: bool) -> float:
    soon = [
        SOON_S - (snapshot.now - measured.first_sample_at)
        for measured in snapshot.units
        if measured.first_sample_at is not None and not measured.finished and not measured.known(snapshot.now)
    ]
    if soon:
        return min(max(0.01, min(soon)), rules.soon_again_s)
    return rules.later_s if settled and not snapshot.learning else rules.soon_again_s
