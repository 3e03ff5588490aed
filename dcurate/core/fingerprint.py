"""Fingerprint the settings that decide the rows of stages, to refuse to resume another pipeline's output."""

from __future__ import annotations

import ast
import copyreg
import hashlib
import inspect
import linecache
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from types import FunctionType, ModuleType
from typing import Any

from dcurate.core.packages import is_ours, is_registered
from dcurate.core.stage import Stage
from dcurate.core.syntax import parsed, source_of

#: Settings of a stage that do not change its rows.
_NOT_OF_ROWS = ("name", "resources", "batch_size")


def fingerprint(stages: Iterable[Stage]) -> dict[str, str]:
    """Return a digest of the settings that decide the rows of each stage, by stage name.

    Covers the name of each stage's class, those of its public settings that differ from their defaults, and for classes
    and functions outside dcurate their source; of a function also what it was given beforehand: defaults, variables of
    the function around it, the object it belongs to. As defaults do not count, a new setting with a default lets runs
    that were begun before resume.
    """
    return {stage.name: _fingerprint(stage) for stage in stages}


def _fingerprint(value: Any) -> str:
    return hashlib.blake2b(_canonical(value, ()).encode(), digest_size=8).hexdigest()


def _canonical(value: Any, within: tuple[int, ...]) -> str:
    """Text that is the same for equal values, in any process.

    Args:
        value: anything.
        within: the ids of the objects that it is part of; one that is part of itself is not followed again.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, bytes | bytearray):
        return hashlib.blake2b(value, digest_size=16).hexdigest()
    if id(value) in within:
        return "..."
    within = (*within, id(value))
    if isinstance(value, dict):
        pairs = ((_canonical(key, within), _canonical(held, within)) for key, held in value.items())
        return "{" + ",".join(f"{key}:{held}" for key, held in sorted(pairs)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_canonical(element, within) for element in value) + "]"
    if isinstance(value, set | frozenset):
        return "{" + ",".join(sorted(_canonical(element, within) for element in value)) + "}"
    if isinstance(value, ModuleType):
        return value.__name__
    if inspect.isroutine(value) or isinstance(value, type):
        return f"{_name(value)}#{_source(value)}{_canonical(_given(value), within)}"
    kind = type(value)
    return f"{_name(kind)}#{_source(kind)}({_canonical(_settings(value), within)})"


def _name(value: Any) -> str:
    """Name a class or routine. The modules of dcurate do not count for its classes, so that these may move.

    Their names are unique, except for those of the alias for NeMo Curator.
    """
    module = _module(value)
    if isinstance(value, type) and module.startswith("dcurate.") and not module.startswith("dcurate.compat."):
        module = "dcurate"
    return f"{module}.{value.__qualname__}"


def _given(routine: Any) -> dict[str, Any]:
    """The values bound to a routine before it is called."""
    bound = {
        "of": getattr(routine, "__self__", None),
        "defaults": getattr(routine, "__defaults__", None),
        "named": getattr(routine, "__kwdefaults__", None),
        "around": tuple(map(_held, getattr(routine, "__closure__", None) or ())),
    }
    return {name: value for name, value in bound.items() if value}


def _held(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _settings(value: Any) -> Any:
    """The state that distinguishes an object from others of its class."""
    if isinstance(value, Stage):
        settings = value.settings()
        return _without_defaults(value, {name: settings[name] for name in settings if name not in _NOT_OF_ROWS})
    if hasattr(value, "__dict__") and not _says_how_it_is_pickled(type(value)):
        return _without_defaults(value, vars(value))
    try:
        registered = copyreg.dispatch_table.get(type(value))
        parts = registered(value) if registered else value.__reduce_ex__(4)
    except Exception:
        return getattr(value, "__dict__", None) or re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return parts if isinstance(parts, str) else [list(part) if isinstance(part, Iterator) else part for part in parts]


def _without_defaults(value: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from the defaults of registered packages; those of a user may change with the code."""
    declared = {field.name: field for field in fields(value)} if is_dataclass(value) else {}
    return {
        name: held
        for name, held in settings.items()
        if name not in declared or not _declares(type(value), declared[name]) or not _at_default(held, declared[name])
    }


def _declares(kind: type, field: Field[Any]) -> bool:
    """Whether the class that declares a field of a dataclass is of a registered package."""
    classes = [base for base in kind.__mro__ if vars(base).get("__dataclass_fields__", {}).get(field.name) is field]
    return is_ours(classes[-1])


def _at_default(value: Any, field: Field[Any]) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return value is default or _canonical(value, ()) == _canonical(default, ())


def _says_how_it_is_pickled(kind: type) -> bool:
    """Whether a class defines how its objects are pickled: a logger is its name, not all that it refers to."""
    hooks = ("__reduce__", "__reduce_ex__", "__getstate__")
    return any(getattr(kind, name) is not getattr(object, name) for name in hooks)


def _module(value: Any) -> str:
    """Return the module of a routine or class; methods of built-in types have none."""
    return getattr(value, "__module__", None) or "builtins"


def _source(value: Any) -> str:
    if is_registered(_module(value)) or _module(value).partition(".")[0] in sys.stdlib_module_names:
        return ""
    try:
        source = source_of(_with_file(value))
    except (OSError, TypeError):
        source = _source_in_cell(value) if isinstance(value, type) else ""
    return hashlib.blake2b(source.encode(), digest_size=8).hexdigest() if source else ""


def _source_in_cell(kind: type) -> str:
    """The source of a class of a notebook, whose cell only its methods name; empty if it is not known."""
    for method in vars(kind).values():
        code = getattr(inspect.unwrap(method), "__code__", None) if callable(method) else None
        if code is None:
            continue
        lines = linecache.getlines(code.co_filename)
        with suppress(SyntaxError):
            for node in ast.walk(parsed("".join(lines))):
                if isinstance(node, ast.ClassDef) and node.name == kind.__name__ and _spans(node, code.co_firstlineno):
                    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                    return "".join(lines[first - 1 : node.end_lineno])
    return ""


def _spans(node: ast.ClassDef, line: int) -> bool:
    return node.lineno < line <= (node.end_lineno or 0)


def _with_file(value: Any) -> Any:
    """Return a routine with the file of its module, where cloudpickle (3.1.3) replaced it when the code was sent."""
    code = getattr(value, "__code__", None)
    if code is None or code.co_filename != "<dynamic-code>" or "__file__" not in value.__globals__:
        return value
    code = code.replace(co_filename=value.__globals__["__file__"])
    return FunctionType(code, value.__globals__, closure=value.__closure__)
