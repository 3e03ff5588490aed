"""What a modifier is: a new text for a document."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any


class DocumentModifier(ABC):
    """A function from what a document holds to a new value; subclass it for modifiers of your own.

    The name is the class name in snake case unless you set ``self._name``. A null text stays null.

    Examples:
        >>> class Shout(DocumentModifier):
        ...     def modify_document(self, text):
        ...         return text.upper()
        >>> Shout().name, Shout().modify_document("hey")
        ('shout', 'HEY')
    """

    _name: str = ""

    @property
    def name(self) -> str:
        """What its stage is called."""
        return (
            self._name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()
        )

    @abstractmethod
    def modify_document(self, *args: Any, **kwargs: Any) -> Any:
        """The new value; with several input fields their values come by name."""
