"""The part of dcurate that lives in every Dask worker: it holds the slots."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from dcurate.core.batch import Batch
from dcurate.errors import DcurateError
from dcurate.worker.program import Outcome
from dcurate.worker.slots import SlotPool, forget_host_setup

#: The name of the worker plugin, the same on every worker.
PLUGIN = "dcurate"


def topic(run: str) -> str:
    """The Dask event topic on which a run's news travels."""
    return f"dcurate-{run}"


def resource(run: str, operator: str) -> str:
    """The Dask resource that a worker offers for each slot of an operator."""
    return f"stage-{operator}-{run}"


class SlotHolder(WorkerPlugin):
    """Makes slots when the scaler says so, offers them as Dask resources, and runs tasks in them."""

    name = PLUGIN
    idempotent = True

    def setup(self, worker: Worker) -> None:
        """Take part in a worker (called by Dask)."""
        self.worker = worker
        self.pools: dict[tuple[str, str], SlotPool] = {}
        self.threads = ThreadPoolExecutor(1, thread_name_prefix="dcurate-setup")
        self.assigning: set[asyncio.Task[None]] = set()
        worker.stream_handlers["dcurate-assign"] = self.assign

    def teardown(self, worker: Worker) -> None:
        """Tear all slots down when the worker closes (called by Dask)."""
        for pool in self.pools.values():
            pool.close()
        self.pools.clear()
        self.threads.shutdown(wait=False)

    def assign(self, run: str, operator: str, slots: int, payload: bytes) -> None:
        """Set up slots of an operator; they are offered once set-up has ended."""
        task = asyncio.ensure_future(self._assign(run, operator, slots, payload))
        self.assigning.add(task)
        task.add_done_callback(self.assigning.discard)

    async def _assign(self, run: str, operator: str, slots: int, payload: bytes) -> None:
        loop = asyncio.get_running_loop()
        try:
            pool = await loop.run_in_executor(self.threads, self._open, run, slots, payload)
        except DcurateError as error:
            self._tell(run, {"failed": operator, "error": str(error), "notes": getattr(error, "__notes__", [])})
            return
        except (ImportError, AttributeError) as error:
            self._tell(run, {"failed": operator, "error": f"worker cannot load operator {operator!r}: {error}"})
            return
        self.pools[run, operator] = pool
        for amounts in (self.worker.state.total_resources, self.worker.state.available_resources):
            amounts[resource(run, operator)] = slots
        ready = {"run": run, "operator": operator, "slots": slots, "setup_seconds": pool.setup_seconds}
        self.worker.batched_send({"op": "dcurate-ready", **ready})

    def _open(self, run: str, slots: int, payload: bytes) -> SlotPool:
        pool = SlotPool(run, payload, slots, str(self.worker.address), visible_gpus())
        pool.open()
        return pool

    def _tell(self, run: str, news: dict[str, Any]) -> None:
        """Publish news of a run: what `Worker.log_event` does, without packing it once more to see that it packs."""
        event = {"op": "log-event", "topic": topic(run), "msg": news}
        self.worker.loop.add_callback(self.worker.batched_send, event)

    def work(self, run: str, operator: str, ticket: int, inputs: list[Batch]) -> Outcome:
        """Run one call in a slot, and tell the driver what came of it."""
        outcome = self.pools[run, operator].work(inputs)
        self._tell(run, {"ticket": ticket, **outcome.summary()})
        return outcome

    async def dismiss(self, run: str) -> list[str]:
        """Tear down the slots of a run; returns what failed, in words."""
        failures: list[str] = []
        loop = asyncio.get_running_loop()
        for pool_run, operator in [key for key in self.pools if key[0] == run]:
            await self.worker.set_resources(**{resource(run, operator): 0})
            failures += await loop.run_in_executor(self.threads, self.pools.pop((pool_run, operator)).close)
        forget_host_setup(run)
        return failures


def holder_of(worker: Worker) -> SlotHolder:
    """The slots of a Dask worker."""
    return cast(SlotHolder, worker.plugins[PLUGIN])


def work_on_splits(run: str, operator: str, ticket: int, inputs: list[Batch]) -> Outcome:
    """The task of the first operator: its inputs travel with it."""
    return holder_of(get_worker()).work(run, operator, ticket, inputs)


def work_on_outcomes(
    outcomes: list[Outcome], picks: list[tuple[int, int]], run: str, operator: str, ticket: int
) -> Outcome:
    """The task of a later operator: of each upstream outcome it takes the batch that ``picks`` names."""
    inputs = [outcome.outputs[place][child] for outcome, (place, child) in zip(outcomes, picks, strict=True)]
    return work_on_splits(run, operator, ticket, inputs)


async def dismiss(dask_worker: Worker, run: str) -> list[str]:
    """Tear down a run's slots on a worker; for `Client.run`."""
    return await holder_of(dask_worker).dismiss(run)


def visible_gpus() -> tuple[int, ...]:
    """The CUDA devices that this process was given: a worker of LocalCUDACluster has its own first."""
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return tuple(int(device) for device in devices.split(",") if device.strip().isdigit())
