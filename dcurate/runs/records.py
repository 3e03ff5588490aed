"""A finished run as flat records: per-stage counts, drops, and time series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from dcurate.core.report import RunReport
from dcurate.runs.history import History, Point

STAGES = (
    "stage",
    "rows_in",
    "rows_out",
    "dropped",
    "faulty",
    "bytes_in",
    "bytes_out",
    "batches",
    "seconds",
    "rows_per_s",
    "cpu_s",
    "gpu_s",
    "cost",
)
DROPPED = ("stage", "reason", "rows", "faulty")
OPERATORS = ("operator", "phase", "batches", "seconds", "slot_seconds", "idle_seconds", "busy", "setup_seconds")
DECISIONS = ("time", "operator", "before", "after", "reason")
NOTES = ("time", "kind", "text")
RATES = (
    "time", "rows_in", "bytes_in", "rows_out", "splits_done", "rows_per_s", "bytes_per_s", "held_bytes",
    "cpu", "memory", "gpu_memory", "gpu_busy",
)  # fmt: skip
TIMELINE = ("time", "operator", "phase", "slots", "running", "waiting", "waiting_bytes", "batches", "busy")


def stages(report: RunReport) -> list[dict[str, Any]]:
    """A record a stage: rows and bytes in and out, seconds in its code, of CPU and of GPU, and their cost."""
    return [
        {
            **vars(stage),
            "stage": stage.name,
            "dropped": sum(stage.dropped.values()),
            "faulty": sum(stage.faulty.values()),
            "rows_per_s": stage.rows_in / stage.seconds if stage.seconds else None,
            "cost": report.cost_of(stage),
            **stage.metrics,
        }
        for stage in report.stages
    ]


def metric_names(report: RunReport) -> list[str]:
    """Return the names of the metrics that stages logged."""
    return sorted({name for stage in report.stages for name in stage.metrics})


def dropped(report: RunReport) -> list[dict[str, Any]]:
    """A record a stage and reason, the most rows first; ``faulty`` rows are in quarantine."""
    records = [
        {"stage": stage.name, "reason": reason, "rows": rows, "faulty": faulty}
        for stage in report.stages
        for counts, faulty in ((stage.dropped, False), (stage.faulty, True))
        for reason, rows in counts.items()
    ]
    return sorted(records, key=lambda record: (-record["rows"], record["stage"], record["reason"]))


def operators(history: History) -> list[dict[str, Any]]:
    """A record an operator: batches, seconds in its stages' code, seconds that its slots stood idle."""
    return [
        {
            **vars(operator),
            "operator": operator.title,
            "batches": operator.calls,
            "busy": operator.busy,
            "idle_seconds": max(0.0, operator.slot_seconds - operator.seconds),
        }
        for operator in history.snapshot().operators
    ]


def decisions(history: History) -> list[dict[str, Any]]:
    """A record a change of slots that the balancer decided on while the run went on."""
    return [{**vars(note), "reason": note.text} for note in history.notes if note.kind == "decision"]


def notes(history: History) -> list[dict[str, Any]]:
    """A record of everything that happened and that a person may want to know."""
    return [dict(vars(note)) for note in history.notes]


def rates(points: Sequence[Point]) -> Iterator[dict[str, Any]]:
    """A record a moment; rates are since the moment before."""
    for before, point in pairwise([None, *points]):
        assert point is not None
        record = {**vars(point), "rows_per_s": None, "bytes_per_s": None}
        if before is not None and point.time > before.time:
            seconds = point.time - before.time
            record["rows_per_s"] = (point.rows_in - before.rows_in) / seconds
            record["bytes_per_s"] = (point.bytes_in - before.bytes_in) / seconds
        yield record


def timeline(points: Sequence[Point]) -> Iterator[dict[str, Any]]:
    """A record a moment and operator; the busy share is since the moment before."""
    earlier: dict[tuple[str, int], Any] = {}
    for point in points:
        for operator in point.operators:
            before = earlier.get((operator.name, operator.phase))
            busy = operator.busy_since(before) if before is not None else operator.busy
            yield {
                **vars(operator),
                "time": point.time,
                "operator": operator.title,
                "batches": operator.calls,
                "busy": busy,
            }
            earlier[operator.name, operator.phase] = operator
