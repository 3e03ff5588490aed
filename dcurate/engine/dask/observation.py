"""What the scheduler knows of a run at one moment: the view of it that policies get, and samples of hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dcurate.cluster.worker_shape import Shape
from dcurate.engine.allocate.requests import OperatorRequest, WorkerState
from dcurate.engine.dask.records import OperatorRecord
from dcurate.engine.policies.view import OperatorView, RunView, WorkerView
from dcurate.events import GpuSample, HostSample


@dataclass(frozen=True)
class RunConfig:
    """What a `SlotManager` needs to know about a run.

    Args:
        requests: requests of the operators, in order.
        payloads: each operator's pickled `OperatorSpec`, by name.
        sequential: whether operators run one after the other (batch mode).
        priors: measurements of earlier runs by operator; only ``setup_s`` is used here.
        lifetimes: by operator, the minutes that a worker process lives, and the minutes between two restarts.
        interval_s: the longest time between two decisions on slots, in seconds.
        worker_timeout_s: how long to wait for workers where there are none, in seconds.
        scheduler_timeout_s: how long the driver waits for a scheduler that does not answer, in seconds.
        policies: policies of the user, pickled.
        left_out: addresses of workers that take no part, as they lack what the run needs.
        needs: pickled `WorkerNeeds`, which each worker checks as it joins; empty to check nothing.
        pipeline: name of the pipeline, ``owner`` of who runs it, and ``output`` where it writes, for the scheduler's
            log and for other runs that wait for this one.
        share: its weight among the runs of its priority.
        priority: runs of a higher one are served first.
        max_cpus: the most threads that it may use; None for no limit.
        max_gpus: the most GPUs that it may use; None for no limit.
        takes_lines: whether the driver takes what stages print, log and warn on workers.
    """

    requests: Sequence[OperatorRequest]
    payloads: Mapping[str, bytes]
    sequential: bool = False
    priors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    lifetimes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    interval_s: float = 180.0
    worker_timeout_s: float = 600.0
    scheduler_timeout_s: float = 10.0
    policies: bytes = b""
    left_out: frozenset[str] = frozenset()
    needs: bytes = b""
    pipeline: str = ""
    owner: str = ""
    output: str = ""
    share: float = 1.0
    priority: int = 0
    max_cpus: int | None = None
    max_gpus: int | None = None
    takes_lines: bool = False

    @property
    def about(self) -> str:
        """Pipeline, owner and output in a few words."""
        return f"{self.pipeline!r} of {self.owner}{f', to {self.output}' if self.output else ''}"


@dataclass(frozen=True)
class Observation:
    """A copy of what changes in a run. Times are of `time.monotonic`, in seconds.

    Args:
        time: time of the copy.
        started: when the first worker was seen; None if none was.
        workers: the arguments of their `WorkerView`.
        operators: copies of their records.
        exhausted: whether the driver has taken all splits of the source.
        elapsed: seconds of the longest running call, by operator.
        under_way: number of tasks that have a worker or want one, by operator.
        recycled_at: when a worker process of an operator was last recycled.
        kinds: kinds of workers that can be started.
        starting: number of workers that have not registered yet.
        asked: whether something has asked of late how many workers are wanted.
        workerless_s: how long there has been no worker, in seconds.
        changed: whether anything has changed since the last copy.
        waits: why the run waits for other runs; empty if it does not.
    """

    time: float
    started: float | None
    workers: Sequence[tuple[Any, ...]]
    operators: Sequence[OperatorRecord]
    exhausted: bool
    elapsed: Mapping[str, float]
    under_way: Mapping[str, int]
    recycled_at: Mapping[str, float]
    kinds: Mapping[str, Shape]
    starting: int
    asked: bool
    workerless_s: float
    changed: bool
    waits: str = ""


def run_view(config: RunConfig, seen: Observation) -> RunView:
    """Return the view of a run that policies get; the scheduler makes it in a thread."""
    wanted: Counter[str] = Counter()
    ready: Counter[str] = Counter()
    for worker in seen.workers:
        wanted.update({operator: claim.slots for operator, claim in worker[1].items()})
        ready.update(worker[2])
    operators = {}
    for record in seen.operators:
        name, recycled_at = record.request.operator, seen.recycled_at.get(record.request.operator)
        lifetime_m, restart_m = config.lifetimes.get(name, (0.0, 0.0))
        operators[name] = OperatorView(
            name,
            record.request,
            wanted[name],
            ready[name],
            **_measurements(record.statistics, seen.elapsed.get(name, 0.0), seen.under_way.get(name, 0)),
            first_sample_at=record.first_sample_at,
            shifted_at=record.shifted_at,
            setup_s=record.setup.seconds,
            lifetime_m=lifetime_m,
            restart_interval_m=restart_m,
            recycled_s=None if recycled_at is None else seen.time - recycled_at,
        )
    return RunView(
        time=seen.time,
        started=seen.time if seen.started is None else seen.started,
        operators=operators,
        workers={worker[0].address: WorkerView(*worker) for worker in seen.workers},
        kinds=seen.kinds,
        starting=seen.starting,
        asked=seen.asked,
        workerless_s=seen.workerless_s,
        exhausted=seen.exhausted,
        sequential=config.sequential,
        changed=seen.changed,
        waits=seen.waits,
        interval_s=config.interval_s,
        worker_timeout_s=config.worker_timeout_s,
    )


def _measurements(statistics: Mapping[str, Any] | None, elapsed_s: float, under_way: int) -> dict[str, Any]:
    """The measurements of an operator, as an `OperatorView` has them; none if the driver has reported none.

    An operator that has ended for the driver works again while Dask makes results again that were lost with a worker.

    Args:
        elapsed_s: seconds of its longest running call.
        under_way: number of its tasks that have a worker or want one.
    """
    if statistics is None:
        return {}
    names = ("seconds", "samples", "cv", "wobble", "cached", "waiting", "running")
    values = {name: statistics[name] for name in names if name in statistics}
    batches_per_call = max(1.0, statistics["running"] / max(1, statistics["calls"]))
    values["elapsed_s"] = elapsed_s / batches_per_call
    if statistics["ended"]:
        values["waiting"] = under_way
    return values | {"outputs_per_input": statistics["ratio"], "finished": statistics["ended"] and not under_way}


def host_samples(workers: Iterable[tuple[WorkerState, Any]]) -> list[dict[str, Any]]:
    """Return a `HostSample` of each host as plain values, sorted by name.

    Args:
        workers: info and the scheduler's ``WorkerState`` of each worker.
    """
    hosts: dict[str, HostSample] = {}
    gpus: dict[str, dict[str, GpuSample]] = {}
    for worker, state in workers:
        metrics = state.metrics
        before = hosts.get(worker.host, HostSample(worker.host, 0, 0, 0.0, 0, 0))
        hosts[worker.host] = HostSample(
            host=worker.host,
            workers=before.workers + 1,
            threads=before.threads + state.nthreads,
            cpu=before.cpu + metrics.get("cpu", 0.0) / 100,
            memory=before.memory + int(metrics.get("memory", 0)),
            memory_limit=before.memory_limit + int(state.memory_limit or 0),
            spilled=before.spilled + int(metrics.get("spilled_bytes", {}).get("disk", 0)),
        )
        if worker.gpus and "gpu" in metrics:
            name, memory_total = worker.gpus[0]
            gpus.setdefault(worker.host, {})[name] = _gpu_sample(
                name, int(memory_total), metrics["gpu"], state.extra.get("gpu", {})
            )
    return [
        {**host.to_dict(), "gpus": [dict(vars(gpu)) for _, gpu in sorted(gpus.get(name, {}).items())]}
        for name, host in sorted(hosts.items())
    ]


def _gpu_sample(name: str, memory_total: int, metrics: Mapping[str, Any], static: Mapping[str, Any]) -> GpuSample:
    """Sample a GPU as one of its workers sees it; untested on a GPU."""
    total = int(static.get("memory-total") or memory_total)
    return GpuSample(name, int(metrics.get("memory-used") or 0), total, (metrics.get("utilization") or 0) / 100)
