"""Kernels that numba keeps on disk, and those that another process of the same kind has compiled."""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

#: What a file of numba's raises that was damaged: it is pickled.
_DAMAGED = (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, ImportError, IndexError, KeyError)

#: By function, what was compiled of it: for each signature its key and its code, both as numba keeps them.
Code = Mapping[str, Sequence[tuple[Any, Any]]]


def missing(functions: Callable[[], Sequence[Any]]) -> int:
    """Return how many of some compiled functions have nothing on disk that this version of their source made.

    Only the index is looked at, which costs less than loading one: numba loads half of itself first.
    """
    return sum(not _index(cache) for cache in _caches(functions()))


def code_kind() -> str:
    """What code must have in common to run here: CPU, Python, numba, and the source of the kernels."""
    cpu = cpu_target.target_context.codegen().magic_tuple()
    return f"{cpu} {sys.version_info[:3]} {numba.__version__} {_source()}"


@dataclass(frozen=True)
class Kept:
    """What says how many of some functions are not kept on disk, and takes over what another process compiled of them.

    Args:
        functions: returns the compiled functions; by name, so that another process finds its own and not copies.
    """

    functions: Callable[[], Sequence[Any]]

    def __call__(self) -> int:
        """How many have nothing on disk."""
        return missing(self.functions)

    def code(self) -> Code:
        """Return what is on disk, for processes of the same `code_kind`; without what cannot be read."""
        here = cpu_target.target_context.codegen().magic_tuple()
        found: dict[str, list[tuple[Any, Any]]] = {}
        for cache in _caches(self.functions()):
            for key in [key for key in _index(cache) if key[1] == here]:
                with suppress(*_DAMAGED, OSError):
                    data = cache._cache_file.load(key)
                    if data is not None:
                        found.setdefault(_name(cache), []).append((key, data))
        return found

    def take(self, code: Code) -> int:
        """Keep what another process of the same `code_kind` has compiled, unless it is there; returns how many."""
        taken = 0
        for cache in _caches(self.functions()):
            for key, data in code.get(_name(cache), ()):
                if key not in _index(cache):
                    cache._cache_file.save(key, data)
                    taken += 1
        return taken


def _caches(functions: Sequence[Any]) -> list[FunctionCache]:
    """Caches of functions; there are none where numba is told not to compile."""
    compiled: list[Any] = [function for function in functions if isinstance(function, Dispatcher)]
    return [function._cache for function in compiled if isinstance(function._cache, FunctionCache)]


def _index(cache: FunctionCache) -> dict[Any, str]:
    """The index of a function on disk; one that is damaged is emptied, or each process would fail at it."""
    try:
        index: dict[Any, str] = cache._cache_file._load_index()
    except _DAMAGED:
        with suppress(OSError):
            cache._cache_file.flush()
        return {}
    return index


def _name(cache: FunctionCache) -> str:
    return f"{cache._py_func.__module__}.{cache._py_func.__qualname__}"


@lru_cache(maxsize=1)
def _source() -> str:
    """A hash of the source of all kernels: those that a kernel calls are compiled into it."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
