"""Order units and rank hosts for greedy packing of slots. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dcurate.engine.allocate.model import MILLION, PLENTY, Bin, Bins, Item, Layout

#: Amounts beyond this many quanta (the common divisor of all sizes) can be filled in some way.
MAX_QUANTA = 4096

#: How many slots fewer than fit on a host are considered.
MAX_FEWER = 5


class Heuristic(NamedTuple):
    """A greedy heuristic: an order of the items (`item_orders`) and a rule that ranks hosts for GPU slots (`RANKS`)."""

    order: int
    choice: str


#: Heuristics, those that succeed most often first.
HEURISTICS = tuple(
    Heuristic(order, choice)
    for order, choice in (
        *((0, choice) for choice in ("best_fit", "dot_product", "worst_fit", "min_waste", "min_stranded")),
        *((1, choice) for choice in ("best_fit", "dot_product", "worst_fit")),
        *((2, choice) for choice in ("best_fit", "worst_fit", "dot_product")),
        *((order, choice) for order in (3, 4) for choice in ("best_fit", "dot_product", "worst_fit", "min_stranded")),
        *((order, "min_stranded") for order in (1, 2)),
        *((order, "min_waste") for order in (1, 2, 3, 4)),
    )
)


#: How many of them are tried for every question; the others only for important ones.
FAST_HEURISTICS = 11


class IntegerScale(NamedTuple):
    """How scarce resources are: the value of a core and of a GPU for the needed slots.

    Attributes:
        cores: cores needed, relative to those that a host has on average.
        gpus: likewise.
        cores_per_gpu: cores per GPU of the item that needs the fewest.
    """

    cores: float
    gpus: float
    cores_per_gpu: float


class SubsetSums:
    """Subset sums: the least remainder of an amount that is filled with sizes, each any number of times.

    Args:
        quantum: sizes and amounts are multiples of the common divisor of these.
        largest: largest amount; the remainder of an amount with too many quanta is taken as 0.

    Examples:
        >>> SubsetSums([2, 4], 20, [4]).remainder(6)
        2
    """

    def __init__(self, quantum: Sequence[int], largest: int, sizes: Sequence[int]) -> None:
        self.quantum = math.gcd(*quantum)
        self.largest = min(largest // self.quantum, MAX_QUANTA)
        self.filled = 1
        for size in sizes:
            step = size // self.quantum
            while 0 < step <= self.largest:
                self.filled |= self.filled << step
                step *= 2
            self.filled &= (2 << self.largest) - 1

    def remainder(self, amount: int) -> int:
        """The part of an amount that no sum of sizes fills."""
        quanta = amount // self.quantum
        if quanta > self.largest:
            return 0
        return amount - ((self.filled & (2 << quanta) - 1).bit_length() - 1) * self.quantum


def item_orders(items: Sequence[Item], layout: Layout) -> list[list[int]]:
    """Orders of the items by several measures of size, the hardest to place first."""
    memory = max(
        (gpu.memory for host_bin in layout for gpu in host_bin.host_class.gpus if gpu.memory < PLENTY), default=PLENTY
    )

    def size(item: Item) -> float:
        return max(item.share, item.memory * MILLION // memory)

    def density(item: Item) -> float:
        return item.cpus / (max(size(item), item.gpu_total) or MILLION)

    sort_keys = (
        lambda item: (item.on_gpu, item.num_gpus, size(item), item.cpus),
        lambda item: (item.on_gpu, item.num_gpus, density(item)),
        lambda item: (item.on_gpu, density(item)),
        lambda item: (item.num_gpus > 1, item.cpus),
        lambda item: (item.cpus,),
    )
    return [[item.unit for item in sorted(items, key=sort_key, reverse=True)] for sort_key in sort_keys]


def subset_sums_for(items: Sequence[Item], need: Sequence[int], item: Item, layout: Layout) -> SubsetSums | None:
    """Subset sums of the other needed items: of a host's cores, or of a GPU; None if not applicable."""
    other_items = [candidate for candidate in items if need[candidate.unit] and candidate.unit != item.unit]
    if item.on_gpu:
        sizes = [other_item.share for other_item in other_items if other_item.share]
        return SubsetSums([item.share, *sizes], MILLION, sizes) if item.share and sizes else None
    sizes = [other_item.cpus for other_item in other_items if other_item.cpus and not other_item.on_gpu]
    largest = max((host_bin.cpus for host_bin in layout), default=0)
    return SubsetSums([item.cpus, *sizes], largest, sizes) if item.cpus and sizes else None


