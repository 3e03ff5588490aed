"""`processing_stage`: make a stage of a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dcurate.core.resources import Resources
from dcurate.core.stage.processing import ProcessingStage, X, Y


@dataclass
class FunctionStage(ProcessingStage[X, Y]):
    """A stage made of a function from one batch to its results."""

    __module__ = "dcurate.core.stage"  # the name in the fingerprints of runs

    function: Callable[[X], Y | list[Y] | None]
    name: str = "function"
    resources: Resources = field(default_factory=Resources)
    batch_size: int = 1

    @property
    def sees_lines(self) -> bool:
        """False: the function is a user's."""
        return False

    def process(self, task: X) -> Y | list[Y] | None:
        return self.function(task)

    def __call__(self, task: X) -> Y | list[Y] | None:
        return self.function(task)


def processing_stage(
    *, name: str, resources: Resources | Mapping[str, float] | None = None, batch_size: int | None = None
) -> Callable[[Callable[[X], Y | list[Y] | None]], FunctionStage[X, Y]]:
    """Make a stage of a function of one batch.

    Args:
        name: of the stage, in plans, reports and errors.
        resources: what one slot needs, as `Resources` or as a mapping such as ``{"cpus": 2}``; one CPU if not given.
        batch_size: how many batches a slot is given at a time; the function is called with each of them.

    Examples:
        >>> @processing_stage(name="keep_all", resources=Resources(cpus=2))
        ... def keep_all(batch):
        ...     return batch
        >>> keep_all.name, keep_all.resources.cpus
        ('keep_all', 2.0)
    """

    def make(function: Callable[[X], Y | list[Y] | None]) -> FunctionStage[X, Y]:
        wanted = Resources(**resources) if isinstance(resources, Mapping) else resources
        return FunctionStage(function, name, wanted or Resources(), batch_size or 1)

    return make
