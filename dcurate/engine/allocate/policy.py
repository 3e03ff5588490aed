"""When to change the allocation of slots, and why: from a snapshot of a run to a decision. Pure and quick.

While a unit that could be known soon is not, everything stands with as few slots as there can be. Then the best of
these is taken: to stay; to grow into what is idle; to shift in place; to place everything anew. What tears nothing
down is done when it helps before the end. What tears slots down must also gain more than the estimates are in doubt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf, log

from dcurate.engine.allocate.allocation import Allocation, Host, SchedulingUnit, count_slots
from dcurate.engine.allocate.capacity import Capacity, grow, in_excess, keep
from dcurate.engine.allocate.inputs import CHEAP_S, SOON_S, AllocatorInput
from dcurate.engine.allocate.solve import bound, shortfall, solve, solve_in_place, spread_spare
from dcurate.engine.allocate.transitions import LEAST_GAIN, AllocationChange, Change, explain

#: A bold move must save at least this share of the time that it takes.
FRICTION = 0.25
#: Nothing is changed to be done sooner by less than this many seconds.
SAVED_S = 0.25
#: A gain below this share is none.
NO_GAIN = 0.002
#: What cheap units may have if nobody else needs it, over need: up to a cv of so much, and beyond.
SLACK, UNEVEN, SLACK_UNEVEN = 1.3, 1.0, 1.8
#: An estimate that has moved by less than this share of its error, or this much at all, has not moved.
MOVED_ERRORS, MOVED = 0.5, 0.01
#: Seconds to the next look: while figures are awaited, and when all is well.
SOON_AGAIN_S, LATER_S = 0.5, 5.0


@dataclass(frozen=True)
class Basis:
    """What a decision rested on, to see whether anything has changed since."""

    hosts: tuple[Host, ...]
    units: tuple[SchedulingUnit, ...]
    under_way: frozenset[str]
    learning: bool
    ahead_s: float


@dataclass(frozen=True)
class Decision:
    """What should stand, and why.

    Attributes:
        places: how many slots of each unit should stand where, in all.
        now: source splits a second that the slots can follow that stand or are being set up.
        expected: likewise of the slots that should.
        changes: by unit, with the reason.
        look_again_s: seconds after which to decide again, if nothing happens before.
        lack: why nothing can be done about units that have no slots; None if all have.
        basis: what it rests on.
    """

    places: Allocation
    now: float
    expected: float
    changes: tuple[Change, ...]
    look_again_s: float
    lack: str | None = None
    basis: Basis | None = field(default=None, repr=False, compare=False)


def decide(snapshot: AllocatorInput, last: Decision | None = None) -> Decision:
    """What should stand now.

    Args:
        snapshot: of the run.
        last: the decision before, so that a moment at which nothing has changed costs nothing.

    Examples:
        >>> from dcurate.engine.allocate.allocation import SlotLocation
        >>> from dcurate.engine.allocate.inputs import Measured
        >>> read = Measured(SchedulingUnit("read"), seconds=0.5, samples=50, setup_s=0.0)
        >>> score = Measured(SchedulingUnit("score"), seconds=1.0, samples=50, setup_s=4.0)
        >>> held = Counter({SlotLocation("a", "read"): 1, SlotLocation("a", "score"): 1})
        >>> decision = decide(AllocatorInput((Host("a", cpus=3),), (read, score), held, Counter(), now=100.0))
        >>> decision.changes[0].reason
        'score 1 -> 2 slots: bottleneck, +1 splits/s, setup 4 s paid back in 4 s'
    """
    basis = _basis(snapshot)
    if last is not None and _unchanged(snapshot, last, basis):
        return replace(last, changes=(), look_again_s=_look_again(snapshot, settled=True))
    move = _begin(snapshot) if snapshot.learning else _best(snapshot)
    spare = Counter() if snapshot.learning else _spare(snapshot, move)
    changes = explain(move, spare)
    lacking = any(not move.counts.get(unit.name) for unit in snapshot.working)
    return Decision(
        places=move.after + spare,
        now=snapshot.splits_a_second(snapshot.counts),
        expected=snapshot.splits_a_second(move.counts),
        changes=changes,
        look_again_s=_look_again(snapshot, settled=not changes and not lacking),
        lack=shortfall(snapshot.working, snapshot.hosts) if lacking else None,
        basis=basis,
    )


# While units are unknown


def _begin(snapshot: AllocatorInput) -> AllocationChange:
    """What stands, and what is still missing to have every unit at work: no more than that."""
    counts = snapshot.counts
    capped = tuple(
        unit
        if each.finished or unit.fixed is not None or unit.fixed_per_host is not None
        else replace(unit, most=min(unit.most or counts.get(unit.name, 1), counts.get(unit.name, 1)))
        for unit, each in zip(snapshot.solvable, snapshot.units, strict=True)
    )
    found = solve_in_place(capped, snapshot.hosts, snapshot.current) or solve(capped, snapshot.hosts, snapshot.current)
    return AllocationChange(snapshot, snapshot.current) if found is None else _towards(snapshot, found.places)


# When all are known


def _best(snapshot: AllocatorInput) -> AllocationChange:
    """The move that does most in the time that is left."""
    stay = AllocationChange(snapshot, snapshot.current)
    most = bound(snapshot.working, snapshot.hosts)
    if stay.throughput >= most * (1 - NO_GAIN) and not _misses_fixed(snapshot):
        return stay
    if snapshot.work_known and stay.throughput * SAVED_S >= 1:
        return stay
    best, needed = stay, _needed(snapshot, stay)
    moves = list(_proposals(snapshot, stay, needed, most))
    if not moves or moves[0].bold:
        moves += _growth(snapshot, needed)
    for move in moves:
        if not move.bold and _gain(move, best) > NO_GAIN and _pays(move, best, stay):
            best = move
    calm = best
    for move in moves:
        if move.bold and _gain(move, calm) > max(LEAST_GAIN, move.doubt) and _pays(move, best, stay):
            best = move
    return _without_late(best)


def _without_late(move: AllocationChange) -> AllocationChange:
    """Without slots that would be ready only when all is done."""
    snapshot, after = move.snapshot, Counter(move.after)
    if not snapshot.work_known:
        return move
    end, kept = move.seconds_for(1.0), move.kept_counts
    for place, slots in (move.after - move.kept).items():
        if kept.get(place.unit) and snapshot.by_name[place.unit].setup >= max(end, CHEAP_S):
            after[place] -= slots
    return AllocationChange(snapshot, +after)


def _needed(snapshot: AllocatorInput, stay: AllocationChange) -> Allocation:
    """What stands, without cheap slots beyond need; which come back where there is room."""
    excess = in_excess(snapshot.solvable, snapshot.current, stay.throughput * (1 + max(LEAST_GAIN, stay.doubt)))
    needed: Allocation = Counter()
    for place, slots in snapshot.current.items():
        beyond = min(slots, excess[place.unit]) if snapshot.cheap(place.unit) else 0
        excess[place.unit] -= beyond
        needed[place] = slots - beyond
    return +needed


def _growth(snapshot: AllocatorInput, needed: Allocation) -> Iterator[AllocationChange]:
    """Moves that tear nothing down but cheap slots beyond need: cheap units grow, or all do."""
    every = {unit.name for unit in snapshot.working}
    cheap = {name for name in every if snapshot.cheap(name)}
    counts = count_slots(needed)
    slowest = min(snapshot.working, key=lambda unit: unit.rate(counts.get(unit.name, 0)))
    for may_grow in (cheap, every) if slowest.name in cheap and cheap != every else (every,):
        room = Capacity(snapshot.hosts, snapshot.solvable)
        before = keep(room, needed)
        if grow(room, snapshot.working, may_grow) != before:
            yield AllocationChange(snapshot, keep(room, snapshot.current))


def _proposals(
    snapshot: AllocatorInput, stay: AllocationChange, needed: Allocation, most: float
) -> Iterator[AllocationChange]:
    """What the solver would do: in place, and anew where that promises more."""
    units, hosts = snapshot.solvable, snapshot.hosts
    in_place = solve_in_place(units, hosts, needed)
    reached = stay.throughput
    if in_place is not None:
        reached = max(reached, in_place.throughput)
        yield _towards(snapshot, in_place.places)
    if in_place is None or reached < most * (1 - LEAST_GAIN):
        anew = solve(units, hosts, needed)
        if anew is not None and anew.throughput > reached * (1 + LEAST_GAIN):
            yield _towards(snapshot, anew.places)


def _towards(snapshot: AllocatorInput, places: Allocation) -> AllocationChange:
    """To these places, as far as slots that are being set up allow, beside what stands now and need not go for them."""
    if not snapshot.current - places:
        return AllocationChange(snapshot, places)
    room = Capacity(snapshot.hosts, snapshot.solvable)
    return AllocationChange(snapshot, keep(room, snapshot.untouchable, places, snapshot.dear, snapshot.current))


def _gain(move: AllocationChange, over: AllocationChange) -> float:
    if over.throughput <= 0:
        return inf if move.throughput > 0 else 0.0
    return move.throughput / over.throughput - 1


def _pays(move: AllocationChange, best: AllocationChange, stay: AllocationChange) -> bool:
    """Whether more work is done sooner by a move than by the best so far."""
    snapshot = move.snapshot
    if best.throughput <= 0:
        return True
    if snapshot.work_known:
        work = 1.0
    else:
        ahead = max(snapshot.ahead_s, 0.0 if move.bold else 3 * move.done_in)
        work = (stay.throughput or best.throughput) * ahead
    saved = best.seconds_for(work) - move.seconds_for(work)
    least = SAVED_S if snapshot.work_known else 0.0
    return saved > (max(least, FRICTION * move.done_in) if move.bold else least)


def _misses_fixed(snapshot: AllocatorInput) -> bool:
    counts = snapshot.counts
    return any(
        unit.fixed_per_host is not None or (unit.fixed is not None and counts.get(unit.name, 0) != unit.fixed)
        for unit in snapshot.working
    )


def _spare(snapshot: AllocatorInput, move: AllocationChange) -> Allocation:
    """More slots of cheap units where nothing else can use the room, so that uneven durations do not bite."""
    counts = move.counts
    if snapshot.work_known and move.seconds_for(1.0) < LATER_S:
        return Counter()
    enough: dict[float, list[str]] = {}
    for each, unit in zip(snapshot.units, snapshot.solvable, strict=True):
        slack = SLACK if each.cv < UNEVEN else SLACK_UNEVEN
        if each.cheap and each.known(snapshot.now) and unit.rate(counts.get(each.name, 0)) < slack * move.throughput:
            enough.setdefault(slack, []).append(each.name)
    places = move.after
    for slack, names in enough.items():
        places = spread_spare(snapshot.solvable, snapshot.hosts, places, slack, names)
    return places - move.after


# Whether to look at all


def _basis(snapshot: AllocatorInput) -> Basis:
    under_way = frozenset(place.unit for place, slots in snapshot.setting_up.items() if slots)
    return Basis(snapshot.hosts, snapshot.solvable, under_way, snapshot.learning, _seconds_left(snapshot))


def _seconds_left(snapshot: AllocatorInput) -> float:
    if not snapshot.work_known:
        return snapshot.ahead_s
    throughput = snapshot.throughput(snapshot.counts)
    return 1 / throughput if throughput > 0 else inf


def _unchanged(snapshot: AllocatorInput, last: Decision, new: Basis) -> bool:
    """Whether nothing has come since the last decision that could change it."""
    old = last.basis
    if old is None or last.lack is not None or snapshot.asked != last.places:
        return False
    if (old.under_way, old.learning, old.hosts) != (new.under_way, new.learning, new.hosts):
        return False
    if not (0.8 < (new.ahead_s + 1e-9) / (old.ahead_s + 1e-9) < 1.25):
        return False
    return _same_shares(snapshot, old.units, new.units)


def _same_shares(snapshot: AllocatorInput, old: tuple[SchedulingUnit, ...], new: tuple[SchedulingUnit, ...]) -> bool:
    """Whether units take the same shares of the work as before, as far as that can be told."""
    if len(old) != len(new):
        return False
    was, now = (sum(unit.seconds * unit.weight for unit in units) or 1.0 for units in (old, new))
    for before, after in zip(old, new, strict=True):
        if replace(before, seconds=0.0, weight=0.0) != replace(after, seconds=0.0, weight=0.0):
            return False
        a, b = before.seconds * before.weight / was, after.seconds * after.weight / now
        if (before.weight > 0) != (after.weight > 0) or (a > 0) != (b > 0):
            return False
        if a > 0 and abs(log(b / a)) > max(MOVED, MOVED_ERRORS * snapshot.error(after.name)):
            return False
    return True


def _look_again(snapshot: AllocatorInput, settled: bool) -> float:
    soon = [
        SOON_S - (snapshot.now - each.first_sample_at)
        for each in snapshot.units
        if each.first_sample_at is not None and not each.finished and not each.known(snapshot.now)
    ]
    if soon:
        return min(max(0.01, min(soon)), SOON_AGAIN_S)
    return LATER_S if settled and not snapshot.learning else SOON_AGAIN_S
