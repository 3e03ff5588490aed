"""What is lacking where slots do not fit, in the words of a person. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dcurate.engine.allocate.allocation import Host, SchedulingUnit
from dcurate.engine.allocate.packing import MILLION, Bin, Item, Layout
from dcurate.engine.allocate.problem import Problem, with_least
from dcurate.engine.allocate.search import Packer


class Shortage(NamedTuple):
    """A resource that is not enough.

    Attributes:
        needed: what one slot takes of it.
        left: what there is of it yet.
        mend: what would help.
    """

    needed: str
    left: str
    mend: str


def shortfall(units: Sequence[SchedulingUnit], hosts: Sequence[Host]) -> str | None:
    """Why there is no allocation at all: which unit cannot be placed, what it lacks, and what would mend it.

    Returns:
        None if one slot of each unit fits; else one sentence.

    Examples:
        >>> from dcurate.engine.allocate.allocation import Card
        >>> units = [SchedulingUnit("a", gpus=1.0), SchedulingUnit("b", gpus=0.5)]
        >>> shortfall(units, [Host("h", 8, (Card("gpu0"), Card("gpu1")))])
        >>> sentence = shortfall(units, [Host("h", 8, (Card("gpu0"),))])
        >>> sentence.partition(";")[0].split(", ")  # doctest: +ELLIPSIS
        ["operator 'b' needs 0.5 GPU a slot", 'but after one slot of each of the others nothing is left of ...']
    """
    problem = Problem([with_least(unit) for unit in units], hosts)
    need = problem.need(0.0)
    if need is None:
        limits = zip(problem.units, problem.most, strict=True)
        name = next(unit.name for unit, most in limits if unit.weight > 0 and most is not None and most < 1)
        return f"operator {name!r} is limited to no slot at all, so nothing would get through; allow it one or more"
    packer = Packer(problem.bins, problem.start)
    if packer.pack_hard(need)[0] is not None:
        return None
    for number in packer.hardest_first:
        item, unit = problem.bins.items[number], problem.units[number]
        if need[number] and not any(problem.bins.room(one, item) for one in problem.start):
            return _sentence(unit, "", _lack(unit, item, problem.start, alone=True))
    layout, missing = packer.most(need)[0]
    number = next(number for number in packer.hardest_first if missing[number])
    unit, item = problem.units[number], problem.bins.items[number]
    return _sentence(unit, "after one slot of each of the others ", _lack(unit, item, layout, alone=False))


def _sentence(unit: SchedulingUnit, after: str, lack: Shortage) -> str:
    return f"operator {unit.name!r} needs {lack.needed} a slot, but {after}{lack.left}; {lack.mend}"


def _many(number: float, what: str) -> str:
    return f"{number:g} {what}{'s' if number > 1 else ''}"


def _gb(amount: float) -> str:
    return f"{amount / 1e9:.3g} GB"


# What is lacking


def _lack(unit: SchedulingUnit, item: Item, layout: Layout, alone: bool) -> Shortage:
    """What a slot would lack on any host: first of all its GPUs, then their memory, then the rest."""
    if not layout:
        return Shortage(
            _many(unit.gpus or unit.cpus, "GPU" if unit.gpus else "CPU"), "there are no workers", "start some"
        )
    if item.on_card:
        lack = _card_lack(unit, item, layout, alone)
        if lack is not None:
            return lack
    cores = max(one.cpus for one in layout if _cards_fit(one, item, seats=True)) / MILLION
    if cores * MILLION < item.cpus:
        host = "host with room on its GPUs" if item.on_card else "host"
        left = f"no {host} has more than {_many(cores, 'CPU')}" if cores else f"no CPU is left on any {host}"
        mend = " or use larger hosts" if alone else ", use execution_mode='batch', or a larger cluster"
        fewer = "ask for fewer with .with_(resources=Resources(cpus=...))"
        return Shortage(_many(unit.cpus, "CPU"), left + (" left" if cores and not alone else ""), fewer + mend)
    return Shortage(
        "a thread of a worker process",
        "none is left on a host with CPUs enough",
        "start more worker processes or threads, or use execution_mode='batch'",
    )


def _card_lack(unit: SchedulingUnit, item: Item, layout: Layout, alone: bool) -> Shortage | None:
    """What a slot lacks on the cards; None if there are cards for it."""
    cards = sum(len(one.cards) * hosts for one, hosts in layout.items())
    gpus = _many(unit.gpus or 1, "GPU") + (" of one host" if item.wide > 1 else "")
    if not cards:
        return Shortage(gpus, "the workers have none", "use a cluster with GPUs")
    no_memory = item._replace(memory=0)
    if not any(_cards_fit(one, no_memory, seats=False) for one in layout):
        mend = "use fewer or smaller GPU stages, execution_mode='batch', or a cluster with more GPUs"
        if alone:
            mend = "ask for fewer with .with_(resources=Resources(gpus=...)) or use a cluster with more GPUs to a host"
        return Shortage(gpus, _cards_left(item, layout, cards, alone), mend)
    memory = _gb(unit.gpu_memory) + " of GPU memory" + (f" on {gpus}" if item.wide > 1 else "")
    if not any(_cards_fit(one, item, seats=False) for one in layout):
        most = max(_memory_left(one, item) for one in layout)
        return Shortage(
            memory,
            f"no GPU has more than {_gb(most)}{'' if alone else ' left'}",
            "use a smaller model or a cluster with larger GPUs"
            if alone
            else "use fewer or smaller models, execution_mode='batch', or a cluster with more or larger GPUs",
        )
    if not any(_cards_fit(one, item, seats=True) for one in layout):
        return Shortage(
            "a thread of a worker process on its GPU",
            "none is left on a GPU with room for it",
            "start GPU workers with more threads, or use execution_mode='batch'",
        )
    return None


def _cards_left(item: Item, layout: Layout, cards: int, alone: bool) -> str:
    of_all = f"of the {_many(cards, 'GPU')} of the workers"
    if item.wide:
        free = max(sum(not card.held for card in one.cards) for one in layout)
        if free and (alone or item.wide > 1):
            return f"no host has more than {free}" + ("" if alone else f" free {of_all}")
        return f"no whole one is left {of_all}"
    most = max(card.share for one in layout for card in one.cards) / MILLION
    return f"no more than {most:g} of one is left {of_all}" if most else f"nothing is left {of_all}"


def _cards_fit(one: Bin, item: Item, seats: bool) -> bool:
    """Whether the cards of a host have room for a slot, CPUs apart."""
    if not item.on_card:
        return True
    if item.wide:
        free = [card for card in one.cards if card.free_for(item)]
        return len(free) >= item.wide and (not seats or any(card.seats for card in free))
    return any((card if seats else card._replace(seats=1)).room(item) > 0 for card in one.cards)


def _memory_left(one: Bin, item: Item) -> int:
    """The most memory on a card of a host that has room but for memory, or on the least of several whole ones."""
    if item.wide:
        free = sorted((card.memory for card in one.cards if not card.held), reverse=True)
        return free[item.wide - 1] if len(free) >= item.wide else 0
    slim = item._replace(memory=0)
    return max((card.memory for card in one.cards if card._replace(seats=1).room(slim)), default=0)
