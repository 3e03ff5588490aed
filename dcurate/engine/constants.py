"""Check the constants of policies."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from dcurate.errors import PipelineError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def check_constants(policy: DataclassInstance) -> None:
    """Refuse constants that are not numbers of at least 0; counts are at least 1, shares at most 1, timeouts above 0.

    Args:
        policy: a dataclass of numbers. None is taken where it is the default.

    Raises:
        PipelineError: names the constant, its value and what it may be.
    """
    for constant in fields(policy):
        value = getattr(policy, constant.name)
        if not constant.init or (value is None and constant.default is None):
            continue
        if isinstance(constant.default, int):
            fits, wanted = isinstance(value, int) and value >= 1, "a whole number, at least 1"
        elif not isinstance(value, int | float):
            fits, wanted = False, "a number"
        elif constant.name.endswith("_share"):
            fits, wanted = 0 <= value <= 1, "a number from 0 to 1"
        elif constant.name.endswith("timeout_s"):
            fits, wanted = value > 0, "a number above zero"
        else:
            fits, wanted = value >= 0, "a number, at least zero"
        if not fits or isinstance(value, bool):
            raise PipelineError(f"{type(policy).__name__}: {constant.name}={value!r} must be {wanted}")
