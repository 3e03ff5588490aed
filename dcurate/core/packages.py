"""Packages that keep to the rules of dcurate, by their own declaration."""

from __future__ import annotations

from typing import Any

#: Rights by name of a package; a package within another one may have its own.
_REGISTERED: dict[str, bool] = {}


def register_package(name: str, *, checks_arguments: bool = True) -> None:
    """Declare that the classes of a package say all that they do, as those of dcurate do.

    Its stages read and add no columns but those that they name, and pass all others on with their rows, hidden ones
    too; settings at their defaults do not count in fingerprints, nor does the code of the package. Call it in the
    ``__init__.py`` of the package, so that workers know of it, too. A single stage sets
    `Stage.declares_columns` instead.

    Args:
        name: dotted name of the package.
        checks_arguments: whether arguments with the usual names of columns and paths are checked to be text.

    Examples:
        >>> register_package("curators_of_maps")
        >>> is_registered("curators_of_maps.stages"), is_registered("curators_of_maps_too")
        (True, False)
    """
    _REGISTERED[name] = checks_arguments


def is_registered(module: str) -> bool:
    """Whether a module is of a registered package."""
    return _rights(module) is not None


def checks_arguments(kind: type) -> bool:
    """Whether the arguments of a class are checked: those of the class that defines its constructor are."""
    home = next(base for base in kind.__mro__ if "__init__" in vars(base))
    return _rights(home.__module__) or False


def is_ours(value: Any) -> bool:
    """Whether a class or routine is defined in a registered package."""
    return is_registered(getattr(value, "__module__", None) or "")


def _rights(module: str) -> bool | None:
    while module and module not in _REGISTERED:
        module = module.rpartition(".")[0]
    return _REGISTERED.get(module)


register_package("dcurate")
register_package("dcurate.compat", checks_arguments=False)
