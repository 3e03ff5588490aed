"""Runs in a notebook: a live view, and a summary at the end."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import quote

from rich.filesize import decimal

from dcurate.core.report import RunReport
from dcurate.events import Event, RunEnded, RunStarted
from dcurate.fs.stores import Directory
from dcurate.runs.history import History
from dcurate.runs.snapshot import OperatorFigures
from dcurate.runs.state import RunState
from dcurate.runs.text import many, seconds_text
from dcurate.ui.pace import Pace
from dcurate.ui.progress import percent_done, setting_up
from dcurate.ui.report.blocks import ReportData
from dcurate.ui.report.page import PAGE, overview, removed
from dcurate.ui.templating import render

#: Seconds between two updates of the view, and notes that it shows.
UPDATE_S, LATEST = 0.5, 3
#: Headings of the table of operators.
HEADS = ("", "slots", "busy", "batches", "a second", "each", "wait for it")


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook.

    Examples:
        >>> in_notebook()
        False
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and "IPKernelApp" in shell.config


class Handle(Protocol):
    """An output area of a notebook."""

    def update(self, obj: Any) -> None:
        """Replace its content."""


class NotebookProgress:
    """Show the progress of a run in a notebook; ``run()`` uses it if no observers are given.

    It needs no widgets: the view is HTML that is replaced twice a second.

    Args:
        handle: the output area; by default a new one in the cell's output.
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


def live_html(run: RunState, pace: Pace, now: float) -> str:
    """Render the live view, with the figures of the live view in a terminal.

    Args:
        pace: has seen the latest snapshot; gives the current rates.
    """
    done = run.splits_before + run.splits_done
    operators = [_operator(pace, operator) for operator in pace.present.operators]
    # Once the run has ended, some columns have nothing to say.
    shown = [number for number in range(len(HEADS)) if number == 0 or any(row[number] for row in operators)]
    return render(
        "live.html",
        run=run,
        present=pace.present,
        done=done,
        share=run.share,
        percent="" if run.ended or not run.splits else percent_done(run),
        remaining=None if run.ended else run.run_remaining(now),
        setting_up=setting_up(run, now),
        inner=bool(run.inner_of and not run.ended),
        flow=_flow(pace),
        heads=[HEADS[number] for number in shown],
        operators=[[row[number] for number in shown] for row in operators],
        notes=[note.text for note in list(run.latest)[-LATEST:]],
    )


def _flow(pace: Pace) -> list[str]:
    """Documents in and out, with rates: the current ones, or those of the whole run once it has ended."""
    present = pace.present
    if present.ended is not None:
        seconds = present.working
        rows, volume = f"{present.rows_in / seconds:,.0f} rows/s", f"{decimal(int(present.bytes_in / seconds))}/s"
        return [f"{present.rows_in:,} rows in, {present.rows_out:,} out", rows, volume]
    rows_in, rows_out = f"{present.rows_in:,} rows in ({pace.rows_per_s:,.0f}/s)", f"{present.rows_out:,} out"
    return [f"{rows_in}, {rows_out} ({pace.rows_out_per_s:,.0f}/s)", f"{decimal(int(pace.bytes_per_s))}/s"]


def _operator(pace: Pace, operator: OperatorFigures) -> tuple[str, ...]:
    """A row of the table of operators."""
    over = operator.phase < pace.present.phase or pace.present.ended is not None
    busy = operator.busy if over else pace.busy(operator.name)
    return (
        operator.title,
        f"{operator.slots:,}" if not over else "",
        "" if busy is None else f"{100 * busy:.0f} %",
        f"{operator.calls:,}",
        "" if over else f"{pace.calls_per_s(operator.name):,.1f}",
        seconds_text(operator.seconds / operator.calls) if operator.calls else "",
        f"{many(operator.waiting, 'task')}, {decimal(operator.waiting_bytes)}" if operator.waiting_bytes else "",
    )


def summary_html(report: RunReport, history: History, about: Mapping[str, Any]) -> str:
    """Render the summary of a run for a notebook: the top of its page, the plots over time folded, and a link to it."""
    data = ReportData(report, history, history.snapshot(report.started + report.seconds), about)
    page = f"{Directory(report.output_path).records}/{PAGE}" if report.output_path else ""
    return render("summary.html", **overview(data), **removed(data, f"-{report.run}"), page=page, link=_link(page))


def _link(page: str) -> str:
    """The address of a page as a notebook opens it: relative to its folder where it is below it; empty if remote."""
    path = Path(page)
    if not page or not path.is_absolute():
        return ""
    return quote(str(path.relative_to(Path.cwd()))) if path.is_relative_to(Path.cwd()) else path.as_uri()
