"""The Grafana dashboard: its panels as data, and the JSON that Grafana takes.

Its queries are run against a real Prometheus in the tests; it was not opened in Grafana.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

UID = "dcurate"
#: Grafana's grid is so many units wide.
WIDTH = 24

_OF = '{pipeline=~"$pipeline"}'
_DECISIONS = "dcurate_balancer_decisions_total"
_DURATION = "dcurate_operator_batch_duration_seconds"


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        queries: each with what its lines are called.
        unit: as Grafana names it.
        about: a sentence, if the title does not say it all.
    """

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: Literal["timeseries", "stat", "table", "bargauge"] = "timeseries"
    width: int = 8
    about: str = ""
    stacked: bool = False


@dataclass(frozen=True)
class Row:
    """A heading, and the panels under it."""

    title: str
    panels: Sequence[Panel] = field(default_factory=tuple)


def _rate(name: str, by: str) -> str:
    return f"sum by ({by}) (rate({name}{_OF}[$__rate_interval]))"


ROWS = (
    Row(
        "Overview",
        (
            Panel(
                "Runs",
                [('sum(dcurate_runs{state="active", pipeline=~"$pipeline"})', "active")],
                kind="stat",
                width=3,
            ),
            Panel("Documents read", [(f"sum(dcurate_input_rows_total{_OF})", "")], kind="stat", width=4),
            Panel("Input read", [(f"sum(dcurate_input_bytes_total{_OF})", "")], "bytes", "stat", 4),
            Panel(
                "Splits done",
                [(f"sum(dcurate_splits_done{_OF}) / sum(dcurate_splits{_OF})", "")],
                "percentunit",
                "stat",
                3,
            ),
            Panel("Slots", [(f"sum(dcurate_operator_slots{_OF})", "")], kind="stat", width=3),
            Panel("Workers", [("sum(dcurate_host_workers)", "")], kind="stat", width=3),
            Panel(
                "Workers lost",
                [(f"sum(increase(dcurate_workers_lost_total{_OF}[$__range]))", "")],
                kind="stat",
                width=4,
            ),
            Panel("Documents a second", [(_rate("dcurate_input_rows_total", "pipeline"), "{{pipeline}}")], "cps"),
            Panel("Input a second", [(_rate("dcurate_input_bytes_total", "pipeline"), "{{pipeline}}")], "Bps"),
            Panel("Tokens a second", [(_rate("dcurate_stage_tokens_total", "stage"), "{{stage}}")], "cps"),
        ),
    ),
    Row(
        "Stages",
        (
            Panel("Documents out, a second", [(_rate("dcurate_stage_output_rows_total", "stage"), "{{stage}}")], "cps"),
            Panel(
                "Slots at work",
                [(_rate("dcurate_stage_seconds_total", "stage"), "{{stage}}")],
                about="Seconds a second in each stage's own code: how many slots it keeps busy.",
                stacked=True,
            ),
            Panel("Bytes out, a second", [(_rate("dcurate_stage_output_bytes_total", "stage"), "{{stage}}")], "Bps"),
            Panel(
                "Seconds a batch, median and 95 %",
                [
                    (f"histogram_quantile(0.5, {_rate(f'{_DURATION}_bucket', 'le, operator')})", "{{operator}} 50 %"),
                    (f"histogram_quantile(0.95, {_rate(f'{_DURATION}_bucket', 'le, operator')})", "{{operator}} 95 %"),
                ],
                "s",
            ),
            Panel("Batches a second", [(_rate(f"{_DURATION}_count", "operator"), "{{operator}}")], "cps"),
            Panel(
                "Set-up of a slot", [(f"max by (operator) (dcurate_operator_setup_seconds{_OF})", "{{operator}}")], "s"
            ),
        ),
    ),
    Row(
        "Documents dropped",
        (
            Panel(
                "Share dropped",
                [
                    (
                        f"sum by (stage) (dcurate_stage_dropped_rows_total{_OF}) "
                        f"/ (sum by (stage) (dcurate_stage_input_rows_total{_OF}) > 0)",
                        "{{stage}}",
                    )
                ],
                "percentunit",
                "bargauge",
            ),
            Panel(
                "Dropped a second",
                [(_rate("dcurate_stage_dropped_rows_total", "stage"), "{{stage}}")],
                "cps",
                stacked=True,
            ),
            Panel(
                "Why",
                [
                    (
                        f"sort_desc(topk(20, sum by (stage, reason) (dcurate_stage_drops_total{_OF})))",
                        "{{stage}}: {{reason}}",
                    )
                ],
                kind="table",
            ),
        ),
    ),
    Row(
        "Queues",
        (
            Panel(
                "Between operators",
                [
                    (f"sum(dcurate_queue_bytes{_OF})", "held"),
                    (f"sum(dcurate_queue_budget_bytes{_OF})", "budget"),
                ],
                "bytes",
            ),
            Panel(
                "Batches that wait", [(f"sum by (operator) (dcurate_operator_waiting_batches{_OF})", "{{operator}}")]
            ),
            Panel(
                "Bytes that wait",
                [(f"sum by (operator) (dcurate_operator_waiting_bytes{_OF})", "{{operator}}")],
                "bytes",
            ),
        ),
    ),
    Row(
        "Balancer",
        (
            Panel("Slots", [(f"sum by (operator) (dcurate_operator_slots{_OF})", "{{operator}}")], stacked=True),
            Panel(
                "Share of slots at work",
                [
                    (
                        f"{_rate(f'{_DURATION}_sum', 'operator')} "
                        f"/ ({_rate('dcurate_operator_slot_seconds_total', 'operator')} > 0)",
                        "{{operator}}",
                    )
                ],
                "percentunit",
            ),
            Panel(
                "Decisions",
                [
                    (
                        f"sum by (operator, direction) (increase({_DECISIONS}{_OF}[$__rate_interval]))",
                        "{{operator}} {{direction}}",
                    )
                ],
            ),
            Panel("Batches in calls", [(f"sum by (operator) (dcurate_operator_running_batches{_OF})", "{{operator}}")]),
            Panel(
                "Slots of worker processes",
                [("sum by (worker, operator) (dcurate_worker_slots)", "{{worker}} {{operator}}")],
            ),
            Panel(
                "Calls a second of worker processes",
                [("sum by (worker) (rate(dcurate_worker_calls_total[$__rate_interval]))", "{{worker}}")],
                "cps",
            ),
        ),
    ),
    Row(
        "Memory, CPUs and GPUs",
        (
            Panel(
                "Memory of workers",
                [
                    ("sum by (host) (dcurate_host_memory_bytes)", "{{host}}"),
                    ("sum by (host) (dcurate_host_memory_limit_bytes)", "{{host}}: limit"),
                ],
                "bytes",
            ),
            Panel("CPUs in use", [("sum by (host) (dcurate_host_busy_cpus)", "{{host}}")]),
            Panel("On disk for want of memory", [("sum by (host) (dcurate_host_spilled_bytes)", "{{host}}")], "bytes"),
            Panel(
                "GPU memory in use",
                [("dcurate_gpu_memory_bytes / dcurate_gpu_memory_limit_bytes", "{{host}} {{gpu}}")],
                "percentunit",
            ),
            Panel("GPU at work", [("dcurate_gpu_busy_ratio", "{{host}} {{gpu}}")], "percentunit"),
            Panel("Largest worker processes", [("topk(10, dcurate_worker_memory_bytes)", "{{worker}}")], "bytes"),
        ),
    ),
    Row(
        "Errors",
        (
            Panel(
                "Documents that fail, a second",
                [(_rate("dcurate_stage_faulty_rows_total", "stage"), "{{stage}}")],
                "cps",
            ),
            Panel(
                "Why they fail",
                [
                    (
                        f"sort_desc(topk(20, sum by (stage, reason) (dcurate_stage_faults_total{_OF})))",
                        "{{stage}}: {{reason}}",
                    )
                ],
                kind="table",
            ),
            Panel(
                "Workers lost, recycled, hung; calls copied, raised",
                [
                    (f"sum(increase(dcurate_workers_lost_total{_OF}[$__rate_interval]))", "lost"),
                    (f"sum by (kind) (increase(dcurate_incidents_total{_OF}[$__rate_interval]))", "{{kind}}"),
                    ("sum(increase(dcurate_worker_call_failures_total[$__rate_interval]))", "raised"),
                ],
            ),
            Panel(
                "Runs that ended",
                [(f"sum by (outcome) (increase(dcurate_runs_ended_total{_OF}[$__range]))", "{{outcome}}")],
                kind="stat",
            ),
            Panel("Can be read", [('up{job=~"dcurate-.*"}', "{{job}} {{instance}}")]),
            Panel("Alerts", [('ALERTS{alertname=~"Dcurate.*"}', "{{alertname}} {{alertstate}}")], kind="table"),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana's JSON, for Grafana 9 and newer.

    Examples:
        >>> dashboard()["title"]
        'dcurate'
    """
    return {
        "uid": UID,
        "title": "dcurate",
        "tags": ["dcurate", "dask"],
        "schemaVersion": 37,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_SOURCE, _PIPELINE]},
        "annotations": {"list": []},
        "links": [],
        "panels": list(_panels()),
    }


_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SOURCE = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1}
_PIPELINE = {
    "name": "pipeline",
    "label": "Pipeline",
    "type": "query",
    "datasource": _DATASOURCE,
    "query": {"query": "label_values(dcurate_runs_started_total, pipeline)", "refId": "pipelines"},
    "refresh": 2,
    "multi": True,
    "includeAll": True,
    "allValue": ".*",
    "current": {"text": "All", "value": "$__all"},
}


def _panels() -> Iterator[dict[str, Any]]:
    """All panels on the grid, row by row, left to right."""
    number, top = 1, 0
    for row in ROWS:
        place = _place(0, top, WIDTH, 1)
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        number, top, left, deepest = number + 1, top + 1, 0, 0
        for panel in row.panels:
            height = 4 if panel.kind == "stat" and panel.width < 8 else 8
            if left + panel.width > WIDTH:
                top, left, deepest = top + deepest, 0, 0
            yield {**_shown(panel), "id": number, "gridPos": _place(left, top, panel.width, height)}
            number, left, deepest = number + 1, left + panel.width, max(deepest, height)
        top += deepest


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _shown(panel: Panel) -> dict[str, Any]:
    instant = panel.kind in ("table", "bargauge")
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if panel.stacked else {}
    targets = [
        {
            "refId": chr(ord("A") + place),
            "datasource": _DATASOURCE,
            "expr": query,
            "legendFormat": legend or "__auto",
            "instant": instant,
            "range": not instant,
            "format": "table" if panel.kind == "table" else "time_series",
        }
        for place, (query, legend) in enumerate(panel.queries)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}} if panel.kind in ("stat", "bargauge") else {},
    }
