"""How much memory a child process may take for a file."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Bytes of memory that any file may take, and further ones for each of its bytes: a bomb is small, and what it fills
#: before it ends costs more than hundreds of good files do.
BASE, A_BYTE = 64 * 2**20, 128
#: Further bytes while pages are drawn.
DRAWING: Final = 2**27


@contextmanager
def limited_memory(size: int, more: int = 0) -> Iterator[None]:
    """Let a file take memory by its size, below the limit of the process: a bomb ends before it fills that.

    Args:
        size: size of the file in bytes.
        more: bytes beyond what its size gives it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with open("/proc/self/statm", "rb") as file:
        held = int(file.read().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (_at_most(held + BASE + A_BYTE * size + more, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextmanager
def more_memory(more: int) -> Iterator[None]:
    """Let what runs in it take more than `limited_memory` gives the file; no more where nothing is limited.

    Args:
        more: bytes.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_DATA, (_at_most(soft + more, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _at_most(wanted: int, hard: int) -> int:
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
