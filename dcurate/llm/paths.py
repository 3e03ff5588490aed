"""Texts within nested values, such as the contents of messages: ``messages.*.content``."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any


class FieldPath:
    """The path to texts in a column: its name, then names and ``*`` for all members of a list.

    A column may hold lists and mappings, or text that is JSON of them; it is given back as it came.

    Examples:
        >>> path = FieldPath("messages.*.content")
        >>> value = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
        >>> path.column, path.texts(value)
        ('messages', ['Hi', 'Yes?'])
        >>> path.replaced('[{"content": "Hi"}]', ["Hallo"])
        '[{"content": "Hallo"}]'
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.column, *self._steps = path.split(".")

    def texts(self, value: Any) -> list[str]:
        """The texts at the path, in order."""
        texts: list[str] = []
        self._each(self._opened(value), lambda text: texts.append(text) or text)  # type: ignore[func-returns-value]
        return texts

    def replaced(self, value: Any, texts: list[str]) -> Any:
        """The value with other texts at the path, as many as returned by `texts`."""
        waiting = iter(texts)
        opened = self._opened(value)
        if opened is None:
            return value  # not JSON: no texts, unchanged
        editable = copy.deepcopy(value) if opened is value else opened
        changed = self._each(editable, lambda _: next(waiting))
        return json.dumps(changed, ensure_ascii=False) if self._steps and isinstance(value, str) else changed

    def _opened(self, value: Any) -> Any:
        if not self._steps or not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError):  # not JSON, or nested too deeply
            return None

    def _each(self, value: Any, change: Callable[[str], str], depth: int = 0) -> Any:
        """The value, after each text at the path was changed."""
        if depth == len(self._steps):
            return change(value) if isinstance(value, str) else value
        step = self._steps[depth]
        if step == "*" and isinstance(value, list):
            value[:] = [self._each(member, change, depth + 1) for member in value]
        elif isinstance(value, dict) and step in value:
            value[step] = self._each(value[step], change, depth + 1)
        return value
