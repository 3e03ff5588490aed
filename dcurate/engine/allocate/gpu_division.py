"""Divide GPUs among runs: whole GPUs where there are enough for all, else parts of GPUs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

from dcurate.engine.allocate.fairness import ShareClaim, fair_units
from dcurate.engine.allocate.model import MILLION, Item

#: Host and name of a GPU.
GpuId = tuple[str, str]
#: Share of each GPU, in millionths.
GpuPart = dict[GpuId, int]


@dataclass(frozen=True)
class GpuClaim:
    """The claim of a run to GPUs.

    Args:
        slots: one slot of each of its GPU operators, which it needs at the same time.
        share: weight of the run.
        most: largest number of GPUs that it can use.
        before: part of the run so far.
    """

    slots: tuple[Item, ...]
    share: float = 1.0
    most: float = inf
    before: Mapping[GpuId, int] = field(default_factory=dict)

    @property
    def at_once(self) -> int:
        """Number of GPUs of one host that its largest slot takes."""
        return max((slot.num_gpus for slot in self.slots), default=0) or 1

    @property
    def least_memory(self) -> int:
        """Bytes that a GPU must have for its largest slot."""
        return max((slot.memory for slot in self.slots), default=0)


def divide_gpus(devices: Mapping[GpuId, float], free: GpuPart, claims: Sequence[GpuClaim]) -> list[GpuPart | None]:
    """Divide GPUs among runs of one priority; where not all can have a slot, those that came first do.

    Args:
        devices: memory of each GPU in bytes, 0 if unknown.
        free: free share of each GPU, from which the parts are subtracted.
        claims: claims of the runs, in the order in which they came.

    Returns:
        The part of each run; None for one that has to wait.

    Examples:
        >>> model = Item(0, 0, share=0, memory=30, num_gpus=0, on_gpu=True)
        >>> devices = {("h", "gpu0"): 80.0}
        >>> divide_gpus(devices, {("h", "gpu0"): MILLION}, [GpuClaim((model,)), GpuClaim((model,)), GpuClaim((model,))])
        [{('h', 'gpu0'): 500000}, {('h', 'gpu0'): 500000}, None]
    """
    able = [claim for claim in claims if _fits_in(claim, pack(claim.slots, devices, free))]
    parts = _whole(devices, free, able) or _shared(devices, free, able)
    for part in parts:
        for gpu, amount in (part or {}).items():
            free[gpu] -= amount
    in_order = iter(parts)
    return [next(in_order) if claim in able else None for claim in claims]


def _fits_in(claim: GpuClaim, part: GpuPart | None) -> bool:
    """Return whether a run may have a part: there is one, and it is no larger than the limit of the run."""
    return part is not None and sum(part.values()) <= claim.most * MILLION


def pack(slots: Iterable[Item], devices: Mapping[GpuId, float], free: Mapping[GpuId, int]) -> GpuPart | None:
    """Place slots on GPUs, each on the first that fits in the order of ``free``; None if they do not fit.

    Args:
        slots: one slot of each GPU operator.
        devices: memory of each GPU in bytes, 0 if unknown.
        free: free share of each GPU.

    Returns:
        The share of each GPU that the slots take, of its memory or of its time, whichever is more.
    """
    taken: dict[GpuId, tuple[int, int]] = {}
    largest_first = sorted(slots, key=lambda slot: (-slot.num_gpus, -slot.share, -slot.memory))
    for slot in largest_first:
        if slot.num_gpus:
            group = next(_groups(slot, devices, free, taken), None)
            if group is None:
                return None
            taken |= dict.fromkeys(group, (MILLION, MILLION))
            continue
        for gpu in (*taken, *(gpu for gpu in free if gpu not in taken)):
            share, memory = taken.get(gpu, (0, 0))
            memory += _memory_part(slot.memory, devices[gpu])
            share, memory = share + slot.share, memory if devices[gpu] else min(memory, MILLION)
            if max(share, memory) <= free[gpu]:
                taken[gpu] = share, memory
                break
        else:
            return None
    return {gpu: max(amounts) for gpu, amounts in taken.items()}


def _memory_part(memory: int, size: float) -> int:
    """Return a number of bytes as millionths of the memory of a GPU; all of it where its size is not known."""
    if not memory:
        return 0
    return ceil(memory / size * MILLION) if size else MILLION


def _groups(
    slot: Item, devices: Mapping[GpuId, float], free: Mapping[GpuId, int], taken: Mapping[GpuId, object]
) -> Iterator[list[GpuId]]:
    """Yield the first whole free GPUs of each host that has enough of them for a slot."""
    groups: dict[str, list[GpuId]] = {}
    for gpu, amount in free.items():
        if amount == MILLION and gpu not in taken and (devices[gpu] or inf) >= slot.memory:
            group = groups.setdefault(gpu[0], [])
            group.append(gpu)
            if len(group) == slot.num_gpus:
                yield group


def _in_order(claim: GpuClaim, gpus: Iterable[GpuId], owned: Iterable[GpuId]) -> list[GpuId]:
    """Sort GPUs as a run takes them: first those that it had, then those that no run had, then the last of others."""
    all_owned = set(owned)
    known = list(gpus)
    kept = [gpu for gpu in known if claim.before.get(gpu)]
    unowned = [gpu for gpu in known if gpu not in all_owned]
    others = [gpu for gpu in known if gpu in all_owned and not claim.before.get(gpu)]
    return [*kept, *unowned, *reversed(others)]


# Whole GPUs


def _whole(devices: Mapping[GpuId, float], free: GpuPart, claims: Sequence[GpuClaim]) -> list[GpuPart | None] | None:
    """Divide whole GPUs; None if there are not enough for one slot of each operator of all runs."""
    left = dict.fromkeys(gpu for gpu, amount in free.items() if amount == MILLION)

    def able(claim: GpuClaim) -> list[GpuId]:
        return [gpu for gpu in left if (devices[gpu] or inf) >= claim.least_memory]

    owned = {gpu for claim in claims for gpu in claim.before}
    parts: list[list[GpuId]] = []
    for claim in claims:
        placed = pack(claim.slots, devices, dict.fromkeys(_in_order(claim, left, owned), MILLION))
        if placed is None or len(placed) > claim.most:
            return None  # there are too few, or the run may have no more than a part of a GPU
        parts.append(list(placed))
        for gpu in placed:
            del left[gpu]
    numbers = _numbers(len(left) + sum(map(len, parts)), claims, parts)
    for part, claim, number in zip(parts, claims, numbers, strict=True):
        _take(part, claim, number, [gpu for gpu in left if claim.before.get(gpu)], left)
    for part, claim, number in zip(parts, claims, numbers, strict=True):
        _take(part, claim, number, able(claim), left)
    for part, claim in zip(parts, claims, strict=True):  # the GPUs that are left do not fit every run
        _take(part, claim, claim.most, able(claim), left)
    return [dict.fromkeys(sorted(part), MILLION) for part in parts]


def _numbers(gpus: int, claims: Sequence[GpuClaim], parts: Sequence[Sequence[GpuId]]) -> list[int]:
    """Return the number of whole GPUs of each run; a multiple of what its largest slot takes."""
    wanted = [
        ShareClaim(claim.share, len(part), max(claim.most, len(part)), len(claim.before))
        for claim, part in zip(claims, parts, strict=True)
    ]
    numbers = fair_units(gpus, wanted)
    rounded = [
        entry if claim.at_once == 1 else entry._replace(most=max(len(part), number - number % claim.at_once))
        for entry, claim, part, number in zip(wanted, claims, parts, numbers, strict=True)
    ]
    return fair_units(gpus, rounded)


def _take(part: list[GpuId], claim: GpuClaim, number: float, gpus: Sequence[GpuId], left: dict[GpuId, None]) -> None:
    """Add free GPUs to a part, up to a number in all, as many of a host at a time as a slot takes."""
    by_host: dict[str, list[GpuId]] = {}
    for gpu in gpus:
        if len(part) + claim.at_once > number:
            return
        group = by_host.setdefault(gpu[0], [])
        group.append(gpu)
        if len(group) == claim.at_once:
            part += group
            for taken in group:
                del left[taken]
            by_host[gpu[0]] = []


# Parts of GPUs


def _shared(devices: Mapping[GpuId, float], free: GpuPart, claims: Sequence[GpuClaim]) -> list[GpuPart | None]:
    """Divide parts of GPUs: first one slot of each operator for each run, then what is left on these GPUs."""
    left = dict(free)
    parts: list[GpuPart | None] = []
    for claim in claims:
        order = sorted(left, key=lambda gpu: (not claim.before.get(gpu), -left[gpu], gpu))
        placed = pack(claim.slots, devices, {gpu: left[gpu] for gpu in order})
        placed = placed if _fits_in(claim, placed) else None
        parts.append(placed)
        for gpu, amount in (placed or {}).items():
            left[gpu] -= amount
    served = [(claim, part) for claim, part in zip(claims, parts, strict=True) if part is not None]
    targets = fair_units(
        sum(left.values()) + sum(sum(part.values()) for _, part in served),
        [
            ShareClaim(claim.share, sum(part.values()), max(claim.most * MILLION, sum(part.values())))
            for claim, part in served
        ],
    )
    for gpu in sorted(left):
        present = [number for number, (_, part) in enumerate(served) if gpu in part]
        for wanted in (present, [number for number in range(len(served)) if number not in present]):
            short = [number for number in wanted if sum(served[number][1].values()) < targets[number]]
            _give(gpu, left, [(*served[number], targets[number]) for number in short], devices[gpu])
        _give(gpu, left, [(*served[number], served[number][0].most * MILLION) for number in present], devices[gpu])
    return parts


def _give(gpu: GpuId, left: GpuPart, runs: Sequence[tuple[GpuClaim, GpuPart, float]], size: float) -> None:
    """Divide the free share of a GPU among runs, up to their targets, if one of their slots can use it."""
    able = [
        (claim, part, target)
        for claim, part, target in runs
        if gpu in part or any(_fits(slot, left[gpu], size) for slot in claim.slots)
    ]
    more = fair_units(
        left[gpu],
        [ShareClaim(claim.share, 0, max(0, min(target - sum(part.values()), MILLION))) for claim, part, target in able],
    )
    for (_, part, _), amount in zip(able, more, strict=True):
        if amount:
            part[gpu] = part.get(gpu, 0) + amount
            left[gpu] -= amount


def _fits(slot: Item, free: int, size: float) -> bool:
    if slot.num_gpus:
        return slot.num_gpus == 1 and free == MILLION
    return max(slot.share, _memory_part(slot.memory, size)) <= free
