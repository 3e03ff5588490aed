"""Executors and clients under NeMo Curator's names: all of them run on Dask."""

from __future__ import annotations

import atexit
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from dask.system import CPU_COUNT

from dcurate.cluster.local import LocalCluster
from dcurate.compat.nemo.bridge import engine_stages
from dcurate.compat.nemo.checkpoint import CheckpointSink
from dcurate.compat.nemo.errors import as_nemo_raises
from dcurate.compat.nemo.perf import RunningPerfStats, StagePerfStats, WrittenFigures, stats_of
from dcurate.compat.nemo.reader_ids import numbered
from dcurate.compat.nemo.tasks import EmptyTask, TaskBatch, engine_batches, nemo_task
from dcurate.compat.nemo.writers import WritesAsNemo, written_tasks
from dcurate.core.batch import BatchKey
from dcurate.core.pipeline import BatchSource
from dcurate.core.stage import SinkStage, SourceStage
from dcurate.engine.config import ExecutorConfig
from dcurate.engine.dask.executor import DaskExecutor
from dcurate.run import Pipeline, observers_of

_log = logging.getLogger("dcurate.compat.nemo")

#: Keys of NeMo Curator's executors that change nothing here.
_WITHOUT_EFFECT = {
    "actor_pool_verbosity_level",
    "actor_verbosity_level",
    "ignore_failures_verbosity",
    "log_worker_allocation_layout",
    "monitoring_verbosity_level",
    "reserved_cpus",
    "reserved_gpus",
    "runtime_env",
    "show_progress",
    "verbosity_level",
    "executor_verbosity_level",
}


#: Stages that are not a person's.
_OWN_STAGES = {BatchSource.name, CheckpointSink.name}


class BaseExecutor(ABC):
    """Runs the stages of a pipeline.

    Args:
        config: settings by name.
        ignore_head_node: Dask's scheduler runs no stages, so it is never used.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, ignore_head_node: bool = False) -> None:
        self.config: Any = dict(config or {})
        self.ignore_head_node = ignore_head_node

    @abstractmethod
    def execute(self, stages: list[Any], initial_tasks: Sequence[Any] | None = None) -> Any:
        """Run stages in a row; return the tasks of the last one."""


class XennaExecutor(BaseExecutor):
    """Runs a pipeline on Dask, with the settings of NeMo Curator's executors.

    Args:
        config: settings of `dcurate.DaskExecutor`; others of NeMo Curator are named in the log and left out.

    Examples:
        >>> XennaExecutor({"execution_mode": "batch", "show_progress": False}).config["execution_mode"]
        'batch'
    """

    def execute(self, stages: list[Any], initial_tasks: Sequence[Any] | None = None) -> list[Any]:
        """Run stages in a row; return the tasks of the last one."""
        return self.run("pipeline", stages, initial_tasks)

    def run(
        self,
        name: str,
        stages: Sequence[Any],
        initial_tasks: Sequence[Any] | None = None,
        checkpoint_path: str | Path | None = None,
    ) -> list[Any]:
        """Run the stages of a pipeline; return the tasks of the last one.

        Raises:
            ValueError: a setting or stage is wrong.
            RuntimeError: a stage failed.
        """
        with as_nemo_raises():
            steps: list[Any] = engine_stages(stages)
            batches: Any = engine_batches(initial_tasks)
            if batches is None and not isinstance(steps[0], SourceStage):
                batches = [TaskBatch(task=EmptyTask(), key=BatchKey("0"))]
            steps = numbered(steps, partial(self._counted, batches))
            checkpoint = None
            if checkpoint_path is not None and not isinstance(steps[-1], SinkStage):
                steps.append(checkpoint := CheckpointSink(str(checkpoint_path)))
            pipeline = Pipeline(name, stages=steps)
            written = WrittenFigures.of(steps)
            observers = None if written is None else [*observers_of(None), written]
            result = pipeline.run(
                self.dask_executor(), batches, resume=checkpoint_path is not None, observers=observers
            )
            outputs = result.outputs if checkpoint is None else checkpoint.tasks(result)
        stats = [figures for figures in stats_of(result.report) if figures.stage_name not in _OWN_STAGES]
        sink = steps[-1] if isinstance(steps[-1], WritesAsNemo) else None
        tasks = written_tasks(steps[0], sink, outputs) if sink else [nemo_task(batch) for batch in outputs]
        if written is not None:
            written.add_to(tasks)
        for number, task in enumerate(tasks):
            task_stats = [StagePerfStats(figures.stage_name) for figures in stats] if number else stats
            before = [figures for figures in task._stage_perf if not isinstance(figures, RunningPerfStats)]
            task._stage_perf = [*before, *task_stats]
        return tasks

    def _counted(self, batches: Sequence[Any] | None, stages: Sequence[Any]) -> Sequence[Any]:
        """Run stages that count rows; return their batches."""
        inputs = None if isinstance(stages[0], SourceStage) else batches
        return Pipeline("count rows", stages=stages).run(self.dask_executor(), inputs, observers=[]).outputs

    def dask_executor(self) -> DaskExecutor:
        """Dcurate's executor with these settings, on the cluster of a `RayClient` that was started."""
        known = ExecutorConfig.__dataclass_fields__
        unknown = [name for name in self.config if name not in known and name not in _WITHOUT_EFFECT]
        if unknown:
            _log.warning("the executor has no setting %s; left out", ", ".join(map(repr, unknown)))
        settings = {name: value for name, value in self.config.items() if name in known and value is not None}
        return DaskExecutor(settings, RayClient.active)


