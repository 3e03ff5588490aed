"""The share of a run: what it demands of the account of its scheduler, and what it gets."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from math import ceil, inf
from typing import Any, Protocol

from distributed import Scheduler

from dcurate.cluster import compat
from dcurate.engine.allocate.allocation import SchedulingUnit
from dcurate.engine.allocate.division import RunDemand, divide
from dcurate.engine.allocate.model import Item
from dcurate.engine.allocate.requests import OperatorRequest, WorkerState, form_pools
from dcurate.engine.dask.account import Account
from dcurate.engine.dask.observation import RunConfig
from dcurate.engine.dask.records import WorkerRecord
from dcurate.engine.dask.slot_requests import SlotRequests
from dcurate.engine.policies.balancing import items_left
from dcurate.engine.policies.view import OperatorView, RunView
from dcurate.errors import ResourceError

#: Seconds after which the driver is told that the run waits: a part is often free sooner.
TOLD_S = 2.0


class Sharer(Protocol):
    """What the share of a run needs of its slot manager."""

    run: str
    client: str
    config: RunConfig
    scheduler: Scheduler
    workers: dict[str, WorkerRecord]
    slot_requests: SlotRequests

    def look_again(self) -> None:
        """Have policies run soon."""

    def publish(self, event: dict[str, Any]) -> None:
        """Send an event to the driver."""


class RunShare:
    """The share of a run on a scheduler.

    Args:
        manager: slot manager of the run.

    Attributes:
        waits: why the run cannot go on with its part, as a sentence; empty if it can.
    """

    def __init__(self, manager: Sharer) -> None:
        config = manager.config
        self.run, self.client = manager.run, manager.client
        self.label = f"run {config.pipeline or self.run}" + (f" of {config.owner}" if config.owner else "")
        self.limited = config.max_cpus is not None or config.max_gpus is not None
        self.waits = ""
        self._manager = manager
        self._account = Account.of(manager.scheduler)
        #: Numbers of the division that the last view was made of, and of the one whose decision was carried out.
        self._seen, self._done = -1, -2
        #: Thread limits that workers were told; the others have none.
        self._limits: dict[str, int] = {}
        #: Time from which on the run waits; and what the driver was told last: the reason, and the memory share.
        self._since: float | None = None
        self._told = ("", 1.0)
        self._account.join(self, demand_of(self.run, config))

    # Calls of the account

    def part_changed(self) -> None:
        """Have the run read its part again."""
        self._manager.look_again()

    def holds(self, worker: str) -> Collection[str]:
        """Return the names of the operators that have, set up or tear down slots on a worker."""
        record = self._manager.workers.get(worker)
        return {*record.requested, *record.leaving} if record is not None else ()

    def fits(self, worker: str) -> bool:
        """Return whether a worker has no more slots than were decided last, and none is being torn down."""
        record = self._manager.workers.get(worker)
        if record is None:
            return True
        target = self._manager.slot_requests.target.get(worker, {})
        return not record.leaving and all(
            operator in target and target[operator].gpus == claim.gpus and claim.slots <= target[operator].slots
            for operator, claim in record.requested.items()
        )

    # Calls of the slot manager

    def add_worker(self, worker: WorkerState) -> None:
        """Take a worker that has registered."""
        self._account.register(worker)

    def remove_worker(self, worker: str) -> None:
        """Forget a worker that is gone."""
        self._limits.pop(worker, None)

    def part(self) -> dict[str, WorkerState]:
        """Return what the run may use now of each of its workers. Call it before each decision."""
        part = self._account.worker_parts(self.run, [record.info for record in self._manager.workers.values()])
        self._seen = self._account.version
        self.waits = self._account.waits(self.run, part)
        self._limit_calls(part)
        self._tell_driver()
        return part

    def demand(self, view: RunView) -> RunDemand | None:
        """Return the demand of the run; None if it is alone. Runs in a thread."""
        return demand_of(self.run, self._manager.config, view) if self._account.is_divided else None

    def decided(self, demand: RunDemand | None, *, decision: bool) -> None:
        """Note that a decision on the last `part` is the target now.

        Args:
            demand: new demand of the run; None if it is unchanged.
            decision: whether there was a decision; without one, the slots of a run that has to wait are torn down.
        """
        if self.waits and not decision:
            self._manager.slot_requests.target = {}
            self._manager.slot_requests.due.set()
        if decision or self.waits:
            self._done = self._seen
            self.settle()
        if demand is not None:
            self._account.demand(demand)

    def settle(self) -> None:
        """Free what the run has beyond its part and no longer uses. Call it when slots were torn down."""
        self._account.settle(self.run, self._done)

    def end(self) -> None:
        """Leave the account."""
        self._account.leave(self.run)

    def _tell_driver(self) -> None:
        """Tell the driver why the run waits, after `TOLD_S` seconds, and its fraction of the memory of queues."""
        now = time.monotonic()
        self._since = (self._since or now) if self.waits else None
        why = self.waits if self._since is not None and now - self._since >= TOLD_S else ""
        told = why, self._account.memory_share(self.run)
        if told != self._told:
            self._told = told
            self._manager.publish({"waits": why, "memory": told[1]})

    def _limit_calls(self, part: Mapping[str, WorkerState]) -> None:
        """Tell workers how many threads the run may use, where that has changed.

        Operators that share slots have more slots than threads, and would take the threads of other runs.
        """
        for address, worker in part.items():
            record = self._manager.workers[address]
            limit = worker.threads if worker is not record.info else None
            if limit != self._limits.get(address) and address in self._manager.scheduler.workers:
                compat.send_to_worker(
                    self._manager.scheduler, address, {"op": "dcurate-limit-calls", "run": self.run, "threads": limit}
                )
                if limit is None:
                    del self._limits[address]
                else:
                    self._limits[address] = limit


def demand_of(run: str, config: RunConfig, view: RunView | None = None) -> RunDemand:
    """Return the demand of a run.

    Args:
        run: id of the run.
        config: configuration of the run.
        view: present state of the run, which limits its demand to the work that is left; None before it has begun.
    """
    operators = {name: operator for name, operator in view.operators.items() if not operator.finished} if view else {}
    requests = [request for request in config.requests if view is None or request.operator in operators]
    on_gpus = [request for request in requests if request.resources.requires_gpu]
    on_cpus = [request for request in requests if not request.resources.requires_gpu]
    slots = tuple(Item.of(number, _unit(request)) for number, request in enumerate(on_gpus))
    if config.sequential and slots:
        slots = (max(slots, key=lambda slot: (slot.num_gpus, slot.share, slot.memory)),)
    least = max((ceil(request.resources.cpus) for request in on_cpus), default=1) or 1
    if view is not None and view.workers and all(worker.info.gpus for worker in view.workers.values()):
        least = max(least, 1 if config.sequential else len(slots) + bool(on_cpus))
    left = _items_left_of(view, operators) if view is not None else {}
    most_gpus = config.max_gpus or inf
    if left and on_gpus:
        most_gpus = min(most_gpus, _rounded(sum(_most(request, left) * _gpus(request) for request in on_gpus)))
    return RunDemand(
        run,
        share=config.share,
        priority=config.priority,
        least_cpus=min(least, config.max_cpus or least),
        most_cpus=min(config.max_cpus or inf, _most_cpus(requests, left)),
        gpu_slots=slots,
        most_gpus=most_gpus,
    )


def check_limits(config: RunConfig, workers: Sequence[WorkerState]) -> None:
    """Refuse a run whose operators do not fit into its own limits.

    Args:
        config: configuration of the run.
        workers: workers of the cluster.

    Raises:
        ResourceError: an operator needs more than ``max_cpus`` or ``max_gpus``.
    """
    if config.max_cpus is None and config.max_gpus is None:
        return
    part = divide(workers, [demand_of("", config)])[""]
    limits = {"max_cpus": config.max_cpus, "max_gpus": config.max_gpus}
    limits_text = " and ".join(f"{name}={most}" for name, most in limits.items() if most is not None)
    if part.missing:
        raise ResourceError(
            f"one slot of each GPU operator needs more GPUs at the same time than {limits_text} allows; allow more, or "
            "use execution_mode='batch'"
        )
    try:
        form_pools(config.requests, [part.of(worker) for worker in workers], config.sequential)
    except ResourceError as error:
        raise ResourceError(f"with {limits_text}, {error}") from error


def _unit(request: OperatorRequest) -> SchedulingUnit:
    resources = request.resources
    return SchedulingUnit(request.operator, resources.cpus, resources.gpus, resources.gpu_memory_gb * 1e9)


def _gpus(request: OperatorRequest) -> int:
    return max(1, ceil(request.resources.gpus))


def _most_cpus(requests: list[OperatorRequest], left: Mapping[str, float]) -> float:
    """Return how many threads operators can use, by their limits and the work that is left."""
    return _rounded(sum(_most(request, left) * max(1, ceil(request.resources.cpus)) for request in requests))


def _most(request: OperatorRequest, left: Mapping[str, float]) -> float:
    """Return how many slots of an operator can be of use at most."""
    limits = [limit for limit in (request.num_workers, request.max_workers, left.get(request.operator)) if limit]
    return min(limits, default=inf)


def _rounded(amount: float) -> float:
    """Round up to a power of two, so that parts change seldom while the work that is left shrinks."""
    return max(1.0, 2.0 ** ceil(amount).bit_length()) if 0 < amount < inf and ceil(amount).bit_count() > 1 else amount


def _items_left_of(view: RunView, operators: Mapping[str, OperatorView]) -> dict[str, float]:
    """Return the batches that each operator has still to do, at least one; empty until the source is exhausted."""
    return {name: max(1.0, ceil(items)) for name, items in items_left(view).items() if name in operators}
