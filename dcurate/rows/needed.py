"""Have a reader parse only the columns that stages use, keep the lines of all rows, and say where they were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dcurate.core.stage import AdaptsRows, BarrierStage, RowNeeds, SinkStage, Stage
from dcurate.rows.origins import ORIGINS


def adapt_rows(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages of a built pipeline, each adapted to what later ones need of its rows.

    The reader keeps lines if the pipeline ends with a writer of them, and parses only the columns that others use. A
    stage of a user may look at columns that it does not name: then all are parsed, and it does not see the lines. It
    would see where rows were read, so this is added only where there is no such stage before it is needed.

    Examples:
        >>> from dcurate import JsonlReader, JsonlWriter, TokenWriter
        >>> from dcurate.text import AddId
        >>> adapt_rows([JsonlReader("in"), AddId("id"), JsonlWriter("out")])[0]._read_only
        ('id',)
        >>> writer = TokenWriter("out", "tokenizer.json")
        >>> [adapt_rows([JsonlReader("in"), *last])[0]._marks_rows for last in (writer.decompose(), [JsonlWriter("x")])]
        [True, False]
    """
    reader, *successors = stages
    marked = max((place for place, stage in enumerate(stages) if {*ORIGINS} & {*stage.optional_inputs()}), default=0)
    if not all(stage.declares_columns for stage in stages[:marked]):
        marked = 0
    is_named = all(map(names_columns, successors))
    needs = [
        RowNeeds(_used_by(stages[place + 1 :]) if is_named else None, origins=place < marked)
        for place in range(len(stages))
    ]
    if isinstance(reader, AdaptsRows) and _may_keep_lines(reader, successors):
        keeping = reader.adapted(replace(needs[0], lines=True))
        if keeping is not None:
            return (keeping, *map(_adapted, successors, needs[1:]))
    return (*map(_adapted, stages[:marked], needs), *stages[marked:])


def _may_keep_lines(reader: Stage, successors: Sequence[Stage]) -> bool:
    """Whether the lines of rows would be passed on to a writer of them."""
    if not reader.declares_columns or not successors or not isinstance(successors[-1], SinkStage):
        return False
    barriers = [stage for stage in successors if isinstance(stage, BarrierStage)]
    return all(map(names_columns, [successors[-1], *barriers]))


def _adapted(stage: Stage, needs: RowNeeds) -> Stage:
    adapted = stage.adapted(needs) if isinstance(stage, AdaptsRows) else None
    return stage if adapted is None else adapted


def used_after(stages: Sequence[Stage], barrier: Stage) -> tuple[str, ...] | None:
    """Return the columns that the stages after a barrier use; None if that is not known."""
    place = next((number for number, stage in enumerate(stages) if stage is barrier), None)
    if place is None or not all(map(names_columns, stages[place:])):
        return None
    again = isinstance(barrier, BarrierStage) and barrier.uses_columns_again
    return tuple(dict.fromkeys(name for stage in stages[place + (not again) :] for name in stage.columns_read() or ()))


def _used_by(stages: Sequence[Stage]) -> tuple[str, ...]:
    """The columns that stages read or make, of stages that name these."""
    names = (name for stage in stages for name in (*(stage.columns_read() or ()), *stage.outputs()[1]))
    return tuple(dict.fromkeys(name for name in names if name not in ORIGINS))


def names_columns(stage: Stage) -> bool:
    """Whether a stage names the columns that it reads: a class of a user may do more than the one that it extends."""
    return stage.declares_columns and stage.columns_read() is not None
