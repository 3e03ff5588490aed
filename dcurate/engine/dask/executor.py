"""Runs a pipeline on Dask, streaming or in batch mode."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from distributed import Client
from distributed.comm import CommClosedError
from distributed.deploy import Cluster as DaskCluster
from distributed.protocol.pickle import dumps

from dcurate.cluster import compat
from dcurate.cluster.attach import cluster_of
from dcurate.cluster.base import Cluster
from dcurate.cluster.local import LocalCluster
from dcurate.cluster.scale_api import offered_to
from dcurate.cluster.worker_info import WorkerInfo
from dcurate.core.batch import Batch
from dcurate.core.fingerprint import fingerprint
from dcurate.core.resources import Resources
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.allocate.autoscaler import workers_at
from dcurate.engine.allocate.rate_cache import CachedRate, RateCache, key_of
from dcurate.engine.allocate.requests import OperatorRequest, WorkerState, form_pools
from dcurate.engine.config import ExecutorConfig
from dcurate.engine.dask.backend import DaskBackend
from dcurate.engine.dask.scheduler_plugin import OVER, RunConfig, SlotManager, end, have_slots_held, let_go
from dcurate.engine.dask.worker_plugin import DcurateWorkerPlugin, describe, dismiss, holds_slots
from dcurate.engine.driver import DriverLoop
from dcurate.engine.flow import Flow
from dcurate.engine.serialization import pickled
from dcurate.errors import DcurateError, ResourceError, RunError, StageError
from dcurate.plan.operators import Plan

#: How often workers are asked that die or come meanwhile, and after how many seconds.
ASKS, ASK_S = 50, 0.2


class DaskExecutor:
    """Runs a pipeline on a Dask cluster: the default.

    Args:
        config: settings by name, see `ExecutorConfig`: ``execution_mode`` and the others of the original.
        cluster: where to run: a `LocalCluster` or `AttachedCluster`, the address of a scheduler, a cluster of Dask's
            own such as ``distributed.LocalCluster``, or a connected ``distributed.Client``. An embedded cluster of this
            machine's CPUs (and GPUs) if not given. A `LocalCluster` or `AttachedCluster` that is not open is opened and
            closed around each run; a cluster of Dask's own and a client are left as they are.

    Raises:
        PipelineError: an unknown setting, a value out of range, or a cluster that is none.

    Examples:
        >>> DaskExecutor({"execution_mode": "batch"}).mode
        'batch'
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        cluster: Cluster | DaskCluster | Client | str | None = None,
    ) -> None:
        self.config = ExecutorConfig.of(config)
        self.cluster = cluster_of(cluster)

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
            seen = not isinstance(cluster, LocalCluster) or cluster.dashboard
            yield DaskSession(cluster, self.config, seen)


@dataclass(frozen=True)
class DaskSession:
    """An open cluster on which jobs are carried out.

    Args:
        seen: whether somebody may look at the scheduler's pages or metrics.
    """

    cluster: Cluster
    config: ExecutorConfig
    seen: bool = True

    @property
    def client(self) -> Client:
        """The cluster's client."""
        return self.cluster.client

    @property
    def _in_turn(self) -> bool:
        return self.config.execution_mode == "batch"

    def check(self, plan: Plan) -> None:
        """Refuse a plan that cannot run here.

        Raises:
            ResourceError: an operator does not fit on the workers.
            StageError: a stage cannot be pickled.
        """
        for program in Round("", plan, iter(())).programs():
            pickled(program)
        shapes = offered_to(self.client)
        coming = workers_at(shapes, {kind: shape.maximum for kind, shape in shapes.items()})
        views = [*(view for view in self._views() if view.kind not in shapes), *coming]
        if not views:
            raise ResourceError(
                "the cluster has no workers; start some first. (Dask's own adapt() begins with none unless it is given "
                "a minimum, and starts none for a run that has not begun.)"
            )
        form_pools(_demands(plan, self.config, _have_gpus(views)), views, self._in_turn)

    def _gpus_for(self, plan: Plan) -> bool:
        """Whether there is or will be a GPU; not asked where no stage of the plan leaves that open."""
        if not any(operator.spec.gpu_optional for operator in plan.operators):
            return True
        shapes = offered_to(self.client)
        coming = workers_at(shapes, {kind: shape.maximum for kind, shape in shapes.items()})
        return _have_gpus([*self._views(), *coming])

    def _views(self) -> list[WorkerState]:
        """What the workers say they are; asked again while those that the cluster starts itself come back."""
        for _ in range(ASKS):
            self.cluster.settle()
            if views := _views(self.client):
                return views
            if not isinstance(self.cluster, LocalCluster):
                break
            time.sleep(ASK_S)
        return []

    def execute(self, job: Round, books: RunAccounting) -> Iterator[Batch]:
        """Carry a job out; yields the batches to deliver as they come."""
        job = replace(job, ignore_failures=self.config.ignore_failures)
        orders = RunConfig(
            demands=_demands(job.plan, self.config, self._gpus_for(job.plan)),
            payloads={program.operator: pickled(program) for program in job.programs()},
            one_at_a_time=self._in_turn,
            lifetimes={
                one.name: (one.spec.worker_max_lifetime_m, one.spec.worker_restart_interval_m)
                for one in job.plan.operators
            },
            interval_s=self.config.autoscale_interval_s,
            worker_timeout_s=self.config.worker_timeout_s,
        )
        self.cluster.settle()
        workers = compat.identify_workers(self.client).values()
        books.workers = len(workers)
        remembered, keys = RateCache(), _memory_keys(job.plan, workers)
        orders = replace(orders, priors=_priors(remembered, keys))
        budget = sum(int(one["memory_limit"] or 0) for one in workers) * self.config.memory_share
        flow = Flow([one.batch_size for one in job.plan.operators], budget, job.delivers, self._in_turn)
        failures: list[str] = []
        with ExitStack() as stack:
            backend = stack.enter_context(DaskBackend(self.cluster, job, books, flow, orders.priors))
            stack.callback(_let_go, self.client, job.tag)
            stack.callback(lambda: failures.extend(_dismiss(self.client, job.tag)))
            stack.callback(backend.close)
            try:
                _register(self.client, SlotManager(job.tag, orders, self.client.id), stack)
                yield from DriverLoop(flow, books, backend).run()
            except CommClosedError as error:  # in the middle of a question to it
                raise RunError(
                    "the scheduler does not answer any more; start the run again with resume=True to go on"
                ) from error
            finally:
                remembered.store(_memories(backend, keys))
        if failures:
            raise StageError(f"the output is complete, but {'; '.join(failures)}")


