"""Figures of stages, as NeMo Curator attaches them to tasks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.compat.nemo.tasks import Task
from dcurate.core.report import RunReport
from dcurate.core.stage import SinkStage
from dcurate.events import Event, SplitDone, TaskDone


@dataclass
class StagePerfStats:
    """What a stage did.

    Args:
        stage_name: name of the stage.
        process_time: seconds in its code.
        actor_idle_time: seconds without work.
        input_data_size_mb: size of its input, in MiB.
        num_items_processed: rows that it was given.
        custom_metrics: figures that the stage logged itself.

    Examples:
        >>> sum([StagePerfStats("clean", 1.0), StagePerfStats("clean", 2.0)]).process_time
        3.0
    """

    stage_name: str
    process_time: float = 0.0
    actor_idle_time: float = 0.0
    input_data_size_mb: float = 0.0
    num_items_processed: int = 0
    custom_metrics: dict[str, float] = field(default_factory=dict)

    def __add__(self, other: StagePerfStats) -> StagePerfStats:
        names = {*self.custom_metrics, *other.custom_metrics}
        return StagePerfStats(
            self.stage_name,
            self.process_time + other.process_time,
            self.actor_idle_time + other.actor_idle_time,
            self.input_data_size_mb + other.input_data_size_mb,
            self.num_items_processed + other.num_items_processed,
            {name: self.custom_metrics.get(name, 0.0) + other.custom_metrics.get(name, 0.0) for name in names},
        )

    def __radd__(self, other: object) -> StagePerfStats:
        if other == 0:
            return self
        if not isinstance(other, StagePerfStats):
            raise TypeError(f"Cannot add {type(other)} to {type(self)}")
        return self + other

    def reset(self) -> None:
        """Set all figures to zero."""
        self.__init__(self.stage_name)  # type: ignore[misc]

    def to_dict(self) -> dict[str, Any]:
        """The figures by name."""
        return asdict(self)

    def items(self) -> list[tuple[str, Any]]:
        """The figures by name, those of the stage itself under ``custom.``."""
        figures = self.to_dict()
        del figures["stage_name"]
        custom = figures.pop("custom_metrics")
        return [*figures.items(), *((f"custom.{name}", value) for name, value in custom.items())]


@dataclass
class RunningPerfStats(StagePerfStats):
    """What a person's stage did with one batch: later stages of the run find it at their tasks.

    At the end of the run, the figures of the whole run take its place.
    """


def stats_of(report: RunReport) -> list[StagePerfStats]:
    """The figures of a run, stage by stage: its first task carries them, the others zeros, so that sums are right."""
    return [
        StagePerfStats(
            stage.name,
            process_time=stage.seconds,
            input_data_size_mb=stage.bytes_in / 2**20,
            num_items_processed=stage.rows_in,
            custom_metrics=dict(stage.metrics),
        )
        for stage in report.stages
    ]


class WrittenFigures:
    """Observes a run that ends with a writer: gives its tasks the figures that stages put into their metadata.

    A writer of dcurate passes on the names of files alone.

    Args:
        names: names of figures that stages log, and that tasks have in ``_metadata``.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._open: dict[str, Counter[str]] = {}
        self._of_files: dict[str, Counter[str]] = {}

    @classmethod
    def of(cls, stages: Sequence[Any]) -> WrittenFigures | None:
        """The observer for stages; None where there is no writer, or no stage that names figures."""
        names = dict.fromkeys(name for stage in stages for name in getattr(stage, "figures_in_metadata", ()))
        return cls(names) if names and isinstance(stages[-1], SinkStage) else None

    def on_event(self, event: Event) -> None:
        """Count what the tasks of a split log, until its files are written."""
        if isinstance(event, TaskDone):
            figures = self._open.setdefault(event.split, Counter())
            for stats in event.stats:
                figures.update({name: int(stats.metrics[name]) for name in self._names if name in stats.metrics})
        elif isinstance(event, SplitDone) and event.files:
            self._of_files[event.files[0]] = self._open.pop(event.split, Counter())

    def add_to(self, tasks: Iterable[Task[Any]]) -> None:
        """Put the figures of each split into the metadata of the task with its first file; others have zeros."""
        for task in tasks:
            figures = self._of_files.get(task.data[0], Counter())
            task._metadata.update({name: figures[name] for name in self._names})


class TaskPerfUtils:
    """Collect the figures that tasks carry.

    `tasks` is a list of tasks, a mapping of pipelines to such lists, or the result of a workflow. Figures that several
    tasks share are counted once.
    """

    @staticmethod
    def collect_stage_metrics(tasks: Any) -> dict[str, dict[str, npt.NDArray[np.float64]]]:
        """The figures of all tasks in arrays, by stage and name."""
        samples: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        shared = {
            id(perf): perf
            for pipeline_tasks in _by_pipeline(tasks).values()
            for task in pipeline_tasks
            for perf in task._stage_perf
        }
        for perf in shared.values():
            for name, value in perf.items():
                samples[perf.stage_name][name].append(float(value))
        return {
            stage: {name: np.array(values) for name, values in metrics.items()} for stage, metrics in samples.items()
        }

    @staticmethod
    def aggregate_task_metrics(tasks: Any, prefix: str | None = None) -> dict[str, Any]:
        """The sum, mean and standard deviation of each figure, named after pipeline, stage and figure."""
        named: dict[str, Any] = {}
        pipelines = _by_pipeline(tasks)
        for pipeline, pipeline_tasks in pipelines.items():
            before = [prefix, pipeline if prefix or len(pipelines) > 1 else None]
            for stage, figures in TaskPerfUtils.collect_stage_metrics(pipeline_tasks).items():
                for name, values in figures.items():
                    key = "_".join(filter(None, (*before, stage, name)))
                    for kind in ("sum", "mean", "std"):
                        named[f"{key}_{kind}"] = float(getattr(values, kind)()) if len(values) else 0.0
        return named

    @staticmethod
    def get_aggregated_stage_stat(tasks: Any, stage_prefix: str, stat: str) -> float:
        """The sum of a figure over the stages whose name begins with a prefix."""
        figures = TaskPerfUtils.collect_stage_metrics(tasks)
        return sum(
            float(metrics[stat].sum())
            for stage, metrics in figures.items()
            if stage.startswith(stage_prefix) and stat in metrics
        )


def _by_pipeline(tasks: Any) -> dict[str, list[Any]]:
    """Lists of tasks by the name of their pipeline."""
    held = getattr(tasks, "pipeline_tasks", tasks)
    if held is None or isinstance(held, list | tuple):
        return {"": list(held or ())}
    if not isinstance(held, Mapping):
        raise TypeError(
            "tasks must be a list of Task objects, a mapping of pipeline_name -> tasks, a workflow result dict, or "
            "WorkflowRunResult instance."
        )
    inner = held.get("pipeline_tasks")
    if isinstance(inner, Mapping):
        return _by_pipeline(inner)
    lists = {
        str(name): [pipeline_tasks] if isinstance(pipeline_tasks, Task) else list(pipeline_tasks or ())
        for name, pipeline_tasks in held.items()
    }
    return lists or {"": []}
