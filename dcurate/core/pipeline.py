"""A pipeline: stages in a row, checked before anything runs."""

from __future__ import annotations

import copy
import inspect
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dcurate.core.batch import Batch, BatchKey
from dcurate.core.part import Part, wrapping
from dcurate.core.stage import CompositeStage, SinkStage, SourceStage, Stage
from dcurate.errors import PipelineError, listed, shown

AnyStage = Stage

_CONTAINERS = (list, dict, set, deque, defaultdict, Counter)


#: In place of the name of a pipeline that was given none.
_NO_NAME: Any = object()


#: What to write in place of methods that frames and data sets of other libraries have.
_INSTEAD = {
    "map": "add a stage: add_stage(Modify(function)) for texts, or a function with @processing_stage for batches",
    "filter": "add a stage: add_stage(ScoreFilter(...)), or Score and then Filter",
    "add": "stages are added by add_stage(...)",
    "append": "stages are added by add_stage(...)",
    "show": "the first rows are pipeline.head(n)",
    "take": "the first rows are pipeline.head(n)",
    "compute": "it is run by pipeline.run()",
    "collect": "it is run by pipeline.run()",
    "execute": "it is run by pipeline.run()",
    "start": "it is run by pipeline.run()",
}


class PipelineDefinition:
    """Stages in a row, under a name. Running it never changes it.

    Args:
        name: shown in reports and on dashboards.
        description: one line for a person.
        stages: may also be added one by one with `add_stage`.
        config: free values for a person's own use; kept, never read.
    """

    def __init__(
        self,
        name: str = _NO_NAME,
        description: str | None = None,
        stages: Iterable[AnyStage] | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        if name is _NO_NAME:
            raise PipelineError("a pipeline needs a name: write Pipeline('name', stages=[...])")
        if not isinstance(name, str):
            raise PipelineError(
                f"the first argument of a pipeline is its name, and this is a {type(name).__name__}; "
                "write Pipeline('name', stages=[...])"
            )
        if description is not None and not isinstance(description, str):
            raise PipelineError(
                f"the second argument of a pipeline is its description, and this is {shown(description)}; "
                "write Pipeline('name', stages=[...])"
            )
        self.name = name
        self.description = description
        self.stages: list[AnyStage] = []
        self.config = config or {}
        if isinstance(stages, Part) or (stages is not None and not isinstance(stages, Iterable)):
            raise PipelineError(f"stages={shown(stages)} must be a list; write [...] around it")
        for stage in stages or ():
            self.add_stage(stage)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            missing = f"{type(self).__name__!r} object has no attribute {name!r}"
            instead = _INSTEAD.get(name)
            raise AttributeError(f"{missing}; {instead}" if instead else missing)

    def add_stage(self, stage: AnyStage) -> Self:
        """Add a stage at the end; returns the pipeline, so that calls can be chained.

        Raises:
            PipelineError: what was given is not a stage.
        """
        if isinstance(stage, type) and issubclass(stage, Stage):
            raise PipelineError(f"{stage.__name__} is a class; add a stage made of it: {stage.__name__}(...)")
        if not isinstance(stage, Stage):
            raise PipelineError(f"{shown(stage)} is not a stage{_how(stage)}")
        self.stages.append(stage)
        return self

    def build(self) -> tuple[AnyStage, ...]:
        """The stages with composites taken apart, after checking that they fit together.

        Raises:
            PipelineError: no stage, a source that is not first, a sink that is not last, two stages of one
                name, or a stage that reads a column which nothing before it yields.
        """
        stages: list[AnyStage] = []
        for stage in self.stages:
            stages.extend(stage.decompose_and_apply_with() if isinstance(stage, CompositeStage) else [_copied(stage)])
        if not stages:
            raise PipelineError(f"pipeline {self.name!r} has no stages; add a reader with add_stage(JsonlReader(...))")
        _check_order(stages)
        check_columns(stages)
        return _with_unique_names(stages)

    def describe(self) -> str:
        """Describe each stage in a paragraph: resources, batch size, columns read and added."""
        lines = [f"Pipeline {self.name}" + (f": {self.description}" if self.description else "")]
        for number, stage in enumerate(self.build(), 1):
            lines.append(f"  {number}. {stage.name} ({type(stage).__name__}): {stage.resources}")
            if stage.batch_size != 1:
                lines.append(f"     batch size {stage.batch_size}")
            if stage.num_workers() is not None:
                lines.append(f"     workers {stage.num_workers()}")
            if isinstance(stage, SourceStage):
                columns = stage.columns()
                lines.append(
                    f"     yields {', '.join(columns) if columns is not None else 'columns known when it runs'}"
                )
            if stage.inputs()[1]:
                lines.append(f"     reads {', '.join(stage.inputs()[1])}")
            if stage.outputs()[1]:
                lines.append(f"     adds {', '.join(stage.outputs()[1])}")
            lines += [f"     {note}" for note in stage.plan_notes()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, stages=[{', '.join(stage.name for stage in self.stages)}])"


def _how(value: Any) -> str:
    """Suggest how to turn a value into a stage, if that is known."""
    wrapped = wrapping(value)
    if wrapped:
        return wrapped
    if isinstance(value, list | tuple):
        return "; give what it holds: put * before it"
    if hasattr(value, "columns"):
        return "; rows are given to the run: pipeline.run(initial_tasks=frame)"
    if isinstance(value, str):
        return "; a path is read by a stage, such as JsonlReader(path)"
    if inspect.isroutine(value):
        return (
            f"; call it ({value.__name__}(...)) if it makes stages, or use @processing_stage on a function of a batch"
        )
    return "; subclass ProcessingStage or use @processing_stage"


def _check_order(stages: list[AnyStage]) -> None:
    for place, stage in enumerate(stages):
        if isinstance(stage, SourceStage) and place > 0:
            raise PipelineError(
                f"stage {stage.name!r} reads input, so it must come first, "
                f"but {stages[place - 1].name!r} comes before it"
            )
        if isinstance(stage, SinkStage) and place < len(stages) - 1:
            raise PipelineError(
                f"stage {stage.name!r} writes output, so it must come last, but {stages[place + 1].name!r} follows it"
            )


def check_columns(stages: Iterable[AnyStage], columns: Iterable[str] | None = None) -> list[str] | None:
    """Follow the columns through the stages; return the last output columns, None if not known.

    Args:
        columns: what the first stage is given, or None if that is not known or the first is a source.

    Raises:
        PipelineError: a stage reads a column that nothing before it yields.
    """
    known = list(columns) if columns is not None else None
    sure = set(known or ())  # a user's stage may have dropped or renamed others
    before: list[AnyStage] = []
    for stage in stages:
        if isinstance(stage, SourceStage):
            known = stage.columns()
            sure = set(known or ())
        elif known is not None:
            missing = [column for column in stage.inputs()[1] if column not in known]
            if missing:
                raise PipelineError(_missing(stage, missing, known, before))
            made = stage.new_columns()
            stage.check_columns([column for column in known if column in sure or column not in made])
            known = stage.columns_after(known)
            sure = {*stage.outputs()[1], *(sure if stage.declares_columns else ())} & set(known or ())
        before.append(stage)
    return known


def _missing(stage: AnyStage, missing: Sequence[str], known: Sequence[str], before: Sequence[AnyStage]) -> str:
    """Say that a stage reads columns that the rows do not have, and which stages may be at fault."""
    reads = f"stage {stage.name!r} reads column{'s' if len(missing) > 1 else ''} {listed(missing)}"
    if before and isinstance(before[0], SourceStage):
        origin, earlier = repr(before[0].name), before[1:]
    else:
        origin, earlier = "the input", before
    theirs = [candidate.name for candidate in earlier if not candidate.declares_columns]
    yields = f"{origin} yields only" if not earlier else f"after {earlier[-1].name!r} rows have only"
    declare = f", or, if {listed(theirs)} makes it, declare it there in outputs" if theirs else ""
    advice = before[0].advice(known) if before and isinstance(before[0], SourceStage) else ""
    if advice:
        return f"{reads}, but {yields} {listed(known)}{advice}"
    maker = stage.made_by(missing[0]) or "a stage that makes it"
    return f"{reads}, but {yields} {listed(known)}; name the right column, or add {maker}{declare}"


def _with_unique_names(stages: list[AnyStage]) -> tuple[AnyStage, ...]:
    """Number stages that share a name, so that each has its own line in a report."""
    taken: dict[str, int] = {}
    named = []
    for stage in stages:
        taken[stage.name] = number = taken.get(stage.name, 0) + 1
        named.append(stage if number == 1 else stage.with_(name=f"{stage.name}_{number}"))
    return tuple(named)


@dataclass
class BatchSource(SourceStage[Batch, Batch]):
    """Begins a pipeline with batches that are there already."""

    lists_ahead: ClassVar[bool] = True
    batches: Sequence[Batch] = ()
    name: str = "initial_tasks"

    takes_rows: ClassVar[bool] = True

    def splits(self) -> Iterator[Batch]:
        for number, batch in enumerate(self.batches):
            yield replace(batch, key=batch.key or BatchKey(f"batch-{number:05}"))

    def columns(self) -> list[str] | None:
        return self.batches[0].get_columns() if self.batches else None

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: Batch) -> Batch:
        return task


