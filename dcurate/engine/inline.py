"""Runs a pipeline in the calling process, one batch at a time: for small inputs, tests and debuggers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from dcurate.core.batch import Batch
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.driver import Completed, Died, DriverLoop
from dcurate.engine.flow import Flow, OutputRef, Task
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.slots import SlotPool, forget_host_setup, opened
from dcurate.plan.operators import Plan

#: Bytes that may stand between operators.
BUDGET = 1 << 30


class InlineExecutor:
    """Runs every stage in the calling process, without Dask.

    The rows are the same as on a cluster, and a debugger can step into any stage. A stage that asks for a GPU
    is run as it is; whether it finds one is its own matter.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, Pipeline, ScoreFilter, WordCountFilter
        >>> rows = DocumentBatch(data=pd.DataFrame({"text": ["one", "two words"]}))
        >>> pipeline = Pipeline("demo", stages=[ScoreFilter(WordCountFilter(min_words=2))])
        >>> pipeline.run(InlineExecutor(), initial_tasks=[rows], observers=[])[0].num_items
        1
    """

    mode = "inline"

    @contextmanager
    def session(self) -> Iterator[InlineExecutor]:
        """Nothing needs to be opened."""
        yield self

    def check(self, plan: Plan) -> None:
        """Refuse a plan that cannot run here: one with a stage that cannot be pickled, as slots need copies."""
        for program in Round("", plan, iter(())).programs():
            pickled(program)

    def execute(self, job: Round, books: RunAccounting) -> Iterator[Batch]:
        """Carry a job out; yields the batches to deliver."""
        flow = Flow([operator.batch_size for operator in job.plan.operators], BUDGET, job.delivers)
        with ExitStack() as stack:
            stack.callback(forget_host_setup, job.tag)
            pools = [
                stack.enter_context(opened(SlotPool(job.tag, pickled(program), 1, "inline")))
                for program in job.programs()
            ]
            for operator in range(len(pools)):
                flow.set_slots(operator, 1)
            yield from DriverLoop(flow, books, InlineBackend(pools)).run()


class InlineBackend:
    """Runs one task at a time, the furthest operator first."""

    def __init__(self, pools: Sequence[SlotPool]) -> None:
        self.pools = pools
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

    def wait(self) -> list[Completed | Died]:
        furthest = max(self.tasks, key=lambda each: (each[0].operator, -each[0].id))
        self.tasks.remove(furthest)
        task, splits = furthest
        inputs = [self.outputs[ref] for ref in task.inputs] if splits is None else splits
        result = self.pools[task.operator].work(inputs)
        for place, outputs in enumerate(result.outputs):
            for number, batch in enumerate(outputs):
                self.outputs[OutputRef(task.id, place, number)] = batch
        return [Completed(task.id, task.operator, result.summary())]
