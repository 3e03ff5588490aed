"""What a worker process has done since it began, by operator, over all runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace


@dataclass
class Calls:
    """Calls of an operator: how many returned, the seconds of those, and how many raised."""

    returned: int = 0
    seconds: float = 0.0
    raised: int = 0


class Done:
    """Counts the calls of operators; calls may come from any thread.

    Examples:
        >>> done = Done()
        >>> done.returned("filter", 0.5)
        >>> done.figures()
        {'filter': Calls(returned=1, seconds=0.5, raised=0)}
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, Calls] = {}

    def returned(self, operator: str, seconds: float) -> None:
        """Count a call that returned."""
        with self._lock:
            calls = self._calls.setdefault(operator, Calls())
            calls.returned += 1
            calls.seconds += seconds

    @contextmanager
    def failing(self, operator: str) -> Iterator[None]:
        """Count a call that raises in the ``with`` statement."""
        raised = True
        try:
            yield
            raised = False
        finally:
            if raised:
                with self._lock:
                    self._calls.setdefault(operator, Calls()).raised += 1

    def figures(self) -> Mapping[str, Calls]:
        """The counts so far."""
        with self._lock:
            return {operator: replace(calls) for operator, calls in self._calls.items()}
