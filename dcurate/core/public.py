"""Public names: each package lists its own in its `__init__.pyi`, and loads them on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import lazy_loader

from dcurate.core.extras import extra_of, missing_dependency
from dcurate.errors import ResourceError

_ROOT = Path(__file__).parents[1]


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package, for the names in the `__init__.pyi` beside ``file``.

    ``from package import *`` leaves out names whose extra is not installed.

    Args:
        package: name of the package.
        file: path of its `__init__.py`.
    """
    load, list_names, _ = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        if name == "__all__":
            return [public for public in list_names() if _loads(get, public)]
        if package == "dcurate" and f"dcurate.{name}" in public_modules():
            return importlib.import_module(f"dcurate.{name}")
        try:
            return load(name)
        except ModuleNotFoundError as error:
            extra = extra_of(error.name or "")
            if not extra:
                raise
            raise missing_dependency(f"{package}.{name}", str(error), extra) from error
        except AttributeError as error:
            if package == "dcurate" and name[:1].isupper() and name in homes():
                raise AttributeError(f"dcurate has no {name}; import it from {homes()[name]}") from error
            raise

    return get, list_names


def _loads(get: Callable[[str], Any], name: str) -> bool:
    try:
        get(name)
    except ResourceError:
        return False
    return True


@cache
def public_modules() -> tuple[str, ...]:
    """The modules with public names that recipes know, ``dcurate`` first: those that list them in an `__init__.pyi`.

    Examples:
        >>> public_modules()[0], "dcurate.text" in public_modules()
        ('dcurate', True)
    """
    packages = sorted(path.parent.name for path in _ROOT.glob("*/__init__.pyi"))
    return ("dcurate", *(f"dcurate.{package}" for package in packages))


@cache
def homes() -> dict[str, str]:
    """The public module of each public name.

    Examples:
        >>> homes()["Pipeline"], homes()["WordCountFilter"]
        ('dcurate', 'dcurate.text')
    """
    return {name: module for module in reversed(public_modules()) for name in dir(importlib.import_module(module))}


def find_public(name: str) -> Any:
    """Return the object of a public name.

    Raises:
        KeyError: there is no such name.
        ResourceError: its extra is not installed.

    Examples:
        >>> find_public("WordCountFilter").__name__
        'WordCountFilter'
    """
    return getattr(importlib.import_module(homes()[name]), name)
