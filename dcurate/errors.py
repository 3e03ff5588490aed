"""Errors raised on purpose: one sentence with what is wrong, what was given, and what to do."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable

from dcurate.redaction import legible

#: Characters of a value that errors show.
_SHOWN = 100


class DcurateError(Exception):
    """Base class of all dcurate errors. Its message shows no secrets, and has a limited length."""

    def __init__(self, *args: object) -> None:
        # Here and not only when it prints, as it may be sent to processes that know other secrets.
        super().__init__(*(legible(argument) if isinstance(argument, str) else argument for argument in args))

    def __str__(self) -> str:
        return legible(super().__str__())


class PipelineError(DcurateError):
    """An invalid pipeline, recipe or configuration."""


class ResourceError(DcurateError):
    """A resource that the machine or cluster does not have."""


class StageError(DcurateError):
    """A stage's own code raised, or the stage cannot be shipped to a worker."""


class DataError(DcurateError):
    """Input that cannot be read or output that cannot be written."""


class RunError(DcurateError):
    """A run that ended early: its cluster was lost, or it was interrupted."""


def shown(value: object) -> str:
    """Return the name of a class or function, or the shortened `repr` of another value, on one line.

    Examples:
        >>> shown(len), shown([1, 2]), shown("text")
        ('len', 'list [1, 2]', "str 'text'")
    """
    if isinstance(value, type) or inspect.isroutine(value):
        return value.__name__
    text, kind = repr(value), type(value).__name__
    if value is None or isinstance(value, bool):
        return text
    if "\n" in text:
        return f"a {kind}"
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return text if text.startswith(kind) else f"{kind} {text}"


def listed(names: Iterable[str]) -> str:
    """Quote and join names for an error sentence.

    Examples:
        >>> listed(["text", "url"])
        "'text', 'url'"
        >>> listed([])
        'nothing'
    """
    return ", ".join(repr(name) for name in names) or "nothing"


def nearest(name: str, among: Iterable[str]) -> str:
    """Suggest the closest of the names `among`, as the end of an error message.

    Examples:
        >>> nearest("colour", ["color", "size"])
        "; did you mean 'color'?"
        >>> nearest("zzz", ["size", "color"])
        "; there are 'size', 'color'"
        >>> nearest("zzz", [])
        ''
    """
    options = list(among)
    if not options:
        return ""
    close = difflib.get_close_matches(name, options, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {listed(options)}"
