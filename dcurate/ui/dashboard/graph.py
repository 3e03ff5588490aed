"""The operators of a run in order, and the queues between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from dcurate.runs.text import many
from dcurate.ui.dashboard.html_blocks import Parts, slot
from dcurate.ui.dashboard.text import bar, count, nbytes, percent, short
from dcurate.ui.dashboard.view_model import OperatorRow, RunPanel

#: Share of the queue budget from which the queue of one operator is marked.
HIGH = 0.5
#: Pixels of the wire of an empty queue, and of a full one.
THIN, THICK = 2, 14

#: The most operators in a row.
ACROSS = 5

_BOTTLENECK = '<strong title="the busiest slots, and the most that waits for each of them">bottleneck</strong>'


def pipeline(view: RunPanel) -> Parts:
    """All operators: those of the latest phase in detail, those of earlier phases in a line."""
    latest = [operator for operator in view.operators if operator.figures.phase == view.now.phase]
    phases = [
        [operator for operator in view.operators if operator.figures.phase == phase] for phase in range(view.now.phase)
    ]
    before = "".join(_done(view, phase, operators) for phase, operators in enumerate(phases))
    head = f"<h3>{_phase(view.now.phase, view.now.phases, latest)}</h3>" if view.phases > 1 else ""
    chain = "".join(_step(view, operator) for operator in latest)
    style = f"--across:{_across(len(latest))}"
    parts = {"pipeline": f'{before}<div class="phase">{head}<div class="chain" style="{style}">{chain}</div></div>'}
    for place, operator in enumerate(latest):
        parts[f"wire {_at(view, operator)}"] = _wire(operator) if place else _source(view)
        parts[f"operator {_at(view, operator)}"] = _figures(operator, view.goes_on)
    return parts


def _across(many: int) -> int:
    """The number of operators in a row, so that rows are about equally long.

    Examples:
        >>> [_across(many) for many in (1, 3, 5, 6, 7, 8, 20)]
        [1, 3, 5, 3, 4, 4, 5]
    """
    rows = max(1, math.ceil(many / ACROSS))
    return max(1, math.ceil(many / rows))


def _at(view: RunPanel, operator: OperatorRow) -> str:
    return f"{view.now.run} {operator.number}"


def _done(view: RunPanel, phase: int, operators: Sequence[OperatorRow]) -> str:
    chips = "".join(
        f'<li style="--colour:{operator.colour}" title="{escape(", ".join(operator.figures.stages))}"><i></i>'
        f"<b>{escape(operator.figures.title)}</b> {_went_in(operator)}, {percent(operator.figures.busy)} busy</li>"
        for operator in operators
    )
    head = _phase(phase, view.now.phases, operators)
    return f'<div class="phase done"><h3>{head}</h3><ul class="chips">{chips}</ul></div>'


def _phase(phase: int, phases: int, operators: Sequence[OperatorRow]) -> str:
    """The name of a phase. Rows of an inner round are no documents, so it is named after the stage it is part of."""
    owners = {operator.figures.owner for operator in operators}
    inner = f": {escape(owners.pop())}" if len(owners) == 1 and "" not in owners else ""
    of = f" of {phases}" if phases > phase else ""
    return f"round {phase + 1}{of}{inner}"


def _step(view: RunPanel, operator: OperatorRow) -> str:
    name = escape(operator.figures.title)
    stages = operator.figures.stages if len(operator.figures.stages) > 1 else ()
    listed = "".join(f"<li>{escape(stage)}</li>" for stage in stages)
    return (
        f'<div class="step">{slot(f"wire {_at(view, operator)}", "div", "wire")}'
        f'<div class="operator" style="--colour:{operator.colour}"><h4 title="{name}">{name}</h4>'
        f'<ul title="{escape(", ".join(stages))}">{listed}</ul>'
        f"{slot(f'operator {_at(view, operator)}', 'div', 'figures')}</div></div>"
    )


def _source(view: RunPanel) -> str:
    """The queue of the first operator: splits that no task has taken."""
    now = view.now
    if now.splits is None or not view.goes_on:
        return f'<span></span><i style="height:{THIN}px"></i><small></small>'
    todo = max(now.splits - now.splits_before - now.splits_done, 0)
    share = todo / now.splits if now.splits else 0.0
    thick = THIN + (THICK - THIN) * share**0.5
    return f'<span>{count(todo)}</span><i style="height:{thick:.0f}px"></i><small>splits left</small>'


def _wire(operator: OperatorRow) -> str:
    waiting = operator.figures.waiting
    thick = THIN + (THICK - THIN) * operator.full**0.5
    return (
        f"<span>{count(waiting) if waiting else ''}</span>"
        f'<i class="{"high" if operator.full > HIGH else ""}" style="height:{thick:.0f}px"></i>'
        f"<small>{nbytes(operator.figures.waiting_bytes) if waiting else ''}</small>"
    )


def _figures(operator: OperatorRow, goes_on: bool) -> str:
    slots = many(operator.figures.slots, "slot") if goes_on else ""
    busy = operator.busy if operator.busy is not None or goes_on else operator.figures.busy
    unit = "batches" if operator.rows is None else "docs"
    return (
        f"<p><b>{short(operator.rate)}</b> {unit}/s<em>{slots}</em></p>{bar(busy or 0.0)}"
        f"<p>{percent(busy)} busy<em>{_went_in(operator)}</em></p>{_BOTTLENECK if operator.bottleneck else ''}"
    )


def _went_in(operator: OperatorRow) -> str:
    """The input of an operator: documents, or batches in an inner round."""
    calls = operator.figures.calls
    words = "1 batch" if calls == 1 else f"{short(calls)} batches"
    return words if operator.rows is None else f"{short(operator.rows)} docs"
