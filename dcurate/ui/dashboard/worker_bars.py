"""A bar for each worker process: its memory, of what it may use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dcurate.ui.dashboard.machines import WorkerLook
from dcurate.ui.dashboard.tables import NEARLY_FULL
from dcurate.ui.dashboard.theme import hover_of, library, plot, said_as, tooltip
from dcurate.ui.svg import DROPPED, GRID, KEPT, MUTED

#: A plot is wide enough for at least this many workers.
LEAST = 6
#: Up to this many have their names below their bars.
NAMED = 12
#: Letters of a name that are shown there.
NAME = 11


class WorkerBars:
    """The plot, and what it shows now."""

    def __init__(self) -> None:
        bokeh = library()
        self._looks: Sequence[WorkerLook] = ()
        self.source = bokeh.models.ColumnDataSource(_columns(()))
        self.across = bokeh.models.Range1d(-0.5, LEAST - 0.5)
        self.figure = plot("workers", self.across, height=150)
        self.figure.y_range.start = 0
        self.figure.yaxis.formatter = said_as("bytes")
        self.figure.xgrid.grid_line_color = None
        self.figure.xaxis.formatter = bokeh.models.BasicTickFormatter()
        self.figure.xaxis.ticker = bokeh.models.FixedTicker()
        same = {"x": "place", "source": self.source, "line_color": None}
        self.figure.vbar(top="limit", width=0.8, fill_color=GRID, fill_alpha=0.7, **same)
        bars = self.figure.vbar(top="memory", width=0.8, fill_color="colour", **same)
        lines = [
            ("", "host", "@host"),
            ("", "memory", "@memory{custom} of @limit{custom}"),
            ("", "CPUs in use", "@cpu{0.0} (@threads threads)"),
            ("", "state", "@state"),
        ]
        hover = bokeh.models.HoverTool(
            tooltips=tooltip(lines, "@name"),
            renderers=[bars],
            formatters={"@memory": hover_of("bytes"), "@limit": hover_of("bytes")},
            mode="vline",
            point_policy="follow_mouse",
        )
        self.figure.add_tools(hover)

    def follow(self, looks: Sequence[WorkerLook]) -> None:
        """Show these workers; where they are the same as before, only what moves travels."""
        columns = _columns(looks)
        if _fixed(looks) != _fixed(self._looks):
            self.source.data = columns
            self.across.end = max(len(looks), LEAST) - 0.5
            named = looks if len(looks) <= NAMED else ()
            short = [_label(look.name) for look in named]
            self.figure.xaxis.major_label_overrides = dict(enumerate(short))
            self.figure.xaxis.ticker.ticks = list(range(len(short)))
        else:
            moving = {name: columns[name] for name in ("memory", "cpu", "colour", "state")}
            changed = {name: now for name, now in moving.items() if now != self.source.data[name]}
            if changed:
                self.source.patch({name: [(slice(0, len(now)), now)] for name, now in changed.items()})
        self._looks = looks


def _label(name: str) -> str:
    """A name that fits below a bar; of an address, which Dask gives to a worker without a name, the port.

    Examples:
        >>> _label("gpu-0"), _label("tcp://127.0.0.1:34067"), _label("a-worker-of-a-long-name-7")
        ('gpu-0', ':34067', '…ong-name-7')
    """
    if "://" in name:
        return f":{name.rpartition(':')[2]}"
    return name if len(name) <= NAME else f"…{name[1 - NAME :]}"


def _fixed(looks: Sequence[WorkerLook]) -> list[tuple[str, str, int, int]]:
    return [(look.name, look.host, look.threads, look.memory_limit) for look in looks]


def _columns(looks: Sequence[WorkerLook]) -> dict[str, list[Any]]:
    return {
        "place": list(range(len(looks))),
        "name": [look.name for look in looks],
        "host": [look.host for look in looks],
        "state": [look.state for look in looks],
        "threads": [look.threads for look in looks],
        "limit": [look.memory_limit for look in looks],
        "memory": [float(f"{look.memory:.4g}") for look in looks],
        "cpu": [round(look.cpu, 1) for look in looks],
        "colour": [_colour(look) for look in looks],
    }


def _colour(look: WorkerLook) -> str:
    if look.state != "running":
        return MUTED
    return DROPPED if look.memory_limit and look.memory > NEARLY_FULL * look.memory_limit else KEPT
