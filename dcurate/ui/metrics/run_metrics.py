"""Metrics of runs on the scheduler's ``/metrics``, which Dask serves; and where Prometheus finds the workers.

Metrics are computed on request only.
"""

from __future__ import annotations

import json
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tornado.web import RequestHandler

from dcurate.cluster.compat import handle_http
from dcurate.events import GpuSample, HostSample
from dcurate.runs.history import History
from dcurate.runs.snapshot import LATENCY_S, OperatorFigures, RunSnapshot
from dcurate.ui.metrics.counters import HISTOGRAM, RunCounters
from dcurate.ui.metrics.definitions import (
    RUN_METRICS,
    TARGETS,
    Labels,
    MetricFamily,
    exposed,
    exposed_histogram,
    prometheus,
)

if TYPE_CHECKING:
    from distributed import Scheduler

#: Seconds without a message after which a run that has not ended is reported as silent, without gauges.
SILENT_S = 60.0

#: Present values: by metric, then by the values of its labels.
Gauges: TypeAlias = defaultdict[str, defaultdict[Labels, float]]

_OPERATOR_GAUGES: Mapping[str, Callable[[OperatorFigures], float]] = {
    "dcurate_operator_slots": lambda operator: operator.slots,
    "dcurate_operator_running_batches": lambda operator: operator.running,
    "dcurate_operator_waiting_batches": lambda operator: operator.waiting,
    "dcurate_operator_waiting_bytes": lambda operator: operator.waiting_bytes,
}
_RUN_GAUGES: Mapping[str, Callable[[RunSnapshot], float | None]] = {
    "dcurate_queue_bytes": lambda run: run.held_bytes,
    "dcurate_queue_budget_bytes": lambda run: run.budget_bytes,
    "dcurate_splits": lambda run: run.splits,
    "dcurate_splits_done": lambda run: run.splits_before + run.splits_done,
}
_HOST_GAUGES: Mapping[str, Callable[[HostSample], float]] = {
    "dcurate_host_workers": lambda host: host.workers,
    "dcurate_host_threads": lambda host: host.threads,
    "dcurate_host_busy_cpus": lambda host: host.cpu,
    "dcurate_host_memory_bytes": lambda host: host.memory,
    "dcurate_host_memory_limit_bytes": lambda host: host.memory_limit,
    "dcurate_host_spilled_bytes": lambda host: host.spilled,
}
_GPU_GAUGES: Mapping[str, Callable[[GpuSample], float]] = {
    "dcurate_gpu_memory_bytes": lambda gpu: gpu.memory,
    "dcurate_gpu_memory_limit_bytes": lambda gpu: gpu.memory_total,
    "dcurate_gpu_busy_ratio": lambda gpu: gpu.busy,
}


class RunStore(Protocol):
    """Keeps the histories of the runs on a scheduler.

    Attributes:
        runs: the newest, by id, ended ones included.
        leaving: are called with what is kept of a run before it is dropped.
    """

    @property
    def runs(self) -> Mapping[str, History]: ...

    @property
    def leaving(self) -> list[Callable[[History], object]]: ...


