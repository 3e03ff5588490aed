"""Run a pipeline on Dask, in streaming or batch mode."""

from __future__ import annotations

import logging
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from distributed import Client, Future
from distributed.deploy import Cluster as DaskCluster
from distributed.protocol.pickle import dumps

from dcurate.cluster import compat
from dcurate.cluster.attach import (
    ClientCluster,
    GatewayCluster,
    GivesClients,
    ask_whom_it_reaches,
    cluster_of,
    wait_for_workers,
)
from dcurate.cluster.base import Cluster, scheduler_needed
from dcurate.cluster.local import LocalCluster
from dcurate.cluster.scale_api import client_offered_shapes
from dcurate.cluster.versions import check_versions
from dcurate.cluster.worker_info import WorkerInfo
from dcurate.core.batch import Batch, FileGroup
from dcurate.core.extras import libraries, missing
from dcurate.core.fingerprint import fingerprint
from dcurate.core.owner import present_owner
from dcurate.core.resources import Resources
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.allocate.autoscaler import workers_at
from dcurate.engine.allocate.rate_cache import CachedRate, RateCache, key_of
from dcurate.engine.allocate.requests import OperatorRequest, WorkerState, form_pools
from dcurate.engine.config import ExecutorConfig
from dcurate.engine.dask.backend import DaskBackend
from dcurate.engine.dask.compilation import compile_ahead
from dcurate.engine.dask.compiled_code import compiled_once
from dcurate.engine.dask.mounts import check_mounts, mounts_of
from dcurate.engine.dask.needs import WorkerNeeds
from dcurate.engine.dask.observation import RunConfig
from dcurate.engine.dask.own_modules import travelling
from dcurate.engine.dask.run_share import check_limits
from dcurate.engine.dask.scheduler_calls import RUN_ENDED, forget_run, install_worker_plugin
from dcurate.engine.dask.scheduler_plugin import SlotManager, stop_run
from dcurate.engine.dask.worker_plugin import DcurateWorkerPlugin, describe, end_output, has_plugin, release_run
from dcurate.engine.driver import DriverLoop
from dcurate.engine.flow import Flow
from dcurate.engine.policies.speculation import Speculation
from dcurate.engine.policies.view import Policy
from dcurate.engine.serialization import pickled, pickled_policies
from dcurate.errors import DcurateError, PipelineError, ResourceError, RunError, StageError, listed
from dcurate.fs.stores import Directory
from dcurate.plan.operators import Plan

#: How long a worker may take to tear down the slots of a run, in seconds.
TEARDOWN_S = 600.0
#: How often workers are asked again that die or start meanwhile, and seconds between two attempts.
ATTEMPTS, RETRY_S = 50, 0.2

_log = logging.getLogger("dcurate.engine")


