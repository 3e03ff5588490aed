"""The common part of workflows: one cluster for all of their pipelines, ids, and the time that each took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from dcurate.compat.nemo.executors import RayClient, XennaExecutor
from dcurate.compat.nemo.ids import create_id_generator_actor, kill_id_generator_actor
from dcurate.compat.nemo.pipeline import Pipeline, WorkflowRunResult


@dataclass(frozen=True)
class Runner:
    """Runs the pipelines of a workflow.

    Args:
        executor: executor of all pipelines that are given no other.
    """

    executor: Any

    def run(
        self,
        pipeline: Pipeline,
        result: WorkflowRunResult,
        name: str,
        initial_tasks: Sequence[Any] | None = None,
        executor: Any = None,
    ) -> list[Any]:
        """Run a pipeline; its tasks and seconds go to the result under `name`."""
        begin = time.perf_counter()
        tasks: list[Any] = pipeline.run(executor or self.executor, initial_tasks) or []
        result.add_pipeline_tasks(name, tasks)
        result.add_metadata(f"{name}_time", time.perf_counter() - begin)
        return tasks


@contextmanager
def cluster(executor: Any = None) -> Iterator[Runner]:
    """Hold one cluster open for several pipelines, unless a person has started one."""
    is_xenna = executor is None or isinstance(executor, XennaExecutor)
    with RayClient() if is_xenna and RayClient.active is None else nullcontext():
        yield Runner(executor if executor is not None else XennaExecutor())


@contextmanager
def ids_generated(wanted: bool = True, filepath: str | None = None, storage_options: Any = None) -> Iterator[None]:
    """Have an id generator within a ``with`` statement.

    Args:
        wanted: whether there is to be one.
        filepath: where an earlier one was written to.

    Raises:
        RuntimeError: there is one already.
    """
    if not wanted:
        yield
        return
    try:
        create_id_generator_actor(filepath, storage_options=storage_options)
    except ValueError as error:
        raise RuntimeError(
            "An existing id generator actor was found. Save it with write_id_generator_to_disk if it is needed, and "
            "remove it with kill_id_generator_actor; both are in nemo_curator.stages.deduplication.id_generator."
        ) from error
    try:
        yield
    finally:
        kill_id_generator_actor()
