"""Rules that make a plan cheaper. Each is a function from plan to plan that changes no row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce

from dcurate.core.stage import ProcessingStage
from dcurate.plan.operators import AnyStage, Operator, Plan, plan_of

Rule = Callable[[Plan], Plan]


def fuse(plan: Plan) -> Plan:
    """Fuse neighbours with the same requirements into one operator, so that no row moves between processes.

    Of GPU stages only those that load nothing are fused: models scale each for itself.
    """
    groups: list[list[Operator]] = []
    for operator in plan.operators:
        if groups and _may_share_task(groups[-1][-1], operator):
            groups[-1].append(operator)
        else:
            groups.append([operator])
    return Plan(tuple(_fused(group) for group in groups))


def _fused(group: Sequence[Operator]) -> Operator:
    return replace(group[0], stages=tuple(stage for operator in group for stage in operator.stages))


def _runs_alone(operator: Operator) -> bool:
    """Whether it shares its tasks with no other."""
    spec = operator.spec
    return (
        operator.is_barrier
        or (operator.resources.requires_gpu and not operator.cheap_setup)
        or operator.batch_size > 1
        or operator.num_workers is not None
        or spec.num_workers_per_node is not None
        or spec.max_workers is not None
    )


def _may_share_task(first: Operator, second: Operator) -> bool:
    """Whether two neighbours have the same requirements, and neither runs alone."""
    if first.parts[-1].is_fanout_stage() or _runs_alone(first) or _runs_alone(second):
        return False
    return first.resources == second.resources and first.spec.gpu_optional == second.spec.gpu_optional


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
