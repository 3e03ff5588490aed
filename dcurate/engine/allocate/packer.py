"""Pack slots on hosts: greedy heuristics, then repair, then bounded backtracking. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from dcurate.engine.allocate.model import PLENTY, Bin, Bins, Item, Layout, replace_hosts
from dcurate.engine.allocate.packing_heuristics import (
    FAST_HEURISTICS,
    HEURISTICS,
    RANKS,
    IntegerScale,
    item_orders,
    min_waste,
    scale_of,
    subset_sums_for,
)

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
        bins: bins of the units.
        start: the hosts.
    """

    def __init__(self, bins: Bins, start: Layout, effort: int = EFFORT) -> None:
        self.bins, self.items, self.start, self.effort = bins, bins.items, start, effort
        self.base = {host_bin.host_class: host_bin for host_bin in start}
        self._item_orders = item_orders(self.items, start)
        self._first = HEURISTICS[0]

    @property
    def hardest_first(self) -> list[int]:
        """The items in their default order of placement."""
        return self._item_orders[0]

    def passes_relaxation(self, need: Sequence[int], layout: Layout) -> bool:
        """Whether the slots would fit if all hosts were one, and each unit's slots if it were alone."""
        if any(
            slots and sum(self.bins.fits(host_bin, item) * hosts for host_bin, hosts in layout.items()) < slots
            for item, slots in zip(self.items, need, strict=True)
        ):
            return False
        cpus = free_slots = share = memory = 0
        for item, slots in zip(self.items, need, strict=True):
            cpus += slots * item.cpus
            free_slots += slots * (not item.on_gpu)
            share += slots * item.gpu_total
            memory += slots * item.memory * max(item.num_gpus, 1)
        for host_bin, hosts in layout.items():
            cpus -= host_bin.cpus * hosts
            free_slots -= host_bin.free_slots * hosts
            share -= sum(gpu.share for gpu in host_bin.gpus) * hosts
            memory -= sum(gpu.memory for gpu in host_bin.gpus) * hosts
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
        return [(packed, missing) for _, _, packed, missing in sorted(tried, key=lambda result: result[:2])]

    def greedy(
        self, need: Sequence[int], order: Sequence[int], choice: str, scale: IntegerScale, start: Layout
    ) -> tuple[Layout, list[int]]:
        """Place item by item, each where it ranks best, and leave out what does not fit.

        Returns:
            The layout, and how many slots of each item are missing.
        """
        layout, missing = dict(start), [0] * len(need)
        for number in order:
            item, remaining = self.items[number], need[number]
            rank = RANKS[choice if item.on_gpu else "cpu"]
            fills = self._fill_rules(need, item, choice) if remaining else []
            while remaining and fills:
                best: tuple[tuple[float, float, int], Bin, Bin, int] | None = None
                self.effort -= len(layout)
                for host_bin in layout:
                    slots, new = fills[0](host_bin, remaining)
                    if slots:
                        ranked = (*rank(host_bin, new, item, scale), host_bin.host_class.number)
                        if best is None or ranked < best[0]:
                            best = ranked, host_bin, new, slots
                if best is None:
                    del fills[0]
                    continue
                _, host_bin, new, slots = best
                hosts = min(layout[host_bin], remaining // slots)
                replace_hosts(layout, host_bin, new, hosts)
                remaining -= hosts * slots
            missing[number] = remaining
        return layout, missing

    def _fill_rules(self, need: Sequence[int], item: Item, choice: str) -> list[Fill]:
        """Rules for how many slots go on a host at once; the next rule applies when the first finds no host."""
        bins, limit = self.bins, PLENTY
        if choice == "worst_fit" and item.on_gpu:
            limit = 1 + need[item.unit] // (MOST_ROUNDS * max(1, sum(self.start.values())))
        sums = subset_sums_for(self.items, need, item, self.start) if choice == "min_waste" else None

        def full(host_bin: Bin, remaining: int) -> tuple[int, Bin]:
            slots = min(bins.fits(host_bin, item), remaining, limit)
            return slots, bins.place(host_bin, item, slots) if slots else host_bin

        def spared(host_bin: Bin, remaining: int) -> tuple[int, Bin]:
            slots = min(bins.fits(host_bin, item), remaining)
            return min_waste(bins, host_bin, item, slots, sums) if slots and sums else (0, host_bin)

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
                    for host_bin in hosts:
                        replace_hosts(layout, host_bin, self.base[host_bin.host_class])
                    for host_bin, count in packed.items():
                        replace_hosts(layout, self.base[host_bin.host_class], host_bin, count)
                    missing[item.unit] -= 1
                    break
            else:
                return None
        return layout

    def _repair_candidates(self, layout: Layout, missing: Sequence[int]) -> Iterator[tuple[tuple[Bin, ...], Item]]:
        """Two or three hosts that together might fit a missing slot; those with most left first."""
        for count in (2, 3):
            for hosts in itertools.combinations_with_replacement(emptiest_first(layout), count):
                if any(hosts.count(host_bin) > layout[host_bin] for host_bin in hosts):
                    continue
                self.effort -= 1
                if self.effort <= 0:
                    return
                cpus, free_gpu = sum(host_bin.cpus for host_bin in hosts), sum(host_bin.free_gpu for host_bin in hosts)
                for item in self.items:
                    able = not item.on_gpu or any(host_bin.gpus for host_bin in hosts)
                    if missing[item.unit] and able and cpus >= item.cpus and free_gpu >= item.gpu_total:
                        yield hosts, item

    def _repack(self, hosts: Sequence[Bin], item: Item) -> Layout | None:
        """Pack the slots of a few hosts and one more on these hosts."""
        need = [0] * len(self.items)
        need[item.unit] = 1
        start: Layout = {}
        for host_bin in hosts:
            base = self.base[host_bin.host_class]
            start[base] = start.get(base, 0) + 1
            for index, slots in host_bin.slots().items():
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
        remaining = [list(need)]
        for item in slots:
            remaining.append(list(remaining[-1]))
            remaining[-1][item.unit] -= 1
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
            if self.passes_relaxation(remaining[depth], layout):
                line.append((layout, self._moves(layout, slots[depth])))
            else:
                failed.add(position)
        return None, True

    def _moves(self, layout: Layout, item: Item) -> Iterator[tuple[Bin, Bin]]:
        """Yield the possible positions of a slot, without equal ones, the tightest first."""
        moves = []
        for host_bin in layout:
            if not self.bins.fits(host_bin, item):
                continue
            if item.num_gpus or not item.on_gpu:
                new = self.bins.place(host_bin, item, 1)
                moves.append(((False, 0, new.cpus + new.free_gpu, host_bin.host_class.number), host_bin, new))
                continue
            seen = set()
            for gpu, fill in enumerate(host_bin.gpus):
                if fill.fits(item) and fill not in seen:
                    seen.add(fill)
                    new = self.bins.put(host_bin, item, (gpu,))
                    moves.append(
                        (
                            (not fill.slot_counts, fill.share, new.cpus + new.free_gpu, host_bin.host_class.number),
                            host_bin,
                            new,
                        )
                    )
        moves.sort(key=lambda move: move[0])
        return iter([(old, new) for _, old, new in moves])


def emptiest_first(layout: Layout) -> list[Bin]:
    """Sort hosts by what is left of them, the most first."""
    return sorted(layout, key=lambda host_bin: (-host_bin.cpus - host_bin.free_gpu, host_bin.host_class.number))