class DaskExecutor:
    """Runs a pipeline on a Dask cluster: the default.

    Args:
        config: settings by name, see `ExecutorConfig`: ``execution_mode`` and the others of the original.
        cluster: where to run: a `LocalCluster` or `AttachedCluster`, the address of a scheduler, a cluster of Dask's
            own such as ``distributed.LocalCluster``, one of dask-gateway, or a connected ``distributed.Client``. An
            embedded cluster of this machine's CPUs (and GPUs) if not given. A `LocalCluster` or `AttachedCluster` that
            is not open is opened and closed around each run; a cluster of Dask's own and a client are left as they are.
        policies: your own policies: objects whose ``run(view)`` yields suggestions, see `dcurate.engine.policies`.

    Raises:
        PipelineError: an unknown setting, a value out of range, an invalid cluster, or what is not a policy.

    Examples:
        >>> DaskExecutor({"execution_mode": "batch"}).mode
        'batch'
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        cluster: Cluster | DaskCluster | GivesClients | Client | str | None = None,
        policies: Sequence[Policy] = (),
    ) -> None:
        self.config = ExecutorConfig.of(config)
        self.cluster = cluster_of(cluster, self.config.scheduler_timeout_s)
        if cluster is not None and "cpu_allocation_percentage" in (config or {}):
            _log.warning(
                "cpu_allocation_percentage has no effect, as it is a share of the CPUs for workers that a run starts "
                "itself, and a cluster is given"
            )
        for name in {"share", "priority"} & set(config or {}) if cluster is None else ():
            _log.warning("%s has no effect, as no other run uses the workers that a run starts itself", name)
        self.policies = _checked(policies)

    def __repr__(self) -> str:
        """Show the settings that are not the usual ones, the cluster, and the policies."""
        usual = ExecutorConfig()
        changed = {name: value for name, value in vars(self.config).items() if value != getattr(usual, name)}
        shown = {"config": changed, "cluster": self.cluster, "policies": list(self.policies)}
        return f"DaskExecutor({', '.join(f'{name}={value!r}' for name, value in shown.items() if value)})"

    @property
    def mode(self) -> str:
        """``"streaming"`` or ``"batch"``."""
        return self.config.execution_mode

    @property
    def elsewhere(self) -> bool:
        """Whether the workers may have other libraries than this process."""
        return not (self.cluster is None or isinstance(self.cluster, LocalCluster))

    @contextmanager
    def session(self) -> Iterator[DaskSession]:
        """The cluster, open for as long as the ``with`` statement lasts."""
        with scheduler_needed(), ExitStack() as stack:
            cluster = self.cluster or LocalCluster(cpu_fraction=self.config.cpu_allocation_percentage)
            if not cluster.is_open:
                stack.enter_context(cluster)
            left_out: dict[str, str] = {}
            if self.elsewhere:
                try:
                    left_out = check_versions(cluster.client)
                    stack.enter_context(travelling(cluster.client))
                except (ImportError, AttributeError) as error:
                    raise _too_old(error) from error
            _warn(left_out)
            session = DaskSession(cluster, self.config, self.policies, left_out)
            stack.callback(session.held.clear)
            yield session


@dataclass(frozen=True)
class DaskSession:
    """An open cluster on which rounds are run.

    Args:
        policies: policies of the user.
        left_out: workers that take no part, each with the reason.
        held: results for which a cluster that was scaled from none keeps its worker.
    """

    cluster: Cluster
    config: ExecutorConfig
    policies: tuple[Policy, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    held: list[Future | None] = field(default_factory=list)

    @property
    def client(self) -> Client:
        """The cluster's client."""
        return self.cluster.client

    @property
    def serving(self) -> Client | None:
        """The client, if the scheduler's pages or metrics are served."""
        return self.client if not isinstance(self.cluster, LocalCluster) or self.cluster.dashboard else None

    @property
    def _sequential(self) -> bool:
        return self.config.execution_mode == "batch"

    def check(self, plan: Plan) -> None:
        """Refuse a plan that cannot run here.

        Raises:
            ResourceError: an operator does not fit on the workers.
            StageError: a stage cannot be pickled.
            PipelineError: a policy cannot be pickled.
        """
        for spec in Round("", plan, iter(())).operator_specs():
            pickled(spec)
        pickled_policies(self.policies)
        self._leave_out_lacking(plan)
        shapes = client_offered_shapes(self.client)
        coming = workers_at(shapes, {kind: shape.maximum for kind, shape in shapes.items()})
        workers = [*(worker for worker in self._workers() if worker.kind not in shapes), *coming]
        end, warned = time.monotonic() + self.config.worker_timeout_s, False
        while not workers:  # one that came may be gone before it answers
            silent = sorted(compat.identify_workers(self.client).keys() - self.left_out.keys())
            if time.monotonic() > end:
                raise ResourceError(_why_no_worker(silent, self.config.worker_timeout_s))
            if silent and not warned:
                text = "worker %s does not answer; the run waits up to %g seconds for one that does"
                _log.warning(text, listed(silent), self.config.worker_timeout_s)
                warned = True
            self.held.append(wait_for_workers(self.client, self.config.worker_timeout_s))
            time.sleep(RETRY_S)
            if not isinstance(self.cluster, ClientCluster | GatewayCluster):
                ask_whom_it_reaches(self.client)
            self._leave_out_lacking(plan)
            workers = self._workers()
        requests = _requests(plan, self.config, _have_gpus(workers))
        form_pools(requests, workers, self._sequential)
        check_limits(RunConfig(requests, {}, self._sequential, **self._limits), workers)

    def _leave_out_lacking(self, plan: Plan) -> None:
        """Leave out workers that lack a library of the plan."""
        lacking = _check_libraries(self.client, plan, self.left_out)
        _warn(lacking)
        self.left_out.update(lacking)

    @property
    def _limits(self) -> dict[str, Any]:
        """What the run may use of a cluster beside others."""
        return {name: getattr(self.config, name) for name in ("share", "priority", "max_cpus", "max_gpus")}

    def _needs(self, job: Round, accounting: RunAccounting, stack: ExitStack) -> WorkerNeeds:
        """Return what workers must have and see, also those that join later; leave out those that see something else.

        Raises:
            ResourceError: no worker sees the same output and input as this process; names workers and hosts.
            DataError: the output cannot be written.
        """
        sink, first = job.plan.sink, None if job.phase else accounting.first_split()
        output = None if sink is None else Directory(sink.output_path, sink.storage_options or {})
        parts = first.parts[:1] if isinstance(first, FileGroup) else ()
        mounts = stack.enter_context(mounts_of(output, parts))
        if not job.phase:
            blind = check_mounts(self.client, self.left_out, mounts)
            _warn(blind)
            self.left_out.update(blind)
        return WorkerNeeds(tuple(libraries(job.plan.parts)), replace(mounts, underway=True))

    def _gpus_for(self, plan: Plan) -> bool:
        """Whether there is or will be a GPU; True without asking if no stage of the plan makes its GPU optional."""
        if not any(operator.spec.gpu_optional for operator in plan.operators):
            return True
        shapes = client_offered_shapes(self.client)
        coming = workers_at(shapes, {kind: shape.maximum for kind, shape in shapes.items()})
        return _have_gpus([*self._workers(), *coming])

    def _workers(self) -> list[WorkerState]:
        """Ask the workers for their info, again while those that the cluster starts itself come back."""
        for _ in range(ATTEMPTS):
            self.cluster.settle()
            if workers := _workers(self.client, self.left_out):
                return workers
            if not isinstance(self.cluster, LocalCluster):
                break
            time.sleep(RETRY_S)
        return []

    def execute(self, job: Round, accounting: RunAccounting) -> Iterator[Batch]:
        """Run a round; yield the batches to emit as they come."""
        job = replace(job, ignore_failures=self.config.ignore_failures)
        config = RunConfig(
            requests=_requests(job.plan, self.config, self._gpus_for(job.plan)),
            payloads={spec.operator: pickled(spec) for spec in job.operator_specs()},
            sequential=self._sequential,
            lifetimes={
                operator.name: (operator.spec.worker_max_lifetime_m, operator.spec.worker_restart_interval_m)
                for operator in job.plan.operators
            },
            interval_s=self.config.autoscale_interval_s,
            worker_timeout_s=self.config.worker_timeout_s,
            scheduler_timeout_s=self.config.scheduler_timeout_s,
            policies=pickled_policies([policy for policy in self.policies if not isinstance(policy, Speculation)]),
            pipeline=job.pipeline,
            owner=present_owner().person,
            output=job.output,
            takes_lines=present_owner().take_lines is not None,
            **self._limits,
        )
        speculation = next((policy for policy in self.policies if isinstance(policy, Speculation)), None)
        self.cluster.settle()
        failures: list[str] = []
        with ExitStack() as stack:
            if isinstance(self.cluster, LocalCluster):
                compile_ahead(self.client, job.kernels, accounting)
            else:
                config = replace(config, needs=dumps(self._needs(job, accounting, stack)))
            known = compat.identify_workers(self.client)
            workers = [worker for address, worker in known.items() if address not in self.left_out]
            accounting.workers = len(workers)
            cache, keys = RateCache(), _cache_keys(job.plan, workers)
            config = replace(config, priors=_priors(cache, keys), left_out=frozenset(self.left_out))
            memory = sum(int(worker["memory_limit"] or 0) for worker in workers)
            budget = min(memory, self.cluster.memory or memory) * self.config.memory_share
            batch_sizes = [operator.batch_size for operator in job.plan.operators]
            flow = Flow(batch_sizes, budget, job.delivers, self._sequential)
            stack.callback(_forget_run, self.client, job.run_key)
            if not isinstance(self.cluster, LocalCluster):
                stack.enter_context(compiled_once(self.client, job.kernels, accounting))
            backend = stack.enter_context(
                DaskBackend(self.cluster, job, accounting, flow, config, speculation=speculation)
            )
            if config.takes_lines:
                stack.callback(lambda: backend.take_last_lines(_end_output(self.client, job.run_key)))
            stack.callback(lambda: failures.extend(_release_run(self.client, job.run_key)))
            stack.callback(backend.close)
            try:
                _register(self.client, SlotManager(job.run_key, config, self.client.id), stack, self.left_out)
                yield from DriverLoop(flow, accounting, backend).run()
            finally:
                cache.store(_measured_rates(backend, keys))
        if failures:
            raise StageError(f"the output is complete, but {'; '.join(failures)}")


