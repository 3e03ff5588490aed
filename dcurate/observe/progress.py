"""Progress of a run while it goes: a live display on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dcurate.core.events import Event, RunEnded, RunStarted
from dcurate.observe.tally import Tally

#: Seconds before the first line where there is no live display.
FIRST_LINE = 2.0
#: Decisions about slots that the live display shows.
LATEST = 3


def seconds_text(seconds: float) -> str:
    """A duration as a person says it.

    Examples:
        >>> [seconds_text(s) for s in (0.0042, 0.25, 3.21, 59.97, 65, 3700)]
        ['4 ms', '250 ms', '3.2 s', '1 min 00 s', '1 min 05 s', '1 h 01 min']
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def many(number: int, noun: str) -> str:
    """A number of things.

    Examples:
        >>> many(1, "file"), many(1200, "file")
        ('1 file', '1,200 files')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class Progress:
    """Shows how a run goes on; give it to ``run(observers=[...])``.

    On a terminal it is a live display that leaves one line behind. Elsewhere, in a notebook too, it is a
    plain line after two seconds and then every ``interval`` seconds, and one at the end. Events are only
    counted when they come; a thread of its own shows the figures.

    Args:
        console: where to show it; standard error if not given, in a notebook the cell's output.
        interval: seconds between lines where there is no live display.
    """

    def __init__(self, console: Console | None = None, interval: float = 10.0) -> None:
        self.console = console or _standard_console()
        self.interval = interval
        self._tally = Tally()
        self._live: Live | None = None
        self._over = threading.Event()
        self._liner: threading.Thread | None = None

    def on_event(self, event: Event) -> None:
        """Count an event; the run's first and last begin and end the display."""
        if isinstance(event, RunStarted):
            self.close()
            self._tally = Tally()
        before = len(self._tally.decisions)
        self._tally.count(event)
        if self._live is None:
            for decision in self._tally.decisions[before:]:
                self._write(f"{self._tally.pipeline}: {decision}")
        if isinstance(event, RunStarted):
            self._open()
        elif isinstance(event, RunEnded):
            self.close()
            self._write(_last_line(self._tally))

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
        if self.console.is_terminal and not self.console.is_jupyter:
            self._live = Live(
                console=self.console,
                get_renderable=lambda: live_view(self._tally, time.time()),
                refresh_per_second=4,
                transient=True,
            )
            self._live.start()
            return
        self._over = threading.Event()
        self._liner = threading.Thread(
            target=self._write_lines, args=(self._over,), name="dcurate-progress", daemon=True
        )
        self._liner.start()

    def _write_lines(self, over: threading.Event) -> None:
        pause = min(FIRST_LINE, self.interval)
        while not over.wait(pause):
            self._write(progress_line(self._tally, time.time()))
            pause = self.interval

    def _write(self, line: str) -> None:
        self.console.file.write(f"{line}\n")
        self.console.file.flush()


def _standard_console() -> Console:
    console = Console(stderr=True)
    return Console() if console.is_jupyter else console


#: What there is to say before the first slot is ready.
SETTING_UP = "setting up: stages load what they need; the first run on a machine compiles its kernels, once"


def progress_line(tally: Tally, now: float) -> str:
    """The figures so far in one line of text."""
    if tally.setting_up:
        return f"{tally.pipeline}: {seconds_text(tally.elapsed(now))} | {SETTING_UP}"
    parts = [f"{tally.pipeline}: {seconds_text(tally.elapsed(now))}", _splits(tally), *_flow(tally, now)]
    remaining = tally.remaining(now)
    if remaining is not None:
        parts.append(f"{seconds_text(remaining)} left")
    if len(tally.operators) > 1:
        parts.append("tasks " + ", ".join(f"{name} {operator.tasks:,}" for name, operator in tally.operators.items()))
    if tally.workers_lost:
        parts.append(f"{many(tally.workers_lost, 'worker')} lost")
    return " | ".join(parts)


def _last_line(tally: Tally) -> str:
    now = tally.ended or time.time()
    stages = tally.first if tally.first == tally.last else f"{tally.first} to {tally.last}"
    state = f"{tally.pipeline}: {stages} {'stopped' if tally.error else 'done'}"
    return " | ".join([state, seconds_text(tally.elapsed(now)), _splits(tally), *_flow(tally, now)])


def _splits(tally: Tally) -> str:
    done = tally.splits_before + tally.splits_done
    if tally.splits is None:
        return many(done, "split")
    share = f" ({100 * done // tally.splits} %)" if tally.splits else ""
    return f"{done:,} of {tally.splits:,} splits{share}"


def _flow(tally: Tally, now: float) -> list[str]:
    seconds = tally.elapsed(now)
    return [
        f"{tally.rows_in:,} rows in, {tally.rows_out:,} out",
        f"{tally.rows_in / seconds:,.0f} rows/s",
        f"{decimal(int(tally.bytes_in / seconds))}/s",
    ]


def live_view(tally: Tally, now: float) -> RenderableType:
    """The figures so far as a bar of splits and a line for every operator."""
    bar = ProgressBar(
        total=tally.splits or None,
        completed=tally.splits_before + tally.splits_done,
        width=40,
        pulse=not tally.splits,
        animation_time=now,
    )
    remaining = tally.remaining(now)
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(tally.pipeline, "bold"),
        bar,
        Text(_splits(tally)),
        Text(seconds_text(tally.elapsed(now)) + (f", {seconds_text(remaining)} left" if remaining is not None else "")),
    )
    if tally.setting_up:
        return Group(head, Text(f"  {SETTING_UP}", "cyan"))
    lines: list[RenderableType] = [head, Text("  " + "   ".join(_flow(tally, now)), "cyan")]
    operators = Table.grid(padding=(0, 2))
    for name, operator in tally.operators.items():
        operators.add_row(
            Text(f"  {name}"),
            Text(many(operator.tasks, "task"), justify="right"),
            Text(many(sum(operator.slots.values()), "slot"), justify="right"),
            Text(f"{seconds_text(operator.mean_seconds)} each" if operator.tasks else "", justify="right"),
        )
    lines.append(operators)
    lines += [Text(f"  {decision}", "dim") for decision in tally.decisions[-LATEST:]]
    if tally.workers_lost:
        lines.append(Text(f"  {many(tally.workers_lost, 'worker')} lost; what was there is made again", "yellow"))
    return Group(*lines)
