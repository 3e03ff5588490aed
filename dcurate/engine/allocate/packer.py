"""Pack slots on hosts: greedy heuristics, then repair, then bounded backtracking; or add to current slots. Pure."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dcurate.engine.allocate.model import (
    MILLION,
    PLENTY,
    Bin,
    Bins,
    Item,
    Layout,
    SlotGroup,
    drop_surplus,
    replace_hosts,
    total_slots,
)

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
        cores_per_gpu: of the item that needs the fewest.
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
    memory = max((gpu.memory for one in layout for gpu in one.host_class.gpus if gpu.memory < PLENTY), default=PLENTY)

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
    others = [each for each in items if need[each.unit] and each.unit != item.unit]
    if item.on_gpu:
        sizes = [each.share for each in others if each.share]
        return SubsetSums([item.share, *sizes], MILLION, sizes) if item.share and sizes else None
    sizes = [each.cpus for each in others if each.cpus and not each.on_gpu]
    largest = max((one.cpus for one in layout), default=0)
    return SubsetSums([item.cpus, *sizes], largest, sizes) if item.cpus and sizes else None


def min_waste(bins: Bins, one: Bin, item: Item, slots: int, sums: SubsetSums) -> tuple[int, Bin]:
    """Place a few slots fewer on a host or GPU than fit, if the other items then waste less of it.

    A host that has slots of the item is left as it is.

    Returns:
        How many slots, and what the host becomes.
    """
    size, left = item.cpus, one.cpus
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
        size, left, slots = item.share, fill.share, min(slots, fill.fits(item))
    elif any(index == item.unit for index, _ in one.slot_counts):
        return 0, one
    fewest = max(1, slots - MAX_FEWER)
    slots = min(range(slots, fewest - 1, -1), key=lambda count: sums.remainder(left - count * size))
    return slots, bins.put(one, item, gpus, slots)


def scale_of(items: Sequence[Item], need: Sequence[int], layout: Layout) -> IntegerScale:
    """Compute how scarce resources are on these hosts for these numbers of slots."""
    hosts = sum(layout.values())
    cores = sum(one.cpus * count for one, count in layout.items()) or 1
    gpus = sum(one.free_gpu * count for one, count in layout.items()) or 1
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


def _dot_product(one: Bin, new: Bin, item: Item, scale: IntegerScale) -> _Rank:
    """Cores and GPUs left in the proportion that the slot needs them."""
    cores, gpus = one.cpus * scale.cores, one.free_gpu * scale.gpus
    length = math.hypot(cores, gpus)
    along = cores * item.cpus * scale.cores + gpus * item.gpu_total * scale.gpus
    return -along / length if length else 0.0, new.cpus * scale.cores + new.free_gpu * scale.gpus


def _worst_fit(_one: Bin, new: Bin, _item: Item, scale: IntegerScale) -> _Rank:
    """Most cores left; for slots that are placed one by one."""
    return -new.cpus * scale.cores, 0.0


def _min_stranded(one: Bin, new: Bin, _item: Item, scale: IntegerScale) -> _Rank:
    """Fewest GPUs without cores to go with them."""
    stranded = max(0.0, new.free_gpu * scale.cores_per_gpu - new.cpus) - max(
        0.0, one.free_gpu * scale.cores_per_gpu - one.cpus
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


# Searching

#: Effort of one `Packer` where the fast heuristics fail, counted in bins looked at.
EFFORT = 200_000

#: Positions of a backtracking search over the whole cluster, and over two or three hosts.
WIDE_SEARCH, NARROW_SEARCH = 400, 60

#: Rounds in which slots are spread over hosts, where these are many.
MOST_ROUNDS = 32

#: Slots beyond which backtracking is hopeless.
TOO_MANY = 400


#: Maps a host, and the slots still to be placed, to how many of them go there, and the new bin.
Fill = Callable[[Bin, int], tuple[int, Bin]]


class Packer:
    """Packs slots on hosts that may be partly filled; slots that are there are not moved.

    Args:
        bins: of the units.
        start: the hosts.
    """

    def __init__(self, bins: Bins, start: Layout, effort: int = EFFORT) -> None:
        self.bins, self.items, self.start, self.effort = bins, bins.items, start, effort
        self.base = {one.host_class: one for one in start}
        self._item_orders = item_orders(self.items, start)
        self._first = HEURISTICS[0]

    @property
    def hardest_first(self) -> list[int]:
        """The items in their default order of placement."""
        return self._item_orders[0]

    def passes_relaxation(self, need: Sequence[int], layout: Layout) -> bool:
        """Whether the slots would fit if all hosts were one, and each unit's slots if it were alone."""
        if any(
            slots and sum(self.bins.fits(one, item) * hosts for one, hosts in layout.items()) < slots
            for item, slots in zip(self.items, need, strict=True)
        ):
            return False
        cpus = free_slots = share = memory = 0
        for item, slots in zip(self.items, need, strict=True):
            cpus += slots * item.cpus
            free_slots += slots * (not item.on_gpu)
            share += slots * item.gpu_total
            memory += slots * item.memory * max(item.num_gpus, 1)
        for one, hosts in layout.items():
            cpus -= one.cpus * hosts
            free_slots -= one.free_slots * hosts
            share -= sum(gpu.share for gpu in one.gpus) * hosts
            memory -= sum(gpu.memory for gpu in one.gpus) * hosts
        return max(cpus, free_slots, share, memory) <= 0

    def pack(self, need: Sequence[int], tries: int = FAST_HEURISTICS, layout: Layout | None = None) -> Layout | None:
        """Place the slots with the first heuristic that succeeds."""
        start = self.start if layout is None else layout
        if not self.passes_relaxation(need, start):
            return None
        scale = scale_of(self.items, need, start)
        for heuristic in dict.fromkeys((self._first, *HEURISTICS[:tries])):
            packed, missing = self.greedy(need, self._item_orders[heuristic.order], heuristic.choice, scale, start)
            if not any(missing):
                self._first = heuristic
                return packed
        return None

    def closest(self, need: Sequence[int], tries: int = FAST_HEURISTICS) -> list[tuple[Layout, list[int]]]:
        """The result of each heuristic with the slots that are missing, the closest first."""
        scale = scale_of(self.items, need, self.start)
        tried: list[tuple[float, int, Layout, list[int]]] = []
        for heuristic in HEURISTICS[:tries]:
            packed, missing = self.greedy(need, self._item_orders[heuristic.order], heuristic.choice, scale, self.start)
            shortage = sum(
                slots * (item.cpus * scale.cores + item.gpu_total * scale.gpus + 1)
                for item, slots in zip(self.items, missing, strict=True)
            )
            tried.append((shortage, len(tried), packed, missing))
        return [(packed, missing) for _, _, packed, missing in sorted(tried, key=lambda one: one[:2])]

    def greedy(
        self, need: Sequence[int], order: Sequence[int], choice: str, scale: IntegerScale, start: Layout
    ) -> tuple[Layout, list[int]]:
        """Place item by item, each where it ranks best, and leave out what does not fit.

        Returns:
            The layout, and how many slots of each item are missing.
        """
        layout, missing = dict(start), [0] * len(need)
        for number in order:
            item, left = self.items[number], need[number]
            rank = RANKS[choice if item.on_gpu else "cpu"]
            fills = self._fill_rules(need, item, choice) if left else []
            while left and fills:
                best: tuple[tuple[float, float, int], Bin, Bin, int] | None = None
                self.effort -= len(layout)
                for one in layout:
                    slots, new = fills[0](one, left)
                    if slots:
                        ranked = (*rank(one, new, item, scale), one.host_class.number)
                        if best is None or ranked < best[0]:
                            best = ranked, one, new, slots
                if best is None:
                    del fills[0]
                    continue
                _, one, new, slots = best
                hosts = min(layout[one], left // slots)
                replace_hosts(layout, one, new, hosts)
                left -= hosts * slots
            missing[number] = left
        return layout, missing

    def _fill_rules(self, need: Sequence[int], item: Item, choice: str) -> list[Fill]:
        """Rules for how many slots go on a host at once; the next rule applies when the first finds no host."""
        bins, limit = self.bins, PLENTY
        if choice == "worst_fit" and item.on_gpu:
            limit = 1 + need[item.unit] // (MOST_ROUNDS * max(1, sum(self.start.values())))
        sums = subset_sums_for(self.items, need, item, self.start) if choice == "min_waste" else None

        def full(one: Bin, left: int) -> tuple[int, Bin]:
            slots = min(bins.fits(one, item), left, limit)
            return slots, bins.place(one, item, slots) if slots else one

        def spared(one: Bin, left: int) -> tuple[int, Bin]:
            slots = min(bins.fits(one, item), left)
            return min_waste(bins, one, item, slots, sums) if slots and sums else (0, one)

        return [spared, full] if sums else [full]

    def pack_exhaustively(self, need: Sequence[int]) -> tuple[Layout | None, bool]:
        """Place the slots with every method, until the effort is used up.

        Returns:
            The layout if one was found, and whether the answer is certain.
        """
        if not self.passes_relaxation(need, self.start):
            return None, True
        packed = self.pack(need, len(HEURISTICS))
        if packed is None and self.effort > 0:
            packed = self._reorder(need)
        if packed is None and self.effort > 0 and sum(need) <= TOO_MANY:
            packed, certain = self.backtrack(need, self.start, WIDE_SEARCH)
            if certain:
                return packed, True
        if packed is not None:
            return packed, True
        for layout, missing in self.closest(need, len(HEURISTICS))[:3]:
            if self.effort > 0 and (packed := self.repair(layout, missing)) is not None:
                return packed, True
        return None, False

    def _reorder(self, need: Sequence[int], tries: int = 5) -> Layout | None:
        """Place the item that did not fit earlier in the order, repeatedly."""
        scale = scale_of(self.items, need, self.start)
        for order, choice in itertools.product(self._item_orders[:3], ("best_fit", "dot_product", "min_stranded")):
            line = list(order)
            for _ in range(tries):
                packed, missing = self.greedy(need, line, choice, scale, self.start)
                late = next((index for index in line if missing[index]), None)
                if late is None:
                    return packed
                position = line.index(late)
                if position == 0 or self.effort <= 0:
                    break
                line.insert(max(0, position - 2), line.pop(position))
        return None

    # Repair

    def repair(self, layout: Layout, missing: Sequence[int], max_missing: int = 12) -> Layout | None:
        """Place missing slots by repacking two or three hosts, as often as it helps."""
        layout, missing = dict(layout), list(missing)
        if sum(missing) > max_missing:
            return None
        while any(missing):
            for hosts, item in self._repair_candidates(layout, missing):
                if self.effort <= 0:
                    return None
                packed = self._repack(hosts, item)
                if packed is not None:
                    for one in hosts:
                        replace_hosts(layout, one, self.base[one.host_class])
                    for one, count in packed.items():
                        replace_hosts(layout, self.base[one.host_class], one, count)
                    missing[item.unit] -= 1
                    break
            else:
                return None
        return layout

    def _repair_candidates(self, layout: Layout, missing: Sequence[int]) -> Iterator[tuple[tuple[Bin, ...], Item]]:
        """Two or three hosts that together might fit a missing slot; those with most left first."""
        for count in (2, 3):
            for hosts in itertools.combinations_with_replacement(_emptiest_first(layout), count):
                if any(hosts.count(one) > layout[one] for one in hosts):
                    continue
                self.effort -= 1
                if self.effort <= 0:
                    return
                cpus, free_gpu = sum(one.cpus for one in hosts), sum(one.free_gpu for one in hosts)
                for item in self.items:
                    able = not item.on_gpu or any(one.gpus for one in hosts)
                    if missing[item.unit] and able and cpus >= item.cpus and free_gpu >= item.gpu_total:
                        yield hosts, item

    def _repack(self, hosts: Sequence[Bin], item: Item) -> Layout | None:
        """Pack the slots of a few hosts and one more on these hosts."""
        need = [0] * len(self.items)
        need[item.unit] = 1
        start: Layout = {}
        for one in hosts:
            base = self.base[one.host_class]
            start[base] = start.get(base, 0) + 1
            for index, slots in one.slots().items():
                need[index] += slots
            for index, slots in base.slots().items():
                need[index] -= slots
        packed = self.pack(need, layout=start)
        if packed is None and sum(need) <= TOO_MANY and self.passes_relaxation(need, start):
            packed, _ = self.backtrack(need, start, NARROW_SEARCH)
        return packed

    # Backtracking

    def backtrack(self, need: Sequence[int], start: Layout, budget: int) -> tuple[Layout | None, bool]:
        """Place slot by slot and go back where it fails, for at most `budget` positions.

        Returns:
            The layout if one was found, and whether the answer is certain.
        """
        slots = [self.items[index] for index in self._item_orders[0] for _ in range(need[index])]
        if not slots:
            return start, True
        left = [list(need)]
        for item in slots:
            left.append(list(left[-1]))
            left[-1][item.unit] -= 1
        failed: set[tuple[int, frozenset[tuple[Bin, int]]]] = set()
        line = [(start, self._moves(start, slots[0]))]
        while line:
            layout, moves = line[-1]
            move = next(moves, None)
            if move is None:
                line.pop()
                failed.add((len(line), frozenset(layout.items())))
                continue
            layout = dict(layout)
            replace_hosts(layout, *move)
            depth = len(line)
            if depth == len(slots):
                return layout, True
            position = (depth, frozenset(layout.items()))
            if position in failed:
                continue
            budget -= 1
            self.effort -= 20
            if budget <= 0:
                return None, False
            if self.passes_relaxation(left[depth], layout):
                line.append((layout, self._moves(layout, slots[depth])))
            else:
                failed.add(position)
        return None, True

    def _moves(self, layout: Layout, item: Item) -> Iterator[tuple[Bin, Bin]]:
        """Yield the possible positions of a slot, without equal ones, the tightest first."""
        moves = []
        for one in layout:
            if not self.bins.fits(one, item):
                continue
            if item.num_gpus or not item.on_gpu:
                new = self.bins.place(one, item, 1)
                moves.append(((False, 0, new.cpus + new.free_gpu, one.host_class.number), one, new))
                continue
            seen = set()
            for gpu, fill in enumerate(one.gpus):
                if fill.fits(item) and fill not in seen:
                    seen.add(fill)
                    new = self.bins.put(one, item, (gpu,))
                    moves.append(
                        ((not fill.slot_counts, fill.share, new.cpus + new.free_gpu, one.host_class.number), one, new)
                    )
        moves.sort(key=lambda move: move[0])
        return iter([(old, new) for _, old, new in moves])


def _emptiest_first(layout: Layout) -> list[Bin]:
    return sorted(layout, key=lambda one: (-one.cpus - one.free_gpu, one.host_class.number))


# From current slots

#: Limits of the search: host classes looked at for one slot, evictions planned for one question, and relocations tried.
MAX_HOSTS, MAX_PLANS, TRIES = 64, 500, 200


class _Eviction(NamedTuple):
    """A host after slots were dropped, and how many of each unit."""

    one: Bin
    dropped: dict[int, int]

    @property
    def slots(self) -> int:
        return sum(self.dropped.values())


class IncrementalPacker:
    """Current slots, and how they can become other counts without moving any.

    Args:
        bins: of the units.
        layout: the current slots; each host class has one bin.
    """

    def __init__(self, bins: Bins, layout: Layout, effort: int) -> None:
        self.bins, self.layout = bins, layout
        self.counts = total_slots(layout, len(bins.items))
        self.packer = Packer(bins, layout, effort)
        self._dropped: dict[Bin, tuple[SlotGroup, ...]] = {}

    def grow_to(self, wanted: Sequence[int], hard: bool = False) -> Layout | None:
        """At least these numbers of slots of each unit; where there are more now, as many of them as can stay."""
        layout, missing = self.closest_to(wanted, hard)
        return None if any(missing) else layout

    def closest_to(self, wanted: Sequence[int], hard: bool = False) -> tuple[Layout, list[int]]:
        """The layout that comes closest to these numbers of slots, and the slots that are missing."""
        shortage = [max(0, want - count) for want, count in zip(wanted, self.counts, strict=True)]
        packed = self.packer.pack_exhaustively(shortage)[0] if hard else self.packer.pack(shortage)
        if packed is not None:
            return packed, [0] * len(shortage)
        surplus = [max(0, count - want) for want, count in zip(wanted, self.counts, strict=True)]
        best = None
        for layout, missing in self.packer.closest(shortage, len(HEURISTICS) if hard else 3)[:3]:
            left = self._evict(layout, missing, list(surplus))
            if best is None or sum(left[1]) < sum(best[1]):
                best = left
            if not any(best[1]):
                break
        assert best is not None
        layout, missing = best
        if hard and any(missing) and any(surplus):
            others = self._evict_others(layout, missing, wanted)
            layout, missing = (layout, missing) if others is None else (others, [0] * len(shortage))
        return self._restore_all(layout), missing

    def _evict_others(self, layout: Layout, missing: Sequence[int], wanted: Sequence[int]) -> Layout | None:
        """Drop other slots of the units that have more than they need, so that all slots fit."""
        units = list(zip(wanted, self.counts, strict=True))
        limits = [want if count > want else None for want, count in units]

        def put_back(_: Sequence[int], after: Layout) -> Layout | None:
            pinned_now = zip(limits, total_slots(after, len(units)), strict=True)
            return self._put_back([max(0, (limit or 0) - slots) for limit, slots in pinned_now], after)

        return self.relocate(
            drop_surplus(self.bins, layout, limits), missing, [limit is None for limit in limits], put_back
        )

    def _evict(self, layout: Layout, missing: Sequence[int], surplus: list[int]) -> tuple[Layout, list[int]]:
        """Drop unneeded slots in favour of needed ones, as few as possible for each."""
        layout, missing, plans_left = dict(layout), list(missing), MAX_PLANS
        for unit in self.packer.hardest_first:
            item = self.bins.items[unit]
            known: dict[Bin, _Eviction | None] = {}
            while missing[unit] and plans_left > 0:
                best: tuple[int, Bin, _Eviction] | None = None
                for one in _emptiest_first(layout)[:MAX_HOSTS]:
                    plan = known.get(one)
                    if one not in known or (plan and any(surplus[i] < slots for i, slots in plan.dropped.items())):
                        plan = known[one] = self._clear_for(one, item, surplus)
                        plans_left -= 1
                    if plan and (best is None or plan.slots < best[0]):
                        best = plan.slots, one, plan
                if best is None:
                    break
                _, one, plan = best
                hosts = min(layout[one], missing[unit], *(surplus[i] // slots for i, slots in plan.dropped.items()))
                replace_hosts(layout, one, self.bins.place(plan.one, item, 1), hosts)
                missing[unit] -= hosts
                for i, slots in plan.dropped.items():
                    surplus[i] -= slots * hosts
        return layout, missing

    def relocate(
        self,
        layout: Layout,
        missing: Sequence[int],
        stays: Sequence[bool],
        place: Callable[[Sequence[int], Layout], Layout | None] | None = None,
    ) -> Layout | None:
        """Free capacity for missing slots by taking others away, few for each, and placing these elsewhere.

        Args:
            stays: whether slots of a unit must stay where they are.
            place: places those that were taken away; anywhere by default.
        """
        place = place or (lambda slots, after: self.packer.pack(slots, layout=after))
        layout, missing, tries = dict(layout), list(missing), TRIES
        while any(missing):
            plans: list[tuple[int, int, Bin, Item, _Eviction]] = []
            for one in _emptiest_first(layout)[:MAX_HOSTS]:
                for item in self.bins.items:
                    free = [0 if fast or unit == item.unit else PLENTY for unit, fast in enumerate(stays)]
                    plan = self._clear_for(one, item, free) if missing[item.unit] else None
                    if plan:
                        plans.append((plan.slots, len(plans), one, item, plan))
            for _, _, one, item, plan in sorted(plans, key=lambda plan: plan[:2])[:tries]:
                tries -= 1
                after = dict(layout)
                replace_hosts(after, one, self.bins.place(plan.one, item, 1))
                placed = place([plan.dropped.get(unit, 0) for unit in range(len(missing))], after)
                if placed is not None:
                    layout = placed
                    missing[item.unit] -= 1
                    break
            else:
                return None
        return layout

    def _put_back(self, slots: Sequence[int], layout: Layout) -> Layout | None:
        """Put slots back where others of their unit were dropped."""
        layout = dict(layout)
        for unit, count in enumerate(slots):
            item = self.bins.items[unit]
            for _ in range(count):
                found = next(
                    (
                        (one, group.gpus)
                        for one in layout
                        for group in self._dropped_groups(one)
                        if group.unit == unit and self.bins.fits_at(one, item, group.gpus)
                    ),
                    None,
                )
                if found is None:
                    return None
                replace_hosts(layout, found[0], self.bins.put(found[0], item, found[1]))
        return layout

    def _dropped_groups(self, one: Bin) -> tuple[SlotGroup, ...]:
        """Return the current slots that were dropped on a host."""
        if one not in self._dropped:
            here = {group[:2]: group.slots for group in one.groups()}
            before = self.packer.base[one.host_class].groups()
            gone = [group._replace(slots=group.slots - here.get(group[:2], 0)) for group in before]
            self._dropped[one] = tuple(group for group in gone if group.slots > 0)
        return self._dropped[one]

    def _clear_for(self, one: Bin, item: Item, surplus: Sequence[int]) -> _Eviction | None:
        """Drop only what must go from a host to fit a slot; None if that is impossible."""
        bins, items = self.bins, self.bins.items
        if bins.fits(one, item):
            return _Eviction(one, {})
        left, empty, gone = list(surplus), one, []
        for group in sorted(one.groups(), key=lambda group: _eviction_cost(one, group, surplus)):
            slots = min(group.slots, left[group.unit])
            if slots:
                left[group.unit] -= slots
                empty = bins.put(empty, items[group.unit], group.gpus, -slots)
                gone.append(group._replace(slots=slots))
        if not bins.fits(empty, item):
            return None
        crowd: Counter[tuple[int, ...]] = Counter()
        for group in gone:
            crowd[_shared_gpu(items, group)] += group.slots
        gone.sort(
            key=lambda group: (
                crowd[_shared_gpu(items, group)] / max(1, items[group.unit].num_gpus),
                items[group.unit].gpu_total,
            ),
            reverse=True,
        )
        for group in gone:
            empty = self._restore_up_to(empty, group, item)
        before, after = one.slots(), empty.slots()
        dropped = {unit: slots - after.get(unit, 0) for unit, slots in before.items()}
        return _Eviction(empty, {unit: slots for unit, slots in dropped.items() if slots})

    def _restore_up_to(self, one: Bin, group: SlotGroup, item: Item | None = None) -> Bin:
        """Put back as many slots of a group as leave capacity for a slot of an item."""
        mine, left, step = self.bins.items[group.unit], group.slots, group.slots
        while step:
            fits = step <= left and step <= self.bins.fits_at(one, mine, group.gpus)
            new = self.bins.put(one, mine, group.gpus, step) if fits else None
            if new is not None and (item is None or self.bins.fits(new, item)):
                one, left = new, left - step
            else:
                step //= 2
        return one

    def _restore_all(self, layout: Layout) -> Layout:
        """Put every dropped slot back that still fits."""
        restored: Layout = {}
        for one, hosts in layout.items():
            new = one
            for group in self._dropped_groups(one):
                new = self._restore_up_to(new, group)
            restored[new] = restored.get(new, 0) + hosts
        return restored


def _eviction_cost(one: Bin, group: SlotGroup, surplus: Sequence[int]) -> tuple[int, int]:
    """How little it helps to drop slots: on GPUs where others stay, and where there are many."""
    slot_counts = one.gpus[group.gpus[0]].slot_counts if group.gpus else ()
    return sum(slots for unit, slots in slot_counts if not surplus[unit]), sum(slots for _, slots in slot_counts)


def _shared_gpu(items: Sequence[Item], group: SlotGroup) -> tuple[int, ...]:
    """The GPU that slots share with others; none for slots on CPUs and on whole GPUs."""
    return () if items[group.unit].num_gpus else group.gpus