def _checked(policies: Sequence[Policy]) -> tuple[Policy, ...]:
    """The policies, if they are some."""
    if not isinstance(policies, list | tuple):
        raise PipelineError(f"policies={policies!r} is not a list of policies: policies=[...]")
    for policy in policies:
        if isinstance(policy, type):
            raise PipelineError(
                f"policies holds the class {policy.__name__}; pass an instance of it: {policy.__name__}(...)"
            )
        if not callable(getattr(policy, "run", None)):
            raise PipelineError(f"policies holds {policy!r}, which is not a policy: it has no method run(view)")
    return tuple(policies)


def _why_no_worker(silent: Sequence[str], waited_s: float) -> str:
    """Say why no worker could be asked what it has.

    Args:
        silent: addresses of the workers that are there.
        waited_s: longest wait in seconds.
    """
    if not silent:
        return "the workers of the cluster end before they can be asked what they have"
    return (
        f"worker {listed(silent)} does not answer, and none that does came within {waited_s:g} seconds; its log may "
        "say why; end it, and start workers with 'dask worker' (worker_timeout_s says how long to wait)"
    )


def _have_gpus(workers: Iterable[WorkerState]) -> bool:
    return any(worker.gpus for worker in workers)


def _requests(plan: Plan, config: ExecutorConfig, gpus: bool) -> list[OperatorRequest]:
    """Build the requests of the operators, with or without GPUs."""
    return [
        OperatorRequest(
            operator=operator.name,
            resources=operator.resources
            if gpus or not operator.spec.gpu_optional
            else Resources(operator.resources.cpus),
            num_workers=operator.num_workers,
            num_workers_per_node=operator.spec.num_workers_per_node,
            max_workers=min(filter(None, (operator.spec.max_workers, config.max_workers_per_stage)), default=None),
            cheap_setup=operator.cheap_setup,
        )
        for operator in plan.operators
    ]


