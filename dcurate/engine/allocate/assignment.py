"""Which worker process holds which slots, so that the balancer's places come true with the fewest changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dcurate.engine.allocate.allocation import Allocation, SlotLocation
from dcurate.engine.allocate.requests import SlotPoolSpec, WorkerState, cpu_workers


@dataclass(frozen=True)
class SlotClaim:
    """Slots of one operator in one worker process.

    Args:
        slots: how many.
        cards: the names of the GPUs of each slot, the process's own first; none for CPU slots.
    """

    slots: int
    cards: tuple[str, ...] = ()


#: By worker address, then by operator.
Assignment = dict[str, dict[str, SlotClaim]]


def assign_slots(
    groups: Sequence[SlotPoolSpec], workers: Sequence[WorkerState], places: Allocation, held: Assignment
) -> Assignment:
    """Give the slots of each place to worker processes of its host.

    A process keeps what it holds where it can, and holds one group where there are processes enough.

    Examples:
        >>> from collections import Counter
        >>> from dcurate.core.resources import Resources
        >>> from dcurate.engine.allocate.requests import OperatorRequest
        >>> read, write = (SlotPoolSpec((OperatorRequest(name, Resources()),), 1.0) for name in ("read", "write"))
        >>> two = [WorkerState("a", "h"), WorkerState("b", "h")]
        >>> places = Counter({SlotLocation("h", "read"): 1, SlotLocation("h", "write"): 1})
        >>> assign_slots([read, write], two, places, {"b": {"read": SlotClaim(1)}})
        {'b': {'read': SlotClaim(slots=1, cards=())}, 'a': {'write': SlotClaim(slots=1, cards=())}}
    """
    by_name = {each.name: each for each in groups}
    table = _Table(workers, {each.name: each.members[0].operator for each in groups}, held)
    wanted = sorted((place for place, slots in places.items() if slots > 0), key=lambda one: (one.unit, one.cards))
    left = {place: table.keep(place, places[place]) for place in wanted}
    for place in wanted:
        table.fill(place, left[place])
    return _by_operator(by_name, table.given)


class _Table:
    """The processes, and who sits where so far."""

    def __init__(self, workers: Sequence[WorkerState], first: Mapping[str, str], held: Assignment) -> None:
        self.workers = {worker.address: worker for worker in workers}
        self.on_cpus = {worker.address for worker in cpu_workers(workers)}
        self.first = first
        self.held = held
        self.free = {worker.address: worker.threads for worker in workers}
        self.given: dict[str, dict[str, SlotClaim]] = {}

    def _may_hold(self, place: SlotLocation) -> list[str]:
        here = [one for one in self.workers.values() if one.host == place.host]
        if not place.cards:
            return [one.address for one in here if one.address in self.on_cpus]
        own = [one.address for one in here if one.cards and one.cards[0][0] == place.cards[0]]
        return own or [one.address for one in here if set(place.cards) <= {name for name, _ in one.cards}]

    def _give(self, address: str, place: SlotLocation, slots: int) -> int:
        seats = self.given.setdefault(address, {})
        before = seats.get(place.unit)
        if slots <= 0 or (before is not None and before.cards != place.cards):
            return 0
        seats[place.unit] = SlotClaim(slots + (before.slots if before else 0), place.cards)
        self.free[address] -= slots
        return slots

    def keep(self, place: SlotLocation, slots: int) -> int:
        """Leave slots where they are; returns how many still have no seat."""
        for address in self._may_hold(place):
            now = self.held.get(address, {}).get(self.first[place.unit])
            if now is not None and now.cards == place.cards:
                slots -= self._give(address, place, min(now.slots, slots, self.free[address]))
        return slots

    def fill(self, place: SlotLocation, slots: int) -> None:
        """Seat the rest: beside their own, in empty processes, in those that others leave, at last among others."""

        def rank(address: str) -> tuple[int, int]:
            given, held = self.given.get(address), self.held.get(address)
            mixed = 3 if given and set(given) != {place.unit} else 0 if given else 2 if held else 1
            return mixed, -self.free[address]

        while slots > 0:
            able = [address for address in self._may_hold(place) if self.free[address] > 0]
            if not able:
                return
            for address in sorted(able, key=rank):
                got = self._give(address, place, min(slots, self.free[address]))
                if got:
                    break
            else:
                return
            slots -= got


def _by_operator(groups: Mapping[str, SlotPoolSpec], given: Mapping[str, Mapping[str, SlotClaim]]) -> Assignment:
    """The seats of each group as slots of each of its operators, of which some may use only a few."""
    totals: dict[str, int] = {}
    for seats in given.values():
        for name, hold in seats.items():
            totals[name] = totals.get(name, 0) + hold.slots
    left = {
        member.operator: groups[name].slots_of(member, total)
        for name, total in totals.items()
        for member in groups[name].members
    }
    seating: Assignment = {}
    for address, seats in given.items():
        for name, hold in seats.items():
            for member in groups[name].members:
                slots = min(hold.slots, left[member.operator])
                left[member.operator] -= slots
                if slots:
                    seating.setdefault(address, {})[member.operator] = SlotClaim(slots, hold.cards)
    return seating
