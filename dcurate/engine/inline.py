"""Runs a pipeline in the calling process, one batch at a time: for small inputs, tests and debuggers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from dcurate.core.batch import Batch
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.driver import Completed, Died, DriverLoop
from dcurate.engine.flow import Flow, Submit
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.operator_task import TaskResult
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


@dataclass
class _Call:
    """A call that waits for its turn."""

    submit: Submit
    inputs: list[Batch]


class InlineBackend:
    """Runs one call at a time, the furthest operator first."""

    def __init__(self, pools: Sequence[SlotPool]) -> None:
        self.pools = pools
        self.calls: list[_Call] = []
        self.outcomes: dict[int, TaskResult] = {}
        self.items: dict[int, Batch] = {}

    def submit(self, calls: Sequence[tuple[Submit, list[Batch] | None]]) -> None:
        for submit, splits in calls:
            inputs = splits if splits is not None else [self.items[item] for item in submit.items]
            self.calls.append(_Call(submit, inputs))

    def made(self, item: int, ticket: int, place: int, child: int) -> None:
        self.items[item] = self.outcomes[ticket].outputs[place][child]

    def fetch(self, item: int) -> Batch:
        return self.items[item]

    def release(self, items: Sequence[int]) -> None:
        for item in items:
            self.items.pop(item, None)

    def give_up(self, ticket: int) -> None:
        raise AssertionError("one call at a time is never copied")

    def wait(self) -> list[Completed | Died]:
        self.outcomes.clear()
        furthest = max(self.calls, key=lambda call: (call.submit.operator, -call.submit.ticket))
        self.calls.remove(furthest)
        submit = furthest.submit
        outcome = self.pools[submit.operator].work(furthest.inputs)
        self.outcomes[submit.ticket] = outcome
        return [Completed(submit.ticket, submit.operator, outcome.summary())]