def _cache_keys(plan: Plan, workers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the key of each operator in the rate cache, from its stages and the kind of workers."""
    hardware = repr(sorted({(int(worker["nthreads"]), *sorted(worker["resources"])) for worker in workers}))
    return {
        operator.name: key_of([f"{name} {digest}" for name, digest in fingerprint(operator.parts).items()], hardware)
        for operator in plan.operators
    }


def _priors(cache: RateCache, keys: Mapping[str, str]) -> dict[str, dict[str, float]]:
    cached = {operator: cache.lookup(key) for operator, key in keys.items()}
    return {operator: asdict(rate) for operator, rate in cached.items() if rate is not None}


def _measured_rates(backend: DaskBackend, keys: Mapping[str, str]) -> dict[str, CachedRate]:
    """Return the rates that were measured well enough to be cached."""
    measured = backend.throughput.measured()
    return {
        keys[operator]: CachedRate(**throughput, setup_s=backend.setups.get(operator, 0.0))
        for operator, throughput in measured.items()
    }


def _workers(client: Client, left_out: Container[str] = ()) -> list[WorkerState]:
    """Ask the workers for their info, except those that are left out or go away meanwhile."""
    workers = []
    for address, answer in compat.ask_workers(client, describe).items():
        if address in left_out:
            continue
        if isinstance(answer, ImportError | AttributeError):
            raise _too_old(answer) from answer
        if isinstance(answer, DcurateError):
            raise answer
        if isinstance(answer, dict):
            info = WorkerInfo.from_dict(answer)
            workers.append(WorkerState(address, info.host, answer["threads"], info.cpus, info.gpus, info.kind))
    return workers


def _check_libraries(client: Client, plan: Plan, left_out: Container[str]) -> dict[str, str]:
    """Return the workers that do not have a library of an extra that a plan needs, each with the reason.

    Args:
        client: client of the cluster.
        plan: what is to run.
        left_out: workers that are left out already.

    Raises:
        ResourceError: no worker has them; names the library, its extra and the worker.
    """
    wanted = libraries(plan.parts)
    if not wanted:
        return {}
    answers = compat.ask_workers(client, missing, [library.module for library in wanted])
    asked = {address: absent for address, absent in sorted(answers.items()) if address not in left_out}
    lacking: dict[str, str] = {}
    for address, absent in asked.items():
        for library in wanted if isinstance(absent, list) else ():
            if library.module in absent:
                lacking.setdefault(address, str(library.error))
    if lacking and len(lacking) == len(asked):
        address, reason = next(iter(lacking.items()))
        raise ResourceError(f"worker {address}: {reason}")
    return lacking


def _warn(left_out: Mapping[str, str]) -> None:
    """Say which workers are left out."""
    for address, reason in left_out.items():
        _log.warning("worker %s takes no part in the run: %s", address, reason)


def _register(client: Client, scaler: SlotManager, stack: ExitStack, left_out: Container[str]) -> None:
    try:
        _install_worker_plugin(client, left_out)
        client.register_plugin(scaler)
    except (ImportError, AttributeError) as error:
        raise _too_old(error) from error
    stack.callback(_unregister, client, scaler)


def _install_worker_plugin(client: Client, left_out: Container[str]) -> None:
    """Install the worker plugin on all workers, present and future, whichever die meanwhile or are left out."""
    if not client.run_on_scheduler(install_worker_plugin, plugin=dumps(DcurateWorkerPlugin())):
        return
    for _ in range(ATTEMPTS):
        asked = compat.ask_workers(client, has_plugin)
        answers = [answer for address, answer in asked.items() if address not in left_out]
        for fault in answers:
            if isinstance(fault, ImportError | AttributeError):
                raise fault
        if all(answer is True for answer in answers):
            return
        time.sleep(RETRY_S)
    raise RunError("workers do not answer, or die, as the run begins; start the run again with resume=True to go on")


def _too_old(error: Exception) -> ResourceError:
    return ResourceError(
        f"the cluster cannot load dcurate ({error}); install the same version on its scheduler and workers"
    )


def _unregister(client: Client, scaler: SlotManager) -> None:
    if client.status == "running":
        with suppress(OSError):  # it is gone, or does not accept connections
            client.run_on_scheduler(stop_run, name=scaler.name)


def _forget_run(client: Client, run: str) -> None:
    if client.status == "running":
        with suppress(OSError):
            compat.send_to_scheduler(client, {"op": RUN_ENDED, "run": run})
            client.run_on_scheduler(forget_run, run=run, client=client.id)


def _end_output(client: Client, run: str) -> dict[str, Any]:
    """Have the workers send their last lines; return how many messages each has sent."""
    if client.status != "running":
        return {}
    with suppress(OSError):
        return compat.ask_workers(client, end_output, run=run)
    return {}


def _release_run(client: Client, run: str) -> list[str]:
    """Tear down the run's slots on all workers; return error messages."""
    if client.status != "running":
        return []
    answers: dict[str, list[str]] = {}
    with suppress(OSError):
        answers = compat.ask_workers(client, release_run, answer_s=TEARDOWN_S, run=run)
    return [failure for failures in answers.values() if isinstance(failures, list) for failure in failures]
