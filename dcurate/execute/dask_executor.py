"""Runs a pipeline on Dask, streaming or in batch mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from distributed import Client

from dcurate.cluster.attach import ClientCluster
from dcurate.cluster.base import Cluster
from dcurate.cluster.local import LocalCluster
from dcurate.core.batch import Batch
from dcurate.errors import ResourceError, StageError
from dcurate.execute.balance import Allocation, Demand, allot
from dcurate.execute.carry import Carrier
from dcurate.execute.config import ExecutorConfig
from dcurate.execute.flow import Flow
from dcurate.execute.hands import ClusterHands
from dcurate.execute.job import Books, Job
from dcurate.execute.scaler import Scaler, worker_kinds
from dcurate.execute.ship import pickled
from dcurate.plan.operators import Plan
from dcurate.worker.plugin import SlotHolder, dismiss


class DaskExecutor:
    """Runs a pipeline on a Dask cluster: the default.

    Args:
        config: settings by name, see `ExecutorConfig`: ``execution_mode`` and the others of the original.
        cluster: where to run: a `LocalCluster` or `AttachedCluster`, or a connected ``distributed.Client``.
            An embedded cluster of this machine's CPUs (and GPUs) if not given. A cluster that is not
            open is opened and closed around each run.

    Raises:
        PipelineError: an unknown setting or a value out of range.

    Examples:
        >>> DaskExecutor({"execution_mode": "batch"}).mode
        'batch'
    """

    def __init__(self, config: Mapping[str, Any] | None = None, cluster: Cluster | Client | None = None) -> None:
        self.config = ExecutorConfig.of(config)
        self.cluster = ClientCluster(cluster) if isinstance(cluster, Client) else cluster

    @property
    def mode(self) -> str:
        """``"streaming"`` or ``"batch"``."""
        return self.config.execution_mode

    @contextmanager
    def session(self) -> Iterator[DaskSession]:
        """The cluster, open for as long as the ``with`` statement lasts."""
        with ExitStack() as stack:
            cluster = self.cluster or LocalCluster(cpu_share=self.config.cpu_allocation_percentage)
            if not cluster.is_open:
                stack.enter_context(cluster)
            yield DaskSession(cluster.client, self.config)


@dataclass(frozen=True)
class DaskSession:
    """A connected client on which jobs are carried out."""

    client: Client
    config: ExecutorConfig

    def check(self, plan: Plan) -> None:
        """Refuse a plan that cannot run here.

        Raises:
            ResourceError: an operator does not fit on the workers.
            StageError: a stage cannot be pickled.
        """
        for program in Job("", plan, iter(())).programs():
            pickled(program)
        offered = {address: one.offered for address, one in _workers(self.client).items()}
        allot(_demands(plan), worker_kinds(offered))

    def execute(self, job: Job, books: Books) -> Iterator[Batch]:
        """Carry a job out; yields the batches to deliver as they come."""
        payloads = {program.operator: pickled(program) for program in job.programs()}
        demands = _demands(job.plan)
        workers = _workers(self.client)
        allocation = allot(demands, worker_kinds({address: one.offered for address, one in workers.items()}))
        books.workers = len(workers)
        budget = sum(one.memory for one in workers.values()) * self.config.memory_share
        barrier = self.config.execution_mode == "batch"
        flow = Flow([one.batch_size for one in job.plan.operators], budget, job.delivers, barrier)
        _prepare_windows(flow, demands, allocation, workers)
        failures: list[str] = []
        with ExitStack() as stack:
            hands = stack.enter_context(ClusterHands(self.client, job, books, flow))
            stack.callback(lambda: failures.extend(_dismiss(self.client, job.run)))
            stack.callback(hands.cancel)
            _register(self.client, Scaler(job.run, demands, payloads, self.client.id), stack)
            yield from Carrier(flow, books, hands).run()
        if failures:
            raise StageError(f"the output is complete, but {'; '.join(failures)}")


def _demands(plan: Plan) -> list[Demand]:
    return [Demand(one.name, one.resources, one.num_workers) for one in plan.operators]


class _Worker(NamedTuple):
    """A worker process: bytes it may use, and its threads with its Dask resources."""

    memory: int
    offered: tuple[int, dict[str, float]]


def _workers(client: Client) -> dict[str, _Worker]:
    info = client.scheduler_info(n_workers=-1)["workers"]
    return {
        address: _Worker(int(one["memory_limit"] or 0), (int(one["nthreads"]), dict(one["resources"])))
        for address, one in info.items()
    }


def _prepare_windows(
    flow: Flow, demands: Sequence[Demand], allocation: Allocation, workers: Mapping[str, _Worker]
) -> None:
    """Before slots report themselves, count on those that will be asked for, so that work is there when they come.

    An operator with fewer slots than its workers have threads queues nothing there: a task that waits for its slot
    at the head of a worker's queue would keep the worker's other threads from the tasks behind it.
    """
    for number, demand in enumerate(demands):
        held = {address: slots[demand.operator] for address, slots in allocation.items() if demand.operator in slots}
        flow.set_slots(number, sum(held.values()))
        if sum(held.values()) < sum(workers[address].offered[0] for address in held):
            flow.operators[number].window.most = 1


def _register(client: Client, scaler: Scaler, stack: ExitStack) -> None:
    try:
        client.register_plugin(SlotHolder())
        client.register_plugin(scaler)
    except (ImportError, AttributeError) as error:
        raise ResourceError(
            f"the cluster cannot load dcurate ({error}); install the same version on its scheduler and workers"
        ) from error
    stack.callback(_unregister, client, scaler.name)


def _unregister(client: Client, name: str) -> None:
    if client.status == "running":
        client.unregister_scheduler_plugin(name)


def _dismiss(client: Client, run: str) -> list[str]:
    """Tear down the run's slots everywhere; what failed, in words."""
    if client.status != "running":
        return []
    answers = client.run(dismiss, run=run, on_error="ignore")
    return [failure for failures in answers.values() if isinstance(failures, list) for failure in failures]
