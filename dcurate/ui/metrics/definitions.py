"""Every metric that dcurate exports to Prometheus: its name, help and labels. Data, not code."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

Labels: TypeAlias = tuple[str, ...]

#: Path where the scheduler lists its workers' dashboards for Prometheus' HTTP service discovery.
TARGETS = "/curation/targets"

STAGE, OPERATOR, HOST, GPU = ("pipeline", "stage"), ("pipeline", "operator"), ("host",), ("host", "gpu")


@dataclass(frozen=True)
class MetricFamily:
    """A metric, with the names of its labels.

    Attributes:
        name: name as a query says it: ``_total`` at the end of a counter, ``_info`` at the end of an information.
        help: one line on what it counts.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram", "info"]
    help: str
    labels: Labels


#: Metrics of runs, on the scheduler's ``/metrics``. Counters go on from one run of a pipeline to the next.
RUN_METRICS = (
    MetricFamily("dcurate_input_rows_total", "counter", "Documents (rows) read from the source.", ("pipeline",)),
    MetricFamily(
        "dcurate_input_bytes_total", "counter", "Bytes of the input that documents were read from.", ("pipeline",)
    ),
    MetricFamily("dcurate_stage_input_rows_total", "counter", "Documents that came into a stage.", STAGE),
    MetricFamily("dcurate_stage_output_rows_total", "counter", "Documents that came out of a stage.", STAGE),
    MetricFamily("dcurate_stage_dropped_rows_total", "counter", "Documents that a stage dropped by a rule.", STAGE),
    MetricFamily(
        "dcurate_stage_drops_total", "counter", "Documents that a stage dropped, by reason.", (*STAGE, "reason")
    ),
    MetricFamily(
        "dcurate_stage_faulty_rows_total", "counter", "Documents that went to quarantine as a stage failed.", STAGE
    ),
    MetricFamily(
        "dcurate_stage_faults_total", "counter", "Documents that went to quarantine, by reason.", (*STAGE, "reason")
    ),
    MetricFamily(
        "dcurate_stage_found_total", "counter", "What a stage counted in documents, by kind.", (*STAGE, "kind")
    ),
    MetricFamily("dcurate_stage_tokens_total", "counter", "Tokens, of stages that log them.", STAGE),
    MetricFamily("dcurate_stage_logged_total", "counter", "Other figures that a stage logs.", (*STAGE, "metric")),
    MetricFamily("dcurate_stage_input_bytes_total", "counter", "Bytes that came into a stage.", STAGE),
    MetricFamily("dcurate_stage_output_bytes_total", "counter", "Bytes that came out of a stage.", STAGE),
    MetricFamily("dcurate_stage_batches_total", "counter", "Batches that a stage processed.", STAGE),
    MetricFamily("dcurate_stage_seconds_total", "counter", "Seconds in a stage's own code, over all slots.", STAGE),
    MetricFamily(
        "dcurate_inner_batches_total",
        "counter",
        "Batches in inner rounds of a stage that sees every row, such as deduplication; their rows are not documents.",
        STAGE,
    ),
    MetricFamily(
        "dcurate_operator_batch_duration_seconds", "histogram", "How long a batch took in an operator.", OPERATOR
    ),
    MetricFamily("dcurate_operator_slots", "gauge", "Slots (set-up copies) of an operator on all workers.", OPERATOR),
    MetricFamily(
        "dcurate_operator_slot_seconds_total", "counter", "Seconds that slots were ready, busy or idle.", OPERATOR
    ),
    MetricFamily(
        "dcurate_operator_setup_seconds", "gauge", "Seconds that the operator's latest set-up took.", OPERATOR
    ),
    MetricFamily("dcurate_operator_running_batches", "gauge", "Batches in a call, or on the way to one.", OPERATOR),
    MetricFamily("dcurate_operator_waiting_batches", "gauge", "Batches that wait for a call.", OPERATOR),
    MetricFamily("dcurate_operator_waiting_bytes", "gauge", "Bytes of batches that wait for a call.", OPERATOR),
    MetricFamily(
        "dcurate_balancer_decisions_total",
        "counter",
        "Times that the balancer gave an operator more (up) or fewer (down) slots.",
        (*OPERATOR, "direction"),
    ),
    MetricFamily("dcurate_queue_bytes", "gauge", "Bytes of batches that wait between operators.", ("pipeline",)),
    MetricFamily("dcurate_queue_budget_bytes", "gauge", "Bytes that may wait between operators.", ("pipeline",)),
    MetricFamily("dcurate_splits", "gauge", "Source splits of the phase under way, once listed.", ("pipeline",)),
    MetricFamily(
        "dcurate_splits_done", "gauge", "Splits of the phase that are done, by earlier runs too.", ("pipeline",)
    ),
    MetricFamily("dcurate_splits_finished_total", "counter", "Source splits finished, over all phases.", ("pipeline",)),
    MetricFamily("dcurate_workers_lost_total", "counter", "Worker processes that died under a run.", ("pipeline",)),
    MetricFamily(
        "dcurate_incidents_total",
        "counter",
        "Worker processes emptied (recycled) or ended for a call that hung, and late calls copied.",
        ("pipeline", "kind"),
    ),
    MetricFamily(
        "dcurate_runs", "gauge", "Active runs, and silent ones, whose driver sends no messages.", ("pipeline", "state")
    ),
    MetricFamily("dcurate_runs_started_total", "counter", "Runs begun.", ("pipeline",)),
    MetricFamily("dcurate_runs_ended_total", "counter", "Runs over: finished or failed.", ("pipeline", "outcome")),
    MetricFamily(
        "dcurate_run_info", "info", "A run that goes on, by its id.", ("pipeline", "run", "mode", "owner", "output")
    ),
    MetricFamily("dcurate_host_workers", "gauge", "Worker processes on a host.", HOST),
    MetricFamily("dcurate_host_threads", "gauge", "Threads of the worker processes on a host.", HOST),
    MetricFamily("dcurate_host_busy_cpus", "gauge", "CPUs that the workers of a host use.", HOST),
    MetricFamily("dcurate_host_memory_bytes", "gauge", "Memory of the workers of a host.", HOST),
    MetricFamily("dcurate_host_memory_limit_bytes", "gauge", "Memory that the workers of a host may use.", HOST),
    MetricFamily("dcurate_host_spilled_bytes", "gauge", "Bytes that workers spilled to disk.", HOST),
    MetricFamily("dcurate_gpu_memory_bytes", "gauge", "Memory in use on a GPU, by all processes.", GPU),
    MetricFamily("dcurate_gpu_memory_limit_bytes", "gauge", "Memory of a GPU.", GPU),
    MetricFamily("dcurate_gpu_busy_ratio", "gauge", "Share of the time that a GPU was busy, from 0 to 1.", GPU),
)

