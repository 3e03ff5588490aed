"""Stages of NeMo Curator's form as stages of dcurate, and back at the end of a run."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dcurate.compat.nemo.cpus import engine_resources
from dcurate.compat.nemo.perf import RunningPerfStats
from dcurate.compat.nemo.stages import HOW_IT_RUNS, ProcessingStage, whole_slots
from dcurate.compat.nemo.tasks import FailedTask, NoneTask, Task, TaskBatch, engine_batch, nemo_task
from dcurate.core import stage as ours
from dcurate.core.batch import Batch, Rejection
from dcurate.core.packages import is_ours
from dcurate.core.spec import SPEC_FIELDS, StageSpec
from dcurate.core.stage import NodeInfo, WorkerMetadata
from dcurate.errors import StageError, listed
from dcurate.frames import convert
from dcurate.frames.document import DocumentBatch
from dcurate.rows.lines import LINE, without_lines
from dcurate.rows.needed import names_columns

_log = logging.getLogger("dcurate.compat.nemo")

#: Settings for Ray and Xenna, and the fields of `StageSpec` that do the same.
_SPEC = {
    "num_run_attempts_python": "num_run_attempts",
    "num_setup_attempts_python": "num_setup_attempts",
    **{name: name for name in SPEC_FIELDS},
}
_PER_NODE = "num_workers_per_node"
#: Settings for Ray and Xenna that are carried out in another way, or that change nothing here.
_KNOWN = {
    "is_fanout_stage",
    "is_actor_stage",
    "is_raft_actor",
    "is_lsh_stage",
    "is_shuffle_stage",
    "max_calls_per_worker",
}


def restored(kind: type[Any]) -> Any:
    """An empty object of a class, in a process in which NeMo Curator's modules can be imported."""
    from dcurate.compat.nemo import install  # noqa: PLC0415

    install()
    return object.__new__(kind)


def engine_spec(stage: Any, spec: StageSpec) -> StageSpec:
    """The settings of a stage for Ray and Xenna, as dcurate has them; the log names others once.

    Raises:
        TypeError: a number of slots on each host is not a number.
        ValueError: several settings say how many slots the stage has, or a number is out of range.
    """
    asked: dict[str, Any] = {**stage.ray_stage_spec(), **stage.xenna_stage_spec()}
    if _PER_NODE in asked:
        asked[_PER_NODE] = _for_xenna(stage, asked[_PER_NODE])
    elif not isinstance(stage, ours.Stage):
        asked[_PER_NODE] = whole_slots(stage.num_workers_per_node(), stage.name)
    unknown = [getattr(name, "value", name) for name in asked if name not in _SPEC and name not in _KNOWN]
    unknown += ["runtime_env"] if stage.runtime_env else []
    if unknown:
        _log.warning("stage %r: dcurate has no setting %s; left out", stage.name, listed(unknown))
    return replace(spec, **{_SPEC[name]: value for name, value in asked.items() if name in _SPEC and value is not None})


def _for_xenna(stage: Any, per_node: Any) -> int | None:
    """The slots on each host that the settings for Xenna ask for."""
    slots = whole_slots(per_node, stage.name)
    worker_count = None if isinstance(stage, ours.Stage) else stage.num_workers_per_node()
    for name, value in (("num_workers_per_node()", worker_count), ("num_workers()", stage.num_workers())):
        if None not in (slots, value):
            raise ValueError(
                f"Stage {stage.name} sets both {name} and xenna_stage_spec()['{_PER_NODE}']. Use only one worker "
                "sizing option."
            )
    return slots


