"""What a worker process is: the host it stands on, the cores it stands for, and the GPUs that it sees.

Found out on the worker itself, since only there can it be known. A person may say otherwise, with options of
``--preload dcurate.preload`` or with environment variables.
"""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dcurate.cluster.compat import extensions, memory_limit, own_resources, thread_count
from dcurate.errors import ResourceError

if TYPE_CHECKING:
    from distributed import Worker

#: Memory of a GPU that is not there, in GB (10**9 bytes), where nothing is said about it.
SIMULATED_GB = 80.0

#: Where a worker keeps its announcement, among the extensions of Dask's own.
_KEPT = "dcurate-announcement"


class VisibleCard(NamedTuple):
    """A GPU as a process sees it: a name that is the same in every process of the host, and its memory in bytes."""

    name: str
    memory: float


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker process is.

    Args:
        host: the machine that it stands on.
        cpus: CPU cores that it stands for; 0 for a GPU worker, whose cores are those of the CPU workers beside it.
        cards: the GPUs that it sees, its own first; memory in bytes, 0 where it is not known.
        kind: what its cluster calls workers of its sort.
        memory: bytes that it may use; 0 without a limit.

    Examples:
        >>> worker = WorkerInfo("h0", 0.0, (VisibleCard("GPU-1", 8e9),), "gpu", 2**30)
        >>> worker.to_dict()["cards"]
        [['GPU-1', 8000000000.0]]
        >>> WorkerInfo.from_dict(worker.to_dict()) == worker
        True
    """

    host: str
    cpus: float
    cards: tuple[VisibleCard, ...] = ()
    kind: str = "cpu"
    memory: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As plain values that Dask can send."""
        return {**asdict(self), "cards": [list(card) for card in self.cards]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> WorkerInfo:
        """From what `to_dict` gave."""
        cards = tuple(VisibleCard(str(name), float(memory)) for name, memory in values["cards"])
        host, kind = str(values["host"]), str(values["kind"])
        return cls(host, float(values["cpus"]), cards, kind, int(values["memory"]))


@dataclass(frozen=True)
class Said:
    """What a person says of a worker; None where they leave it to be found out.

    Args:
        host: a name for the machine, so that processes of one machine can stand for several.
        cpus: CPU cores that the process stands for.
        kind: ``"cpu"`` (no GPU, whatever the process sees), ``"gpu"``, or any other label.
        simulated_gpus: GPUs that are not there, the worker's own first; workers of a host share those of one name.
        simulated_gpu_memory_gb: memory of each of these, in GB (10**9 bytes).

    Raises:
        ResourceError: a number that is negative, or simulated GPUs on a worker of kind ``"cpu"``.
    """

    host: str | None = None
    cpus: float | None = None
    kind: str | None = None
    simulated_gpus: tuple[str, ...] | None = None
    simulated_gpu_memory_gb: float | None = None

    def __post_init__(self) -> None:
        for name, amount in (("cpus", self.cpus), ("simulated_gpu_memory_gb", self.simulated_gpu_memory_gb)):
            if amount is not None and not 0 <= amount < float("inf"):
                raise ResourceError(f"{name}={amount:g} must be zero or more")
        if self.kind == "cpu" and self.simulated_gpus:
            raise ResourceError(
                f"a worker of kind 'cpu' has no GPUs, but {len(self.simulated_gpus)} are to be simulated on it; "
                "leave the kind out, or say 'gpu'"
            )

    @classmethod
    def in_environment(cls, environ: Mapping[str, str]) -> Said:
        """What is said with environment variables.

        Raises:
            ResourceError: a value that is no number where one is needed; names the variable.

        Examples:
            >>> Said.in_environment({"DCURATE_HOST": "h1", "DCURATE_SIMULATED_GPUS": "1,0"}).simulated_gpus
            ('1', '0')
        """
        gpus = environ.get("DCURATE_SIMULATED_GPUS")
        return cls(
            host=environ.get("DCURATE_HOST") or None,
            cpus=_number(environ, "DCURATE_CPUS"),
            kind=environ.get("DCURATE_KIND") or None,
            simulated_gpus=None if gpus is None else names(gpus),
            simulated_gpu_memory_gb=_number(environ, "DCURATE_SIMULATED_GPU_MEMORY_GB"),
        )

    def over(self, other: Said) -> Said:
        """This, and what the other says where this says nothing.

        Examples:
            >>> Said(host="a").over(Said(host="b", kind="gpu"))
            Said(host='a', cpus=None, kind='gpu', simulated_gpus=None, simulated_gpu_memory_gb=None)
        """
        said = {name: value for name, value in vars(self).items() if value is not None}
        return replace(other, **said)


def names(listed: str) -> tuple[str, ...]:
    """The names in a list such as ``"0,1"``.

    Raises:
        ResourceError: the same name twice.

    Examples:
        >>> names("0, 1")
        ('0', '1')
        >>> names("")
        ()
    """
    found = tuple(name.strip() for name in listed.split(",") if name.strip())
    if len(set(found)) < len(found):
        raise ResourceError(f"GPUs {listed!r} name one of them twice; name each once")
    return found


def _number(environ: Mapping[str, str], name: str) -> float | None:
    text = environ.get(name)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ResourceError(f"environment variable {name}={text!r} must be a number") from None


def declare(worker: Worker, said: WorkerInfo) -> None:
    """Have a worker announce this and nothing else; several workers of one process may each say their own."""
    extensions(worker)[_KEPT] = said


def announcement(worker: Worker) -> WorkerInfo:
    """What a worker is: what was declared, else what environment variables say, else what is found; the same each time.

    Raises:
        ResourceError: an environment variable holds what it cannot hold.
    """
    if _KEPT not in extensions(worker):
        declare(worker, found(worker, Said.in_environment(os.environ)))
    return cast(WorkerInfo, extensions(worker)[_KEPT])


def found(worker: Worker, said: Said) -> WorkerInfo:
    """What a worker is, where a person said something of it."""
    cards = _cards_of(worker, said)
    threads = float(thread_count(worker))
    return WorkerInfo(
        host=said.host or socket.gethostname(),
        cpus=said.cpus if said.cpus is not None else 0.0 if cards else threads,
        cards=cards,
        kind=said.kind or ("gpu" if cards else "cpu"),
        memory=int(memory_limit(worker) or 0),
    )


def _cards_of(worker: Worker, said: Said) -> tuple[VisibleCard, ...]:
    """Simulated GPUs, else those that CUDA_VISIBLE_DEVICES gives the process, else what its Dask resources say."""
    if said.simulated_gpus is not None:
        gigabytes = SIMULATED_GB if said.simulated_gpu_memory_gb is None else said.simulated_gpu_memory_gb
        return tuple(VisibleCard(f"simulated-{name}", gigabytes * 1e9) for name in said.simulated_gpus)
    if said.kind == "cpu":
        return ()
    # Without the variable every process of a host sees every card of it, which makes none of them a GPU worker.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "" if said.kind is None else "all")
    cards = visible_cards(visible) if visible else ()
    resources = own_resources(worker)
    memory = float(resources.get("GPU_MEMORY", 0))
    return cards or tuple(
        VisibleCard(f"{worker.name}/{number}", memory) for number in range(int(resources.get("GPU", 0)))
    )


def visible_cards(visible: str) -> tuple[VisibleCard, ...]:
    """The GPUs that a process sees, by NVML; none where there is no NVML.

    Args:
        visible: as in CUDA_VISIBLE_DEVICES: indices, UUIDs (or their beginnings), in order; ``"all"`` for all.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return ()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        gpus, parts = [], []
        for number in range(nvml.nvmlDeviceGetCount()):
            gpu = _handle(nvml, nvml.nvmlDeviceGetHandleByIndex, number)
            if gpu is not None:
                gpus.append(_card(nvml, gpu))
                parts += [_card(nvml, part) for part in _parts(nvml, gpu)]
        return choose(visible, gpus, parts)
    finally:
        nvml.nvmlShutdown()


def _handle(nvml: Any, ask: Callable[..., Any], *arguments: Any) -> Any:
    """What NVML answers; None for a card that this process may not use, or that is not there."""
    try:
        return ask(*arguments)
    except nvml.NVMLError:
        return None


def _parts(nvml: Any, gpu: Any) -> list[Any]:
    """The parts into which a card is divided (MIG), if it is."""
    most = _handle(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, gpu) or 0
    parts = [_handle(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, number) for number in range(most)]
    return [part for part in parts if part is not None]


def _card(nvml: Any, handle: Any) -> VisibleCard:
    memory = _handle(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    return VisibleCard(str(nvml.nvmlDeviceGetUUID(handle)), float(memory.total) if memory is not None else 0.0)


def choose(visible: str, gpus: Sequence[VisibleCard], parts: Sequence[VisibleCard] = ()) -> tuple[VisibleCard, ...]:
    """The cards that CUDA shows a process: those listed, up to the first that is not there.

    Args:
        visible: as in CUDA_VISIBLE_DEVICES, or ``"all"``.
        gpus: the cards of the machine, in order.
        parts: what cards are divided into (MIG).

    Examples:
        >>> two = [VisibleCard("GPU-aa", 8e9), VisibleCard("GPU-bb", 8e9)]
        >>> [card.name for card in choose("1,0", two)]
        ['GPU-bb', 'GPU-aa']
        >>> [card.name for card in choose("GPU-b,7,0", two)]
        ['GPU-bb']
        >>> choose("", two)
        ()
    """
    if visible == "all":
        return tuple(gpus)
    chosen: list[VisibleCard] = []
    for token in (part.strip() for part in visible.split(",")):
        if token.isdigit():
            meant = list(gpus[int(token) :][:1])
        else:
            meant = [card for card in (*gpus, *parts) if token and card.name.startswith(token)]
        if len(meant) != 1:
            break
        chosen += meant
    return tuple(chosen)