class RayDataExecutor(XennaExecutor):
    """The same as `XennaExecutor`."""


class RayActorPoolExecutor(XennaExecutor):
    """The same as `XennaExecutor`; `show_progress` and `progress_interval` have no effect."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        ignore_head_node: bool = False,
        show_progress: bool = True,
        progress_interval: float = 10.0,
    ) -> None:
        super().__init__(config, ignore_head_node)
        self.show_progress, self.progress_interval = show_progress, progress_interval


class RayClient:
    """Holds a cluster of this machine open, so that pipelines need not each start one.

    Args:
        num_cpus: worker processes, at most one for each CPU, as if it is not given.
        num_gpus: 0 for a cluster without GPUs.
        settings: others of NeMo Curator's client, which change nothing.
    """

    active: ClassVar[LocalCluster | None] = None

    def __init__(self, num_cpus: int | None = None, num_gpus: int | None = None, **settings: Any) -> None:
        self.num_cpus, self.num_gpus = num_cpus, num_gpus
        self.__dict__.update(settings)
        self._cluster: LocalCluster | None = None

    def start(self) -> None:
        """Start the cluster, unless one runs."""
        if RayClient.active is None:
            gpus = False if self.num_gpus == 0 else None
            self._cluster = LocalCluster(n_workers=min(self.num_cpus or CPU_COUNT, CPU_COUNT), gpus=gpus)
            self._cluster.__enter__()
            RayClient.active = self._cluster
            atexit.register(self.stop)

    def stop(self) -> None:
        """Stop the cluster, if this client started it."""
        if self._cluster is not None:
            RayClient.active = None
            self._cluster.__exit__(None, None, None)
            self._cluster = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class SlurmRayClient(RayClient):
    """The same as `RayClient`: a Slurm job runs ``dask scheduler`` and ``dask worker`` on its hosts instead.

    Args:
        num_cpus, num_gpus: numbers of CPUs and GPUs, as in `RayClient`; by default those that Slurm gave the job on
            this host.
    """

    def __init__(self, num_cpus: int | None = None, num_gpus: int | None = None, **settings: Any) -> None:
        cpus = _of_slurm("CPUS") if num_cpus is None else num_cpus
        super().__init__(cpus, _of_slurm("GPUS") if num_gpus is None else num_gpus, **settings)


def _of_slurm(kind: str) -> int | None:
    number = os.environ.get(f"SLURM_{kind}_ON_NODE", "")
    return int(number) if number.isdigit() else None