class ForeignStage(ours.ProcessingStage[Any, Any]):
    """A stage that a person wrote for NeMo Curator.

    Args:
        stage: stage that a person wrote.
    """

    overwrite = True
    keeps_lines: bool
    """Whether rows leave with the lines that hold their values; see `dcurate.compat.nemo.values`."""

    def __init__(self, stage: Any) -> None:
        self.stage: ProcessingStage[Any, Any] = stage
        self.name = str(stage.name)
        self.resources = engine_resources(stage.resources)
        self.batch_size = stage.batch_size or 1
        self.spec = engine_spec(stage, getattr(stage, "spec", StageSpec()))
        self.keeps_lines = False

    def __reduce_ex__(self, protocol: Any) -> Any:
        return restored, (type(self),), self.__dict__

    def __repr__(self) -> str:
        return repr(self.stage)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def cheap_setup(self) -> bool:
        kind = type(self.stage)
        return kind.setup is ProcessingStage.setup and kind.teardown is ProcessingStage.teardown

    def columns_after(self, columns: Sequence[str]) -> None:
        return None

    def num_workers(self) -> int | None:
        return self.stage.num_workers()

    def is_fanout_stage(self) -> bool:
        return bool(self.stage.ray_stage_spec().get("is_fanout_stage") or self.stage.is_source_stage)

    def settings(self) -> dict[str, Any]:
        fields = {
            name: value for name, value in vars(self.stage).items() if name[:1] != "_" and name not in HOW_IT_RUNS
        }
        return {"stage": type(self.stage), **fields}

    def setup_on_node(self, node_info: Any = None, worker_metadata: Any = None) -> None:
        self.stage.setup_on_node(node_info or NodeInfo(), worker_metadata or WorkerMetadata())

    def setup(self, worker_metadata: Any = None) -> None:
        self.stage.setup(worker_metadata or WorkerMetadata())

    def teardown(self) -> None:
        self.stage.teardown()

    def take_metrics(self) -> dict[str, float]:
        stage: Any = self.stage
        taken: dict[str, float] = (
            stage.take_metrics() if isinstance(stage, ours.ProcessingStage) else stage._consume_custom_metrics()
        )
        return taken

    def process(self, task: Batch) -> Any:
        return self.process_batch([task])[0]

    def process_batch(self, tasks: list[Batch]) -> Sequence[Any]:
        nemo_tasks, start = [nemo_task(task) for task in tasks], time.perf_counter()
        figures = RunningPerfStats(
            self.name,
            input_data_size_mb=sum(task.nbytes for task in tasks) / 2**20,
            num_items_processed=sum(task.num_items for task in nemo_tasks),
        )
        answers = self._answers(tasks, nemo_tasks)
        figures.process_time = time.perf_counter() - start
        figures.custom_metrics = dict(vars(self.stage).get("_custom_metrics") or {})
        for answer in answers:
            for batch in answer if isinstance(answer, list) else [answer]:
                _add_figures(batch, figures)
        return answers

    def _answers(self, tasks: list[Batch], nemo_tasks: list[Task[Any]]) -> list[Any]:
        if type(self.stage).process_batch is ProcessingStage.process_batch:
            return [
                self._answer(task, self._process(converted)) for task, converted in zip(tasks, nemo_tasks, strict=True)
            ]
        results = list(self.stage.process_batch(nemo_tasks) or ())
        if len(results) == len(tasks):
            return [self._answer(task, result) for task, result in zip(tasks, results, strict=True)]
        answers: list[Any] = [self._answer(tasks[0], results, is_of_batch=False)]
        return answers + [None] * (len(tasks) - 1)

    def _process(self, task: Task[Any]) -> Any:
        if not self.stage.validate_input(task):
            raise ValueError(f"Task {task!s} failed validation for stage {self.stage}")
        return self.stage.process(task)

    def _answer(self, batch: Batch, result: Any, is_of_batch: bool = True) -> Any:
        """The answer to the engine for what the stage returned for a batch, or for several of which it is one."""
        if isinstance(result, list | tuple):
            made = [self._answer(batch, output, is_of_batch) for output in result]
            return [answered for answered in made if answered is not None]
        if result is None or isinstance(result, NoneTask):
            return None
        if isinstance(result, FailedTask):
            return self._failed(batch)
        answer = engine_batch(result, batch if is_of_batch else None)
        return answer if self.keeps_lines else _without_lines(answer)

    def _failed(self, batch: Batch) -> Any:
        """No rows, all of a batch being in quarantine, so that a resumed run tries its split again."""
        if not isinstance(batch, DocumentBatch):
            raise StageError(f"stage {self.name!r} returned a FailedTask for {batch.key}")
        rows = batch.to_arrow()
        failed = Rejection(self.name, "FailedTask", batch.num_items, batch.nbytes, rows, fault=True, uncounted=True)
        return replace(batch.with_data(rows.slice(0, 0)), rejections=(failed,))


def _add_figures(batch: Any, figures: RunningPerfStats) -> None:
    """Give the figures of the stage to what it returned; lists of them may be shared by several."""
    task = batch.task if isinstance(batch, TaskBatch) else batch
    if isinstance(task, Task | DocumentBatch):
        task._stage_perf = [*task._stage_perf, figures]


def _without_lines(batch: Any) -> Any:
    is_lined = isinstance(batch, DocumentBatch) and LINE in convert.columns(batch.data)
    return batch.with_data(without_lines(batch.data)) if is_lined else batch


def engine_stages(stages: Sequence[Any]) -> list[ours.Stage]:
    """The stages that the engine runs for those of a pipeline."""
    made: list[ours.Stage] = []
    for number, stage in enumerate(stages):
        form = getattr(stage, "engine_form", None)
        replacement = form(made, number == len(stages) - 1) if form is not None else None
        made.append(engine_stage(stage) if replacement is None else with_settings(replacement, stage))
    _keep_lines(made)
    return made


def _keep_lines(stages: Sequence[Any]) -> None:
    """Have the rows keep their lines up to the last stage that needs the values in them."""
    needed = True
    for stage in reversed(stages):
        if isinstance(stage, ForeignStage):
            stage.keeps_lines, needed = needed, True
        elif isinstance(stage, ours.SinkStage):
            needed = names_columns(stage) or getattr(stage, "writes_lines", False)
        elif isinstance(stage, ours.BarrierStage):
            needed = needed and names_columns(stage)
        elif hasattr(stage, "keeps_values"):
            stage.keeps_values = needed


def _processes_tasks(stage: ours.Stage) -> bool:
    """Whether a person's class extends a built-in stage and processes tasks in its own way: it expects tasks then."""
    if not isinstance(stage, ours.ProcessingStage) or isinstance(stage, ours.SinkStage | ours.SourceStage):
        return False
    methods = {"process", "process_batch"}
    nearest = next(kind for kind in type(stage).__mro__ if methods & vars(kind).keys())
    return not is_ours(nearest)


def with_settings(own: ours.Stage, stage: Any) -> ours.Stage:
    """Give a stage the name, resources and other settings of the one whose place it takes."""
    settings = {"name": stage.name, "resources": engine_resources(stage.resources), "_num_workers": stage.num_workers()}
    for name, value in {**settings, "spec": engine_spec(stage, own.spec)}.items():
        object.__setattr__(own, name, value)
    return own


def engine_stage(stage: Any) -> ours.Stage:
    """The stage that the engine runs for one that has no other form in dcurate."""
    if not isinstance(stage, ours.Stage) or _processes_tasks(stage):
        return ForeignStage(stage)
    copied = copy.copy(stage)
    object.__setattr__(copied, "resources", engine_resources(stage.resources))
    if hasattr(stage, "xenna_stage_spec"):
        object.__setattr__(copied, "spec", engine_spec(stage, stage.spec))
    return copied
