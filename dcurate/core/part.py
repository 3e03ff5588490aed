"""The base class of stages and of their filters and modifiers: checks arguments."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Self

from dcurate.core.secrets import HidesSecrets
from dcurate.errors import nearest


class Part(HidesSecrets):
    """A stage, filter or modifier. Refuses an unknown argument and names the most similar one.

    Attributes:
        held_by: the stage that takes such an object; empty for a stage.

    Examples:
        >>> class Longer(Part):
        ...     def __init__(self, least_words=3):
        ...         pass
        >>> Longer(least_word=3)
        Traceback (most recent call last):
        TypeError: Longer() takes no argument 'least_word'; did you mean 'least_words'?
    """

    held_by: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Accept classes that define `light`, the earlier name of `cheap_setup`."""
        super().__init_subclass__(**kwargs)
        if "light" in vars(cls):
            warnings.warn(f"{cls.__name__}.light is now cheap_setup; rename it", DeprecationWarning, stacklevel=2)
            setattr(cls, "cheap_setup", vars(cls)["light"])  # noqa: B010 - it is not declared here

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if (args or kwargs) and cls.__init__ is object.__init__:
            raise TypeError(f"{cls.__name__}() takes no arguments")
        names = _arguments(cls.__init__) if kwargs else None
        unknown = [] if names is None else [name for name in kwargs if name not in names]
        if unknown:
            raise TypeError(f"{cls.__name__}() takes no argument {unknown[0]!r}{nearest(unknown[0], names or ())}")
        return super().__new__(cls)

    def requires(self) -> dict[str, str]:
        """Return the libraries that it needs from extras of dcurate: top-level module to extra.

        They are looked for before workers start, so name them if your stage needs some: ``{"torch": "models"}``.
        """
        return {}

    def overrides(self, one: str, many: str) -> bool:
        """Whether the class has a method for one document below that for many: the latter is not for this class then.

        Examples:
            >>> from dcurate import WordCountFilter
            >>> class Twice(WordCountFilter):
            ...     def score_document(self, text):
            ...         return 2 * super().score_document(text)
            >>> WordCountFilter().overrides("score_document", "score"), Twice().overrides("score_document", "score")
            (False, True)
        """
        for kind in type(self).__mro__:
            if one in vars(kind) or many in vars(kind):
                return many not in vars(kind)
        return False


@cache
def _arguments(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The arguments that may be given by name; None if any may."""
    _, *parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    return tuple(one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY))


def wrapping(value: Any) -> str:
    """The end of an error sentence that says which stage takes an object; empty if that is not known.

    Examples:
        >>> from dcurate import WordCountFilter
        >>> wrapping(WordCountFilter()), wrapping(WordCountFilter), wrapping(3)
        ('; wrap it: ScoreFilter(WordCountFilter(...))', '; wrap it: ScoreFilter(WordCountFilter(...))', '')
    """
    kind = value if isinstance(value, type) else type(value)
    if not (issubclass(kind, Part) and kind.held_by):
        return ""
    return f"; wrap it: {kind.held_by}({kind.__name__}(...))"
