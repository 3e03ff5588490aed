"""Runs in a notebook: a view that follows them, and what they came to as part of the page."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from html import escape
from importlib.resources import files
from types import TracebackType
from typing import Any, Protocol, Self

from rich.filesize import decimal

from dcurate.core.events import Event, RunEnded, RunStarted
from dcurate.core.report import RunReport
from dcurate.runs.history import History
from dcurate.runs.snapshot import OperatorFigures
from dcurate.runs.state import RunState
from dcurate.runs.text import many, seconds_text
from dcurate.ui.pace import Pace
from dcurate.ui.progress import SETTING_UP
from dcurate.ui.report.blocks import ReportData
from dcurate.ui.report.page import cards
from dcurate.ui.report.stages import funnel
from dcurate.ui.report.timeline import over_time_section

#: Seconds between two updates of the view, and notes that it shows.
UPDATE_S, LATEST = 0.5, 3


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook.

    Examples:
        >>> in_notebook()
        False
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and "IPKernelApp" in shell.config


class Handle(Protocol):
    """A place on a page."""

    def update(self, obj: Any) -> None:
        """Show something else there."""


class NotebookProgress:
    """Follows a run in the output of a notebook's cell; ``run()`` uses it by itself where no observers are given.

    It needs no widgets: the view is HTML that is replaced twice a second, and stays as it is at the end.

    Args:
        handle: where to show it; a place of its own in the cell's output if not given.
    """

    def __init__(self, handle: Handle | None = None) -> None:
        self._handle = handle
        self._state = RunState()
        self._pace = Pace()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def on_event(self, event: Event) -> None:
        """Count an event; the first of a run begins the view and the last ends it."""
        self._state.apply(event)
        if isinstance(event, RunStarted) and self._thread is None:
            self._pace = Pace()
            self._handle = self._handle or _place()
            self._over = threading.Event()
            self._thread = threading.Thread(target=self._follow, args=(self._over,), name="dcurate-view", daemon=True)
            self._thread.start()
        elif isinstance(event, RunEnded) and event.last:
            self.close()

    def close(self) -> None:
        """Show the present state of the run, and stop following it."""
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None
            self._show()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _follow(self, over: threading.Event) -> None:
        while not over.wait(UPDATE_S):
            self._show()

    def _show(self) -> None:
        now = time.time()
        self._pace.see(self._state.snapshot(now))
        assert self._handle is not None
        self._handle.update(Html(live_html(self._state, self._pace, now)))


class Html:
    """Text that a notebook shows as HTML."""

    def __init__(self, content: str) -> None:
        self.content = content

    def _repr_html_(self) -> str:
        return self.content

    def __repr__(self) -> str:
        return "<a view of a run; open the notebook to see it>"


def _place() -> Handle:
    display: Handle = importlib.import_module("IPython.display").display(Html(""), display_id=True)
    return display


def _style() -> str:
    return f"<style>{files('dcurate.ui').joinpath('notebook.css').read_text('utf-8')}</style>"


def live_html(run: RunState, pace: Pace, now: float) -> str:
    """The figures so far, as the live view of a terminal has them.

    Args:
        pace: has seen the present; the rates of operators are over its last seconds.
    """
    done = run.splits_before + run.splits_done
    share = done / run.splits if run.splits else 0.0
    of = f" of {run.splits:,}" if run.splits is not None else ""
    remaining = None if run.ended else run.remaining(now)
    state = " stopped" if run.error else ""
    left = f", {seconds_text(remaining)} left" if remaining is not None else ""
    seconds = pace.present.elapsed
    parts = [
        f"{_style()}<div class='dcurate-live'><b>{escape(run.pipeline)}</b> "
        f"<span class='muted'>{done:,}{of} splits, {seconds_text(seconds)}{left}</span>"
        f"<div class='track{state}'><i style='width:{100 * share:.1f}%'></i></div>"
    ]
    if run.setting_up:
        return f"{parts[0]}<div class='muted'>{SETTING_UP}</div></div>"
    parts.append(_flow(pace))
    parts.append(_operators(pace))
    parts += [f"<div class='muted'>{escape(note.text)}</div>" for note in list(run.latest)[-LATEST:]]
    return "".join(parts) + "</div>"


def _flow(pace: Pace) -> str:
    """Documents read and put out, and how many a second: just now, over the whole run once that has ended."""
    present = pace.present
    if present.ended is not None:
        seconds = present.elapsed
        rows, volume = f"{present.rows_in / seconds:,.0f} rows/s", f"{decimal(int(present.bytes_in / seconds))}/s"
        return f"{present.rows_in:,} rows in, {present.rows_out:,} out &nbsp; {rows} &nbsp; {volume}"
    return (
        f"{present.rows_in:,} rows in ({pace.rows_per_s:,.0f}/s), {present.rows_out:,} out "
        f"({pace.rows_out_per_s:,.0f}/s) &nbsp; {decimal(int(pace.bytes_per_s))}/s"
    )


def _operators(pace: Pace) -> str:
    heads = ("", "slots", "busy", "batches", "a second", "each", "wait for it")
    rows = ["".join(f"<th>{head}</th>" for head in heads)]
    for one in pace.present.operators:
        over = one.phase < pace.present.phase or pace.present.ended is not None
        busy = one.busy if over else pace.busy(one.name)
        cells = (
            escape(one.name),
            f"{one.slots:,}" if not over else "",
            "" if busy is None else f"{100 * busy:.0f} %",
            f"{one.calls:,}",
            "" if over else f"{pace.calls_per_s(one.name):,.1f}",
            seconds_text(one.seconds / one.calls) if one.calls else "",
            _queue(one),
        )
        rows.append("".join(f"<td>{cell}</td>" for cell in cells))
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def _queue(one: OperatorFigures) -> str:
    return f"{many(one.waiting, 'task')}, {decimal(one.waiting_bytes)}" if one.waiting_bytes else ""


def summary_html(report: RunReport, history: History) -> str:
    """What a run came to, as part of a notebook's page: its figures, its stages, how it went over time."""
    data = ReportData(report, history, history.snapshot(report.started + report.seconds), {})
    room = files("dcurate.ui")
    style = "".join(room.joinpath(name).read_text("utf-8") for name in ("profile.css", "report.css"))
    # The page's own style, held within this part of another page by nesting.
    scoped = style.replace(":root", "&").replace("body", "&").replace("main", "&")
    return (
        f"<style>.dcurate-run {{ {scoped} }}</style><div class='dcurate-run'>"
        f'<div class="cards">{"".join(cards(data))}</div>{funnel(data)}{over_time_section(data)}</div>'
    )
