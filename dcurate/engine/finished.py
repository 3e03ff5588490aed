"""An executor that runs nothing, for splits that are all finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dcurate.core.batch import Batch
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.config import ExecutorConfig
from dcurate.errors import DataError
from dcurate.plan.operators import Plan


class FinishedExecutor:
    """Counts what a ledger has, and sets up no stage."""

    mode = "inline"
    config = ExecutorConfig()
    #: Stages have run elsewhere, so their libraries need not be here.
    elsewhere = True
    serving = None

    @contextmanager
    def session(self) -> Iterator[FinishedExecutor]:
        """Yield the executor."""
        yield self

    def check(self, plan: Plan) -> None:
        """Accept any plan."""

    def execute(self, job: Round, accounting: RunAccounting) -> Iterator[Batch]:
        """Count all splits.

        Raises:
            DataError: one of them is not finished.
        """
        exhausted = False
        while not exhausted:
            taken, exhausted = accounting.next_splits(1)
            if taken:
                raise DataError(
                    f"split {str(taken[0][1].key)!r} is not finished, or a file of it is gone; run the shards again "
                    "with --resume, which do what is missing"
                )
        yield from ()
