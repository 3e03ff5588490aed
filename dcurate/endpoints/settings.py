"""Clients compared and pickled by their settings; and API keys that do not leak."""

from __future__ import annotations

import base64
from typing import Any

from dcurate.core.secrets import remember_secrets, shown


class Secret:
    """An API key. It does not appear when printed, in a fingerprint, or in the text of a pickle.

    That keeps it out of logs and reports; it is no encryption. Best leave keys in the environment of the workers.

    Examples:
        >>> Secret("sk-123"), Secret("sk-123").reveal()
        (Secret('***'), 'sk-123')
    """

    __slots__ = ("_hidden",)

    def __init__(self, text: str) -> None:
        remember_secrets({"api_key": text})
        self._hidden = base64.b85encode(text.encode())

    def reveal(self) -> str:
        """The key itself."""
        return base64.b85decode(self._hidden).decode()

    def __repr__(self) -> str:
        return "Secret('***')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._hidden == other._hidden

    def __hash__(self) -> int:
        return hash(self._hidden)

    def __getstate__(self) -> bytes:
        return self._hidden

    def __setstate__(self, state: bytes) -> None:
        self._hidden = state
        remember_secrets({"api_key": self.reveal()})


class Configured:
    """Equal to another of its class with the same public attributes; prints and pickles only those.

    What is opened on a worker has a name with an underscore, and stays there.

    Examples:
        >>> class Client(Configured):
        ...     def __init__(self, url):
        ...         self.url, self._session = url, object()
        >>> Client("a") == Client("a"), Client("a")
        (True, Client(url='a'))
    """

    def _public(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configured) and type(self) is type(other) and self._public() == other._public()

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        settings = (f"{name}={shown(value, name)!r}" for name, value in self._public().items())
        return f"{type(self).__name__}({', '.join(settings)})"

    def __getstate__(self) -> dict[str, Any]:
        return self._public()
