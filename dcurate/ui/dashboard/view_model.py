"""The values that the dashboard shows of a run, from its snapshot and its history."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from dcurate.events import StageStats
from dcurate.runs.history import History, Point
from dcurate.runs.snapshot import OperatorFigures, RunSnapshot, rate_span

#: The seconds that count as "lately", or two of the longest calls if these take longer.
LATELY_S = 10.0
#: A run not heard of for this many seconds is called silent: its driver is gone, or stuck.
SILENT_S = 30.0
#: The least busy share of an operator that can be called the bottleneck, and how far below the busiest it may be.
BOTTLENECK, ALIKE = 0.5, 0.1

#: Colours of operators, in order: the qualitative palette "Safe" of CARTO, put in such an order that the colour-blind,
#: too, see neighbours as far apart as can be.
COLOURS = (
    "#332288",
    "#44aa99",
    "#ddcc77",
    "#661100",
    "#aa4499",
    "#88ccee",
    "#117733",
    "#882255",
    "#999933",
    "#cc6677",
    "#6699cc",
    "#888888",
)


def colour(number: int) -> str:
    """The colour of a run's operator, by its place among all operators of the run."""
    return COLOURS[number % len(COLOURS)]


@dataclass(frozen=True)
class OperatorRow:
    """An operator as it is shown.

    Attributes:
        number: its place among all operators of the run; its ``colour`` goes by it.
        figures: figures of the engine.
        present: whether its phase is the run's present one, and the run goes on.
        rows: documents that went into it so far; None of a round of an exchange, which has none.
        rate: documents a second that went into it lately, batches where ``rows`` is None; over the whole run once that
            has ended.
        busy: share of its slots' time that was spent in its stages' code, in the same time; None without slots.
        full: bytes that wait for it, as a share of what may wait in the whole run.
        bottleneck: whether it is what the others wait for.
    """

    number: int
    figures: OperatorFigures
    present: bool
    rows: int | None
    rate: float
    busy: float | None
    full: float
    bottleneck: bool = False

    @property
    def colour(self) -> str:
        """Its colour in every plot."""
        return colour(self.number)


@dataclass(frozen=True)
class RunPanel:
    """A run as it is shown.

    Attributes:
        now: the snapshot that it is made from.
        state: ``"setting up"``, ``"running"``, ``"silent"``, ``"finished"`` or ``"stopped"``.
        rate_in: documents a second read lately, ``rate_out`` those that came out, ``bytes_rate`` bytes of input; over
            the whole run once that has ended.
        left: seconds that the run will still take, None where that is not known.
        kept: share of the documents that come out; None before there are any, and while the first phases of several
            have none.
        faulty: documents in quarantine.
        operators: operators of all phases so far.
        phases: how many phases have begun.
    """

    now: RunSnapshot
    state: str
    rate_in: float
    rate_out: float
    bytes_rate: float
    left: float | None
    kept: float | None
    faulty: int
    operators: tuple[OperatorRow, ...]
    phases: int

    @property
    def goes_on(self) -> bool:
        """Whether the run is still going."""
        return self.now.ended is None


def view(history: History, now: float | None = None) -> RunPanel:
    """The present state of a run.

    Args:
        history: history of the run.
        now: seconds since the epoch, to detect a silent run; the clock's if not given.
    """
    snapshot = history.snapshot()
    before = earlier(snapshot, history.points)
    seconds = snapshot.working if before is None else max(snapshot.time - before.time, 1e-6)
    last = before or Point(snapshot.started)
    shown = [_operator(snapshot, last, number) for number in range(len(snapshot.operators))]
    operators = _with_bottleneck(snapshot, shown)
    rows_in, rows_out = snapshot.rows_in, snapshot.rows_out
    return RunPanel(
        now=snapshot,
        state=state(snapshot, time.time() if now is None else now),
        rate_in=(rows_in - last.rows_in) / seconds,
        rate_out=max(0, rows_out - last.rows_out) / seconds,
        bytes_rate=(snapshot.bytes_in - last.bytes_in) / seconds,
        left=snapshot.run_left_s,
        kept=None if snapshot.kept is None else min(1.0, snapshot.kept),
        faulty=sum(sum(stage.faulty.values()) for stage in snapshot.stages),
        operators=tuple(operators),
        phases=snapshot.phase + 1,
    )


def state(snapshot: RunSnapshot, now: float) -> str:
    """The state of a run, in a word.

    Examples:
        >>> state(RunSnapshot("7f3a", "demo", "streaming", started=5.0, time=5.5), now=6.0)
        'setting up'
        >>> state(RunSnapshot("7f3a", "demo", "streaming", started=5.0, time=5.5, ended=5.5), now=6.0)
        'finished'
    """
    if snapshot.ended is not None:
        return "stopped" if snapshot.error else "finished"
    if now - snapshot.time > SILENT_S:
        return "silent"
    begun = snapshot.splits_done or any(operator.slots or operator.calls for operator in snapshot.operators)
    return "running" if begun else "setting up"


def earlier(snapshot: RunSnapshot, points: Sequence[Point]) -> Point | None:
    """Since when is "lately": the last point before `LATELY_S`, or the first; None once the run has ended."""
    if snapshot.ended is not None:
        return None
    before, span = None, rate_span(snapshot.operators, LATELY_S)
    for point in reversed(points):
        if point.time < snapshot.time:
            before = point
        if point.time <= snapshot.time - span:
            break
    return before


def key(operator: OperatorFigures) -> tuple[int, str]:
    """The identity of an operator: two phases may have operators of the same name."""
    return operator.phase, operator.name


def _operator(snapshot: RunSnapshot, last: Point, number: int) -> OperatorRow:
    figures = snapshot.operators[number]
    then = next(
        (operator for operator in last.operators if key(operator) == key(figures)), OperatorFigures(figures.name, ())
    )
    rows = _rows(snapshot.stages, figures)
    seconds = max((snapshot.ended or snapshot.time) - last.time, 1e-6)
    calls = figures.calls - then.calls
    return OperatorRow(
        number=number,
        figures=figures,
        present=snapshot.ended is None and figures.phase == snapshot.phase,
        rows=rows,
        rate=(1 if rows is None else rows / figures.calls) * calls / seconds if figures.calls else 0.0,
        busy=figures.busy_since(then) if figures.slot_seconds > then.slot_seconds else None,
        full=min(1.0, figures.waiting_bytes / snapshot.budget_bytes) if snapshot.budget_bytes else 0.0,
    )


def _rows(stages: Sequence[StageStats], operator: OperatorFigures) -> int | None:
    """Documents that went into an operator's first stage that is given documents; None if it has only inner rounds."""
    counts = {stage.name: stage.rows_in for stage in stages}
    return next((counts[name] for name in operator.stages or (operator.name,) if name in counts), None)


def _with_bottleneck(snapshot: RunSnapshot, operators: list[OperatorRow]) -> list[OperatorRow]:
    """Mark what the others wait for: of the busiest operators the one with the most batches waiting for each slot."""
    running = [operator for operator in operators if operator.present and operator.busy is not None]
    most = max((operator.busy or 0.0 for operator in running), default=0.0)
    if snapshot.ended is not None or len(running) < 2 or most < BOTTLENECK:
        return operators
    busiest = [operator for operator in running if (operator.busy or 0.0) >= most - ALIKE]
    worst = max(
        busiest, key=lambda operator: (operator.figures.waiting / max(operator.figures.slots, 1), operator.busy or 0.0)
    )
    return [OperatorRow(**{**vars(operator), "bottleneck": operator is worst}) for operator in operators]
