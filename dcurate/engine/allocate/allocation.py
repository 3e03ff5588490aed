"""The values that the balancer works on: hosts, units (what one slot takes) and places (where slots stand). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

#: More seats than anything needs: where processes do not limit what a host can hold.
UNLIMITED = 1_000_000


@dataclass(frozen=True)
class Card:
    """One GPU of a host.

    Args:
        name: tells it from the host's other cards.
        memory: bytes; 0 where it is not known, and then memory is not held against it.
        seats: how many slots the worker processes that stand on it can run at once.
    """

    name: str
    memory: float = 0.0
    seats: int = UNLIMITED


@dataclass(frozen=True)
class Host:
    """A machine, as far as slots take from it.

    Args:
        name: tells it from other hosts.
        cpus: CPU cores that slots may take together, those of GPU slots too.
        cards: its GPUs.
        seats: how many slots its CPU worker processes can run at once.
    """

    name: str
    cpus: float
    cards: tuple[Card, ...] = ()
    seats: int = UNLIMITED


@dataclass(frozen=True)
class SchedulingUnit:
    """What is given slots: an operator, or several CPU operators that share theirs in time.

    Args:
        name: of the unit.
        cpus: cores that one slot takes.
        gpus: share of one card that a slot takes, or a whole number of cards of one host.
        gpu_memory: bytes that a slot takes on its card; of a slot on several cards, on all of them together.
        seconds: time that one slot spends on one item, or on all that comes of one source split if ``weight`` is 1.
        weight: items for each source split (or of the work that is left, in any measure common to all units);
            0 for a unit that has nothing left to do.
        fixed: the number of slots, where a person pinned it.
        fixed_per_host: the number of slots on every host that has room for them, where a person pinned that.
        most: no more slots than this.
    """

    name: str
    cpus: float = 1.0
    gpus: float = 0.0
    gpu_memory: float = 0.0
    seconds: float = 1.0
    weight: float = 1.0
    fixed: int | None = None
    fixed_per_host: int | None = None
    most: int | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether its slots stand on cards."""
        return self.gpus > 0 or self.gpu_memory > 0

    def rate(self, slots: int) -> float:
        """Source splits a second that so many slots can follow; infinite for a unit without work."""
        work = self.seconds * self.weight
        return slots / work if work > 0 else float("inf")


class SlotLocation(NamedTuple):
    """Where a slot stands: its host, its unit, and the names of its cards (none for a CPU slot)."""

    host: str
    unit: str
    cards: tuple[str, ...] = ()


#: How many slots stand at each place.
Allocation = Counter[SlotLocation]


@dataclass(frozen=True)
class Solution:
    """An allocation and what it can do.

    Attributes:
        places: how many slots of each unit stand where.
        throughput: source splits a second: that of the slowest unit; infinite if no unit has work.
        bound: what no allocation can exceed, counting fractions of slots and one pool of each resource.
    """

    places: Allocation
    throughput: float
    bound: float

    @property
    def counts(self) -> dict[str, int]:
        """Slots of each unit."""
        return count_slots(self.places)


def count_slots(places: Mapping[SlotLocation, int]) -> dict[str, int]:
    """Slots of each unit in an allocation.

    Examples:
        >>> count_slots({SlotLocation("a", "read"): 2, SlotLocation("b", "read"): 1})
        {'read': 3}
    """
    counts: Counter[str] = Counter()
    for place, slots in places.items():
        counts[place.unit] += slots
    return {unit: slots for unit, slots in counts.items() if slots}


def throughput(units: Iterable[SchedulingUnit], counts: Mapping[str, int]) -> float:
    """Source splits a second that so many slots of each unit can follow: the slowest unit decides.

    Examples:
        >>> units = [SchedulingUnit("read", seconds=0.25), SchedulingUnit("embed", seconds=1.0)]
        >>> throughput(units, {"read": 1, "embed": 3})
        3.0
    """
    return min((unit.rate(counts.get(unit.name, 0)) for unit in units), default=float("inf"))
