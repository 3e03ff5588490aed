"""Pickle operators, with an error that names the culprit if one cannot be pickled."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

from dcurate.engine.worker.operator_task import OperatorSpec
from dcurate.errors import StageError

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
