"""Prompt templates."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dcurate.errors import PipelineError


@dataclass(frozen=True)
class Prompt:
    """A template in which ``{column}`` is replaced by the row's value; ``{{`` and ``}}`` are braces.

    Args:
        template: the text.
        names: columns that are called otherwise in the template.

    Raises:
        PipelineError: a placeholder without a name, or a brace that is not closed.

    Examples:
        >>> prompt = Prompt("Rate {text} as JSON: {{...}}")
        >>> prompt.columns, prompt.filled({"text": "this"})
        (['text'], 'Rate this as JSON: {...}')
        >>> Prompt("Say {}")
        Traceback (most recent call last):
        ...
        dcurate.errors.PipelineError: the prompt 'Say {}' has {} without a name; name a column, or write {{}} for braces
    """

    template: str
    names: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.template, str):
            raise PipelineError(f"a prompt is text, not {type(self.template).__name__}")
        if any(name == "" or name.isdigit() for _, name, *_ in self._pieces if name is not None):
            hint = "name a column, or write {{}} for braces"
            raise PipelineError(f"the prompt {_short(self.template)!r} has {{}} without a name; {hint}")

    @cached_property
    def _pieces(self) -> list[tuple[str, str | None, str]]:
        try:
            return [(text, name, form or "") for text, name, form, _ in string.Formatter().parse(self.template)]
        except ValueError as error:
            raise PipelineError(
                f"the prompt {_short(self.template)!r} cannot be read ({error}); write {{{{ and }}}} for braces"
            ) from error

    @property
    def columns(self) -> list[str]:
        """The columns that it reads, in order."""
        called = self.names or {}
        return list(dict.fromkeys(called.get(name, name) for _, name, _ in self._pieces if name is not None))

    def filled(self, row: Mapping[str, Any]) -> str:
        """The text for a row; a null is an empty text.

        Examples:
            >>> Prompt("{document}!", {"document": "text"}).filled({"text": "{braces}"})
            '{braces}!'
        """
        called = self.names or {}
        filled = []
        for text, name, form in self._pieces:
            filled.append(text)
            if name is not None:
                value = row[called.get(name, name)]
                filled.append("" if value is None else format(value, form))
        return "".join(filled)


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
