"""Stages of NeMo Curator's form as stages of dcurate, and back at the end of a run."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dcurate.compat.nemo.stages import NodeInfo, ProcessingStage, WorkerMetadata
from dcurate.compat.nemo.tasks import FailedTask, NoneTask, Task, engine_batch, nemo_task
from dcurate.core import stage as ours
from dcurate.core.batch import Batch, Rejection
from dcurate.core.resources import Resources
from dcurate.core.spec import SPEC_FIELDS, StageSpec
from dcurate.errors import StageError, listed
from dcurate.frames.document import DocumentBatch

_log = logging.getLogger("dcurate.compat.nemo")

#: Settings for Ray and Xenna, and the fields of `StageSpec` that do the same.
_SPEC = {
    "num_run_attempts_python": "num_run_attempts",
    "num_setup_attempts_python": "num_setup_attempts",
    **{name: name for name in SPEC_FIELDS},
}
#: Settings for Ray and Xenna that are carried out in another way, or that change nothing here.
_KNOWN = {"is_fanout_stage", "is_actor_stage", "is_raft_actor", "is_lsh_stage", "is_shuffle_stage"}


def restored(kind: type[Any]) -> Any:
    """An empty object of a class, in a process in which NeMo Curator's modules can be imported."""
    from dcurate.compat.nemo import install  # noqa: PLC0415

    install()
    return object.__new__(kind)


def engine_resources(given: Any) -> Resources:
    """The resources of a stage as dcurate has them."""
    if isinstance(given, Resources):
        return given
    memory = float(getattr(given, "gpu_memory_gb", 0.0))
    return Resources(cpus=given.cpus, gpus=0.0 if memory else given.gpus, gpu_memory_gb=memory)


def engine_spec(stage: Any, spec: StageSpec) -> StageSpec:
    """What a stage asks of Ray and Xenna as dcurate has it; the log names once what it has not."""
    asked: dict[str, Any] = {**stage.ray_stage_spec(), **stage.xenna_stage_spec()}
    unknown = [name for name in asked if name not in _SPEC and name not in _KNOWN]
    unknown += ["runtime_env"] if stage.runtime_env else []
    if unknown:
        _log.warning("stage %r: dcurate has no setting %s; left out", stage.name, listed(unknown))
    return replace(spec, **{_SPEC[name]: value for name, value in asked.items() if name in _SPEC and value is not None})


class ForeignStage(ours.ProcessingStage[Any, Any]):
    """A stage that a person wrote for NeMo Curator.

    Args:
        stage: of the person.
    """

    adds_unknown_columns = True

    def __init__(self, stage: ProcessingStage[Any, Any]) -> None:
        self.stage = stage
        self.name = str(stage.name)
        self.resources = engine_resources(stage.resources)
        self.batch_size = stage.batch_size or 1
        self.spec = engine_spec(stage, StageSpec())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return restored, (type(self),), self.__dict__

    def __repr__(self) -> str:
        return repr(self.stage)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def sees_lines(self) -> bool:
        """False: a person's stage returns rows of its own making."""
        return False

    @property
    def light(self) -> bool:
        kind = type(self.stage)
        return kind.setup is ProcessingStage.setup and kind.teardown is ProcessingStage.teardown

    def num_workers(self) -> int | None:
        return self.stage.num_workers()

    def is_fanout_stage(self) -> bool:
        return bool(self.stage.ray_stage_spec().get("is_fanout_stage") or self.stage.is_source_stage)

    def settings(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self.stage).items() if name[:1] != "_"}
        return {"stage": type(self.stage), **own}

    def setup_on_node(self, node_info: Any = None, worker_metadata: Any = None) -> None:
        self.stage.setup_on_node(_node(node_info), _worker(worker_metadata))

    def setup(self, worker_metadata: Any = None) -> None:
        self.stage.setup(_worker(worker_metadata))

    def teardown(self) -> None:
        self.stage.teardown()

    def take_metrics(self) -> dict[str, float]:
        return self.stage._consume_custom_metrics()

    def process(self, task: Batch) -> Any:
        return self.process_batch([task])[0]

    def process_batch(self, tasks: list[Batch]) -> Sequence[Any]:
        given = [nemo_task(task) for task in tasks]
        if type(self.stage).process_batch is ProcessingStage.process_batch:
            return [self._answer(task, self._process(one)) for task, one in zip(tasks, given, strict=True)]
        results = list(self.stage.process_batch(given) or ())
        if len(results) == len(tasks):
            return [self._answer(task, result) for task, result in zip(tasks, results, strict=True)]
        answers: list[Any] = [self._answer(tasks[0], results)]  # which result is of which task is not known
        return answers + [None] * (len(tasks) - 1)

    def _process(self, task: Task[Any]) -> Any:
        if not self.stage.validate_input(task):
            raise ValueError(f"Task {task!s} failed validation for stage {self.stage}")
        return self.stage.process(task)

    def _answer(self, batch: Batch, result: Any) -> Any:
        """The answer to the engine for what the stage returned for a batch."""
        if isinstance(result, list | tuple):
            made = [self._answer(batch, one) for one in result]
            return [one for one in made if one is not None]
        if result is None or isinstance(result, NoneTask):
            return None
        if isinstance(result, FailedTask):
            return self._failed(batch)
        return engine_batch(result)

    def _failed(self, batch: Batch) -> Any:
        """No rows, all of a batch being in quarantine, so that a resumed run tries its split again."""
        if not isinstance(batch, DocumentBatch):
            raise StageError(f"stage {self.name!r} returned a FailedTask for {batch.key}")
        rows = batch.to_arrow()
        failed = Rejection(self.name, "FailedTask", batch.num_items, batch.nbytes, rows, fault=True, uncounted=True)
        return replace(batch.with_data(rows.slice(0, 0)), rejections=(failed,))


def _node(info: Any) -> NodeInfo:
    return NodeInfo(getattr(info, "node_id", ""))


def _worker(metadata: Any) -> WorkerMetadata:
    return WorkerMetadata(getattr(metadata, "worker_id", ""), getattr(metadata, "allocation", None))


def engine_stage(stage: Any) -> ours.Stage:
    """The stage that the engine runs for a stage of a pipeline."""
    if not isinstance(stage, ours.Stage):
        return ForeignStage(stage)
    own = copy.copy(stage)
    object.__setattr__(own, "resources", engine_resources(stage.resources))
    if hasattr(stage, "xenna_stage_spec"):
        object.__setattr__(own, "spec", engine_spec(stage, stage.spec))
    return own