#: Metrics of a worker process, on its own ``/metrics``. Counters start again with the process.
WORKER_METRICS = (
    MetricFamily("dcurate_worker_info", "info", "What a worker process is.", ("host", "kind", "name")),
    MetricFamily("dcurate_worker_memory_bytes", "gauge", "Memory of the worker process.", ()),
    MetricFamily(
        "dcurate_worker_memory_limit_bytes", "gauge", "Memory that the process may use; 0 without a limit.", ()
    ),
    MetricFamily(
        "dcurate_worker_gpu_memory_bytes", "gauge", "Memory in use on a GPU of the process, by all processes.", ("gpu",)
    ),
    MetricFamily("dcurate_worker_gpu_memory_limit_bytes", "gauge", "Memory of a GPU of the process.", ("gpu",)),
    MetricFamily("dcurate_worker_slots", "gauge", "Slots of an operator in the process.", ("operator",)),
    MetricFamily("dcurate_worker_calls_total", "counter", "Calls of an operator that returned.", ("operator",)),
    MetricFamily("dcurate_worker_call_failures_total", "counter", "Calls of an operator that raised.", ("operator",)),
    MetricFamily("dcurate_worker_call_seconds_total", "counter", "Seconds in the calls that returned.", ("operator",)),
)

_METRICS = {family.name: family for family in (*RUN_METRICS, *WORKER_METRICS)}


def prometheus() -> Any:
    """The Prometheus client library, by the parts of it that are in use; None where it is not installed."""
    try:
        client, core = (importlib.import_module(f"prometheus_client{part}") for part in ("", ".core"))
    except ImportError:
        return None
    return SimpleNamespace(registry=client.REGISTRY, metric=core.Metric)


def exposed(library: Any, name: str, samples: Iterable[tuple[Sequence[str], float]]) -> Any:
    """A counter, gauge or information as the client library shows it.

    Args:
        library: what `prometheus` gave.
        samples: values of the labels, and the figure.
    """
    family = _METRICS[name]
    metric = library.metric(name.removesuffix("_total").removesuffix("_info"), family.help, family.kind)
    for labels, value in samples:
        metric.add_sample(name, dict(zip(family.labels, labels, strict=True)), value)
    return metric


def exposed_histogram(
    library: Any, name: str, bounds: Sequence[float], samples: Iterable[tuple[Labels, Sequence[float], float]]
) -> Any:
    """A histogram as the client library shows it.

    Args:
        bounds: upper bounds of all buckets but the last, which has none.
        samples: values of the labels; how many fell into each bucket; the sum of what fell into them.
    """
    family = _METRICS[name]
    metric = library.metric(name, family.help, "histogram")
    for values, counts, total in samples:
        labels, below = dict(zip(family.labels, values, strict=True)), 0.0
        for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
            below += count
            metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, below)
        metric.add_sample(f"{name}_count", labels, below)
        metric.add_sample(f"{name}_sum", labels, total)
    return metric
