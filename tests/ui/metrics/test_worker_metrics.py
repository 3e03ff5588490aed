"""Metrics of a worker process: what it is, its memory, slots and calls, once each."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable

import pytest
from distributed import Worker
from prometheus_client.parser import text_string_to_metric_families

from dcurate import DaskExecutor, LocalCluster, Pipeline, StageError
from dcurate.engine.dask.worker_plugin import CallCounters
from dcurate.ui.metrics import worker_metrics
from dcurate.ui.metrics.definitions import OPERATOR, WORKER_METRICS
from dcurate.ui.metrics.worker_metrics import WorkerMetrics
from tests.conftest import wait_until
from tests.stages import Append, FailOn, Numbers
from tests.ui.watched import get

pytestmark = pytest.mark.cluster

Told = dict[tuple[str, tuple[str, ...]], float]


def page_of(dask_worker: Worker) -> str:
    return f"http://127.0.0.1:{dask_worker.http_server.port}/metrics"


def told(cluster: LocalCluster) -> list[Told]:
    """Of each worker what its page says of dcurate: figures by name and values of the labels."""
    pages: Iterable[str] = cluster.client.run(page_of).values()
    return [
        {
            (sample.name, tuple(sample.labels[name] for name in sorted(sample.labels))): sample.value
            for family in text_string_to_metric_families(get(page))
            for sample in family.samples
            if sample.name.startswith("dcurate_")
        }
        for page in pages
    ]


def added_up(workers: list[Told], name: str, *labels: str) -> float:
    return sum(figures.get((name, labels), 0) for figures in workers)


def test_workers_tell_what_they_are_and_what_they_have_done_over_runs(cluster: LocalCluster) -> None:
    for _ in range(2):  # the second changes nothing
        cluster.client.register_plugin(WorkerMetrics())
    pipeline = Pipeline("told by workers", stages=[Numbers(6, 2), Append("x").with_(name="told")])
    operator = "numbers-told"
    before = added_up(told(cluster), "dcurate_worker_calls_total", operator)
    for _ in range(2):
        pipeline.run(DaskExecutor(cluster=cluster))
    workers = told(cluster)
    assert added_up(workers, "dcurate_worker_calls_total", operator) - before >= 2
    assert added_up(workers, "dcurate_worker_call_seconds_total", operator) > 0
    wait_until(lambda: added_up(told(cluster), "dcurate_worker_slots", operator) == 0, "no slots after the runs")
    assert all(figures["dcurate_worker_memory_bytes", ()] > 10e6 for figures in workers)
    assert all(figures["dcurate_worker_memory_limit_bytes", ()] > 10e6 for figures in workers)
    infos = [labels for figures in workers for name, labels in figures if name == "dcurate_worker_info"]
    assert sorted((kind, name) for _, kind, name in infos) == [("cpu", "cpu-0"), ("cpu", "cpu-1")]


def test_a_call_that_raises_is_counted_where_it_was(cluster: LocalCluster) -> None:
    cluster.client.register_plugin(WorkerMetrics())
    with pytest.raises(StageError):
        Pipeline("fails", stages=[Numbers(), FailOn("7").with_(name="raising")]).run(DaskExecutor(cluster=cluster))
    assert added_up(told(cluster), "dcurate_worker_call_failures_total", "numbers-raising") == 1


def test_each_embedded_cluster_with_a_dashboard_tells_of_its_own_runs() -> None:
    read = 'dcurate_input_rows_total{pipeline="embedded"} '
    for splits in (3, 2):
        with LocalCluster(n_workers=1, gpus=False, dashboard=True) as cluster:
            page = f"{cluster.client.dashboard_link.removesuffix('/status')}/metrics"
            Pipeline("embedded", stages=[Numbers(splits, 4)]).run(DaskExecutor(cluster=cluster))
            ended = 'dcurate_runs_ended_total{outcome="finished",pipeline="embedded"} 1.0'
            wait_until(lambda page=page, ended=ended: ended in get(page), "the end of the run on the scheduler's page")  # type: ignore[misc]
            (line,) = (line for line in get(page).splitlines() if line.startswith(read))
        assert line == f"{read}{4.0 * splits}"


def test_the_labels_of_workers_name_no_run_and_no_pipeline() -> None:
    assert {label for family in WORKER_METRICS for label in family.labels} == {
        "host",
        "kind",
        "name",
        "gpu",
        OPERATOR[-1],
    }


def test_nothing_happens_on_a_worker_without_the_client_library() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "prometheus_client", None)
        patch.setattr(worker_metrics, "_COLLECTOR", collector := worker_metrics._WorkerCollector())
        WorkerMetrics().setup(worker=object())
    assert (collector.shown, collector.registered) == (None, False)


def test_no_call_is_lost_where_calls_end_at_once() -> None:
    counters = CallCounters()

    def call() -> None:
        for _ in range(2_000):
            with counters.failing("filter"):
                pass
            counters.returned("filter", 0.5)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pytest.raises(ZeroDivisionError), counters.failing("filter"):
        _ = 1 / 0
    figures = counters.counts()["filter"]
    assert (figures.returned, figures.seconds, figures.raised) == (8_000, 4_000.0, 1)
