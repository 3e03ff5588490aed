"""Ask workers for slots until they have those that were decided."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from dcurate.cluster import compat
from dcurate.engine.allocate.assignment import Assignment, SlotClaim
from dcurate.engine.dask.event_loop import Pauses
from dcurate.engine.dask.observation import RunConfig
from dcurate.engine.dask.records import WorkerRecord
from dcurate.engine.dask.recycling import Recycler
from dcurate.engine.dask.routing import TaskRouter
from dcurate.engine.dask.worker_plugin import resource_name

_NONE = SlotClaim(0)


class SlotRequests:
    """Brings the slots of a run's workers to a target, by messages to their plugins.

    Args:
        run: id of the run.
        config: configuration of the run.
        workers: workers of the run, by address.
        router: router of the run's tasks, which sends none to slots that are torn down.
        recycler: recycler of workers, which get no new slots meanwhile.

    Attributes:
        target: slots that workers are to have.
        pinned: slots of operators that policies of the user set.
        due: set when slots may differ from the target.
        announced: slots of the decisions that were published and are being carried out, by operator or pool.
    """

    def __init__(
        self, run: str, config: RunConfig, workers: Mapping[str, WorkerRecord], router: TaskRouter, recycler: Recycler
    ) -> None:
        self.target: Assignment = {}
        self.pinned: Mapping[str, int] = {}
        self.due = asyncio.Event()
        self.announced: dict[str, int] = {}
        self._run = run
        self._payloads = config.payloads
        self._limited = {request.operator for request in config.requests if request.max_workers or request.num_workers}
        self._workers = workers
        self._router = router
        self._recycler = recycler

    async def run_when_due(self) -> None:
        """Ask for slots whenever that is due; a task of the scheduler for as long as the run lasts."""
        while True:
            await self.due.wait()
            self.due.clear()
            await self._reconcile()

    def request(self, worker: str, operator: str, claim: SlotClaim) -> None:
        """Request a number of slots from a worker; if it is lower than before, send no new tasks there."""
        record, scheduler = self._workers[worker], self._router.scheduler
        before = record.requested.get(operator, _NONE).slots
        name = resource_name(self._run, operator)
        if claim.slots < before:
            record.leaving.add(operator)
            self._router.selector.set_slots(operator, worker, claim.slots)
            state = scheduler.workers.get(worker)
            if state is not None and name in state.resources:
                compat.set_resource(scheduler, worker, name, state.resources[name] * claim.slots // before)
        record.requested[operator] = claim
        if not claim.slots:
            del record.requested[operator]
        payload = self._payloads[operator]
        order = {"run": self._run, "operator": operator, "slots": claim.slots, "payload": payload, "gpus": claim.gpus}
        compat.send_to_worker(scheduler, worker, {"op": "dcurate-set-slots", **order})

    def drain(self, worker: str) -> None:
        """Tear down all slots of a worker."""
        for operator in list(self._workers[worker].requested) if worker in self._workers else ():
            self.request(worker, operator, _NONE)

    async def _reconcile(self) -> None:
        """Request slots so that the workers get closer to the target: release first, then add."""
        target, pauses = self.target, Pauses()
        for worker, record in list(self._workers.items()):
            desired = target.get(worker, {})
            for operator, claim in list(record.requested.items()) if worker in self._workers else ():
                new = desired.get(operator, _NONE)
                if new.gpus != claim.gpus:
                    new = _NONE
                if new.slots < claim.slots:
                    self.request(worker, operator, new)
            await pauses.maybe()
        leaving = {worker: record for worker, record in self._workers.items() if record.leaving}
        busy = {record.gpu for record in leaving.values()} - {""}
        moving = {operator for record in leaving.values() for operator in record.leaving if self._is_bounded(operator)}
        for worker in list(target):
            if worker in self._workers and worker not in leaving and not self._recycler.is_recycling(worker):
                record = self._workers[worker]
                for operator, claim in target[worker].items():
                    more = claim.slots > record.requested.get(operator, _NONE).slots
                    if more and operator not in moving and record.gpu not in busy:
                        self.request(worker, operator, claim)
            await pauses.maybe()
        for worker in list(self._workers):
            if worker in self._workers and self._workers[worker].requested != target.get(worker, {}):
                return
            await pauses.maybe()
        self.announced.clear()  # what is decided from now on is another change

    def _is_bounded(self, operator: str) -> bool:
        """Whether the user bounds its slots: one that moves begins after the other has ended."""
        return operator in self._limited or operator in self.pinned
