"""Errors raised on purpose: one sentence with what is wrong, what was given, and what to do."""

from __future__ import annotations

import difflib
import inspect
import os
import traceback
from collections.abc import Iterable

from dcurate.redaction import legible

#: Frames of code of others that a notebook shows below an error.
_FRAMES = 3
_PACKAGE = os.sep.join(("", __name__.partition(".")[0], ""))
#: Characters of a value that errors show.
_SHOWN = 100


class DcurateError(Exception):
    """Base class of all dcurate errors. Its message shows no secrets, and has a limited length."""

    def __init__(self, *args: object) -> None:
        # Here and not only when it prints, as it may be sent to processes that know other secrets.
        super().__init__(*(legible(argument) if isinstance(argument, str) else argument for argument in args))

    def __str__(self) -> str:
        return legible(super().__str__())

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message, below where code of others raised, without the frames of the engine."""
        lines = []
        if self.__cause__ is not None and not isinstance(self.__cause__, DcurateError):
            frames = [
                frame for frame in traceback.extract_tb(self.__cause__.__traceback__) if _PACKAGE not in frame.filename
            ]
            lines = [legible(line.rstrip()) for line in traceback.format_list(frames[-_FRAMES:])]
        return [*lines, f"{type(self).__name__}: {self}"]


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


class RunInterrupted(KeyboardInterrupt):
    """A person stopped a run; the message says how to go on with it."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message, without frames."""
        return [f"KeyboardInterrupt: {self}"]


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
