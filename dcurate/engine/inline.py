"""Run a pipeline in the calling process, one task at a time: for small inputs, tests and debuggers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

from dcurate.core.batch import Batch
from dcurate.core.first_use import heard
from dcurate.core.kernels import Kernels
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.compile_time import CompileTime, slowdown
from dcurate.engine.config import WITHOUT_WORKERS, ExecutorConfig
from dcurate.engine.driver import DriverLoop, TaskDied, TaskFinished
from dcurate.engine.flow import Flow, OutputRef, Task
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.slots import Slot, forget_host_setup, opened
from dcurate.errors import PipelineError
from dcurate.events import Compiled, Compiling, CompilingLate
from dcurate.plan.operators import Plan

#: Bytes of batches between operators.
BUDGET = 1 << 30

_log = logging.getLogger(__name__)


class InlineExecutor:
    """Runs every stage in the calling process, without Dask.

    The rows are the same as on a cluster, and a debugger can step into any stage. A stage that asks for a GPU runs as
    it is; finding one is its own business. Calls have no time limit, and a stage that crashes ends this process.

    Args:
        config: ``ignore_failures`` and ``logging_interval``, by name, as `DaskExecutor` has them.

    Raises:
        PipelineError: an unknown setting, one that concerns workers, or a value out of range.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, Pipeline, ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> rows = DocumentBatch(data=pd.DataFrame({"text": ["one", "two words"]}))
        >>> pipeline = Pipeline("demo", stages=[ScoreFilter(WordCountFilter(min_words=2))])
        >>> pipeline.run(InlineExecutor(), initial_tasks=[rows], observers=[])[0].num_items
        1
    """

    mode = "inline"
    #: Stages run where this process runs.
    elsewhere = False
    #: There is no scheduler that serves pages.
    serving = None

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.config = ExecutorConfig.of(config)
        for name in config or {}:
            if name not in WITHOUT_WORKERS:
                raise PipelineError(
                    f"executor setting {name} has no effect in mode inline, which has no workers; leave it out"
                )

    @contextmanager
    def session(self) -> Iterator[InlineExecutor]:
        """Yield the executor: nothing needs to be opened."""
        yield self

    def check(self, plan: Plan) -> None:
        """Refuse a plan with a stage that cannot be pickled: slots need copies of it. Name stages with time limits."""
        for spec in Round("", plan, iter(())).operator_specs():
            pickled(spec)
            for stage in spec.stages:
                if stage.spec.timeout_s is not None:
                    _log.warning(
                        "stage %r: timeout_s has no effect in mode inline, as nothing restarts this process", stage.name
                    )

    def execute(self, job: Round, accounting: RunAccounting) -> Iterator[Batch]:
        """Run a round; yield the batches to emit."""
        job = replace(job, ignore_failures=self.config.ignore_failures)
        compile_here(job.kernels, accounting)
        flow = Flow([operator.batch_size for operator in job.plan.operators], BUDGET, job.delivers)
        with ExitStack() as stack:
            stack.callback(forget_host_setup, job.run_key)
            slots = [
                stack.enter_context(opened(Slot(job.run_key, pickled(spec), "inline"))) for spec in job.operator_specs()
            ]
            for operator in range(len(slots)):
                flow.set_slots(operator, 1)
            yield from DriverLoop(flow, accounting, InlineBackend(slots, accounting)).run()


def compile_here(kernels: Sequence[Kernels], accounting: RunAccounting) -> None:
    """Compile the kernels that are not kept on this machine, one after another, and say so before the first batch.

    A kernel that fails to compile is left to its first use, whose error says which stage it is of.
    """
    counts = {kernel: kernel.missing() for kernel in {kernel.name: kernel for kernel in kernels}.values()}
    pending = [kernel for kernel, count in counts.items() if count]
    if not pending:
        return
    started = time.monotonic()
    estimate = CompileTime([kernel.seconds for kernel in pending], 1, slowdown(1))
    for place, kernel in enumerate(pending):
        left = sum(counts[waiting] for waiting in pending[place:])
        accounting.emit(Compiling(time.time(), left, estimate.left(time.monotonic() - started)))
        with suppress(Exception):  # numba raises errors of many kinds; see above
            kernel.load()
        estimate.done(place, time.monotonic() - started)
    accounting.emit(Compiled(time.time(), sum(counts[kernel] for kernel in pending), time.monotonic() - started))


class InlineBackend:
    """Runs one task at a time, the furthest operator first."""

    def __init__(self, slots: Sequence[Slot], accounting: RunAccounting) -> None:
        self.slots, self.accounting = slots, accounting
        self.tasks: list[tuple[Task, list[Batch] | None]] = []
        self.outputs: dict[OutputRef, Batch] = {}

    def submit(self, tasks: Sequence[tuple[Task, list[Batch] | None]]) -> None:
        self.tasks.extend(tasks)

    def fetch(self, ref: OutputRef) -> Batch:
        return self.outputs[ref]

    def release(self, refs: Sequence[OutputRef]) -> None:
        for ref in refs:
            self.outputs.pop(ref, None)

    def cancel(self, task: int) -> None:
        raise AssertionError("one task at a time is never copied")

    def wait(self) -> list[TaskFinished | TaskDied]:
        furthest = max(self.tasks, key=lambda pair: (pair[0].operator, -pair[0].id))
        self.tasks.remove(furthest)
        task, splits = furthest
        inputs = [self.outputs[ref] for ref in task.inputs] if splits is None else splits
        with heard(self._compiling):
            result = self.slots[task.operator].work(inputs)
        for place, outputs in enumerate(result.outputs):
            for number, batch in enumerate(outputs):
                self.outputs[OutputRef(task.id, place, number)] = batch
        return [TaskFinished(task.id, task.operator, result.summary())]

    def _compiling(self, kernels: int, seconds: float) -> None:
        self.accounting.emit(CompilingLate(time.time(), kernels, seconds))
