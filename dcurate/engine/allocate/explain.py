"""Explain in a sentence why slots do not fit, and why their number changes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from dcurate.engine.allocate.allocation import Allocation, Host, SchedulingUnit, count_slots
from dcurate.engine.allocate.inputs import AllocationChange, Measured
from dcurate.engine.allocate.model import MILLION, Bin, Item, Layout
from dcurate.engine.allocate.packer import Packer
from dcurate.engine.allocate.problem import Problem, minimal


class Shortage(NamedTuple):
    """A resource that is not sufficient.

    Attributes:
        needed: what one slot takes of it.
        left: what is left of it.
        advice: what would help.
    """

    needed: str
    left: str
    advice: str


def explain_infeasible(units: Sequence[SchedulingUnit], hosts: Sequence[Host]) -> str | None:
    """Explain why there is no allocation: which unit cannot be placed, what is missing, and what would help.

    Returns:
        None if one slot of each unit fits; else one sentence.

    Examples:
        >>> from dcurate.engine.allocate.allocation import Gpu
        >>> units = [SchedulingUnit("a", gpus=1.0), SchedulingUnit("b", gpus=0.5)]
        >>> explain_infeasible(units, [Host("h", 8, (Gpu("gpu0"), Gpu("gpu1")))])
        >>> sentence = explain_infeasible(units, [Host("h", 8, (Gpu("gpu0"),))])
        >>> sentence.partition(";")[0].split(", ")  # doctest: +ELLIPSIS
        ["operator 'b' needs 0.5 GPU a slot", 'but after one slot of each of the others nothing is left of ...']
    """
    problem = Problem([minimal(unit) for unit in units], hosts)
    need = problem.need(0.0)
    if need is None:
        limits = zip(problem.units, problem.max_slots, strict=True)
        name = next(unit.name for unit, most in limits if unit.weight > 0 and most is not None and most < 1)
        return f"operator {name!r} is limited to no slot at all, so nothing would get through; allow it one or more"
    packer = Packer(problem.bins, problem.start)
    if packer.pack_exhaustively(need)[0] is not None:
        return None
    for number in packer.hardest_first:
        item, unit = problem.bins.items[number], problem.units[number]
        if need[number] and not any(problem.bins.fits(host_bin, item) for host_bin in problem.start):
            return _sentence(unit, "", _shortage(unit, item, problem.start, on_empty=True))
    layout, missing = packer.closest(need)[0]
    number = next(number for number in packer.hardest_first if missing[number])
    unit, item = problem.units[number], problem.bins.items[number]
    return _sentence(unit, "after one slot of each of the others ", _shortage(unit, item, layout, on_empty=False))


def _sentence(unit: SchedulingUnit, after: str, shortage: Shortage) -> str:
    return f"operator {unit.name!r} needs {shortage.needed} a slot, but {after}{shortage.left}; {shortage.advice}"


def _count_of(number: float, noun: str) -> str:
    return f"{number:g} {noun}{'s' if number > 1 else ''}"


def _gb(amount: float) -> str:
    return f"{amount / 1e9:.3g} GB"


# Shortages


def _shortage(unit: SchedulingUnit, item: Item, layout: Layout, on_empty: bool) -> Shortage:
    """What is missing for a slot on any host: its GPUs first, then their memory, then the rest."""
    if not layout:
        return Shortage(
            _count_of(unit.gpus or unit.cpus, "GPU" if unit.gpus else "CPU"), "the cluster has no workers", "start some"
        )
    if item.on_gpu:
        shortage = _gpu_shortage(unit, item, layout, on_empty)
        if shortage is not None:
            return shortage
    cores = max(host_bin.cpus for host_bin in layout if _gpus_fit(host_bin, item, check_slots=True)) / MILLION
    if cores * MILLION < item.cpus:
        host = "host with free GPU capacity" if item.on_gpu else "host"
        availability = (
            f"no {host} has more than {_count_of(cores, 'CPU')}" if cores else f"no CPU is left on any {host}"
        )
        advice = " or use larger hosts" if on_empty else ", use execution_mode='batch', or a larger cluster"
        fewer = "ask for fewer with .with_(resources=Resources(cpus=...))"
        return Shortage(
            _count_of(unit.cpus, "CPU"), availability + (" left" if cores and not on_empty else ""), fewer + advice
        )
    return Shortage(
        "a thread of a worker process",
        "none is left on a host with CPUs enough",
        "start more worker processes or threads, or use execution_mode='batch'",
    )


def _gpu_shortage(unit: SchedulingUnit, item: Item, layout: Layout, on_empty: bool) -> Shortage | None:
    """What is missing for a slot on the GPUs; None if there are GPUs for it."""
    gpus = sum(len(host_bin.gpus) * hosts for host_bin, hosts in layout.items())
    amount = _count_of(unit.gpus or 1, "GPU") + (" of one host" if item.num_gpus > 1 else "")
    if not gpus:
        return Shortage(amount, "the workers have none", "use a cluster with GPUs")
    no_memory = item._replace(memory=0)
    if not any(_gpus_fit(host_bin, no_memory, check_slots=False) for host_bin in layout):
        advice = "use fewer or smaller GPU stages, execution_mode='batch', or a cluster with more GPUs"
        if on_empty:
            advice = (
                "ask for fewer with .with_(resources=Resources(gpus=...)) or use a cluster with more GPUs to a host"
            )
        return Shortage(amount, _gpus_left(item, layout, gpus, on_empty), advice)
    memory = _gb(unit.gpu_memory) + " of GPU memory" + (f" on {amount}" if item.num_gpus > 1 else "")
    if not any(_gpus_fit(host_bin, item, check_slots=False) for host_bin in layout):
        most = max(_memory_left(host_bin, item) for host_bin in layout)
        return Shortage(
            memory,
            f"no GPU has more than {_gb(most)}{'' if on_empty else ' left'}",
            "use a smaller model or a cluster with larger GPUs"
            if on_empty
            else "use fewer or smaller models, execution_mode='batch', or a cluster with more or larger GPUs",
        )
    if not any(_gpus_fit(host_bin, item, check_slots=True) for host_bin in layout):
        return Shortage(
            "a thread of a worker process on its GPU",
            "none is left on a GPU with enough free capacity",
            "start GPU workers with more threads, or use execution_mode='batch'",
        )
    return None


def _gpus_left(item: Item, layout: Layout, gpus: int, on_empty: bool) -> str:
    of_all = f"of the {_count_of(gpus, 'GPU')} of the workers"
    if item.num_gpus:
        free = max(sum(not gpu.slot_counts for gpu in host_bin.gpus) for host_bin in layout)
        if free and (on_empty or item.num_gpus > 1):
            return f"no host has more than {free}" + ("" if on_empty else f" free {of_all}")
        return f"no whole one is left {of_all}"
    most = max(gpu.share for host_bin in layout for gpu in host_bin.gpus) / MILLION
    return f"no more than {most:g} of one is left {of_all}" if most else f"nothing is left {of_all}"


def _gpus_fit(host_bin: Bin, item: Item, check_slots: bool) -> bool:
    """Whether the GPUs of a host have capacity for a slot, ignoring CPUs."""
    if not item.on_gpu:
        return True
    if item.num_gpus:
        free = [gpu for gpu in host_bin.gpus if gpu.free_for(item)]
        return len(free) >= item.num_gpus and (not check_slots or any(gpu.free_slots for gpu in free))
    return any((gpu if check_slots else gpu._replace(free_slots=1)).fits(item) > 0 for gpu in host_bin.gpus)


def _memory_left(host_bin: Bin, item: Item) -> int:
    """The most memory on a GPU of a host that fits apart from memory, or on the least of several whole ones."""
    if item.num_gpus:
        free = sorted((gpu.memory for gpu in host_bin.gpus if not gpu.slot_counts), reverse=True)
        return free[item.num_gpus - 1] if len(free) >= item.num_gpus else 0
    slim = item._replace(memory=0)
    return max((gpu.memory for gpu in host_bin.gpus if gpu._replace(free_slots=1).fits(slim)), default=0)


# Changes


@dataclass(frozen=True)
class Change:
    """More or fewer slots of a unit, or the same number elsewhere, and why."""

    unit: str
    before: int
    after: int
    reason: str


def explain_changes(move: AllocationChange, spare: Allocation) -> tuple[Change, ...]:
    """The changes of a move, each with a sentence why.

    Args:
        spare: slots that were added to it beyond need.
    """
    beyond = count_slots(spare)
    before, after = move.snapshot.counts, Counter(move.counts) + Counter(beyond)
    changes = []
    for measured in move.snapshot.units:
        name = measured.name
        if before.get(name, 0) != after.get(name, 0) or move.dropped[name]:
            why = _why(move, measured, beyond.get(name, 0))
            sentence = f"{name} {before.get(name, 0)} -> {after.get(name, 0)} slots: {why}"
            changes.append(Change(name, before.get(name, 0), after.get(name, 0), sentence))
    return tuple(changes)


def _why(move: AllocationChange, measured: Measured, beyond: int) -> str:
    snapshot, counts = move.snapshot, move.counts
    slots_before = snapshot.counts
    before, after = slots_before.get(measured.name, 0), counts.get(measured.name, 0)
    if after < before:
        if measured.finished:
            return "nothing left to do"
        takers = [name for name in move.gained if name != measured.name and not snapshot.cheap(name)]
        takers = takers or [name for name in move.gained if name != measured.name]
        return f"gives capacity to {' and '.join(takers[:3])}" if takers else "its host has less capacity"
    if after == before and move.dropped[measured.name]:
        return f"{move.dropped[measured.name]} of them elsewhere, so that others fit"
    if after == before and beyond:
        return "idle capacity, so that uneven durations do not hold others up"
    if not before and not measured.known(snapshot.now):
        return "to learn how long it takes"
    was, will = snapshot.splits_a_second(slots_before), snapshot.splits_a_second(counts)
    stay = AllocationChange(snapshot, snapshot.current)
    slowest = [unit.name for unit in snapshot.working if unit.rate(before) <= stay.throughput * 1.001]
    if was == 0 or will in (was, inf) or measured.name not in slowest:
        return f"to keep up with {_number(will)} splits/s" if will not in (0, inf) else "as requested"
    if snapshot.work_known:
        return f"bottleneck of what is left, done in {_seconds(move)} rather than {_seconds(stay)} s"
    why = f"bottleneck, +{_number(will - was)} splits/s"
    paid = move.paid_back_in(stay)
    return why if measured.cheap or paid == inf else f"{why}, setup {measured.setup:.0f} s paid back in {paid:.0f} s"


def _seconds(move: AllocationChange) -> str:
    return f"{move.seconds_for(1.0):,.0f}"


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