def _have_gpus(views: Iterable[WorkerState]) -> bool:
    return any(view.cards for view in views)


def _demands(plan: Plan, config: ExecutorConfig, gpus: bool) -> list[OperatorRequest]:
    """What operators ask for, where there are GPUs or where there are none."""
    return [
        OperatorRequest(
            operator=one.name,
            resources=one.resources if gpus or not one.spec.gpu_optional else Resources(one.resources.cpus),
            num_workers=one.num_workers,
            num_workers_per_node=one.spec.num_workers_per_node,
            max_workers=min(filter(None, (one.spec.max_workers, config.max_workers_per_stage)), default=None),
            light=one.light,
        )
        for one in plan.operators
    ]


def _memory_keys(plan: Plan, workers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Under which name the speed of each operator is remembered: its stages, and the sort of workers that there are."""
    hardware = repr(sorted({(int(one["nthreads"]), *sorted(one["resources"])) for one in workers}))
    return {
        one.name: key_of([f"{name} {digest}" for name, digest in fingerprint(one.parts).items()], hardware)
        for one in plan.operators
    }


def _priors(remembered: RateCache, keys: Mapping[str, str]) -> dict[str, dict[str, float]]:
    found = {operator: remembered.lookup(key) for operator, key in keys.items()}
    return {operator: asdict(memory) for operator, memory in found.items() if memory is not None}


def _memories(backend: DaskBackend, keys: Mapping[str, str]) -> dict[str, CachedRate]:
    """What the run measured well enough to be remembered."""
    measured = backend.figures.measured()
    return {
        keys[operator]: CachedRate(**figures, setup_s=backend.setups.get(operator, 0.0))
        for operator, figures in measured.items()
    }


def _views(client: Client) -> list[WorkerState]:
    """What the workers of a cluster say they are; one that goes away meanwhile is left out."""
    views = []
    for address, said in client.run(describe, on_error="return").items():
        if isinstance(said, ImportError | AttributeError):
            raise _too_old(said) from said
        if isinstance(said, DcurateError):
            raise said
        if isinstance(said, dict):
            one = WorkerInfo.from_dict(said)
            views.append(WorkerState(address, one.host, said["threads"], one.cpus, one.cards, one.kind))
    return views


def _register(client: Client, scaler: SlotManager, stack: ExitStack) -> None:
    try:
        _have_slots_held(client)
        client.register_plugin(scaler)
    except (ImportError, AttributeError) as error:
        raise _too_old(error) from error
    stack.callback(_unregister, client, scaler)


def _have_slots_held(client: Client) -> None:
    """Have every worker hold slots, those that come later too, whichever die meanwhile."""
    if not client.run_on_scheduler(have_slots_held, plugin=dumps(DcurateWorkerPlugin())):
        return
    for _ in range(ASKS):
        answers = client.run(holds_slots, on_error="return").values()
        for fault in answers:
            if isinstance(fault, ImportError | AttributeError):
                raise fault
        if all(answer is True for answer in answers):
            return
        time.sleep(ASK_S)
    raise RunError("workers do not answer, or die, as the run begins; start the run again with resume=True to go on")


def _too_old(error: Exception) -> ResourceError:
    return ResourceError(
        f"the cluster cannot load dcurate ({error}); install the same version on its scheduler and workers"
    )


def _unregister(client: Client, scaler: SlotManager) -> None:
    if client.status == "running":
        with suppress(CommClosedError):
            compat.send_to_scheduler(client, {"op": OVER, "run": scaler.run})
            client.run_on_scheduler(end, name=scaler.name)


def _let_go(client: Client, run: str) -> None:
    if client.status == "running":
        with suppress(CommClosedError):
            client.run_on_scheduler(let_go, run=run, client=client.id)


def _dismiss(client: Client, run: str) -> list[str]:
    """Tear down the run's slots everywhere; what failed, in words."""
    if client.status != "running":
        return []
    answers: dict[str, list[str]] = {}
    with suppress(CommClosedError):
        answers = client.run(dismiss, run=run, on_error="ignore")
    return [failure for failures in answers.values() if isinstance(failures, list) for failure in failures]
