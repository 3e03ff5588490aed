"""What being watched costs: CPU of a scrape of the scheduler, and of a span of a trace.

``python -m benchmarks.observe_metrics [--stages 20] [--workers 200] [--reasons 20] [--repeat 30] [--json FILE]``
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.measure import machine, save, table, versions
from dcurate.events import GpuSample, HostSample, RunEnded, RunStarted, StageStats, TaskDone
from dcurate.runs.snapshot import LATENCY_S, Note, OperatorFigures, RunSnapshot
from dcurate.ui import Tracing
from dcurate.ui.metrics.definitions import prometheus
from dcurate.ui.metrics.run_metrics import RunMetrics
from dcurate.ui.scheduler_store import SchedulerStore

SPANS = 20_000


def made_up(stages: int, workers: int, reasons: int, rows: int = 1000) -> RunSnapshot:
    """A run of this number of stages, each an operator, on a host for each worker (the most that there is to show)."""
    latency = tuple(range(1, len(LATENCY_S) + 2))
    names = [f"stage_{number}" for number in range(stages)]
    dropped = {f"a reason of the kind {number}": rows + number for number in range(reasons)}
    notes = tuple(Note(1.0, "decision", "more", names[number % stages], 1, 2) for number in range(20))
    return RunSnapshot(
        "7f3a",
        "demo",
        "streaming",
        time=float(rows),
        splits=100_000,
        operators=tuple(
            OperatorFigures(name, (name,), slots=workers, waiting=9, calls=rows, seconds=1.5 * rows, latency=latency)
            for name in names
        ),
        stages=tuple(
            StageStats(name, 9, rows, rows, rows, rows, 1.0, dict(dropped), metrics={"tokens": float(rows)})
            for name in names
        ),
        hosts=tuple(
            HostSample(f"node-{number}", 1, 8, 7.5, 10**9, 10**10, gpus=(GpuSample(f"GPU-{number}", 1, 2, 0.5),))
            for number in range(workers)
        ),
        notes=20,
        latest=notes,
    )


def scrape(stages: int, workers: int, reasons: int, repeat: int) -> dict[str, Any]:
    """What a scrape costs while a run goes on and everything has changed since the one before."""
    store, registry = SchedulerStore(), CollectorRegistry()
    run = made_up(stages, workers, reasons)
    store.take(run.to_dict())
    shown = RunMetrics(store)
    registry.register(type("Runs", (), {"collect": lambda _: shown.collect(prometheus()), "describe": lambda _: []})())
    rows = 1000

    def changed() -> None:
        nonlocal rows
        rows += 1
        store.runs[run.run].take(made_up(stages, workers, reasons, rows))

    text = generate_latest(registry)
    costs = []
    for _ in range(repeat):
        changed()
        begin = time.process_time()
        generate_latest(registry)
        costs.append(1000 * (time.process_time() - begin))
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    return {"cpu_ms": {"median": statistics.median(costs), "most": max(costs)}, "series": series, "bytes": len(text)}


class _Nowhere(SpanExporter):
    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def traced() -> float:
    """CPU microseconds of a span, its handling by the SDK's batch processor included, but not its sending."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
    tracing = Tracing(provider)
    done = TaskDone(2.0, "keep", "split-1", (StageStats("keep", rows_in=9, rows_out=7, dropped={"short": 2}),), 0.5)
    begin = time.process_time()
    tracing.on_event(RunStarted(0.0, "7f3a", "demo", "streaming", (("keep",),)))
    for number in range(SPANS):
        tracing.on_event(replace(done, time=float(number)))
    tracing.on_event(RunEnded(float(SPANS), ""))
    provider.shutdown()
    return 1e6 * (time.process_time() - begin) / SPANS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stages", type=int, default=20)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--reasons", type=int, default=20, help="of each stage, why it drops documents")
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = scrape(options.stages, options.workers, options.reasons, options.repeat)
    span = traced()
    about = f"{options.stages} stages, {options.reasons} reasons each, {options.workers} workers on as many hosts"
    print(f"A scrape of the scheduler: {about}\n")
    cpu = [f"{figures['cpu_ms'][name]:.1f}" for name in ("median", "most")]
    print(table(["CPU ms, median", "most", "series", "bytes"], [[*cpu, figures["series"], figures["bytes"]]]))
    print(f"\nA span of a trace: {span:.0f} CPU µs")
    about_all = {"machine": machine(), "versions": versions("distributed", "prometheus-client", "opentelemetry-sdk")}
    save(options.json, {**about_all, "about": about, "scrape": figures, "span_us": span})


if __name__ == "__main__":
    main()
