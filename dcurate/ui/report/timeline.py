"""Plots of a run over time, its notes and its cost, for its page."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

from dcurate.events import StageStats
from dcurate.runs.history import Point
from dcurate.runs.snapshot import Note, OperatorFigures
from dcurate.runs.text import many, seconds_text
from dcurate.ui.report.blocks import ReportData
from dcurate.ui.svg import COLOURS, LineSeries, over_time, short

_MOMENTS = 100
_MOST_NOTES = 200
_KINDS = {
    "decision": "balancer",
    "lost": "worker lost",
    "left": "worker left",
    "recycled": "worker restarted",
    "hung": "call ended",
    "waits": "run waited",
    "copied": "call copied",
    "error": "error",
}


@dataclass(frozen=True)
class Happening:
    """A note of the run; ``at`` is in seconds since its start, ``kind`` is its style class."""

    kind: str
    at: float
    words: str
    operator: str
    change: str
    text: str


@dataclass(frozen=True)
class Plot:
    """A plot over time, with the names and colours of its lines."""

    title: str
    drawn: str
    legend: Sequence[tuple[str, str]]


def plots(data: ReportData) -> list[Plot]:
    """Draw rates, slots, queues and memory over time."""
    points = _thinned(data.history.points)
    if len(points) < 2:
        return []
    started = data.present.started or data.report.started
    times = [max(point.time - started, 0.0) for point in points]
    return [plot for plot in _plots(data, points, times) if plot.drawn]


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Thin out points for a plot; the last one stays."""
    step = -(-len(points) // _MOMENTS) or 1
    return list(points[::-1][::step])[::-1]


def _plots(data: ReportData, points: Sequence[Point], times: Sequence[float]) -> Iterator[Plot]:
    def plot(
        title: str,
        series: Sequence[LineSeries],
        words: Callable[[float], str],
        stacked: bool = False,
        limit: float = 0.0,
    ) -> Plot:
        seen = [line for line in series if any(line.values)]
        drawn = over_time(times, seen, words, stacked=stacked, limit=limit or None)
        return Plot(title, drawn, [(line.name, line.colour) for line in seen])

    rows_in, rows_out = _rates(data, points, times, "rows_in"), _rates(data, points, times, "rows_out")
    yield plot("documents a second", [LineSeries("in", rows_in), LineSeries("out", rows_out, COLOURS[1])], short)
    yield plot("input a second", [LineSeries("read", _rates(data, points, times, "bytes_in"))], _bytes)
    yield plot("slots", _by_operator(data, points, lambda figures: float(figures.slots)), short, stacked=True)
    yield plot("share of slots that are busy", _busy(data, points), lambda value: f"{100 * value:.0f} %", limit=1.0)
    waiting = _by_operator(data, points, lambda figures: float(figures.waiting_bytes))
    yield plot("bytes that wait between operators", waiting, _bytes, stacked=True)
    limit = float(max(point.memory_limit for point in points))
    yield plot("memory of workers", [LineSeries("in use", [float(p.memory) for p in points])], _bytes, limit=limit)
    threads = float(sum(host.threads for host in data.present.hosts))
    yield plot("CPUs in use", [LineSeries("in use", [point.cpu for point in points])], short, limit=threads)
    gpu_memory = float(max(point.gpu_memory_total for point in points))
    if gpu_memory:
        yield plot("GPUs busy", [LineSeries("busy", [point.gpu_busy for point in points])], short, limit=1.0)
        yield plot(
            "memory of GPUs", [LineSeries("used", [float(p.gpu_memory) for p in points])], _bytes, limit=gpu_memory
        )


def _bytes(value: float) -> str:
    text = short(value)
    return f"{text[:-1]} {text[-1]}B" if text[-1].isalpha() else f"{text} B"


def _rates(data: ReportData, points: Sequence[Point], times: Sequence[float], name: str) -> list[float | None]:
    """The increase of a count per second, over a sliding window."""
    counts = [float(getattr(point, name)) for point in points]
    back = _window(data, points)
    rates: list[float | None] = []
    for place, (now, at) in enumerate(zip(counts, times, strict=True)):
        before, since = (counts[place - back], times[place - back]) if place >= back else (0.0, 0.0)
        rates.append(max(now - before, 0.0) / (at - since) if at > since else None)
    return rates


def _operators(data: ReportData) -> list[str]:
    """What stands for operators in plots: their names, and for inner rounds of a stage that stage."""
    return list(dict.fromkeys(map(_plotted, data.present.operators)))


def _plotted(operator: OperatorFigures) -> str:
    return operator.owner or operator.title


def _by_operator(data: ReportData, points: Sequence[Point], of: Callable[[OperatorFigures], float]) -> list[LineSeries]:
    values_by_operator: dict[str, list[float | None]] = {name: [0.0] * len(points) for name in _operators(data)}
    for place, point in enumerate(points):
        sums: defaultdict[str, float] = defaultdict(float)
        for operator in point.operators:
            sums[_plotted(operator)] += of(operator)
        for name, value in sums.items():
            values_by_operator.setdefault(name, [0.0] * len(points))[place] = value
    return [
        LineSeries(name, values, COLOURS[n % len(COLOURS)])
        for n, (name, values) in enumerate(values_by_operator.items())
    ]


def _busy(data: ReportData, points: Sequence[Point]) -> list[LineSeries]:
    series, back = [], _window(data, points)
    for number, name in enumerate(_operators(data)):
        none = OperatorFigures(name, ())
        sampled = [
            reduce(_together, (operator for operator in point.operators if _plotted(operator) == name), none)
            for point in points
        ]
        values = [
            figures.busy_since(sampled[place - back] if place >= back else none)
            for place, figures in enumerate(sampled)
        ]
        series.append(LineSeries(name, values, COLOURS[number % len(COLOURS)]))
    return series


def _together(first: OperatorFigures, second: OperatorFigures) -> OperatorFigures:
    return replace(first, seconds=first.seconds + second.seconds, slot_seconds=first.slot_seconds + second.slot_seconds)


def _window(data: ReportData, points: Sequence[Point]) -> int:
    """Return the length of the sliding window in points. Calls are counted when they end, so it spans several."""
    longest = max(
        (operator.seconds / operator.calls for operator in data.present.operators if operator.calls), default=0.0
    )
    apart = (points[-1].time - points[0].time) / max(1, len(points) - 1)
    enough = math.ceil(2 * longest / apart) if apart > 0 else 0
    return max(2, min(max(enough, len(points) // 20), len(points) // 3))


def most_slots(data: ReportData) -> dict[str, int]:
    """The most slots that each operator had; at the end of a run it has none."""
    most: dict[str, int] = {}
    for operator in (
        *data.present.operators,
        *(operator for point in data.history.points for operator in point.operators),
    ):
        most[operator.title] = max(most.get(operator.title, 0), operator.slots)
    return most


def measured(stage: StageStats) -> Iterator[str]:
    """Counts and metrics that a stage recorded."""
    for kind, count in sorted(stage.found.items(), key=lambda item: -item[1]):
        yield f"{count:,} {kind}"
    for name, amount in stage.metrics.items():
        yield f"{name} {short(amount)}"


def happenings(data: ReportData) -> tuple[list[Happening], int]:
    """Decisions and failures in order of time, and the number of notes that are not shown."""
    notes = data.history.notes[:_MOST_NOTES]
    started = data.present.started or data.report.started
    return [_happening(note, started) for note in notes], max(data.present.notes, len(data.history.notes)) - len(notes)


def _happening(note: Note, started: float) -> Happening:
    change = f"{note.before} → {note.after} slots" if note.kind == "decision" else ""
    text = note.text.removeprefix(f"{note.operator} {note.before} -> {note.after} slots: ") if change else note.text
    at = max(round(note.time - started, 1), 0.0)
    return Happening(note.kind, at, _KINDS.get(note.kind, note.kind), note.operator, change, text)


def cost(data: ReportData) -> list[tuple[str, str]]:
    """Hours of worker threads and GPUs that were held, and the share in use."""
    hosts, seconds = data.present.hosts, data.report.seconds
    threads, gpus = sum(host.threads for host in hosts), sum(len(host.gpus) for host in hosts)
    used = sum(stage.seconds for stage in data.report.stages)
    lines = [("in stages' code", f"{seconds_text(used)} over all slots")]
    measured = _integral(data, "cpu")
    if threads:
        lines.append(("threads", _held(threads, seconds, measured, "thread")))
    if gpus:
        lines.append(("GPUs", _held(gpus, seconds, _integral(data, "gpu_busy") * gpus, "GPU")))
    return lines


def _held(number: int, seconds: float, used: float, unit: str) -> str:
    held = number * seconds
    busy = f", {100 * min(used / held, 1):.0f} % busy" if used and held else ""
    return f"{many(number, unit)} held for {seconds_text(seconds)}: {held / 3600:,.2g} {unit} hours{busy}"


def _integral(data: ReportData, name: str) -> float:
    """The sum over time of what was sampled."""
    points = data.history.points
    return sum((after.time - before.time) * float(getattr(after, name)) for before, after in pairwise(points))
