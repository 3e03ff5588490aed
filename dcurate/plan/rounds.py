"""Cut a pipeline into rounds at its barriers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dcurate.core.stage import BarrierStage, Stage


@dataclass(frozen=True)
class PipelineRound:
    """The stages that run together, and the barrier that they end at.

    Args:
        stages: in order; without the barrier.
        barrier: every row must have reached it before the next round begins; None in the last round.
        following: the number of rounds that follow, as far as that is known.
    """

    stages: tuple[Stage, ...]
    barrier: BarrierStage[Any] | None = None
    following: int = field(default=0, compare=False)

    @property
    def last(self) -> bool:
        """Whether no round follows."""
        return self.barrier is None


def _nothing(barrier: BarrierStage[Any]) -> Sequence[Stage]:
    return ()


def rounds(
    stages: Iterable[Stage], reduce: Callable[[BarrierStage[Any]], Sequence[Stage]] = _nothing
) -> Iterator[PipelineRound]:
    """Yield the rounds of a pipeline, one for each barrier and a last one.

    Args:
        stages: stages of a built pipeline.
        reduce: returns the stages that begin the round after a barrier, which may hold further barriers. It is called
            when that round is asked for, so that it can look at the results of the round before.

    Examples:
        >>> from dcurate import ExactDuplicates, JsonlReader, JsonlWriter
        >>> from dcurate.text import AddId
        >>> stages = [JsonlReader("in"), ExactDuplicates(), AddId("id"), JsonlWriter("out")]
        >>> [[stage.name for stage in pipeline_round.stages] for pipeline_round in rounds(stages)]
        [['jsonl_reader'], ['add_id', 'jsonl_writer']]
    """
    waiting = deque(stages)
    current: list[Stage] = []
    while waiting:
        stage = waiting.popleft()
        if not isinstance(stage, BarrierStage):
            current.append(stage)
            continue
        barriers = [stage, *(later for later in waiting if isinstance(later, BarrierStage))]
        yield PipelineRound(tuple(current), stage, sum(barrier.rounds for barrier in barriers))
        waiting.extendleft(reversed(reduce(stage)))
        current = []
    yield PipelineRound(tuple(current))
