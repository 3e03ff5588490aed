"""Whether code that comes with models may run: ``dcurate nemo --trust-remote-code``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

#: Number of scripts that run with consent in this process; stages keep it for their workers.
_consents = 0


@contextmanager
def granted() -> Iterator[None]:
    """Let code that comes with models run inside the block, in all threads of this process."""
    global _consents  # noqa: PLW0603
    _consents += 1
    try:
        yield
    finally:
        _consents -= 1


def is_granted() -> bool:
    """Whether it may run."""
    return _consents > 0
