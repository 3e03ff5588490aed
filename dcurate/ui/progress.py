"""Progress of a run while it goes: a live display on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import json
import sys
import threading
import time
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dcurate.events import Event, RunEnded, RunStarted
from dcurate.runs.snapshot import OperatorFigures, RunSnapshot
from dcurate.runs.state import RunState
from dcurate.runs.text import many, seconds_text
from dcurate.ui.pace import SPAN_S, Pace

#: Default seconds between two lines.
INTERVAL_S = 10.0
#: Seconds before the first line where there is no live display.
FIRST_LINE = 2.0
#: Notes on what happened that the live display shows.
LATEST = 3


class Progress:
    """Shows how a run goes on; give it to ``run(observers=[...])``.

    On a terminal it is a live display that leaves one line behind. Elsewhere it is a plain line after two
    seconds and then every ``interval_s`` seconds, and one at the end. Events are only counted when they come; a thread
    of its own shows the figures.

    Args:
        console: where to show it; standard error if not given, in a notebook the cell's output.
        interval_s: seconds between lines where there is no live display; if not given, the executor's
            ``logging_interval``, or 10.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, Pipeline
        >>> rows = DocumentBatch(data=pd.DataFrame({"text": ["one", "two"]}))
        >>> from dcurate.text import AddId
        >>> with Progress() as progress:
        ...     result = Pipeline("seen", stages=[AddId("id")]).run(InlineExecutor(), [rows], observers=[progress])
    """

    def __init__(self, console: Console | None = None, interval_s: float | None = None) -> None:
        self.console = console or _standard_console()
        self._given = interval_s
        self.interval = interval_s or INTERVAL_S
        self._state = RunState()
        self._pace = Pace()
        self._live: Live | None = None
        self._over = threading.Event()
        self._liner: threading.Thread | None = None

    def use_interval(self, seconds: float) -> None:
        """Show a line every `seconds` seconds, unless an interval was given."""
        self.interval = self._given or seconds

    def on_event(self, event: Event) -> None:
        """Count an event; the first and last of a run, and of its phases, begin and end the display."""
        if isinstance(event, RunStarted):
            self.close()
        before = self._state.note_count
        self._state.apply(event)
        new = self._state.note_count - before
        if self._live is None and new > 0 and not isinstance(event, RunEnded):
            for note in list(self._state.latest)[-new:]:
                self._write(f"{self._state.pipeline}: {note.text}")
        if isinstance(event, RunStarted):
            self._open()
        elif isinstance(event, RunEnded):
            self.close()
            self._write(_last_line(self._state))

    def close(self) -> None:
        """End the display; a run that ends does so by itself."""
        if self._live is not None:
            self._live.stop()
        if self._liner is not None:
            self._over.set()
            self._liner.join()
        self._live = self._liner = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        self._pace = Pace(max(SPAN_S, self.interval))
        if self.console.is_terminal and not self.console.is_jupyter:
            self._live = Live(console=self.console, get_renderable=self._view, refresh_per_second=4, transient=True)
            self._live.start()
            return
        self._over = threading.Event()
        self._liner = threading.Thread(
            target=self._write_lines, args=(self._over,), name="dcurate-progress", daemon=True
        )
        self._liner.start()

    def _view(self) -> RenderableType:
        now = time.time()
        self._pace.see(self._state.snapshot(now))
        return live_view(self._state, self._pace, now)

    def _write_lines(self, over: threading.Event) -> None:
        pause = min(FIRST_LINE, self.interval)
        while not over.wait(pause):
            now = time.time()
            self._pace.see(self._state.snapshot(now))
            self._write(progress_line(self._state, self._pace, now))
            pause = self.interval

    def _write(self, line: str) -> None:
        self.console.file.write(f"{line}\n")
        self.console.file.flush()


class IntervalLines(Progress):
    """Writes a line to standard error at every interval; nothing of a run that is shorter.

    ``run()`` uses it where no observers are given and there is no notebook.

    Args:
        file: where to write; standard error if not given.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        super().__init__(Console(file=file, stderr=file is None, force_terminal=False, force_jupyter=False))

    def _write(self, line: str) -> None:
        if time.time() - self._state.started >= self.interval:
            super()._write(line)


