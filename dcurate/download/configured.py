"""Objects defined by their settings, like stages."""

from __future__ import annotations

from typing import Any

from dcurate.core.secrets import shown


class EqualBySettings:
    """Equal to another of the same class with the same public settings; its ``repr`` shows them.

    Examples:
        >>> class Source(EqualBySettings):
        ...     def __init__(self, language):
        ...         self.language = language
        >>> Source("de") == Source("de"), Source("de") == Source("fr"), Source("de")
        (True, False, Source(language='de'))
    """

    def _settings(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, EqualBySettings) and type(self) is type(other) and self._settings() == other._settings()
        )

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        settings = (f"{name}={shown(value, name)!r}" for name, value in self._settings().items())
        return f"{type(self).__name__}({', '.join(settings)})"
