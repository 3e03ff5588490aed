"""Resolve the names in a recipe: stages, filters and the user's own objects, made with their arguments."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Iterable
from typing import Any

from dcurate.core.public import announced_names, find_public, homes
from dcurate.core.secrets import secrets_in, shown
from dcurate.errors import DcurateError, PipelineError, listed, nearest
from dcurate.recipe.trust import ADVICE, check_arguments, may_be_made, public_name
from dcurate.recipe.values import kind
from dcurate.redaction import HIDDEN
from dcurate.text import presets

_CLASS = re.compile(r"([A-Za-z_][\w.]*:[A-Za-z_]\w*|[A-Z]\w*)")


def object_of(name: str, arguments: Any, place: str, trust: bool = False) -> Any:
    """Resolve a name, and make an instance with its arguments where it is a class.

    Args:
        trust: whether it may be something else than a stage, a filter and the like of dcurate, or of a package that
            announces it. If not, nothing else is imported, let alone called.

    Raises:
        PipelineError: the name is not known, it may not be used, or it does not take these arguments; begins with the
            place.
    """
    thing = _lookup(name, place, trust)
    if arguments is None and not isinstance(thing, type) and name not in presets.__all__:
        return thing
    return called(thing, name, {} if arguments is None else arguments, place, trust)


def _lookup(name: str, place: str, trust: bool) -> Any:
    module_name, colon, attribute = name.partition(":")
    public = public_name(name)
    if public is not None and not trust and not may_be_made(public):
        raise PipelineError(f"{place}: {public} is not a stage or filter, nor what one of these is made of; {ADVICE}")
    if public is not None:
        return getattr(presets, public) if public in presets.__all__ else find_public(public)
    if not colon:
        raise PipelineError(f"{place}: dcurate has no {name!r}; {_mend(name)}")
    if close := difflib.get_close_matches(attribute, announced_names(module_name), n=1):
        raise PipelineError(f"{place}: {module_name!r} announces no {attribute!r}; did you mean {close[0]!r}?")
    if not trust:
        raise PipelineError(f"{place}: {name} is not dcurate's, so it may run any code; {ADVICE}")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise PipelineError(f"{place}: module {module_name!r} cannot be imported: {error}") from error
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        names = [
            known
            for known, value in vars(module).items()
            if not known.startswith("_") and getattr(value, "__module__", None) == module_name
        ]
        raise PipelineError(
            f"{place}: module {module_name!r} has no {attribute!r}{nearest(attribute, names)}"
        ) from error


def _mend(name: str) -> str:
    names = [*(public for public in homes() if public[0].isupper()), *presets.__all__]
    if close := difflib.get_close_matches(name, names, n=1):
        return f"did you mean {close[0]!r}?"
    module, _, attribute = name.rpartition(".")
    return f"write a class of your own as {module or 'package.module'}:{attribute}, and give --trust"


def called(thing: Any, name: str, arguments: Any, place: str, trust: bool = False) -> Any:
    """Call a class or factory; check its arguments by name first.

    Raises:
        PipelineError: it takes no such arguments, or refuses them; begins with the place.
    """
    if not isinstance(arguments, dict):
        raise PipelineError(f"{place}: {name} takes a mapping of arguments to values, not {kind(arguments)}")
    if not callable(thing):
        raise PipelineError(f"{place}: {name} is {kind(thing)}, which takes no arguments")
    try:
        parameters = inspect.signature(thing).parameters
    except ValueError as error:
        raise PipelineError(f"{place}: {name} has no signature to read; wrap it in a function of your own") from error
    named = {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for key in arguments:
        if key not in named and not takes_any:
            raise PipelineError(f"{place}: {name} has no argument {key!r}{nearest(str(key), named)}")
    missing = [key for key, parameter in named.items() if parameter.default is parameter.empty and key not in arguments]
    if missing:
        raise PipelineError(f"{place}: {name} needs {listed(missing)}")
    if not trust:
        check_arguments(public_name(name) or "", arguments, place)
    values = {key: _argument(value, place, trust) for key, value in arguments.items()}
    try:
        return thing(**values)
    except (DcurateError, TypeError, ValueError, AttributeError) as error:
        message = f"{place}: {_without(secrets_in(arguments), ' '.join(str(error).split()))}"
        bare = next((value for value in values.values() if isinstance(value, str) and _is_class(value)), None)
        if bare is not None:
            problem = message.partition("; give one, such as ")[0]
            raise PipelineError(f"{problem}; for an object of a class write {{{bare}: {{}}}}") from error
        if isinstance(error, TypeError | AttributeError):
            shown_arguments = ", ".join(f"{key}={shown(value, key)!r}" for key, value in values.items())
            raise PipelineError(
                f"{message}; is each argument of the right kind in {name}({shown_arguments})?"
            ) from error
        raise PipelineError(message) from error


def _without(secrets: Iterable[str], sentence: str) -> str:
    """Remove secret arguments from a sentence."""
    for secret in secrets:
        sentence = sentence.replace(secret, HIDDEN)
    return sentence


def _is_class(text: str) -> bool:
    return text in presets.__all__ or (text in homes() and text[0].isupper())


def _argument(value: Any, place: str, trust: bool) -> Any:
    """An argument, with the objects described in it made."""
    if isinstance(value, list):
        return [_argument(inner, place, trust) for inner in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        name, arguments = next(iter(value.items()))
        describes = isinstance(name, str) and (_CLASS.fullmatch(name) is not None or name in presets.__all__)
        if describes and (arguments is None or isinstance(arguments, dict) or name in homes()):
            return object_of(name, arguments, place, trust)
    return {key: _argument(inner, place, trust) for key, inner in value.items()}
