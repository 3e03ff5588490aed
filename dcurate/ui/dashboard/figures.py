"""The plots of a run over time. All of them show one source of columns, which a `Series` fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dcurate.ui.dashboard.drawing import Drawing, area, hover, in_bytes, limit, line, move
from dcurate.ui.dashboard.operator_plots import busy, slots
from dcurate.ui.dashboard.theme import hover_of, plot, tooltip
from dcurate.ui.dashboard.view_model import RunPanel
from dcurate.ui.svg import DROPPED, INK, KEPT


def throughput(source: Any, x_range: Any) -> Drawing:
    """Documents a second, read and come out."""
    figure = plot("throughput", x_range)
    figure.y_range.start = 0
    read = line(source, "rate_in", KEPT)
    figure.renderers = [area(source, "zero", "rate_in"), read, line(source, "rate_out", INK)]
    lines = [
        (KEPT, "documents read", "@rate_in{custom}/s"),
        (INK, "documents out", "@rate_out{custom}/s"),
        ("", "input", "@bytes_in{custom}"),
    ]
    formatters = {"@rate_in": hover_of("count"), "@rate_out": hover_of("count"), "@bytes_in": hover_of("bytes/s")}
    figure.add_tools(hover(read, tooltip(lines), formatters))
    return Drawing(figure)


def queues(source: Any, x_range: Any) -> Drawing:
    """Bytes that wait between operators, and the budget that they may reach."""
    figure = plot("queues", x_range)
    figure.y_range.start = 0
    in_bytes(figure)
    budget = limit(figure)
    held = line(source, "held", KEPT)
    figure.renderers = [area(source, "zero", "held"), held]
    tips = tooltip([(KEPT, "between operators", "@held{custom}")])
    figure.add_tools(hover(held, tips, {"@held": hover_of("bytes")}))

    def follow(view: RunPanel) -> None:
        move(budget, view.now.budget_bytes)

    return Drawing(figure, follow)


def memory(source: Any, x_range: Any) -> Drawing:
    """Memory of all workers, and of all GPUs, over time."""
    figure = plot("memory", x_range)
    figure.y_range.start = 0
    in_bytes(figure)
    top = limit(figure)
    used, gpu_memory = line(source, "memory", KEPT), line(source, "gpu_memory", DROPPED)
    figure.renderers = [area(source, "known", "memory"), used, gpu_memory]
    lines = [(KEPT, "workers", "@memory{custom}"), ("", "CPUs in use", "@cpu{custom}")]
    formatters = {"@memory": hover_of("bytes"), "@cpu": hover_of("count"), "@gpu_memory": hover_of("bytes")}
    tips = hover(used, tooltip(lines), formatters)
    figure.add_tools(tips)

    def follow(view: RunPanel) -> None:
        move(top, sum(host.memory_limit for host in view.now.hosts))
        gpus = any(host.gpus for host in view.now.hosts)
        if gpu_memory.visible != gpus:
            gpu_memory.visible = gpus
            tips.tooltips = tooltip([*lines, (DROPPED, "GPUs", "@gpu_memory{custom}")] if gpus else lines)

    return Drawing(figure, follow)


#: The plots over time, by name, in the order of the page.
DRAWINGS: dict[str, Callable[[Any, Any], Drawing]] = {
    "throughput": throughput,
    "slots": slots,
    "queues": queues,
    "busy": busy,
    "memory": memory,
}
