"""Libraries of dcurate's extras: which ones a pipeline needs, and which are not installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dcurate.errors import ResourceError


@dataclass(frozen=True)
class Library:
    """A library that a stage needs.

    Args:
        module: its top-level name for ``import``.
        extra: the extra of dcurate that installs it.
        stage: the stage that needs it.
    """

    module: str
    extra: str
    stage: str

    @property
    def error(self) -> ResourceError:
        """The error for a library that is not installed."""
        return missing_dependency(f"stage {self.stage!r}", f"No module named {self.module!r}", self.extra)


class MissingDependencyError(ResourceError, ImportError):
    """A library of an extra is not installed."""


#: Libraries that modules with public names import, and the extra that has them.
_EXTRAS = {"PIL": "images", "simplejpeg": "images", "lxml": "documents", "pypdfium2": "documents"}


def extra_of(module: str) -> str:
    """Return the extra that installs a module which public names need as they are imported; empty for others.

    Examples:
        >>> extra_of("lxml.etree"), extra_of("json")
        ('documents', '')
    """
    return _EXTRAS.get(module.partition(".")[0], "")


def missing_dependency(what: str, reason: str, extra: str) -> MissingDependencyError:
    """The error for a library that is not installed.

    Args:
        what: the stage or task that needs it.
        reason: the message of the failed import.
        extra: the extra of dcurate that installs it.
    """
    return MissingDependencyError(f"{what}: {reason}; this needs the {extra!r} extra: pip install 'dcurate[{extra}]'")


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


def required_by(objects: Iterable[Any]) -> dict[str, str]:
    """Merge what objects such as filters and clients return from their method ``requires``; others need nothing.

    Examples:
        >>> required_by([str.strip, 3])
        {}
    """
    requirements: dict[str, str] = {}
    for component in objects:
        requires = getattr(component, "requires", None)
        if callable(requires):
            requirements.update(requires())
    return requirements


def libraries(stages: Iterable[Any]) -> list[Library]:
    """List the libraries of extras that stages need, each once."""
    by_module: dict[str, Library] = {}
    for stage in stages:
        for part in stage.parts:
            for module, extra in part.requires().items():
                by_module.setdefault(module, Library(module, extra, part.name))
    return list(by_module.values())


def missing(modules: Iterable[str]) -> list[str]:
    """Return the top-level modules that cannot be imported here; none of them is loaded.

    Examples:
        >>> missing(["json", "no_such_module"])
        ['no_such_module']
    """
    return [module for module in modules if not _is_here(module)]


def _is_here(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # it is loaded without a specification, as the main program is
        return True


def check_installed(wanted: Iterable[Library]) -> None:
    """Refuse a pipeline whose libraries are not installed in this process.

    Raises:
        ResourceError: names the first of them, its stage and its extra.
    """
    for library in wanted:
        if missing([library.module]):
            raise library.error
