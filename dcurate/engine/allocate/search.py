"""Whether so many slots fit on hosts: several greedy ways, then repair, then bounded backtracking. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from dcurate.engine.allocate.heuristics import HEURISTICS, RANKS, SIMPLE, Scale, gaps_for, orders, scale_of, thrifty
from dcurate.engine.allocate.packing import PLENTY, Bin, Bins, Item, Layout, exchange

#: How much is tried where the simple ways fail, for all that one `Packer` is asked, counted in bins looked at.
EFFORT = 200_000

#: Positions that a backtracking search looks at for the whole cluster, and for two or three hosts.
WIDE_SEARCH, NARROW_SEARCH = 400, 60

#: Rounds in which slots are spread over hosts, where these are many.
MOST_ROUNDS = 32

#: Slots beyond which backtracking is hopeless.
TOO_MANY = 400


#: From a host, and how many slots are to be placed yet, to how many of them go there, and what it becomes.
Fill = Callable[[Bin, int], tuple[int, Bin]]


class Packer:
    """Packs slots on hosts that may be partly filled; nothing that stands is moved.

    Args:
        bins: of the units.
        start: the hosts.
    """

    def __init__(self, bins: Bins, start: Layout, effort: int = EFFORT) -> None:
        self.bins, self.items, self.start, self.effort = bins, bins.items, start, effort
        self.base = {one.model: one for one in start}
        self._orders = orders(self.items, start)
        self._first = HEURISTICS[0]

    @property
    def hardest_first(self) -> list[int]:
        """The items in the order in which they are placed if nothing speaks against it."""
        return self._orders[0]

    def fluid(self, need: Sequence[int], layout: Layout) -> bool:
        """Whether the slots would fit if all hosts were one, and each unit's if it were alone."""
        if any(
            slots and sum(self.bins.room(one, item) * hosts for one, hosts in layout.items()) < slots
            for item, slots in zip(self.items, need, strict=True)
        ):
            return False
        cpus = seats = share = memory = 0
        for item, slots in zip(self.items, need, strict=True):
            cpus += slots * item.cpus
            seats += slots * (not item.on_card)
            share += slots * item.gpu
            memory += slots * item.memory * max(item.wide, 1)
        for one, hosts in layout.items():
            cpus -= one.cpus * hosts
            seats -= one.seats * hosts
            share -= sum(card.share for card in one.cards) * hosts
            memory -= sum(card.memory for card in one.cards) * hosts
        return max(cpus, seats, share, memory) <= 0

    def pack(self, need: Sequence[int], ways: int = SIMPLE, layout: Layout | None = None) -> Layout | None:
        """The slots on the hosts, in the first of some ways that succeeds."""
        start = self.start if layout is None else layout
        if not self.fluid(need, start):
            return None
        scale = scale_of(self.items, need, start)
        for way in dict.fromkeys((self._first, *HEURISTICS[:ways])):
            packed, missing = self.greedy(need, self._orders[way.order], way.choice, scale, start)
            if not any(missing):
                self._first = way
                return packed
        return None

    def most(self, need: Sequence[int], ways: int = SIMPLE) -> list[tuple[Layout, list[int]]]:
        """What each way makes of it, with the slots that are missing; the nearest misses first."""
        scale = scale_of(self.items, need, self.start)
        tried: list[tuple[float, int, Layout, list[int]]] = []
        for way in HEURISTICS[:ways]:
            packed, missing = self.greedy(need, self._orders[way.order], way.choice, scale, self.start)
            lack = sum(
                slots * (item.cpus * scale.cores + item.gpu * scale.cards + 1)
                for item, slots in zip(self.items, missing, strict=True)
            )
            tried.append((lack, len(tried), packed, missing))
        return [(packed, missing) for _, _, packed, missing in sorted(tried, key=lambda one: one[:2])]

    def greedy(
        self, need: Sequence[int], order: Sequence[int], choice: str, scale: Scale, start: Layout
    ) -> tuple[Layout, list[int]]:
        """Place item by item, each where it ranks best, and leave out what does not fit.

        Returns:
            The layout, and how many slots of each item are missing.
        """
        layout, missing = dict(start), [0] * len(need)
        for number in order:
            item, left = self.items[number], need[number]
            rank = RANKS[choice if item.on_card else "cpu"]
            fills = self._fills(need, item, choice) if left else []
            while left and fills:
                best: tuple[tuple[float, float, int], Bin, Bin, int] | None = None
                self.effort -= len(layout)
                for one in layout:
                    slots, new = fills[0](one, left)
                    if slots:
                        ranked = (*rank(one, new, item, scale), one.model.number)
                        if best is None or ranked < best[0]:
                            best = ranked, one, new, slots
                if best is None:
                    del fills[0]
                    continue
                _, one, new, slots = best
                hosts = min(layout[one], left // slots)
                exchange(layout, one, new, hosts)
                left -= hosts * slots
            missing[number] = left
        return layout, missing

    def _fills(self, need: Sequence[int], item: Item, choice: str) -> list[Fill]:
        """Ways to put slots on a host at once, and what is done when the first finds no host."""
        bins, limit = self.bins, PLENTY
        if choice == "spread" and item.on_card:
            limit = 1 + need[item.unit] // (MOST_ROUNDS * max(1, sum(self.start.values())))
        gaps = gaps_for(self.items, need, item, self.start) if choice == "thrifty" else None

        def full(one: Bin, left: int) -> tuple[int, Bin]:
            slots = min(bins.room(one, item), left, limit)
            return slots, bins.after(one, item, slots) if slots else one

        def spared(one: Bin, left: int) -> tuple[int, Bin]:
            slots = min(bins.room(one, item), left)
            return thrifty(bins, one, item, slots, gaps) if slots and gaps else (0, one)

        return [spared, full] if gaps else [full]

    def pack_hard(self, need: Sequence[int]) -> tuple[Layout | None, bool]:
        """The slots on the hosts, in every way there is, as long as there is effort left.

        Returns:
            The layout if one was found, and whether the answer is certain.
        """
        if not self.fluid(need, self.start):
            return None, True
        packed = self.pack(need, len(HEURISTICS))
        if packed is None and self.effort > 0:
            packed = self._turns(need)
        if packed is None and self.effort > 0 and sum(need) <= TOO_MANY:
            packed, certain = self.backtrack(need, self.start, WIDE_SEARCH)
            if certain:
                return packed, True
        if packed is not None:
            return packed, True
        for layout, missing in self.most(need, len(HEURISTICS))[:3]:
            if self.effort > 0 and (packed := self.repair(layout, missing)) is not None:
                return packed, True
        return None, False

    def _turns(self, need: Sequence[int], turns: int = 5) -> Layout | None:
        """Place the item that did not fit earlier, again and again."""
        scale = scale_of(self.items, need, self.start)
        for order, choice in itertools.product(self._orders[:3], ("tight", "match", "strand")):
            line = list(order)
            for _ in range(turns):
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

    def repair(self, layout: Layout, missing: Sequence[int], most: int = 12) -> Layout | None:
        """Find room for slots that are missing by packing two or three hosts anew, as often as it helps."""
        layout, missing = dict(layout), list(missing)
        if sum(missing) > most:
            return None
        while any(missing):
            for hosts, item in self._shortcomings(layout, missing):
                if self.effort <= 0:
                    return None
                packed = self._anew(hosts, item)
                if packed is not None:
                    for one in hosts:
                        exchange(layout, one, self.base[one.model])
                    for one, count in packed.items():
                        exchange(layout, self.base[one.model], one, count)
                    missing[item.unit] -= 1
                    break
            else:
                return None
        return layout

    def _shortcomings(self, layout: Layout, missing: Sequence[int]) -> Iterator[tuple[tuple[Bin, ...], Item]]:
        """Two or three hosts that together might have room for a slot that is missing; those with most left first."""
        line = sorted(layout, key=lambda one: (-one.cpus - one.load, one.model.number))
        for count in (2, 3):
            for hosts in itertools.combinations_with_replacement(line, count):
                if any(hosts.count(one) > layout[one] for one in hosts):
                    continue
                self.effort -= 1
                if self.effort <= 0:
                    return
                cpus, load = sum(one.cpus for one in hosts), sum(one.load for one in hosts)
                for item in self.items:
                    able = not item.on_card or any(one.cards for one in hosts)
                    if missing[item.unit] and able and cpus >= item.cpus and load >= item.gpu:
                        yield hosts, item

    def _anew(self, hosts: Sequence[Bin], item: Item) -> Layout | None:
        """The slots of a few hosts and one more, packed on these hosts."""
        need = [0] * len(self.items)
        need[item.unit] = 1
        start: Layout = {}
        for one in hosts:
            base = self.base[one.model]
            start[base] = start.get(base, 0) + 1
            for index, slots in one.slots().items():
                need[index] += slots
            for index, slots in base.slots().items():
                need[index] -= slots
        packed = self.pack(need, layout=start)
        if packed is None and sum(need) <= TOO_MANY and self.fluid(need, start):
            packed, _ = self.backtrack(need, start, NARROW_SEARCH)
        return packed

    # Backtracking

    def backtrack(self, need: Sequence[int], start: Layout, budget: int) -> tuple[Layout | None, bool]:
        """Place slot by slot and go back where it fails, for so many positions.

        Returns:
            The layout if one was found, and whether the answer is certain.
        """
        slots = [self.items[index] for index in self._orders[0] for _ in range(need[index])]
        if not slots:
            return start, True
        left = _countdown(need, slots)
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
            exchange(layout, *move)
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
            if self.fluid(left[depth], layout):
                line.append((layout, self._moves(layout, slots[depth])))
            else:
                failed.add(position)
        return None, True

    def _moves(self, layout: Layout, item: Item) -> Iterator[tuple[Bin, Bin]]:
        """Where a slot may go: every kind of place once, the tightest first."""
        moves = []
        for one in layout:
            if not self.bins.room(one, item):
                continue
            if item.wide or not item.on_card:
                new = self.bins.after(one, item, 1)
                moves.append(((False, 0, new.cpus + new.load, one.model.number), one, new))
                continue
            seen = set()
            for card, fill in enumerate(one.cards):
                if fill.room(item) and fill not in seen:
                    seen.add(fill)
                    new = self.bins.put(one, item, card)
                    moves.append(((not fill.held, fill.share, new.cpus + new.load, one.model.number), one, new))
        moves.sort(key=lambda move: move[0])
        return iter([(old, new) for _, old, new in moves])


def _countdown(need: Sequence[int], slots: Sequence[Item]) -> list[list[int]]:
    """What is needed yet after each slot."""
    counts = [list(need)]
    for item in slots:
        left = list(counts[-1])
        left[item.unit] -= 1
        counts.append(left)
    return counts
