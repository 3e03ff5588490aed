"""Metrics of runs: counters that never fall, gauges of what goes on, few labels, names as Prometheus wants them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dcurate.events import GpuSample, HostSample, StageStats
from dcurate.runs.history import History
from dcurate.runs.snapshot import LATENCY_S, Note, OperatorFigures, RunSnapshot
from dcurate.ui.metrics import run_metrics
from dcurate.ui.metrics.counters import OTHER, REASONS, RunCounters
from dcurate.ui.metrics.definitions import RUN_METRICS, WORKER_METRICS, prometheus
from dcurate.ui.metrics.run_metrics import RunMetrics
from dcurate.ui.scheduler_store import RUNS, SchedulerStore

Told = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(rows: int, name: str = "read", dropped: Mapping[str, int] | None = None) -> StageStats:
    return StageStats(name, rows_in=rows, rows_out=rows, dropped=dict(dropped or {}))


def run(
    rows: int, name: str = "7f3a", time: float = 1.0, ended: float | None = None, pipeline: str = "demo"
) -> RunSnapshot:
    """A run that has read so many rows."""
    return RunSnapshot(name, pipeline, "streaming", time=time, ended=ended, stages=(read(rows),))


def hub_with(*runs: RunSnapshot) -> SchedulerStore:
    store = SchedulerStore()
    for each in runs:
        store.take(each.to_dict())
    return store


def told(shown: RunMetrics) -> Told:
    """What a scrape gets, after the way through the text that Prometheus reads."""
    registry = CollectorRegistry()
    collected = list(shown.collect(prometheus()))
    registry.register(type("Given", (), {"collect": lambda _: iter(collected)})())
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def scraped(*runs: RunSnapshot) -> Told:
    store = hub_with(*runs)
    return told(RunMetrics(store))


def figure(figures: Told, name: str, **labels: str) -> float | None:
    return figures.get((name, tuple(sorted(labels.items()))))


def test_a_run_is_told_as_it_goes_on_and_its_counters_stay_when_it_ends() -> None:
    store = hub_with(run(3))
    shown = RunMetrics(store)
    assert figure(told(shown), "dcurate_stage_input_rows_total", pipeline="demo", stage="read") == 3
    store.take(run(8, time=2.0, ended=2.0).to_dict())
    figures = told(shown)
    assert figure(figures, "dcurate_stage_input_rows_total", pipeline="demo", stage="read") == 8
    assert figure(figures, "dcurate_runs_ended_total", pipeline="demo", outcome="finished") == 1
    assert figure(figures, "dcurate_runs_ended_total", pipeline="demo", outcome="failed") == 0


def test_counters_add_up_over_runs_of_a_pipeline_also_at_once() -> None:
    store = hub_with(run(3, "a"), run(5, "b"), run(7, "c", pipeline="other pipeline"))
    shown = RunMetrics(store)
    told(shown)
    store.take(run(4, "a", time=2.0, ended=2.0).to_dict())
    store.take(run(6, "b", time=2.0).to_dict())
    figures = told(shown)
    assert figure(figures, "dcurate_input_rows_total", pipeline="demo") == 10
    assert figure(figures, "dcurate_input_rows_total", pipeline="other pipeline") == 7
    assert figure(figures, "dcurate_runs_started_total", pipeline="demo") == 2
    assert figure(figures, "dcurate_runs", pipeline="demo", state="active") == 1


def test_what_a_run_did_since_the_last_scrape_is_counted_when_its_history_is_dropped() -> None:
    store = hub_with(run(3, "first"))
    shown = RunMetrics(store)
    told(shown)
    store.take(run(8, "first", time=2.0, ended=2.0).to_dict())
    for number in range(RUNS):
        store.take(run(1, f"next {number}").to_dict())
    assert "first" not in store.runs
    assert figure(told(shown), "dcurate_input_rows_total", pipeline="demo") == 8 + RUNS
    assert figure(told(shown), "dcurate_input_rows_total", pipeline="demo") == 8 + RUNS


def test_a_run_that_is_begun_anew_under_its_id_is_counted_from_none() -> None:
    store = hub_with(run(8, time=2.0, ended=2.0))
    shown = RunMetrics(store)
    told(shown)
    store.take(replace(run(3, time=9.0), started=8.0).to_dict())
    assert figure(told(shown), "dcurate_input_rows_total", pipeline="demo") == 11


def test_a_run_that_goes_on_after_it_was_dropped_is_not_counted_twice() -> None:
    store = hub_with(run(8, "first"))
    shown = RunMetrics(store)
    told(shown)
    for number in range(RUNS):
        store.take(run(0, f"next {number}").to_dict())
    told(shown)
    store.take(run(9, "first", time=2.0).to_dict())
    assert figure(told(shown), "dcurate_input_rows_total", pipeline="demo") == 9


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.booleans(), st.sampled_from(["short", "long"])), max_size=40
)


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_no_counter_ever_falls_whatever_runs_do(steps: Iterable[tuple[str, int, bool, str]]) -> None:
    store, done, before = SchedulerStore(), Counter[tuple[str, str]](), Told()
    shown = RunMetrics(store)
    for time, (name, rows, scraped, reason) in enumerate(steps, 1):
        done[name, reason] += rows
        dropped = {which: done[name, which] for which in ("short", "long") if (name, which) in done}
        total = sum(dropped.values())
        store.take(replace(run(0, name, time=float(time)), stages=(read(total, dropped=dropped),)).to_dict())
        if scraped:
            now = told(shown)
            fallen = [key for key, value in before.items() if key[0].endswith("_total") and now.get(key, 0) < value]
            assert not fallen
            before = now
    drops = {
        reason: figure(told(shown), "dcurate_stage_drops_total", pipeline="demo", stage="read", reason=reason) or 0
        for reason in ("short", "long")
    }
    assert drops == {reason: sum(n for (_, which), n in done.items() if which == reason) for reason in drops}


def test_a_stale_snapshot_lowers_nothing() -> None:
    counters = RunCounters()
    counters.take(run(8))
    counters.take(run(3))
    counters.take(run(9))
    assert counters.of("dcurate_input_rows_total") == [(("demo",), 9)]


def test_run_ids_are_told_of_runs_that_go_on_and_nowhere_else() -> None:
    going = replace(run(3, "going"), owner="alice@laptop", output="/data/out")
    store = hub_with(going, run(5, "over", ended=1.0))
    figures = told(RunMetrics(store))
    with_run = [(name, dict(labels)) for name, labels in figures if {"run", "owner", "output"} & set(dict(labels))]
    about = {"run": "going", "mode": "streaming", "owner": "alice@laptop", "output": "/data/out"}
    assert with_run == [("dcurate_run_info", {"pipeline": "demo", **about})]


def test_a_run_that_is_not_heard_of_is_silent_and_its_gauges_go() -> None:
    now = 0.0
    store = hub_with(replace(run(3), held_bytes=70))
    shown = RunMetrics(store, clock=lambda: now)
    assert figure(told(shown), "dcurate_queue_bytes", pipeline="demo") == 70
    now = 61.0
    figures = told(shown)
    assert figure(figures, "dcurate_runs", pipeline="demo", state="silent") == 1
    assert figure(figures, "dcurate_runs", pipeline="demo", state="active") == 0
    assert figure(figures, "dcurate_queue_bytes", pipeline="demo") is None
    store.take(replace(run(3, time=70.0), held_bytes=80).to_dict())
    assert figure(told(shown), "dcurate_queue_bytes", pipeline="demo") == 80


def test_a_batch_is_in_each_bucket_that_it_is_not_above() -> None:
    latency = [0] * (len(LATENCY_S) + 1)
    latency[0], latency[2], latency[-1] = 4, 2, 1
    operator = OperatorFigures("read", ("read",), calls=7, seconds=600.5, latency=tuple(latency))
    figures = scraped(replace(run(3), operators=(operator,)))
    name, labels = "dcurate_operator_batch_duration_seconds", {"pipeline": "demo", "operator": "read"}
    buckets = {
        at: figure(figures, f"{name}_bucket", **labels, le=at) for at in ("0.01", "0.025", "0.05", "500.0", "+Inf")
    }
    assert buckets == {"0.01": 4, "0.025": 4, "0.05": 6, "500.0": 6, "+Inf": 7}
    assert (figure(figures, f"{name}_count", **labels), figure(figures, f"{name}_sum", **labels)) == (7, 600.5)


def test_gauges_are_those_of_the_phase_that_goes_on_and_counters_of_all_phases() -> None:
    before = OperatorFigures("same", ("same",), phase=0, slots=0, waiting=9, slot_seconds=4.0)
    present = OperatorFigures("same", ("same",), phase=1, slots=2, waiting=5, slot_seconds=1.0, setup_seconds=3.0)
    figures = scraped(replace(run(3), phase=1, operators=(before, present)))
    labels = {"pipeline": "demo", "operator": "same"}
    assert figure(figures, "dcurate_operator_waiting_batches", **labels) == 5
    assert figure(figures, "dcurate_operator_slots", **labels) == 2
    assert figure(figures, "dcurate_operator_setup_seconds", **labels) == 3.0
    assert figure(figures, "dcurate_operator_slot_seconds_total", **labels) == 5.0


def test_decisions_are_counted_by_operator_and_direction_and_incidents_by_kind() -> None:
    notes = (
        Note(1.0, "decision", "more", "embed", before=1, after=2),
        Note(1.1, "decision", "more", "embed", before=2, after=3),
        Note(1.2, "decision", "fewer", "read", before=3, after=1),
        Note(1.3, "recycled", "worker"),
    )
    store = hub_with(replace(run(3), notes=4, latest=notes))
    shown = RunMetrics(store)
    for _ in range(2):
        figures = told(shown)
        up = {"pipeline": "demo", "operator": "embed", "direction": "up"}
        assert figure(figures, "dcurate_balancer_decisions_total", **up) == 2
        down = {"pipeline": "demo", "operator": "read", "direction": "down"}
        assert figure(figures, "dcurate_balancer_decisions_total", **down) == 1
        assert figure(figures, "dcurate_incidents_total", pipeline="demo", kind="recycled") == 1
        assert figure(figures, "dcurate_incidents_total", pipeline="demo", kind="hung") == 0


def test_tokens_have_a_metric_of_their_own_and_what_else_a_stage_logs_one_by_name() -> None:
    stats = StageStats("embed", metrics={"tokens": 512.0, "cache_hits": 3.0}, found={"EMAIL": 2}, faulty={"bad": 1})
    figures = scraped(replace(run(0), stages=(stats,)))
    labels = {"pipeline": "demo", "stage": "embed"}
    assert figure(figures, "dcurate_stage_tokens_total", **labels) == 512
    assert figure(figures, "dcurate_stage_logged_total", **labels, metric="cache_hits") == 3
    assert figure(figures, "dcurate_stage_logged_total", **labels, metric="tokens") is None
    assert figure(figures, "dcurate_stage_found_total", **labels, kind="EMAIL") == 2
    assert figure(figures, "dcurate_stage_faults_total", **labels, reason="bad") == 1
    assert figure(figures, "dcurate_stage_faulty_rows_total", **labels) == 1


def test_a_host_is_told_once_as_the_latest_of_the_runs_on_it_says() -> None:
    gpu = GpuSample("GPU-a", 30, 80, 0.5)
    old, new = (HostSample("h0", 2, 4, 1.5, memory, 100, gpus=(gpu,)) for memory in (60, 70))
    store = hub_with(replace(run(0, "b", time=5.0), hosts=(new,)), replace(run(0, "a", time=4.0), hosts=(old,)))
    figures = told(RunMetrics(store))
    assert figure(figures, "dcurate_host_memory_bytes", host="h0") == 70
    assert figure(figures, "dcurate_host_memory_limit_bytes", host="h0") == 100
    assert figure(figures, "dcurate_gpu_memory_bytes", host="h0", gpu="GPU-a") == 30
    assert figure(figures, "dcurate_gpu_busy_ratio", host="h0", gpu="GPU-a") == 0.5


def test_reasons_beyond_the_first_are_told_as_one_and_no_row_is_lost() -> None:
    dropped = {f"reason {number}": 2 for number in range(REASONS + 10)}
    figures = scraped(replace(run(0), stages=(read(200, dropped=dropped),)))
    drops = {dict(labels)["reason"]: n for (name, labels), n in figures.items() if name == "dcurate_stage_drops_total"}
    assert (len(drops), drops[OTHER], sum(drops.values())) == (REASONS + 1, 20, 2 * (REASONS + 10))
    assert figure(figures, "dcurate_stage_dropped_rows_total", pipeline="demo", stage="read") == 2 * (REASONS + 10)


def test_names_labels_and_units_are_as_prometheus_wants_them() -> None:
    for family in (*RUN_METRICS, *WORKER_METRICS):
        assert re.fullmatch(r"dcurate_[a-z_]+", family.name)
        assert family.name.endswith("_total") == (family.kind == "counter"), family.name
        assert family.name.endswith("_info") == (family.kind == "info"), family.name
        assert re.fullmatch(r"[A-Z].+\.", family.help), family.name
        assert not {"le", "quantile", "job", "instance"} & set(family.labels), family.name


def test_nothing_is_published_without_the_client_library_but_the_list_of_workers() -> None:
    handlers: list[object] = []
    application = type("Application", (), {"add_handlers": lambda _, hosts, rules: handlers.extend(rules)})()
    scheduler = type("Scheduler", (), {"http_application": application})()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "prometheus_client", None)
        assert not run_metrics.publish(scheduler, SchedulerStore())
    assert len(handlers) == 1


def test_a_history_that_was_never_told_anything_is_not_a_run() -> None:
    store = SchedulerStore()
    store.runs["new"] = History()
    names = {name for (name, _) in told(RunMetrics(store))}
    assert not names & {"dcurate_runs_started_total", "dcurate_run_info"}


def test_the_page_on_monitoring_lists_every_metric() -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "monitoring.md").read_text("utf-8")
    rows = [
        f"| `{family.name}` | {family.kind} | {', '.join(f'`{label}`' for label in family.labels)} | {family.help} |"
        for family in (*RUN_METRICS, *WORKER_METRICS)
    ]
    listed = [re.sub(r" +", " ", line) for line in page.splitlines() if line.startswith("| `dcurate_")]
    assert listed == [re.sub(r" +", " ", row) for row in rows]