def min_waste(bins: Bins, one: Bin, item: Item, slots: int, sums: SubsetSums) -> tuple[int, Bin]:
    """Place a few slots fewer on a host or GPU than fit, if the other items then waste less of it.

    A host that has slots of the item is left as it is.

    Returns:
        How many slots, and what the host becomes.
    """
    size, free = item.cpus, one.cpus
    gpus: tuple[int, ...] = ()
    if item.on_gpu:
        fits = [
            (bool(fill.slot_counts), -fill.share, number)
            for number, fill in enumerate(one.gpus)
            if fill.fits(item) and all(index != item.unit for index, _ in fill.slot_counts)
        ]
        if not fits:
            return 0, one
        *_, best = max(fits)
        gpus, fill = (best,), one.gpus[best]
        size, free, slots = item.share, fill.share, min(slots, fill.fits(item))
    elif any(index == item.unit for index, _ in one.slot_counts):
        return 0, one
    fewest = max(1, slots - MAX_FEWER)
    slots = min(range(slots, fewest - 1, -1), key=lambda count: sums.remainder(free - count * size))
    return slots, bins.put(one, item, gpus, slots)


def scale_of(items: Sequence[Item], need: Sequence[int], layout: Layout) -> IntegerScale:
    """Compute how scarce resources are on these hosts for these numbers of slots."""
    hosts = sum(layout.values())
    cores = sum(host_bin.cpus * count for host_bin, count in layout.items()) or 1
    gpus = sum(host_bin.free_gpu * count for host_bin, count in layout.items()) or 1
    asked_cores = sum(item.cpus * slots for item, slots in zip(items, need, strict=True))
    asked_gpus = sum(item.gpu_total * slots for item, slots in zip(items, need, strict=True))
    cores_per_gpu = min((item.cpus / item.gpu_total for item in items if item.gpu_total), default=0.0)
    return IntegerScale(
        (asked_cores / cores + 0.05) / cores * hosts, (asked_gpus / gpus + 0.05) / gpus * hosts, cores_per_gpu
    )


# How hosts rank: the lowest is taken. Each looks at a host, what it becomes, and the item.

_Rank = tuple[float, float]


def _best_fit(_one: Bin, new: Bin, _item: Item, scale: IntegerScale) -> _Rank:
    """Least left."""
    return new.cpus * scale.cores + new.free_gpu * scale.gpus, 0.0


def _dot_product(host_bin: Bin, new: Bin, item: Item, scale: IntegerScale) -> _Rank:
    """Cores and GPUs left in the proportion that the slot needs them."""
    cores, gpus = host_bin.cpus * scale.cores, host_bin.free_gpu * scale.gpus
    length = math.hypot(cores, gpus)
    along = cores * item.cpus * scale.cores + gpus * item.gpu_total * scale.gpus
    return -along / length if length else 0.0, new.cpus * scale.cores + new.free_gpu * scale.gpus


def _worst_fit(_one: Bin, new: Bin, _item: Item, scale: IntegerScale) -> _Rank:
    """Most cores left; for slots that are placed one by one."""
    return -new.cpus * scale.cores, 0.0


def _min_stranded(host_bin: Bin, new: Bin, _item: Item, scale: IntegerScale) -> _Rank:
    """Fewest GPUs without cores to go with them."""
    stranded = max(0.0, new.free_gpu * scale.cores_per_gpu - new.cpus) - max(
        0.0, host_bin.free_gpu * scale.cores_per_gpu - host_bin.cpus
    )
    return stranded, new.cpus * scale.cores + new.free_gpu * scale.gpus


def _cpu(_one: Bin, new: Bin, _item: Item, scale: IntegerScale) -> _Rank:
    """For CPU slots: hosts without GPUs that need the cores, then the least left."""
    return new.free_gpu * scale.gpus * 100 + new.cpus * scale.cores, 0.0


#: By name; "cpu" is for CPU slots, with any heuristic.
RANKS: dict[str, Callable[[Bin, Bin, Item, IntegerScale], _Rank]] = {
    "best_fit": _best_fit,
    "dot_product": _dot_product,
    "worst_fit": _worst_fit,
    "min_stranded": _min_stranded,
    "min_waste": _best_fit,
    "cpu": _cpu,
}
