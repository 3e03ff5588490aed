"""`Pipeline` as NeMo Curator has it: tasks in, tasks out, run by dcurate's engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dcurate.compat.nemo.executors import XennaExecutor
from dcurate.compat.nemo.stages import CompositeStage, ProcessingStage
from dcurate.compat.nemo.tasks import EmptyTask
from dcurate.workflows.result import WorkflowRunResult

__all__ = ["Pipeline", "WorkflowBase", "WorkflowRunResult"]


def assign_root_task_ids(initial_tasks: Sequence[Any]) -> None:
    """Give tasks that a pipeline begins with their ids, by their place.

    Examples:
        >>> from dcurate.compat.nemo.tasks import FileGroupTask
        >>> task = FileGroupTask(dataset_name="mine", data=["a.jsonl"])
        >>> assign_root_task_ids([task])
        >>> task.task_id
        '0_0'
    """
    for number, task in enumerate(initial_tasks):
        if not isinstance(task, EmptyTask):
            task._set_task_id("0", number)


class Pipeline:
    """Stages in a row under a name.

    Args:
        stages: may also be added one by one with `add_stage`.
        config: free values; kept, never read.

    Examples:
        >>> from dcurate.compat.nemo.stages import processing_stage
        >>> @processing_stage(name="keep")
        ... def keep(task):
        ...     return task
        >>> Pipeline("demo").add_stage(keep)
        Pipeline(name='demo', stages=[keep(keep)])
    """

    def __init__(
        self,
        name: str,
        description: str | None = None,
        stages: list[Any] | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.stages: list[Any] = stages or []
        self.config = config or {}
        self.decomposition_info: dict[str, list[str]] = {}

    def add_stage(self, stage: Any) -> Pipeline:
        """Add a stage at the end.

        Raises:
            TypeError: it is not a stage.
        """
        if not isinstance(stage, ProcessingStage):
            raise TypeError(f"Stage must be a ProcessingStage, got {type(stage)}")
        self.stages.append(stage)
        return self

    def build(self) -> None:
        """Replace composites by their inner stages, and mark the first stage as source and the last as sink.

        Raises:
            ValueError: there is no stage, or several are marked.
            TypeError: a composite holds another one of several stages.
        """
        if not self.stages:
            raise ValueError(f"Pipeline '{self.name}' has no stages")
        self.stages, self.decomposition_info = self._decompose_stages(self.stages)
        for mark, place, word in (("is_source_stage", 0, "source"), ("is_sink_stage", -1, "sink")):
            marked = [stage for stage in self.stages if getattr(stage, mark, False)]
            if len(marked) > 1:
                names = [stage.name for stage in marked]
                raise ValueError(f"Pipeline has multiple {word} stages marked: {names}. At most one is supported.")
            if not marked:
                object.__setattr__(self.stages[place], mark, True)

    def _decompose_stages(self, stages: Sequence[Any]) -> tuple[list[Any], dict[str, list[str]]]:
        inner: list[Any] = []
        names: dict[str, list[str]] = {}
        for stage in stages:
            parts = stage.decompose_and_apply_with() if isinstance(stage, CompositeStage) else [stage]
            for part in parts if len(parts) > 1 else ():
                if isinstance(part, CompositeStage) and len(part.decompose()) > 1:
                    raise TypeError(
                        f"Composite stage '{stage.name}' decomposed into another composite stage '{part.name}'. "
                        "Nested composition is not supported."
                    )
            if len(parts) > 1:
                names[stage.name] = [part.name for part in parts]
            inner += parts
        return inner, names

    def describe(self) -> str:
        """The stages with their resources, inputs and outputs, in lines."""
        lines = [
            f"Pipeline: {self.name}",
            f"Description: {self.description or 'No description provided'}",
            f"Stages: {len(self.stages)}",
            "",
        ]
        for number, stage in enumerate(self.stages, 1):
            lines.append(f"Stage {number}: {stage.name}")
            try:
                lines += _described(stage)
            except Exception as error:  # of a person's stage
                lines.append(f"  Error getting stage info: {error}")
        return "\n".join([*lines, ""])

    def __repr__(self) -> str:
        stages = ", ".join(f"{stage.name}({type(stage).__name__})" for stage in self.stages)
        return f"Pipeline(name='{self.name}', stages=[{stages}])"

    def run(
        self,
        executor: Any = None,
        initial_tasks: Sequence[Any] | None = None,
        checkpoint_path: str | Path | None = None,
    ) -> list[Any] | None:
        """Run the pipeline; return the tasks of the last stage.

        Args:
            executor: `XennaExecutor` if not given; any object with ``execute(stages, initial_tasks)``.
            initial_tasks: tasks to begin with.
            checkpoint_path: a folder that remembers what is finished: a later run with it goes on from there.

        Raises:
            ValueError: a stage cannot be resumed, and `checkpoint_path` is given; or the pipeline has no stages.
        """
        self.build()
        if checkpoint_path is not None:
            fixed = [stage.name for stage in self.stages if not getattr(stage, "is_resumable", True)]
            if fixed:
                raise ValueError(
                    f"checkpoint_path was set, but these stages are not marked resumable: {fixed}. Set "
                    "is_resumable=True on a stage only once you've confirmed its input→output mapping is "
                    "resumability-safe."
                )
        assign_root_task_ids(initial_tasks or ())
        runner = executor if executor is not None else XennaExecutor()
        if isinstance(runner, XennaExecutor):
            made: list[Any] = runner.run(self.name, self.stages, initial_tasks, checkpoint_path)
            return made
        return runner.execute(self.stages, initial_tasks)  # type: ignore[no-any-return]


def _described(stage: Any) -> list[str]:
    lines = [f"  Resources: {stage.resources.cpus} CPUs"]
    if stage.resources.requires_gpu:
        lines.append(f"    GPU Memory: {stage.resources.gpu_memory_gb} GB ({stage.resources.gpus} GPUs)")
    lines.append(f"  Batch size: {stage.batch_size}")
    inputs = stage.inputs()
    if isinstance(inputs, tuple):
        lines += _listed("Input", "Required ", *inputs)
    elif any(any(pair) for pair in inputs.values()):
        lines.append("  Inputs:")
        for kind, (attributes, columns) in inputs.items():
            inner = _listed("Input", "Required ", attributes, columns)[1:]
            lines += [f"    {kind.__name__}:", *(f"  {line}" for line in inner)] if inner else []
    return lines + _listed("Output", "Output ", *stage.outputs())


def _listed(title: str, word: str, attributes: Sequence[str], columns: Sequence[str]) -> list[str]:
    lines = [f"  {title}s:"] if attributes or columns else []
    for kind, names in (("attributes", attributes), ("columns", columns)):
        lines += [f"    {word}{kind}: {', '.join(names)}"] if names else []
    return lines


class WorkflowBase(ABC):
    """Several pipelines under one ``run``."""

    @abstractmethod
    def run(self, *args: Any, **kwargs: Any) -> WorkflowRunResult:
        """Run the workflow."""
