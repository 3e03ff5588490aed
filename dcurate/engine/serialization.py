"""Pickle operators, with an error that names the culprit if one cannot be pickled."""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from collections.abc import Sequence
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

from dcurate.engine.worker.operator_task import OperatorSpec
from dcurate.errors import PipelineError, StageError
from dcurate.redaction import text_of

#: Exceptions of pickle for objects that it cannot handle.
_UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError, RecursionError)


def pickled(spec: OperatorSpec) -> bytes:
    """Pickle an operator for workers; classes of ``__main__`` and notebooks travel by value.

    Raises:
        StageError: a stage holds something that cannot be pickled; names the stage and the attribute.
    """
    try:
        return _dumps(spec)
    except _UNPICKLABLE as error:
        for stage in spec.stages:
            culprit = _culprit(stage)
            if culprit is not None:
                raise StageError(
                    f"stage {stage.name!r} cannot be sent to workers: {culprit} cannot be pickled ({text_of(error)}); "
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
    return _dumps(list(policies)) if policies else b""


def _code(code: CodeType) -> tuple[Any, ...]:
    """Reduce code as cloudpickle does, with its file, which cloudpickle replaces from 3.1.3 on."""
    make, parts = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return make, tuple(code.co_filename if part == "<dynamic-code>" else part for part in parts)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Keeps the file of code that is sent by value: tracebacks and fingerprints name it."""

    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _code}, cloudpickle.Pickler.dispatch_table)


def _dumps(value: Any) -> bytes:
    with io.BytesIO() as file:
        _Pickler(file).dump(value)
        return file.getvalue()


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
