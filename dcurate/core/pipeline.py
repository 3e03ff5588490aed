"""A pipeline: stages in a row, checked before anything runs."""

from __future__ import annotations

import copy
import hashlib
import inspect
import re
from collections.abc import Iterable
from typing import Any, Self

from dcurate.core.stage import CompositeStage, ProcessingStage, SinkStage, SourceStage
from dcurate.errors import PipelineError, listed

AnyStage = ProcessingStage[Any, Any]


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
        name: str,
        description: str | None = None,
        stages: Iterable[AnyStage] | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.stages: list[AnyStage] = []
        self.config = config or {}
        for stage in stages or ():
            self.add_stage(stage)

    def add_stage(self, stage: AnyStage) -> Self:
        """Add a stage at the end; returns the pipeline, so that calls can be chained.

        Raises:
            PipelineError: what was given is not a stage.
        """
        if isinstance(stage, type) and issubclass(stage, ProcessingStage):
            raise PipelineError(f"{stage.__name__} is a class; add a stage made of it: {stage.__name__}(...)")
        if not isinstance(stage, ProcessingStage):
            raise PipelineError(
                f"{type(stage).__name__} {stage!r} is not a stage; subclass ProcessingStage or use @processing_stage"
            )
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
            stages.extend(stage.decompose_and_apply_with() if isinstance(stage, CompositeStage) else [copy.copy(stage)])
        if not stages:
            raise PipelineError(f"pipeline {self.name!r} has no stages; add a reader with add_stage(JsonlReader(...))")
        _check_order(stages)
        check_columns(stages)
        return _with_unique_names(stages)

    def describe(self) -> str:
        """What the pipeline does, a stage a paragraph: resources, batch size, columns read and added."""
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
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, stages=[{', '.join(stage.name for stage in self.stages)}])"


def _check_order(stages: list[AnyStage]) -> None:
    for place, stage in enumerate(stages):
        if isinstance(stage, SourceStage) and place > 0:
            raise PipelineError(
                f"stage {stage.name!r} reads input, so it must come first, "
                f"but {stages[place - 1].name!r} stands before it"
            )
        if isinstance(stage, SinkStage) and place < len(stages) - 1:
            raise PipelineError(
                f"stage {stage.name!r} writes output, so it must come last, but {stages[place + 1].name!r} follows it"
            )


def check_columns(stages: Iterable[AnyStage], columns: Iterable[str] | None = None) -> list[str] | None:
    """Follow the columns through the stages; returns those that the last one yields, None if not known.

    Args:
        columns: what the first stage is given, or None if that is not known or the first is a source.

    Raises:
        PipelineError: a stage reads a column that nothing before it yields.
    """
    known = list(columns) if columns is not None else None
    origin = "the input"
    for stage in stages:
        if isinstance(stage, SourceStage):
            known, origin = stage.columns(), repr(stage.name)
            continue
        missing = [] if known is None else [column for column in stage.inputs()[1] if column not in known]
        if known is not None and missing:
            raise PipelineError(
                f"stage {stage.name!r} reads column{'s' if len(missing) > 1 else ''} {listed(missing)}, "
                f"but {origin} yields only {listed(known)}; name the right column, or add a stage that makes it"
            )
        if known is not None:
            stage.check_columns(known)
            known.extend(column for column in stage.outputs()[1] if column not in known)
    return known


def _with_unique_names(stages: list[AnyStage]) -> tuple[AnyStage, ...]:
    """Number stages that share a name, so that each has its own line in a report."""
    taken: dict[str, int] = {}
    named = []
    for stage in stages:
        taken[stage.name] = number = taken.get(stage.name, 0) + 1
        named.append(stage if number == 1 else stage.with_(name=f"{stage.name}_{number}"))
    return tuple(named)


def fingerprint(stages: Iterable[AnyStage]) -> dict[str, str]:
    """What decides the rows that stages make, by stage name: it tells an old output from a new pipeline.

    Covers each stage's class, its public settings, and for classes and functions outside dcurate their source.
    """
    return {stage.name: _fingerprint(stage) for stage in stages}


def _fingerprint(value: Any) -> str:
    return hashlib.blake2b(_canonical(value).encode(), digest_size=8).hexdigest()


def _canonical(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_canonical(k)}:{_canonical(v)}" for k, v in sorted(value.items(), key=repr)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_canonical, value)) + "]"
    if isinstance(value, set | frozenset):
        return "{" + ",".join(sorted(map(_canonical, value))) + "}"
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if inspect.isroutine(value) or isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}#{_source(value)}"
    kind = type(value)
    if isinstance(value, ProcessingStage):
        settings = {k: v for k, v in value.settings().items() if k not in ("name", "resources", "batch_size")}
    else:
        settings = _attributes(value)
    return f"{kind.__module__}.{kind.__qualname__}#{_source(kind)}({_canonical(settings)})"


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object; of one that has none its text, without the place in memory that it may tell."""
    try:
        return dict(vars(value))
    except TypeError:
        return {"text": re.sub(r" at 0x[0-9a-f]+", "", repr(value))}


def _source(value: Any) -> str:
    if value.__module__.partition(".")[0] in ("dcurate", "builtins"):
        return ""
    try:
        return hashlib.blake2b(inspect.getsource(value).encode(), digest_size=8).hexdigest()
    except (OSError, TypeError):
        return ""