class JsonProgress:
    """Write the progress of a run as JSON lines, for another program: one at intervals, one at the end.

    Each has ``run``, ``pipeline``, ``owner``, ``output``, ``phase``, ``seconds``, ``seconds_left`` (of the phase, null
    before its first split has ended), ``share`` (of the run, from 0 to 1; it never shrinks), ``run_seconds_left`` (of
    all rounds, null before the first split has ended), ``splits_done``, ``splits``, ``rows_in``, ``bytes_in``,
    ``rows_out``, ``operators`` (``slots``, ``running``, ``waiting``, ``waiting_bytes``, ``calls``, ``busy`` by name),
    ``notes`` (those that are new) and ``state``: ``"running"``, ``"done"`` or ``"stopped"``, then with ``error``.

    Args:
        file: where to write; standard error if not given.
        interval_s: seconds between lines; if not given, the executor's ``logging_interval``, or 10.

    Examples:
        >>> import io, json
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, Pipeline
        >>> rows = DocumentBatch(data=pd.DataFrame({"text": ["one", "two"]}))
        >>> from dcurate.text import AddId
        >>> file = io.StringIO()
        >>> _ = Pipeline("seen", stages=[AddId("id")]).run(InlineExecutor(), [rows], observers=[JsonProgress(file)])
        >>> json.loads(file.getvalue().splitlines()[-1])["state"]
        'done'
    """

    def __init__(self, file: TextIO | None = None, interval_s: float | None = None) -> None:
        self._file = file or sys.stderr
        self._given = interval_s
        self._interval = interval_s or INTERVAL_S
        self._state = RunState()
        self._notes = 0
        self._next = 0.0

    def use_interval(self, seconds: float) -> None:
        """Write a line every `seconds` seconds, unless an interval was given."""
        self._interval = self._given or seconds

    def on_event(self, event: Event) -> None:
        """Count an event; where it is time for a line, write one."""
        self._state.apply(event)
        if isinstance(event, RunStarted) and event.phase == 0:
            self._notes, self._next = 0, event.time + min(FIRST_LINE, self._interval)
        if isinstance(event, RunEnded) or event.time >= self._next:
            self._next = event.time + self._interval
            self._file.write(json.dumps(self._line(event.time, isinstance(event, RunEnded) and event.last)) + "\n")
            self._file.flush()

    def _line(self, now: float, over: bool) -> dict[str, Any]:
        snapshot = self._state.snapshot(now)
        new, self._notes = min(snapshot.notes - self._notes, len(snapshot.latest)), snapshot.notes
        state = "stopped" if snapshot.error else "done" if over else "running"
        shown = ("run", "pipeline", "owner", "output", "phase", "splits", "rows_in", "bytes_in", "rows_out")
        left_s = None if snapshot.left_s is None else round(snapshot.left_s, 1)
        return {
            **{name: getattr(snapshot, name) for name in shown},
            "splits_done": snapshot.splits_before + snapshot.splits_done,
            "seconds": round(snapshot.elapsed, 3),
            "seconds_left": left_s,
            "share": round(snapshot.share, 4),
            "run_seconds_left": None if snapshot.run_left_s is None else round(snapshot.run_left_s, 1),
            "operators": {operator.name: _operator_dict(operator) for operator in snapshot.operators},
            "notes": [note.text for note in snapshot.latest[len(snapshot.latest) - new :]],
            "state": state,
            **({"error": snapshot.error} if snapshot.error else {}),
        }


def _operator_dict(operator: OperatorFigures) -> dict[str, Any]:
    shown = ("slots", "running", "waiting", "waiting_bytes", "calls")
    busy = operator.busy
    return {name: getattr(operator, name) for name in shown} | {"busy": None if busy is None else round(busy, 4)}


def _standard_console() -> Console:
    console = Console(stderr=True)
    return Console() if console.is_jupyter else console


#: What there is to say before the first slot is ready.
SETTING_UP = "setting up: stages load what they need; the first run on a machine compiles its kernels, once"


def setting_up(run: RunState, now: float) -> str:
    """What happens before the first slot is ready, or while the run waits for others."""
    if run.waits:
        return run.waits
    if run.compiling is None:
        return SETTING_UP
    remaining_s = max(1, round(run.compiling.seconds - (now - run.compiling.time)))
    return f"compiling {many(run.compiling.kernels, 'kernel')}, about {remaining_s} s left, once on this machine"


def progress_line(run: RunState, pace: Pace, now: float) -> str:
    """The figures so far in one line of text.

    Args:
        pace: has seen the present; rates are over its last seconds.
    """
    if run.setting_up or run.waits:
        return f"{run.pipeline}: {seconds_text(run.elapsed(now))} | {setting_up(run, now)}"
    parts = [f"{run.pipeline}: {seconds_text(run.elapsed(now))}", _splits(run), *_flow(run, pace)]
    remaining = run.run_remaining(now)
    if remaining is not None:
        parts.append(f"{seconds_text(remaining)} left")
    if len(run.operators) > 1:
        parts.append(
            "tasks " + ", ".join(f"{operator.label} {operator.tasks:,}" for operator in run.operators.values())
        )
    if run.workers_lost:
        parts.append(f"{many(run.workers_lost, 'worker')} lost")
    return " | ".join(parts)


