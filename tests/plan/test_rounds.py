from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dcurate.core.stage import BarrierStage, Stage
from dcurate.plan.rounds import PipelineRound, rounds
from tests.stages import Append, Numbers


@dataclass
class Barrier(BarrierStage[Any]):
    name: str = "barrier"

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return []

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        return []


A, B, C = (Append(letter) for letter in "abc")


def test_a_pipeline_without_a_barrier_is_one_round() -> None:
    assert list(rounds([A, B])) == [PipelineRound((A, B))]


def test_each_barrier_ends_a_round() -> None:
    first, second = Barrier("first"), Barrier("second")
    assert list(rounds([A, first, B, second, C])) == [
        PipelineRound((A,), first),
        PipelineRound((B,), second),
        PipelineRound((C,)),
    ]


def test_stages_of_a_barrier_begin_the_next_round() -> None:
    barrier = Barrier()
    assert list(rounds([A, barrier, C], lambda _: [B])) == [PipelineRound((A,), barrier), PipelineRound((B, C))]


def test_stages_of_a_barrier_may_hold_barriers() -> None:
    outer, inner = Barrier("outer"), Barrier("inner")
    found = rounds([A, outer, C], lambda barrier: [A, inner, B] if barrier is outer else [A])
    assert list(found) == [PipelineRound((A,), outer), PipelineRound((A,), inner), PipelineRound((A, B, C))]


def test_stages_of_a_barrier_are_asked_for_when_its_round_is_over() -> None:
    asked = []

    def reduce(barrier: BarrierStage[Any]) -> list[Stage]:
        asked.append(barrier.name)
        return []

    found = rounds([A, Barrier("first"), B, Barrier("second")], reduce)
    assert (next(found).last, asked) == (False, [])
    assert (next(found).last, asked) == (False, ["first"])
    assert (next(found).last, asked) == (True, ["first", "second"])


@given(st.lists(st.sampled_from([A, B, C, Barrier()])))
def test_no_stage_is_lost_and_only_the_last_round_has_no_barrier(chain: list[Stage]) -> None:
    found = list(rounds([Numbers(), *chain]))
    assert [stage for each in found for stage in (*each.stages, *([each.barrier] if each.barrier else []))] == [
        Numbers(),
        *chain,
    ]
    assert [each.last for each in found] == [False] * (len(found) - 1) + [True]
