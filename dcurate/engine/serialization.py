"""Pickle operators, with an error that names the culprit if one cannot be pickled."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle

from dcurate.engine.worker.operator_task import OperatorSpec
from dcurate.errors import PipelineError, StageError

#: Exceptions of pickle for objects that it cannot handle.
_UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError, RecursionError)


def pickled(spec: OperatorSpec) -> bytes:
    """Pickle an operator for workers; classes of ``__main__`` and notebooks travel by value.

    Raises:
        StageError: a stage holds something that cannot be pickled; names the stage and the attribute.
    """
    try:
        return bytes(cloudpickle.dumps(spec))
    except _UNPICKLABLE as error:
        for stage in spec.stages:
            culprit = _culprit(stage)
            if culprit is not None:
                raise StageError(
                    f"stage {stage.name!r} cannot be sent to workers: {culprit} cannot be pickled ({error}); "
                    "make it in setup(), which runs on the worker"
                ) from error
        raise StageError(f"operator {spec.operator!r} cannot be sent to workers: {error}") from error


def pickled_policies(policies: Sequence[Any]) -> bytes:
    """Pickle policies for the scheduler; empty if there are none.

    Raises:
        PipelineError: a policy holds something that cannot be pickled; names the policy and the attribute.
    """
    for policy in policies:
        if not _travels(policy):
            culprit = _culprit(policy) if hasattr(policy, "__dict__") else f"its class {type(policy).__qualname__}"
            raise PipelineError(
                f"policy {type(policy).__name__} cannot be sent to the scheduler: {culprit} cannot be pickled"
            )
    return bytes(cloudpickle.dumps(list(policies))) if policies else b""


def _culprit(stage: Any) -> str | None:
    """Return the part of a stage that cannot be pickled, if there is one."""
    for name, value in vars(stage).items():
        if not _travels(value):
            return f"its attribute {name!r} ({type(value).__name__})"
    return None if _travels(stage) else f"its class {type(stage).__qualname__}"


def _travels(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except _UNPICKLABLE:
        return False
    return True
