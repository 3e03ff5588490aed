"""`BarrierStage`: needs every row before it passes any on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from dcurate.core.stage.base import Stage
from dcurate.core.stage.processing import X
from dcurate.errors import PipelineError


class NoProcessError(PipelineError, AttributeError):
    """``process`` was called on a stage that does not work on one batch at a time."""


class BarrierStage(Stage, Generic[X]):
    """A stage that needs every row before it can pass any on, such as the removal of duplicates.

    A pipeline is cut into rounds at its barriers. `map_stages` end the round before the barrier: the last of them is a
    sink that writes to a folder. `reduce_stages` look at the folder as a whole and begin the next round with a source
    that reads it. They may hold further barriers, so a stage that takes several rounds is a chain of them. Folders stay
    until the run ends: a later round may read what an earlier one wrote.
    """

    name: str = "barrier_stage"

    #: Whether stages after the barrier look at the columns of `inputs` again.
    uses_columns_again: ClassVar[bool] = True

    #: Rounds that follow until the stage is done, as far as that is known ahead: a person is shown "round 3 of 8".
    rounds: ClassVar[int] = 1

    @abstractmethod
    def map_stages(self, url: str, options: Mapping[str, Any]) -> Sequence[Stage]:
        """Return the stages that end the round before the barrier; the last is a sink that writes to `url`.

        Args:
            options: fsspec's ``storage_options`` for the folder.
        """

    @abstractmethod
    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> Sequence[Stage]:
        """Return the stages that begin the round after the barrier; the first is a source that reads from `url`.

        Called on the driver, again when a run is resumed, and must then return the same: expensive work belongs into
        stages. Names of further barriers among them must be unique within the run.

        Args:
            splits: each split's key and the files written for it, in the order of the source.
        """

    def notices(self) -> list[str]:
        """Return sentences about the data for the report; called after `reduce_stages`."""
        return []

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            missing = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name not in ("process", "process_batch"):
                raise AttributeError(missing)
            raise NoProcessError(f"stage {type(self).name!r} needs every row ({missing}); run it in a pipeline")
