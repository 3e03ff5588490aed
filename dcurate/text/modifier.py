"""Base classes of modifiers: a new text for a document."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from dcurate.core.part import Part
from dcurate.frames.text import TextColumn


class DocumentModifier(Part, ABC):
    """A function from the value of a document to a new one; subclass it for your own modifiers.

    The name is the class name in snake case unless you set ``self._name``. A null text stays null.

    Examples:
        >>> class Shout(DocumentModifier):
        ...     def modify_document(self, text):
        ...         return text.upper()
        >>> Shout().name, Shout().modify_document("hey")
        ('shout', 'HEY')
    """

    held_by = "Modify"
    _name: str = ""

    @property
    def name(self) -> str:
        """The name of its stage."""
        return (
            self._name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()
        )

    @abstractmethod
    def modify_document(self, *args: Any, **kwargs: Any) -> Any:
        """Return the new value; several input fields are passed by name."""

    def load_model(self) -> None:
        """Called once per slot before it modifies documents; load large objects here, not in the constructor."""
        return

    @property
    def loads_model(self) -> bool:
        """Whether `load_model` is overridden: a slot is then expensive to hold."""
        return type(self).load_model is not DocumentModifier.load_model


class TextModifier(DocumentModifier):
    """A modifier of text only: `Modify` refuses a column of another type.

    Examples:
        >>> class Shout(TextModifier):
        ...     def modify_document(self, text):
        ...         return text.upper()
        >>> Shout().modify_document("hey")
        'HEY'
    """


class ColumnModifier(DocumentModifier):
    """A modifier that rewrites all texts of a column at once, for example with a kernel.

    `modify_document` does the same to one text, so both ways give the same. A subclass that overrides it is called for
    each document instead.

    Examples:
        >>> class Blank(ColumnModifier):
        ...     def modify_column(self, column):
        ...         return TextColumn(np.zeros_like(column.offsets), np.array([], np.uint8))
        >>> Blank().modify_document("some text")
        ''
    """

    @abstractmethod
    def modify_column(self, column: TextColumn) -> TextColumn:
        """Return the new texts of a column, in order, as a layout whose offsets begin at 0."""

    def modify_and_count(self, column: TextColumn) -> tuple[TextColumn, dict[str, int]]:
        """Return the new texts, and counts for the report, by kind: none by default."""
        return self.modify_column(column), {}

    def prepare(self) -> None:
        """Called once per host before any text is modified there: compile kernels, or load them from disk."""
        self.modify_document("")

    def modify_document(self, text: str) -> str:
        data = np.frombuffer(text.encode(errors="surrogatepass"), np.uint8)
        new = self.modify_column(TextColumn(np.array([0, len(data)], np.int64), data))
        return new.data.tobytes().decode(errors="surrogatepass")
