"""The allocator's values: hosts, scheduling units (what one slot takes) and allocations (where slots are). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

#: More slots than anything needs: where worker processes do not limit a host.
UNLIMITED = 1_000_000


@dataclass(frozen=True)
class Gpu:
    """One GPU of a host.

    Args:
        name: unique on its host.
        memory: bytes; 0 if unknown, and then memory is not checked.
        max_slots: how many slots its worker processes can run at once.
        share: the share of it that the run may use; ``memory`` is that of this share.
    """

    name: str
    memory: float = 0.0
    max_slots: int = UNLIMITED
    share: float = 1.0


@dataclass(frozen=True)
class Host:
    """The resources of a machine.

    Args:
        name: unique among hosts.
        cpus: CPU cores for all slots, including GPU slots.
        gpus: its GPUs.
        max_slots: how many slots the processes that serve CPU operators can run at once.
        shared: whether these are the processes of its GPUs, so that GPU slots count among ``max_slots``, too.
    """

    name: str
    cpus: float
    gpus: tuple[Gpu, ...] = ()
    max_slots: int = UNLIMITED
    shared: bool = False


@dataclass(frozen=True)
class SchedulingUnit:
    """What slots are allocated to: an operator, or several CPU operators that share slots.

    Args:
        name: name of the unit.
        cpus: cores per slot.
        gpus: share of one GPU per slot, or a whole number of GPUs of one host.
        gpu_memory: bytes per slot on its GPU; for a slot on several GPUs, on all of them together.
        seconds: time that one slot spends on one item, or on all that comes of one source split if ``weight`` is 1.
        weight: items for each source split (or of the work that is left, in any measure common to all units);
            0 for a unit that has nothing left to do.
        fixed: the number of slots, if the user pinned it.
        fixed_per_host: the number of slots on every host that has capacity for them, if the user pinned that.
        max_slots: the largest number of slots.
    """

    name: str
    cpus: float = 1.0
    gpus: float = 0.0
    gpu_memory: float = 0.0
    seconds: float = 1.0
    weight: float = 1.0
    fixed: int | None = None
    fixed_per_host: int | None = None
    max_slots: int | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether its slots need a GPU."""
        return self.gpus > 0 or self.gpu_memory > 0

    def rate(self, slots: int) -> float:
        """Source splits per second that `slots` slots can process; infinite for a unit without work."""
        work = self.seconds * self.weight
        return slots / work if work > 0 else float("inf")


class SlotLocation(NamedTuple):
    """The location of a slot: its host, its unit, and the names of its GPUs (none for a CPU slot)."""

    host: str
    unit: str
    gpus: tuple[str, ...] = ()


#: Number of slots at each location.
Allocation = Counter[SlotLocation]


@dataclass(frozen=True)
class Solution:
    """An allocation and its throughput.

    Attributes:
        allocation: number of slots of each unit at each location.
        throughput: source splits per second of the slowest unit; infinite if no unit has work.
        bound: an upper bound for any allocation, with fractional slots and one pool of each resource.
    """

    allocation: Allocation
    throughput: float
    bound: float

    @property
    def counts(self) -> dict[str, int]:
        """Number of slots of each unit."""
        return count_slots(self.allocation)


def count_slots(allocation: Mapping[SlotLocation, int]) -> dict[str, int]:
    """Count the slots of each unit in an allocation.

    Examples:
        >>> count_slots({SlotLocation("a", "read"): 2, SlotLocation("b", "read"): 1})
        {'read': 3}
    """
    counts: Counter[str] = Counter()
    for location, slots in allocation.items():
        counts[location.unit] += slots
    return {unit: slots for unit, slots in counts.items() if slots}


def throughput(units: Iterable[SchedulingUnit], counts: Mapping[str, int]) -> float:
    """Source splits per second for these numbers of slots: the slowest unit decides.

    Examples:
        >>> units = [SchedulingUnit("read", seconds=0.25), SchedulingUnit("embed", seconds=1.0)]
        >>> throughput(units, {"read": 1, "embed": 3})
        3.0
    """
    return min((unit.rate(counts.get(unit.name, 0)) for unit in units), default=float("inf"))
