"""Choose late tasks to run again. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dcurate.engine.constants import check_constants
from dcurate.engine.policies.view import RunView, Speculate


@dataclass(frozen=True)
class Speculation:
    """Runs late tasks again while slots are idle at the end of an operator; runs on the driver.

    Args:
        late_s: a task is never late within this many seconds.
        late: a task is late after this many times the seconds that others take.
        late_cv: this much more for each unit of their coefficient of variation, as uneven calls are long at times.
    """

    late_s: float = 5.0
    late: float = 3.0
    late_cv: float = 6.0

    def __post_init__(self) -> None:
        check_constants(self)

    def run(self, view: RunView) -> Iterator[Speculate]:
        """Suggest the tasks that are late."""
        for task in view.tasks:
            if task.seconds > max(self.late_s, task.usual_s * (self.late + self.late_cv * task.cv)):
                yield Speculate(task.id, f"it takes {task.seconds:.3g} s and not {task.usual_s:.3g}")
