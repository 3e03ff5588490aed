from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import Batch, ExactDuplicates, InlineExecutor, ProcessingStage, Resources
from dcurate.core.pipeline import AnyStage
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.plan.compile import RULES, compile_plan
from dcurate.plan.operators import Plan, plan_of
from tests.stages import Append, KeepEvery, Numbers, OneByOne

Stage = ProcessingStage[Any, Any]

stages = st.one_of(
    st.sampled_from("abc").map(Append),
    st.builds(KeepEvery, st.integers(1, 3), st.integers(0, 1)),
    st.just(OneByOne()),
)
settled = st.tuples(stages, st.integers(1, 3), st.sampled_from([None, 2]), st.sampled_from([1.0, 2.0])).map(
    lambda one: one[0].with_(batch_size=one[1], num_workers=one[2], resources=Resources(cpus=one[3]))
)


def rows(plan: Plan) -> list[tuple[str, list[str]]]:
    job = Round("test", plan, plan.parts[0].splits(), delivers=True)  # type: ignore[attr-defined]
    batches: list[Batch] = list(InlineExecutor().execute(job, RunAccounting(job, "inline")))
    return sorted((str(batch.key), batch.to_arrow()["text"].to_pylist()) for batch in batches)  # type: ignore[attr-defined]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(stages, settled), max_size=5))
def test_rules_change_no_row_and_no_key(chain: list[Stage]) -> None:
    written = [Numbers(3, 4), *(stage.with_(name=f"s{place}") for place, stage in enumerate(chain))]
    assert rows(compile_plan(written)) == rows(plan_of(written))


@given(st.lists(settled, max_size=6))
def test_rules_keep_every_stage_in_its_place(chain: list[Stage]) -> None:
    assert compile_plan([Numbers(), *chain]).parts == (Numbers(), *chain)


def operators(*chain: AnyStage) -> list[list[str]]:
    return [[part.name for part in operator.parts] for operator in compile_plan(chain).operators]


def test_cpu_neighbours_share_one_task() -> None:
    assert operators(Numbers(), Append(), KeepEvery()) == [["numbers", "append", "keep_every"]]


@pytest.mark.parametrize(
    "change",
    [
        {"resources": Resources(gpus=1)},
        {"resources": Resources(cpus=2)},
        {"batch_size": 2},
        {"num_workers": 1},
    ],
)
def test_a_stage_with_needs_of_its_own_is_an_operator_of_its_own(change: dict[str, Any]) -> None:
    assert operators(Numbers(), Append().with_(**change), KeepEvery()) == [["numbers"], ["append"], ["keep_every"]]


class Loads(Append):
    """Loads something dear."""

    def setup(self, worker_metadata: Any = None) -> None:
        self.model = "model"


def test_neighbours_on_gpus_share_a_task_unless_they_load_something() -> None:
    quarter: Any = {"resources": Resources(gpus=0.25)}
    light, other = Append().with_(**quarter), KeepEvery().with_(**quarter)
    assert operators(Numbers(), light, other) == [["numbers"], ["append", "keep_every"]]
    assert operators(Numbers(), light, Loads().with_(name="loads", **quarter)) == [["numbers"], ["append"], ["loads"]]


class Halves(Append):
    """Says that it makes many of one."""

    def is_fanout_stage(self) -> bool:
        return True


def test_what_follows_a_fan_out_is_a_task_of_its_own_so_that_the_batches_spread() -> None:
    assert operators(Numbers(), Halves(), KeepEvery()) == [["numbers", "halves"], ["keep_every"]]


def test_a_stage_that_must_see_every_row_is_an_operator_of_its_own() -> None:
    assert operators(Numbers(), ExactDuplicates(), Append()) == [["numbers"], ["exact_duplicates"], ["append"]]
    text = compile_plan([Numbers(), ExactDuplicates()]).explain()
    assert "sees every row before it passes any on: what comes before runs first" in text


def test_later_operators_go_first() -> None:
    plan = compile_plan([Numbers(), Append().with_(batch_size=2), KeepEvery()], RULES)
    assert [operator.priority for operator in plan.operators] == [0, 10, 20]


def test_explain_names_what_is_fused_and_what_flows() -> None:
    text = compile_plan([Numbers(), Append(), KeepEvery().with_(num_workers=2)]).explain()
    assert text == (
        "Operator 1: numbers-append, 2 stages fused into one task\n"
        "  one slot needs 1 CPU\n"
        "  - numbers\n"
        "  - append (reads text)\n"
        "  columns: known when it runs\n"
        "Operator 2: keep_every\n"
        "  one slot needs 1 CPU; 2 slots, fixed\n"
        "  - keep_every\n"
        "  columns: known when it runs"
    )
