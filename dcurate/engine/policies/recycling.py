"""Choose worker processes to restart: old ones, and those that have grown. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dcurate.engine.constants import check_constants
from dcurate.engine.policies.view import OperatorView, Recycle, RunView, WorkerView


@dataclass(frozen=True)
class Recycling:
    """Restarts worker processes by age (``worker_max_lifetime_m`` of a stage) and by memory.

    Args:
        memory_share: share of its memory limit at which a process is restarted.
        checks: at this many checks in a row it must be as large as that, so that a short peak is no reason.
        grown_s: the least seconds between two restarts of an operator's processes for their memory.
    """

    memory_share: float = 0.75
    checks: int = 4
    grown_s: float = 10.0

    def __post_init__(self) -> None:
        check_constants(self)

    def run(self, view: RunView) -> Iterator[Recycle]:
        """Suggest the processes that are due."""
        for worker in view.workers.values():
            if worker.claims and not worker.recycling:
                operators = [view.operators[name] for name in worker.claims]
                reason, interval_s = self._due(worker, operators)
                if reason and all(
                    operator.recycled_s is None or operator.recycled_s >= interval_s for operator in operators
                ):
                    yield Recycle(worker.address, reason)

    def _due(self, worker: WorkerView, operators: list[OperatorView]) -> tuple[str, float]:
        """Why a process is due, empty if it is not, and the least seconds since the last restart of its operators."""
        age = worker.age_s / 60
        lives = [operator.lifetime_m for operator in operators if operator.lifetime_m]
        if lives and age >= min(lives):
            return f"it has lived {age:.3g} minutes", max(operator.restart_interval_m for operator in operators) * 60
        recent, limit = worker.grown[-self.checks :], worker.memory_limit
        if limit and len(recent) == self.checks and min(recent) >= self.memory_share * limit:
            return f"its memory grew to {worker.memory / 1e9:.3g} of {limit / 1e9:.3g} GB", self.grown_s
        return "", 0.0
