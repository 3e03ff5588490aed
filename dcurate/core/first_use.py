"""Kernels that are compiled when a stage first calls them: who waits for the call hears of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Called with the number of kernels that are compiled, and about how many seconds that takes.
Say = Callable[[int, float], None]

_calls = threading.local()


@contextmanager
def heard(say: Say | None) -> Iterator[None]:
    """Have kernels that this thread compiles during the ``with`` statement announced, or not if None.

    Args:
        say: called when a kernel begins to be compiled.

    Examples:
        >>> with heard(lambda kernels, seconds: print(kernels, seconds)):
        ...     announce(3, 6.0)
        3 6.0
        >>> announce(3, 6.0)
    """
    before = getattr(_calls, "say", None)
    _calls.say = say
    try:
        yield
    finally:
        _calls.say = before


def is_heard() -> bool:
    """Whether kernels that this thread compiles are announced."""
    return getattr(_calls, "say", None) is not None


def announce(kernels: int, seconds: float) -> None:
    """Announce kernels that begin to be compiled, to the one who waits for this thread."""
    say: Say | None = getattr(_calls, "say", None)
    if say is not None:
        say(kernels, seconds)
