"""Have a reader parse only the columns that stages use, keep the lines of all rows, and say where they were read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dcurate.core.stage import BarrierStage, KeepsLines, LeavesTexts, MarksRows, SinkStage, Stage


def keep_lines(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages of a built pipeline; the reader parses only the columns that others use, where that is known.

    A stage of a user may look at columns that it does not name: then all are parsed, and it does not see the lines.

    Examples:
        >>> from dcurate import JsonlReader, JsonlWriter, Pipeline
        >>> from dcurate.text import AddId
        >>> stages = keep_lines([JsonlReader("in"), AddId("id"), JsonlWriter("out")])
        >>> stages[0]._read_only
        ('id',)
    """
    reader, *successors = stages
    if not isinstance(reader, KeepsLines) or not reader.sees_lines:
        return tuple(stages)
    if not successors or not isinstance(successors[-1], SinkStage):
        return tuple(stages)
    barriers = [stage for stage in successors if isinstance(stage, BarrierStage)]
    if not all(map(names_columns, [successors[-1], *barriers])):
        return tuple(stages)
    used = dict.fromkeys(name for stage in successors for name in (*_read_by(stage), *stage.outputs()[1]))
    keeping = reader.keeping_lines(tuple(used) if all(map(names_columns, successors)) else None)
    if keeping is None:
        return tuple(stages)
    return (keeping, *(_leaving_texts(successors) if all(map(names_columns, successors)) else successors))


def _leaving_texts(stages: Sequence[Stage]) -> Iterator[Stage]:
    """The stages, each with the columns noted that later ones look at."""
    for place, stage in enumerate(stages):
        later = dict.fromkeys(
            name for successor in stages[place + 1 :] for name in (*_read_by(successor), *successor.outputs()[1])
        )
        yield stage.leaving_texts(tuple(later)) if isinstance(stage, LeavesTexts) else stage


def mark_rows(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages of a built pipeline; the first say where each row was read if a later one looks at that.

    Stages of a user would see the columns, so there must be none before.

    Examples:
        >>> from dcurate import JsonlReader, JsonlWriter, TokenWriter
        >>> writer = TokenWriter("out", "tokenizer.json")
        >>> [mark_rows([JsonlReader("in"), *last])[0]._marks_rows for last in (writer.decompose(), [JsonlWriter("x")])]
        [True, False]
    """
    last = max((place for place, stage in enumerate(stages) if stage.uses_origins), default=-1)
    if last < 0 or not all(stage.sees_lines for stage in stages[:last]):
        return tuple(stages)
    before = (stage.marking_rows() if isinstance(stage, MarksRows) else stage for stage in stages[:last])
    return (*before, *stages[last:])


def used_after(stages: Sequence[Stage], barrier: Stage) -> tuple[str, ...] | None:
    """Return the columns that the stages after a barrier use; None if that is not known."""
    place = next((number for number, stage in enumerate(stages) if stage is barrier), None)
    if place is None or not all(map(names_columns, stages[place:])):
        return None
    again = isinstance(barrier, BarrierStage) and barrier.uses_columns_again
    return tuple(dict.fromkeys(name for stage in stages[place + (not again) :] for name in _read_by(stage)))


def _read_by(stage: Stage) -> Iterator[str]:
    """The columns that a stage reads, also those that need not be there."""
    yield from stage.inputs()[1]
    yield from stage.optional_inputs()


def names_columns(stage: Stage) -> bool:
    """Whether a stage names the columns that it uses: a class of a user may do more than the one that it extends."""
    return stage.uses_only_named_columns and stage.sees_lines
