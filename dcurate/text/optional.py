"""Libraries that only some rules need, loaded when one of these is set up."""

from __future__ import annotations

import importlib
from typing import Any

from dcurate.core.extras import missing_dependency


def needed(module: str, what: str, extra: str) -> Any:
    """A module of an optional dependency.

    Args:
        module: its name.
        what: the task that needs the module, for the error message.
        extra: the extra of dcurate that installs the module.

    Raises:
        ResourceError: it is not installed.

    Examples:
        >>> needed("json", "all this", "lang").loads("1")
        1
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing_dependency(what, str(error), extra) from error
