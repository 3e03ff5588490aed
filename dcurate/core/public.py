"""Public names: each package lists its own in its `__init__.pyi`, and loads them on first use.

Packages of others announce their public modules by entry points; their names are written with the module.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dis import opmap
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from dcurate.core.extras import extra_of, missing_dependency
from dcurate.core.lazy import lazy
from dcurate.errors import PipelineError, ResourceError

#: The group of entry points by which packages of others announce their public modules.
SUBJECTS = "dcurate.subjects"

#: As long to import as the rest that `import dcurate` takes.
_metadata = lazy("importlib.metadata")

_ROOT = Path(__file__).parents[1]


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package, for the names in the `__init__.pyi` beside ``file``.

    ``from package import *`` leaves out names whose extra is not installed.

    Args:
        package: name of the package.
        file: path of its `__init__.py`.
    """
    modules = _defining_modules(package, file)

    def list_names() -> list[str]:
        return sorted(modules)

    def get(name: str) -> Any:
        if name == "__all__":
            return [public for public in list_names() if _loads(get, public)]
        if package == "dcurate" and f"dcurate.{name}" in public_modules():
            return importlib.import_module(f"dcurate.{name}")
        try:
            return _load(package, modules, name)
        except ModuleNotFoundError as error:
            extra = extra_of(error.name or "")
            if not extra:
                raise
            raise missing_dependency(f"{package}.{name}", str(error), extra) from error
        except AttributeError:
            if name.startswith("_") or name in modules:
                raise
        missing = f"{package} has no {name}{_suggested(package, name)}"
        if _is_imported_from(sys._getframe(1)) and f"{package}.{name}" not in sys.modules:
            raise ImportError(missing, name=package)  # of an AttributeError, Python would show no message
        # The name keeps Python from adding a suggestion to this one, which notebooks and 3.11 show, too.
        raise AttributeError(missing, name=name, obj=None)

    return get, list_names


def _is_imported_from(frame: FrameType) -> bool:
    """Whether a frame is at ``from package import name``."""
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def _suggested(package: str, name: str) -> str:
    """The end of a message that says where a public name is, or what a like one is called; empty if there is none."""
    if not name[:1].isupper():
        like = difflib.get_close_matches(name, dir(sys.modules[package]), n=1)
        return f"; did you mean {like[0]!r}?" if like else ""
    public = homes()
    if name in public:
        return f"; import it from {public[name]}"
    by_lower = {public_name.lower(): public_name for public_name in public}
    closest = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.8)
    first_word = re.match(r"[A-Z]+[^A-Z]*", name)
    if not closest and first_word:
        siblings = [public_name for public_name in by_lower if public_name.startswith(first_word[0].lower())]
        closest = difflib.get_close_matches(name.lower(), siblings, n=1)
    if not closest:
        return ""
    suggested = by_lower[closest[0]]
    place = "" if public[suggested] == package else f" of {public[suggested]}"
    return f"; did you mean {suggested!r}{place}?"


def _defining_modules(package: str, file: str) -> dict[str, str]:
    """The module that defines each public name, by the imports in the `__init__.pyi` of a package."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text("utf-8"))
    return {
        alias.name: importlib.util.resolve_name("." * node.level + (node.module or ""), package)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _load(package: str, modules: Mapping[str, str], name: str) -> Any:
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(modules[name]), name)
    if modules[name] == f"{package}.{name}":  # importing a module of the same name has put the module there
        setattr(sys.modules[package], name, value)
    return value


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


@cache
def announced_modules() -> tuple[str, ...]:
    """The public modules that installed packages of others announce; none of them is imported."""
    return tuple(sorted({point.module for point in _metadata.entry_points(group=SUBJECTS)}))


def folders_of_announced() -> dict[str, Path]:
    """The folders of the announced modules that are packages, by module; packages above them are imported."""
    folders = {}
    for module in announced_modules():
        try:
            spec = importlib.util.find_spec(module)
        except Exception:  # an import runs any code; `announces` says what is wrong where the module is used
            continue
        for place in (spec.submodule_search_locations or ()) if spec else ():
            folders[module] = Path(place)
    return folders


def modules_of_subjects(name: str) -> list[ModuleType]:
    """Import the modules of this name in dcurate's packages and then in the announced ones.

    Raises:
        PipelineError: an announced one cannot be imported.

    Examples:
        >>> [module.__name__ for module in modules_of_subjects("trace_hook")]
        ['dcurate.tokens.trace_hook']
    """
    ours = {f"dcurate.{path.parent.name}": path.parent for path in sorted(_ROOT.glob(f"*/{name}.py"))}
    packages = {**ours, **folders_of_announced()}
    return [_imported(f"{package}.{name}") for package, folder in packages.items() if (folder / f"{name}.py").is_file()]


def _imported(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:  # an import runs any code
        raise PipelineError(
            f"module {module!r}, which an entry point in {SUBJECTS!r} announces, cannot be imported: {error}; "
            "install its package again, or remove it"
        ) from error


def announces(name: str) -> bool:
    """Whether ``module:name`` is public in a module that an installed package announces, which is imported to see it.

    Raises:
        PipelineError: the module cannot be imported, or lacks the name although its ``__all__`` has it.

    Examples:
        >>> announces("os:system")
        False
    """
    module, _, attribute = name.partition(":")
    if attribute not in announced_names(module):
        return False
    if not hasattr(_imported(module), attribute):
        raise PipelineError(f"module {module!r} has no {attribute!r}, though its __all__ names it; import it there")
    return True


def announced_names(module: str) -> Sequence[str]:
    """The public names of a module that an installed package announces, which is imported; none of another module.

    Raises:
        PipelineError: the module cannot be imported.

    Examples:
        >>> announced_names("os")
        ()
    """
    return getattr(_imported(module), "__all__", ()) if module in announced_modules() else ()


def find_public(name: str) -> Any:
    """Return the object of a public name of dcurate, or of ``module:name`` in a module that `announces` it.

    Raises:
        KeyError: the name is not known.
        ResourceError: its extra is not installed.

    Examples:
        >>> find_public("WordCountFilter").__name__
        'WordCountFilter'
    """
    module, _, attribute = name.partition(":")
    if attribute and announces(name):
        return getattr(importlib.import_module(module), attribute)
    return getattr(importlib.import_module(homes()[name]), name)
