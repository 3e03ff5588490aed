"""How a run went over time, and what its operators cost, as parts of its page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise

from rich.filesize import decimal

from dcurate.core.events import StageStats
from dcurate.runs.history import Point
from dcurate.runs.snapshot import Note, OperatorFigures
from dcurate.runs.text import many, seconds_text
from dcurate.ui.report.blocks import ReportData, brief, lasted, legend, section, share_bar, table
from dcurate.ui.svg import COLOURS, Series, clock, over_time, short

_MOMENTS = 100
_MOST_NOTES = 200
_KINDS = {
    "decision": "balancer",
    "lost": "worker lost",
    "recycled": "worker restarted",
    "hung": "call hung",
    "copied": "call copied",
    "error": "error",
}


def over_time_section(data: ReportData) -> str:
    """Rates, slots, queues and memory, moment by moment."""
    points = _thinned(data.history.points)
    if len(points) < 2:
        return ""
    started = data.present.started or data.report.started
    times = [max(point.time - started, 0.0) for point in points]
    drawn = (_article(title, plot, names) for title, plot, names in _plots(data, points, times) if plot)
    return section("time", "Over time", f'<div class="grid">{"".join(drawn)}</div>', "Point at a plot for its values.")


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Few enough to be drawn, the last one among them."""
    step = -(-len(points) // _MOMENTS) or 1
    return list(points[::-1][::step])[::-1]


def _article(title: str, plot: str, names: Sequence[tuple[str, str]]) -> str:
    return f"<article><h3>{escape(title)}</h3>{plot}{legend(names) if len(names) > 1 else ''}</article>"


def _plots(
    data: ReportData, points: Sequence[Point], times: Sequence[float]
) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    def plot(
        title: str, series: Sequence[Series], words: Callable[[float], str], stacked: bool = False, limit: float = 0.0
    ) -> tuple[str, str, list[tuple[str, str]]]:
        seen = [one for one in series if any(one.values)]
        drawn = over_time(times, seen, words, stacked=stacked, limit=limit or None)
        return title, drawn, [(one.name, one.colour) for one in seen]

    rows_in, rows_out = _rates(data, points, times, "rows_in"), _rates(data, points, times, "rows_out")
    yield plot("documents a second", [Series("in", rows_in), Series("out", rows_out, COLOURS[1])], short)
    yield plot("input a second", [Series("read", _rates(data, points, times, "bytes_in"))], _bytes)
    yield plot("slots", _by_operator(data, points, lambda one: float(one.slots)), short, stacked=True)
    yield plot("share of slots that are busy", _busy(data, points), lambda value: f"{100 * value:.0f} %", limit=1.0)
    waiting = _by_operator(data, points, lambda one: float(one.waiting_bytes))
    yield plot("bytes that wait between operators", waiting, _bytes, stacked=True)
    limit = float(max(point.memory_limit for point in points))
    yield plot("memory of workers", [Series("in use", [float(p.memory) for p in points])], _bytes, limit=limit)
    threads = float(sum(host.threads for host in data.present.hosts))
    yield plot("CPUs in use", [Series("in use", [point.cpu for point in points])], short, limit=threads)
    gpu_memory = float(max(point.gpu_memory_total for point in points))
    if gpu_memory:
        yield plot("GPUs busy", [Series("busy", [point.gpu_busy for point in points])], short, limit=1.0)
        yield plot("memory of GPUs", [Series("used", [float(p.gpu_memory) for p in points])], _bytes, limit=gpu_memory)


def _bytes(value: float) -> str:
    text = short(value)
    return f"{text[:-1]} {text[-1]}B" if text[-1].isalpha() else f"{text} B"


def _rates(data: ReportData, points: Sequence[Point], times: Sequence[float], name: str) -> list[float | None]:
    """How much more of a count there is than a little before, by the second."""
    counts = [float(getattr(point, name)) for point in points]
    back = _window(data, points)
    rates: list[float | None] = []
    for place, (now, at) in enumerate(zip(counts, times, strict=True)):
        before, since = (counts[place - back], times[place - back]) if place >= back else (0.0, 0.0)
        rates.append(max(now - before, 0.0) / (at - since) if at > since else None)
    return rates


def _operators(data: ReportData) -> list[str]:
    return list(dict.fromkeys(one.name for one in data.present.operators))


def _by_operator(data: ReportData, points: Sequence[Point], of: Callable[[OperatorFigures], float]) -> list[Series]:
    found: dict[str, list[float | None]] = {name: [0.0] * len(points) for name in _operators(data)}
    for place, point in enumerate(points):
        for one in point.operators:
            found.setdefault(one.name, [0.0] * len(points))[place] = of(one)
    return [Series(name, values, COLOURS[n % len(COLOURS)]) for n, (name, values) in enumerate(found.items())]


def _busy(data: ReportData, points: Sequence[Point]) -> list[Series]:
    series, back = [], _window(data, points)
    for number, name in enumerate(_operators(data)):
        none = OperatorFigures(name, ())
        found = [next((one for one in point.operators if one.name == name), none) for point in points]
        values = [one.busy_since(found[place - back] if place >= back else none) for place, one in enumerate(found)]
        series.append(Series(name, values, COLOURS[number % len(COLOURS)]))
    return series


def _window(data: ReportData, points: Sequence[Point]) -> int:
    """Return how many moments back to look, so that calls, which are counted when they end, even out."""
    longest = max((one.seconds / one.calls for one in data.present.operators if one.calls), default=0.0)
    apart = (points[-1].time - points[0].time) / max(1, len(points) - 1)
    enough = math.ceil(2 * longest / apart) if apart > 0 else 0
    return max(2, min(max(enough, len(points) // 20), len(points) // 3))


def performance(data: ReportData) -> str:
    """What each operator did and how busy its slots were; and what stages measured themselves."""
    stages = {stage.name: stage for stage in data.report.stages}
    most = _most_slots(data)
    rows = [_operator_row(one, stages, most.get(one.name, one.slots)) for one in data.present.operators]
    cost, speed = ("slots", "set up", "calls", "in its code", "idle"), ("docs/s", "MB/s", "p50", "p95", "longest")
    heads = ("operator", "busy", *cost, *speed)
    note = (
        "<b>slots</b>: the most at one time. <b>in its code</b>: in the stages' own code, over all slots. <b>idle</b>: "
        "slots stood ready and had nothing to do. <b>docs/s</b> and <b>MB/s</b> are those of one slot. <b>p50</b>, "
        "<b>p95</b>, <b>longest</b>: how long calls took, at most."
    )
    content = table(heads, rows, "operators") + _stage_table(data)
    return section("stages", "What stages cost", content, note)


def _most_slots(data: ReportData) -> dict[str, int]:
    """The most slots that each operator had; at the end of a run it has none."""
    most: dict[str, int] = {}
    for one in (*data.present.operators, *(one for point in data.history.points for one in point.operators)):
        most[one.name] = max(most.get(one.name, 0), one.slots)
    return most


def _operator_row(one: OperatorFigures, stages: dict[str, StageStats], slots: int) -> tuple[str, ...]:
    mine = [stages[name] for name in one.stages if name in stages]
    rows, nbytes = (mine[0].rows_in, mine[0].bytes_in) if mine else (0, 0)
    busy = one.busy
    speed = f"{rows / one.seconds:,.0f}" if one.seconds and rows else ""
    volume = f"{nbytes / one.seconds / 1e6:,.1f}" if one.seconds and nbytes else ""
    names = escape(", ".join(one.stages))
    fused = f"<details><summary>{len(one.stages)} stages</summary>{names}</details>" if len(one.stages) > 1 else ""
    return (
        f"{escape(one.name)}{fused}",
        "" if busy is None else share_bar((busy, "kept-part")) + f"<small>{100 * busy:.0f} %</small>",
        f"{slots:,}" if slots else "",
        brief(one.setup_seconds) if one.setup_seconds else "",
        f"{one.calls:,}",
        brief(one.seconds),
        brief(max(one.slot_seconds - one.seconds, 0.0)) if one.slot_seconds else "",
        speed,
        volume,
        lasted(one, 0.5),
        lasted(one, 0.95),
        lasted(one, 1.0),
    )


def _stage_table(data: ReportData) -> str:
    heads = ("stage", "batches", "seconds", "documents in", "docs/s", "bytes in", "found and measured")
    rows = [
        (
            escape(stage.name),
            f"{stage.batches:,}",
            "·" if stage.batches and not stage.seconds else f"{stage.seconds:,.2f}",
            f"{stage.rows_in:,}",
            f"{stage.rows_in / stage.seconds:,.0f}" if stage.seconds else "",
            decimal(stage.bytes_in),
            escape(", ".join(_measured(stage))),
        )
        for stage in data.report.stages
    ]
    drawn = table(heads, rows, "operators")
    return f"<details><summary>by stage (·: computed in one pass with the stage above)</summary>{drawn}</details>"


def _measured(stage: StageStats) -> Iterator[str]:
    for kind, count in sorted(stage.found.items(), key=lambda item: -item[1]):
        yield f"{count:,} {kind}"
    for name, amount in stage.metrics.items():
        yield f"{name} {short(amount)}"


def happenings(data: ReportData) -> str:
    """What the balancer decided and why, what went wrong, in the order in which it happened."""
    notes = data.history.notes[:_MOST_NOTES]
    started = data.present.started or data.report.started
    rows = "".join(_note(note, started) for note in notes)
    more = max(data.present.notes, len(data.history.notes)) - len(notes)
    rest = f'<p class="note">{many(more, "note")} more.</p>' if more > 0 else ""
    content = f'<article><table class="notes">{rows}</table>{rest}</article>' if rows else ""
    return section("happened", "What happened", content)


def _note(note: Note, started: float) -> str:
    change = f"{note.before} → {note.after} slots" if note.kind == "decision" else ""
    text = note.text.removeprefix(f"{note.operator} {note.before} -> {note.after} slots: ") if change else note.text
    return (
        f'<tr class="{escape(note.kind)}"><td>{clock(max(round(note.time - started, 1), 0.0))}</td>'
        f"<th>{escape(_KINDS.get(note.kind, note.kind))}</th><th>{escape(note.operator)}</th><td>{change}</td>"
        f"<th>{escape(text)}</th></tr>"
    )


def cost(data: ReportData) -> list[tuple[str, str]]:
    """Time of worker threads and GPUs that was held, and how much of it was used."""
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


def _held(number: int, seconds: float, used: float, what: str) -> str:
    held = number * seconds
    busy = f"; {_hours(used)} of them busy ({100 * min(used / held, 1):.0f} %)" if used and held else ""
    return f"{many(number, what)} held for {_hours(held)} {what} hours{busy}"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g}"


def _integral(data: ReportData, name: str) -> float:
    """The sum over time of what was sampled."""
    points = data.history.points
    return sum((after.time - before.time) * float(getattr(after, name)) for before, after in pairwise(points))
