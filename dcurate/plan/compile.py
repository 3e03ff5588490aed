"""Rules that make a plan cheaper. Each is a function from plan to plan that changes no row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce

from dcurate.core.stage import ProcessingStage
from dcurate.plan.operators import AnyStage, Operator, Plan, plan_of

Rule = Callable[[Plan], Plan]


def fuse(plan: Plan) -> Plan:
    """Fuse neighbours with the same requirements into one operator, so that no row moves between processes.

    Of GPU stages only those that load nothing are fused: models scale each for itself.
    """
    operators: list[Operator] = []
    for operator in plan.operators:
        if operators and _may_share_task(operators[-1], operator):
            operators[-1] = replace(operators[-1], stages=operators[-1].stages + operator.stages)
        else:
            operators.append(operator)
    return Plan(tuple(operators))


def _may_share_task(first: Operator, second: Operator) -> bool:
    if first.parts[-1].is_fanout_stage():
        return False
    return first.resources == second.resources and not any(
        operator.is_barrier
        or (operator.resources.requires_gpu and not operator.light)
        or operator.spec.gpu_optional != first.spec.gpu_optional
        or operator.batch_size > 1
        or operator.num_workers is not None
        or operator.spec.num_workers_per_node is not None
        or operator.spec.max_workers is not None
        for operator in (first, second)
    )


def merge(plan: Plan) -> Plan:
    """Merge neighbouring stages of one operator that can work in one pass."""
    return Plan(tuple(replace(operator, stages=_merged(operator.stages)) for operator in plan.operators))


def _merged(stages: Iterable[AnyStage]) -> tuple[AnyStage, ...]:
    merged: list[AnyStage] = []
    for stage in stages:
        last = merged[-1] if merged else None
        both = None
        if isinstance(last, ProcessingStage) and isinstance(stage, ProcessingStage):
            both = last.fuse_with(stage)
        if both is None:
            merged.append(stage)
        else:
            merged[-1] = both
    return tuple(merged)


def prioritise(plan: Plan) -> Plan:
    """Give later operators a higher priority: a batch that leaves frees memory."""
    return Plan(tuple(replace(operator, priority=10 * place) for place, operator in enumerate(plan.operators)))


#: The rules in their order.
RULES: tuple[Rule, ...] = (fuse, merge, prioritise)


def compile_plan(stages: Iterable[AnyStage], rules: Iterable[Rule] = RULES) -> Plan:
    """Return the plan of a built pipeline's stages, after all rules."""
    return reduce(lambda plan, rule: rule(plan), rules, plan_of(stages))
