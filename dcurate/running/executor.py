"""Executors, which run the rounds of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from distributed import Client

from dcurate.core.batch import Batch
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.config import ExecutorConfig
from dcurate.plan.operators import Plan


@runtime_checkable
class Executor(Protocol):
    """Where and how pipelines run."""

    @property
    def mode(self) -> str:
        """The mode: ``streaming``, ``batch`` or ``inline``."""

    @property
    def config(self) -> ExecutorConfig:
        """The settings."""

    @property
    def elsewhere(self) -> bool:
        """Whether stages may run where other libraries are installed than here."""

    def session(self) -> AbstractContextManager[Session]:
        """Open the resources of a run for the duration of a ``with`` statement."""


class Session(Protocol):
    """An open executor."""

    @property
    def serving(self) -> Client | None:
        """The client of a scheduler that serves pages or metrics of runs; None if there is none."""

    def check(self, plan: Plan) -> None:
        """Refuse a plan that cannot run here, before anything is touched."""

    def execute(self, job: Round, accounting: RunAccounting, /) -> Iterator[Batch]:
        """Run one round; yields the batches to deliver as they come."""
