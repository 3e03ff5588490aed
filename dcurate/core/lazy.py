"""Modules that are imported on first use."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class _Lazy(ModuleType):
    """Takes the place of a module, and imports it as one of its names is read; several threads may do so."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


def lazy(name: str) -> Any:
    """Return an object in place of a module that not every process needs, and that is slow to import.

    Examples:
        >>> lazy("math").sqrt(9.0)
        3.0
    """
    return _Lazy(name)
