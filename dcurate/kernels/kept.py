"""Kernels that numba keeps on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numba.core.caching import FunctionCache


def missing(functions: Callable[[], Sequence[Any]]) -> int:
    """Return how many of some compiled functions have nothing on disk that this version of their source made.

    Only the index is looked at, which costs less than loading one: numba loads half of itself first.
    """
    caches = [function._cache for function in functions()]
    return sum(isinstance(cache, FunctionCache) and not cache._cache_file._load_index() for cache in caches)
