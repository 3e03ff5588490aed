"""Metrics of a worker process on its own ``/metrics``, which Dask serves: memory, slots, calls.

GPU metrics were not tested on a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from distributed.diagnostics.plugin import WorkerPlugin

from dcurate.cluster.compat import gpu_memory, plugin_of, process_memory
from dcurate.cluster.worker_info import worker_info
from dcurate.engine.dask.worker_plugin import PLUGIN, CallCounts, DcurateWorkerPlugin
from dcurate.ui.metrics.counters import STAGES, CounterNames
from dcurate.ui.metrics.definitions import WORKER_METRICS, Labels, exposed, prometheus

if TYPE_CHECKING:
    from distributed import Worker

_CALLS: Mapping[str, Callable[[CallCounts], float]] = {
    "dcurate_worker_calls_total": lambda calls: calls.returned,
    "dcurate_worker_call_failures_total": lambda calls: calls.raised,
    "dcurate_worker_call_seconds_total": lambda calls: calls.seconds,
}

Samples = dict[str, list[tuple[Labels, float]]]


class WorkerMetrics(WorkerPlugin):
    """Add dcurate's metrics to a worker's ``/metrics``. They are computed on request only."""

    name = "dcurate-metrics"
    idempotent = True

    def setup(self, worker: Worker) -> None:
        """Begin on a worker (called by Dask); does nothing where the Prometheus client library is not installed."""
        library = prometheus()
        if library is None:
            return
        _COLLECTOR.shown = worker
        if not _COLLECTOR.registered:
            library.registry.register(_COLLECTOR)
            _COLLECTOR.registered = True

    def teardown(self, worker: Worker) -> None:
        """End on a worker (called by Dask)."""
        if _COLLECTOR.shown is worker:
            _COLLECTOR.shown = None


class _WorkerCollector:
    """The collector in Prometheus' registry of this process."""

    #: Of several workers in one process the newest is exported, as Dask does with its own metrics.
    shown: Worker | None = None
    registered = False

    def __init__(self) -> None:
        self.names = CounterNames()

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        library, worker = prometheus(), self.shown
        if library is None or worker is None:
            return
        samples = {**_of_process(worker), **self._of_operators(plugin_of(worker, PLUGIN))}
        for family in WORKER_METRICS:
            yield exposed(library, family.name, samples.get(family.name, ()))

    def _of_operators(self, holder: DcurateWorkerPlugin | None) -> Samples:
        if holder is None:
            return {}
        slots: Counter[str] = Counter()
        for (_, operator), held in list(holder.pools.items()):
            slots[operator] += held.count
        figures = holder.counters.counts()
        slots.update(dict.fromkeys(figures, 0))
        metrics = {
            name: self._added_up((operator, of(counts)) for operator, counts in figures.items())
            for name, of in _CALLS.items()
        }
        return {**metrics, "dcurate_worker_slots": self._added_up(slots.items())}

    def _added_up(self, figures: Iterable[tuple[str, float]]) -> list[tuple[Labels, float]]:
        added: dict[Labels, float] = {}
        for operator, figure in figures:
            labels = (self.names.of((), operator, STAGES),)
            added[labels] = added.get(labels, 0) + figure
        return list(added.items())


def _of_process(worker: Worker) -> Samples:
    """Labels and memory of a worker."""
    info = worker_info(worker)
    samples: Samples = {
        "dcurate_worker_info": [((info.host, info.kind, str(worker.name)), 1)],
        "dcurate_worker_memory_bytes": [((), process_memory(worker))],
        "dcurate_worker_memory_limit_bytes": [((), info.memory)],
    }
    if info.gpus and (memory := gpu_memory()) is not None:
        gpu = (info.gpus[0].name,)
        samples["dcurate_worker_gpu_memory_bytes"] = [(gpu, memory[0])]
        samples["dcurate_worker_gpu_memory_limit_bytes"] = [(gpu, memory[1])]
    return samples


_COLLECTOR = _WorkerCollector()