def _copied(stage: AnyStage) -> AnyStage:
    """A copy; of a source, with containers of its own: one that it fills as it lists is as before in the next run."""
    copied = copy.copy(stage)
    if isinstance(stage, SourceStage):
        vars(copied).update({name: copy.copy(held) for name, held in vars(stage).items() if type(held) in _CONTAINERS})
    return copied


def with_source(pipeline: PipelineDefinition, initial_tasks: Sequence[Batch] | None) -> tuple[AnyStage, ...]:
    """The stages of a pipeline, which begin with a source: its own, or one that gives the batches to begin with.

    Raises:
        PipelineError: it has neither, or both; or it cannot be built.
    """
    stages = pipeline.build()
    begins = isinstance(stages[0], SourceStage)
    if initial_tasks is None and not begins:
        raise PipelineError(
            f"pipeline {pipeline.name!r} begins with {stages[0].name!r}, which reads nothing; "
            "begin with a reader such as JsonlReader, or give run() initial_tasks"
        )
    if initial_tasks is None:
        return stages
    if begins:
        raise PipelineError(f"pipeline {pipeline.name!r} begins with a reader; it takes no initial_tasks")
    definition = PipelineDefinition(pipeline.name, stages=[BatchSource(_batches(initial_tasks)), *stages])
    return definition.build()


def _batches(value: Any) -> tuple[Batch, ...]:
    """The batches to begin with.

    Raises:
        PipelineError: it is no list of batches.
    """
    verb = "is"
    if isinstance(value, Sequence | Iterator) and not isinstance(value, str):
        items = tuple(value)
        non_batches = [item for item in items if not isinstance(item, Batch)]
        if not non_batches:
            return items
        verb, value = "holds", non_batches[0]
    raise PipelineError(
        f"initial_tasks must be a frame or a list of batches, and this {verb} {type(value).__name__}; {_rows_of(value)}"
    )


def _rows_of(value: Any) -> str:
    """Suggest how to begin a pipeline with a value."""
    if isinstance(value, str):
        return "begin with a reader, such as JsonlReader(path)"
    if isinstance(value, Mapping):
        return "make a frame of such rows: pandas.DataFrame(rows)"
    if hasattr(value, "npartitions"):
        return "use dcurate.apply(stages, ddf) on a Dask DataFrame"
    if hasattr(value, "collect"):
        return "read its rows first: frame.collect()"
    return "make batches: [DocumentBatch(data=frame)]"
