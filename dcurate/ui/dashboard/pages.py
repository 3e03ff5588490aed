"""The page of a browser's session: what it shows, and how it is kept up to date."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

from dcurate.runs.history import History
from dcurate.runs.snapshot import RunSnapshot
from dcurate.ui.dashboard import html_blocks as texts
from dcurate.ui.dashboard import tables
from dcurate.ui.dashboard.figures import DRAWINGS
from dcurate.ui.dashboard.graph import pipeline
from dcurate.ui.dashboard.machines import hosts, workers
from dcurate.ui.dashboard.series import Columns, Series
from dcurate.ui.dashboard.theme import library
from dcurate.ui.dashboard.view_model import RunPanel, key, state, view
from dcurate.ui.dashboard.worker_bars import WorkerBars
from dcurate.ui.svg import INK, KEPT

if TYPE_CHECKING:
    from distributed import Scheduler

#: Milliseconds between two updates of an open page.
UPDATE_MS = 1000
#: Sections of the page that are text. Each has a page of its own, too, as has each plot.
TEXTS = ("pipeline", "dropped", "notes", "hosts")
#: Address of the page, and what those of single sections begin with.
PAGE, SINGLE = "curation", "individual-curation-"
#: Titles of sections.
TITLES = {
    "pipeline": "Pipeline",
    "throughput": "Throughput",
    "slots": "Slots by operator",
    "queues": "Queues",
    "busy": "Busy share of slots",
    "memory": "Memory",
    "workers": "Workers now",
    "hosts": "Hosts",
    "dropped": "Dropped documents",
    "notes": "What happened",
}
#: Notes beside headings.
ABOUT = {
    "throughput": f"docs/s, {texts.key(KEPT)}read and {texts.key(INK)}out",
    "slots": "copies that are set up",
    "queues": "bytes between operators",
    "busy": "full: slots never wait",
    "memory": f"{texts.key(KEPT)}workers",
    "workers": "memory of each process",
}


class Runs(Protocol):
    """Histories of runs by id, newest last."""

    @property
    def runs(self) -> Mapping[str, History]:
        """Histories by the id of their run."""


@dataclass
class _Shown:
    """The run that a page shows, and what its plots were given of it."""

    run: str
    operators: tuple[tuple[int, str], ...]
    series: Series


class Page:
    """A page in a browser.

    Args:
        document: Bokeh's, of this session.
        scheduler: scheduler whose workers are shown.
        store: store whose runs are shown.
        only: the one section to show; all of them if not given.
        run: id of the run to show; always the newest one if empty.
    """

    def __init__(
        self, document: Any, scheduler: Scheduler, store: Runs, only: str | None = None, run: str = ""
    ) -> None:
        self.document, self.scheduler, self.store, self.only, self.asked = document, scheduler, store, only, run
        bokeh = library()
        self.source = bokeh.models.ColumnDataSource(Series(0.0, ()).empty())
        self.span = bokeh.models.Range1d(0, 1000)
        self.drawings = {name: draw(self.source, self.span) for name, draw in DRAWINGS.items() if only in (None, name)}
        self.bars = WorkerBars() if only in (None, "workers") else None
        self.texts = bokeh.models.ColumnDataSource({"name": [], "html": []})
        #: Its text is "hidden" while the browser shows another tab; then nothing is sent.
        self.watch = bokeh.models.Div(name="watch", text="", visible=False, tags=[self.texts])
        self._shown: _Shown | None = None
        self._states: dict[str, str] = {}

    def open(self) -> None:
        """Fill the document, and keep it up to date for as long as the browser shows it."""
        self.update()
        bokeh = library()
        for figure in self.figures.values():
            if self.only:
                figure.sizing_mode = "stretch_both"
            self.document.add_root(figure)
        fill = bokeh.models.CustomJS(args={"texts": self.texts}, code="window.dcurate.fill(texts)")
        self.texts.js_on_change("data", fill)
        self.texts.js_on_change("patching", fill)
        begin = bokeh.models.CustomJS(
            args={"texts": self.texts, "watch": self.watch}, code="window.dcurate.begin(texts, watch)"
        )
        self.document.js_on_event("document_ready", begin)
        self.document.add_root(self.watch)
        self.document.title = f"{TITLES[self.only]}: curation" if self.only else "Curation"
        self.document.template = _template()
        self.document.template_variables.update(
            only=self.only,
            figures=list(self.figures),
            texts=[name for name in TEXTS if self.only in (None, name)],
            titles=TITLES,
            about=ABOUT,
            parts=dict(zip(self.texts.data["name"], self.texts.data["html"], strict=True)),
            style=_file("page.css"),
            script=_file("page.js"),
        )
        self.document.add_periodic_callback(self._tick, UPDATE_MS)

    @property
    def figures(self) -> dict[str, Any]:
        """The plots of the page by name."""
        plots = {name: drawing.figure for name, drawing in self.drawings.items()}
        return plots | ({"workers": self.bars.figure} if self.bars else {})

    async def _tick(self) -> None:
        # A coroutine, because Bokeh from 3.10 on gives plain functions to a thread, and the store is not for threads.
        if self.watch.text != "hidden" and self._open_somewhere():
            self.update()

    def _open_somewhere(self) -> bool:
        """Return whether a browser is connected: Bokeh keeps a session for a while after the last one has left."""
        session = self.document.session_context.session
        return session is not None and session.connection_count > 0

    def update(self) -> None:
        """Show the present state."""
        runs = self.store.runs
        run = self.asked or next(iter([*runs][::-1]), "")
        history = runs.get(run)
        seen = view(history) if history is not None else None
        parts = texts.shown_state(seen, self.asked)
        if self.only is None:
            parts |= texts.runs([self._listed(listed_run) for listed_run in runs.values()], run, PAGE)
        if history is not None and seen is not None:
            self._follow(history, seen)
            parts |= self._texts(history, seen)
        if self.bars:
            self.bars.follow(workers(self.scheduler))
        self._say(parts)

    def _listed(self, history: History) -> tuple[RunSnapshot, str]:
        snapshot = history.snapshot()
        return snapshot, state(snapshot, time.time())

    def _texts(self, history: History, seen: RunPanel) -> texts.Parts:
        parts: texts.Parts = {}
        wanted: dict[str, Callable[[], texts.Parts]] = {
            "pipeline": lambda: pipeline(seen),
            "dropped": lambda: tables.dropped(seen),
            "notes": lambda: tables.notes(seen, history.notes),
            "hosts": lambda: tables.hosts(seen.now.hosts or hosts(self.scheduler)),
        }
        for name, make in wanted.items():
            if self.only in (None, name):
                parts |= make()
        if self.only is None:
            parts |= texts.headline(seen)
        return parts | texts.colours(seen) | texts.notes_beside(seen)

    def _follow(self, history: History, seen: RunPanel) -> None:
        operators = tuple(key(operator.figures) for operator in seen.operators)
        shown = self._shown
        changed = shown is None or shown.run != seen.now.run or shown.operators != operators
        if shown is None or changed:
            shown = self._shown = _Shown(seen.now.run, operators, Series(seen.now.started, operators))
        columns, fresh = shown.series.new(history)
        if fresh or changed:
            self.source.data = columns | _padding(self.source.data, columns)
        elif columns["time"]:
            self.source.stream(columns | _padding(self.source.data, columns))
        end = max(1000, round(1000 * seen.now.elapsed))
        if self.span.end != end:
            self.span.end = end
        for drawing in self.drawings.values():
            if changed:
                drawing.operators(operators)
            drawing.follow(seen)

    def _say(self, parts: texts.Parts) -> None:
        names, blocks = list(parts), list(parts.values())
        old = self.texts.data
        if old["name"] != names:
            self.texts.data = {"name": names, "html": blocks}
            return
        changed = [(place, html) for place, html in enumerate(blocks) if html != old["html"][place]]
        if changed:
            self.texts.patch({"html": changed})


def _padding(old: Mapping[str, Any], new: Columns) -> Columns:
    """Columns that plots still refer to though the run that is shown now has none such."""
    # (A list for each: Bokeh adds to them in place.)
    return {name: [math.nan] * len(new["time"]) for name in old if name not in new}


@cache
def _template() -> Any:
    jinja2 = importlib.import_module("jinja2")
    # Text in the blocks is escaped where it is made.
    return jinja2.Environment(autoescape=False, trim_blocks=True, lstrip_blocks=True).from_string(_file("page.html"))


@cache
def _file(name: str) -> str:
    return files("dcurate.ui.dashboard").joinpath(name).read_text("utf-8")
