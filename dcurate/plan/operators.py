"""A plan: the operators that run a pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from dcurate.core.resources import Resources
from dcurate.core.spec import StageSpec
from dcurate.core.stage import BarrierStage, ProcessingStage, SinkStage, SourceStage, Stage

AnyStage = Stage


@dataclass(frozen=True)
class Operator:
    """One or more consecutive stages that run together in one task.

    Args:
        stages: in order, after merging.
        priority: operators of higher priority go first when both could run.
    """

    stages: tuple[AnyStage, ...]
    priority: int = 0

    @property
    def name(self) -> str:
        """The names of its first and last stage."""
        first, last = self.parts[0].name, self.parts[-1].name
        return first if first == last else f"{first}-{last}"

    @property
    def parts(self) -> tuple[AnyStage, ...]:
        """The stages as the user wrote them."""
        return tuple(part for stage in self.stages for part in stage.parts)

    @property
    def processing_stages(self) -> tuple[ProcessingStage[Any, Any], ...]:
        """The stages that work on one batch at a time, after merging; a barrier has none."""
        return tuple(stage for stage in self.stages if isinstance(stage, ProcessingStage))

    @property
    def is_barrier(self) -> bool:
        """Whether it sees every row before it passes any on."""
        return isinstance(self.stages[0], BarrierStage)

    @property
    def resources(self) -> Resources:
        """Resources of one slot."""
        return self.stages[0].resources

    @property
    def batch_size(self) -> int:
        """Batches per call."""
        return self.stages[0].batch_size

    @property
    def num_workers(self) -> int | None:
        """A fixed number of slots, or None."""
        return self.stages[0].num_workers()

    @property
    def spec(self) -> StageSpec:
        """The spec of its first stage, with the shortest lifetime of all."""
        lifetimes = [stage.spec.worker_max_lifetime_m for stage in self.parts if stage.spec.worker_max_lifetime_m]
        intervals = [stage.spec.worker_restart_interval_m for stage in self.parts]
        return replace(
            self.stages[0].spec,
            worker_max_lifetime_m=min(lifetimes, default=0.0),
            worker_restart_interval_m=max(intervals),
        )

    @property
    def cheap_setup(self) -> bool:
        """Whether its slots cost nothing to hold."""
        return all(stage.cheap_setup for stage in self.parts)


@dataclass(frozen=True)
class Plan:
    """A sequence of operators."""

    operators: tuple[Operator, ...]

    @property
    def parts(self) -> tuple[AnyStage, ...]:
        """The stages as the user wrote them."""
        return tuple(part for operator in self.operators for part in operator.parts)

    @property
    def sink(self) -> SinkStage[Any] | None:
        """The stage that writes, if the pipeline ends with one."""
        last = self.parts[-1]
        return last if isinstance(last, SinkStage) else None

    def explain(self) -> str:
        """Describe the operators: what is fused and merged in each, what each needs, and which columns flow."""
        lines = []
        columns: list[str] | None = None
        for number, operator in enumerate(self.operators, 1):
            fused = f", {len(operator.parts)} stages fused into one task" if len(operator.parts) > 1 else ""
            lines.append(f"Operator {number}: {operator.name}{fused}")
            settings = [f"one slot needs {operator.resources}"]
            if operator.spec.gpu_optional and operator.resources.requires_gpu:
                settings.append("on CPUs alone without a GPU")
            if operator.batch_size > 1:
                settings.append(f"{operator.batch_size} batches a call")
            if operator.num_workers is not None:
                settings.append(f"{operator.num_workers} slots, fixed")
            if operator.spec.num_workers_per_node is not None:
                settings.append(f"{operator.spec.num_workers_per_node} slots on each host, fixed")
            lines.append(f"  {'; '.join(settings)}")
            if operator.is_barrier:
                lines.append("  sees every row before it passes any on: what comes before runs first")
            for stage in operator.stages:
                merged = len(stage.parts) > 1
                lines += [f"  - {len(stage.parts)} stages merged into one pass:"] if merged else []
                for part in stage.parts:
                    lines.append(f"  {'    ' if merged else '- '}{part.name}{_columns_note(part)}")
                    if isinstance(part, SourceStage) and (types := part.column_types()):
                        lines.append(f"    rows: {', '.join(f'{name} {kind}' for name, kind in types.items())}")
                    columns = columns_after(columns, part)
            lines.append(f"  columns: {', '.join(columns) if columns is not None else 'known when it runs'}")
        return "\n".join(lines)


def _columns_note(stage: AnyStage) -> str:
    notes = []
    if stage.inputs()[1]:
        notes.append(f"reads {', '.join(stage.inputs()[1])}")
    if stage.outputs()[1]:
        notes.append(f"adds {', '.join(stage.outputs()[1])}")
    if stage.dropped_columns():
        notes.append(f"drops {', '.join(stage.dropped_columns())}")
    notes += stage.plan_notes()
    return f" ({'; '.join(notes)})" if notes else ""


def columns_after(columns: list[str] | None, stage: AnyStage) -> list[str] | None:
    """Return the columns of rows after a stage, None if they are not known; those before it do not count for a source.

    Args:
        columns: columns of rows before it; None if they are not known.
        stage: the stage.
    """
    if isinstance(stage, SourceStage):
        return stage.columns()
    return None if columns is None else stage.columns_after(columns)


def plan_of(stages: Iterable[AnyStage]) -> Plan:
    """Return the plan before any rule: one operator per stage."""
    return Plan(tuple(Operator((stage,)) for stage in stages))