def _last_line(run: RunState) -> str:
    now = run.phase_ended or time.time()
    place = f"{run.round}, " if run.round else ""
    state = f"{run.pipeline}: {place}{run.title} {'stopped' if run.error else 'done'}"
    return " | ".join([state, seconds_text(run.elapsed(now)), _splits(run), *_came_to(run, now)])


def _splits(run: RunState) -> str:
    done = run.splits_before + run.splits_done
    place = f"{run.round}, " if run.round and run.phase_ended is None else ""
    if run.splits is None:
        return f"{place}{many(done, 'split')}"
    share = f" ({percent_done(run)})" if run.splits else ""
    return f"{place}{done:,} of {run.splits:,} splits{share}"


def percent_done(run: RunState) -> str:
    """The share of a run that is done, in percent; of several rounds it says so, as it is not that of the splits."""
    return f"{int(100 * run.share)} %{' of the run' if run.round else ''}"


def _came_to(run: RunState, now: float) -> list[str]:
    """The documents that a phase which is over has read and put out, and its mean speed; nothing of inner rounds."""
    seconds = run.working(now)
    ways = [f"{run.rows_in:,} rows in"] * run.reads + [f"{run.rows_out:,} out"] * run.writes
    rows = run.rows_in if run.reads else run.rows_out
    volume = [f"{decimal(int(run.bytes_in / seconds))}/s"] * run.reads
    return [", ".join(ways), f"{rows / seconds:,.0f} rows/s", *volume] if ways else []


def _flow(run: RunState, pace: Pace) -> list[str]:
    """The same of a phase that goes on, with its speed just now."""
    ways = [run.inner_of] if run.inner_of else []
    if run.reads:
        ways.append(f"{run.rows_in:,} rows in ({pace.rows_per_s:,.0f}/s)")
    if run.writes:
        ways.append(f"{run.rows_out:,} out ({pace.rows_out_per_s:,.0f}/s)")
    return [*([", ".join(ways)] if ways else []), *([f"{decimal(int(pace.bytes_per_s))}/s"] if run.reads else [])]


def live_view(run: RunState, pace: Pace, now: float) -> RenderableType:
    """The figures so far: a bar of splits, a line for every operator, the latest notes.

    Args:
        pace: has seen the present; the rates of operators are over its last seconds.
    """
    bar = ProgressBar(
        total=1.0 if run.splits or run.share else None,
        completed=run.share,
        width=40,
        pulse=not (run.splits or run.share),
        animation_time=now,
    )
    remaining = run.run_remaining(now)
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(run.pipeline, "bold"),
        bar,
        Text(_splits(run)),
        Text(seconds_text(run.elapsed(now)) + (f", {seconds_text(remaining)} left" if remaining is not None else "")),
    )
    if run.setting_up:
        return Group(head, Text(f"  {setting_up(run, now)}", "cyan"))
    flows = "   ".join(_flow(run, pace))
    lines: list[RenderableType] = [head, *([Text(f"  {flows}", "cyan")] if flows else []), _operators(pace)]
    held = run.held_bytes
    if held:
        lines.append(Text(f"  {decimal(held)} between operators, of at most {decimal(run.budget_bytes)}", "dim"))
    lines += [Text(f"  {note.text}", _STYLES.get(note.kind, "dim")) for note in list(run.latest)[-LATEST:]]
    return Group(*lines)


#: How notes look, by kind.
_STYLES = {"lost": "yellow", "hung": "yellow", "error": "red"}


def _operators(pace: Pace) -> RenderableType:
    snapshot = pace.present
    shown = [operator for operator in snapshot.operators if operator.phase == snapshot.phase]
    table = Table.grid(padding=(0, 2))
    table.add_row(
        "",
        *(
            Text(title, "dim", justify="right")
            for title in ("slots", "busy", "batches", "a second", "each", "wait for it")
        ),
    )
    for operator in shown:
        busy = pace.busy(operator.name)
        table.add_row(
            Text(f"  {operator.title}"),
            Text(f"{operator.slots:,}", justify="right"),
            Text("" if busy is None else f"{100 * busy:.0f} %", justify="right"),
            Text(f"{operator.calls:,}", justify="right"),
            Text(f"{pace.calls_per_s(operator.name):,.1f}", justify="right"),
            Text(seconds_text(operator.seconds / operator.calls) if operator.calls else "", justify="right"),
            Text(_queue(operator, snapshot), justify="right"),
        )
    return table


def _queue(operator: OperatorFigures, snapshot: RunSnapshot) -> str:
    """The queue of an operator; for the first, the source."""
    first = operator.name == next(figures.name for figures in snapshot.operators if figures.phase == snapshot.phase)
    if first or not (operator.waiting or operator.waiting_bytes):
        return ""
    return f"{operator.waiting:,} {'batch' if operator.waiting == 1 else 'batches'}, {decimal(operator.waiting_bytes)}"