class RunMetrics:
    """Metrics of the runs of a store: their present state, and counters.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, store: RunStore, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.counters = RunCounters()
        self._store = weakref.ref(store)
        self._heard: dict[str, tuple[RunSnapshot, float]] = {}
        store.leaving.append(self.take)

    def take(self, history: History) -> RunSnapshot:
        """Count what a run has done."""
        present = history.snapshot()
        before, heard = self._heard.get(present.run, (None, 0.0))
        if before is None or before.time != present.time:
            heard = self.clock()
        if before is not present:
            self.counters.take(present, history.notes)
        self._heard[present.run] = (present, heard)
        return present

    def collect(self, library: Any) -> Iterator[Any]:
        """The metrics, as the client library shows them."""
        store = self._store()
        present = [self.take(history) for history in store.runs.values() if history.points] if store is not None else []
        known = [run.run for run in present]
        self.counters.forget(known)
        self._heard = {run: heard for run, heard in self._heard.items() if run in known}
        since = self.clock() - SILENT_S
        going = [(run, self._heard[run.run][1]) for run in present if run.ended is None]
        active, silent = [run for run, heard in going if heard >= since], [run for run, heard in going if heard < since]
        gauges = self._gauges(active, silent)
        for family in RUN_METRICS:
            if family.kind == "histogram":
                histograms = self.counters.histograms(len(LATENCY_S) + 1)
                yield exposed_histogram(library, HISTOGRAM, LATENCY_S, histograms)
            else:
                samples = self._samples(family, gauges)
                yield exposed(library, family.name, samples)

    def _samples(self, family: MetricFamily, gauges: Gauges) -> Iterable[tuple[Labels, float]]:
        return self.counters.of(family.name) if family.kind == "counter" else gauges[family.name].items()

    def _gauges(self, active: list[RunSnapshot], silent: list[RunSnapshot]) -> Gauges:
        """Present values, added up over the active runs of a pipeline."""
        gauges: Gauges = defaultdict(lambda: defaultdict(float))
        for state, runs in (("active", active), ("silent", silent)):
            for (pipeline,), _ in self.counters.of("dcurate_runs_started_total"):
                gauges["dcurate_runs"][pipeline, state] = 0
            for run in runs:
                gauges["dcurate_runs"][self.counters.pipeline(run.pipeline), state] += 1
        for run in active:
            self._add_run(run, gauges)
        for host in _hosts(active).values():
            for family, of_host in _HOST_GAUGES.items():
                gauges[family][host.host,] = of_host(host)
            for gpu in host.gpus:
                for family, of_gpu in _GPU_GAUGES.items():
                    gauges[family][host.host, gpu.name] = of_gpu(gpu)
        return gauges

    def _add_run(self, run: RunSnapshot, gauges: Gauges) -> None:
        pipeline = self.counters.pipeline(run.pipeline)
        gauges["dcurate_run_info"][pipeline, run.run, run.mode, run.owner, run.output] = 1
        for family, of_run in _RUN_GAUGES.items():
            value = of_run(run)
            if value is not None:
                gauges[family][pipeline,] += value
        for operator in run.operators:
            if operator.phase == run.phase:
                labels = (pipeline, self.counters.operator(pipeline, operator))
                for family, of_operator in _OPERATOR_GAUGES.items():
                    gauges[family][labels] += of_operator(operator)
                gauges["dcurate_operator_setup_seconds"][labels] = operator.setup_seconds


def _hosts(runs: Iterable[RunSnapshot]) -> dict[str, HostSample]:
    """Each host once, as the run says that was heard of last."""
    return {host.host: host for run in sorted(runs, key=lambda run: run.time) for host in run.hosts}


class _Collector:
    """The collector in Prometheus' registry of this process, which Dask's scheduler exports."""

    #: Of several schedulers in one process, one after the other, the newest is exported, as in Dask's own metrics.
    shown: RunMetrics | None = None
    registered = False

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        library = prometheus()
        return iter(()) if library is None or self.shown is None else self.shown.collect(library)


_COLLECTOR = _Collector()


def publish(scheduler: Scheduler, store: RunStore) -> bool:
    """Add metrics of runs to the scheduler's ``/metrics``, and the list of its workers' for Prometheus to find.

    Returns:
        False where the Prometheus client library is not installed; only the list of workers is there then.
    """
    # A scheduler does not keep the prefix that its pages may have.
    handle_http(scheduler, TARGETS, _Targets, {"scheduler": scheduler})
    library = prometheus()
    if library is None:
        return False
    _COLLECTOR.shown = RunMetrics(store)
    if not _COLLECTOR.registered:
        library.registry.register(_COLLECTOR)
        _COLLECTOR.registered = True
    return True


class _Targets(RequestHandler):
    """Serves `targets`."""

    def initialize(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def get(self) -> None:
        """Answer a request."""
        self.set_header("Content-Type", "application/json")
        self.write(json.dumps(targets(self.scheduler)))


def targets(scheduler: Scheduler) -> list[dict[str, Any]]:
    """The dashboards of a scheduler's workers, in the format of Prometheus' HTTP service discovery."""
    return [
        {"targets": [_at(worker.host, worker.services["dashboard"])], "labels": {"worker": str(worker.name)}}
        for worker in scheduler.workers.values()
        if "dashboard" in worker.services
    ]


def _at(host: str, port: int) -> str:
    """A host and a port as a URL has them.

    Examples:
        >>> _at("10.0.0.7", 8790), _at("fe80::1", 8790)
        ('10.0.0.7:8790', '[fe80::1]:8790')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
