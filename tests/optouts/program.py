"""A removal that dies by SIGKILL as it touches files the N-th time: ``python -m tests.optouts.program N LIST OUT...``.

Touches of files outside the folder of the list do not count.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.dying import TOUCHES
from tests.optouts.conftest import remove


def die_at_touch(folder: str, number: int) -> None:
    """Have this process die when it touches files in a folder so often."""
    count = 0

    def look(event: str, arguments: Sequence[Any]) -> None:
        nonlocal count
        if event in TOUCHES and arguments and str(arguments[0]).startswith(folder):
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


if __name__ == "__main__":
    _, number, listed, *outputs = sys.argv
    die_at_touch(str(Path(listed).parent), int(number))
    remove(Path(listed), *map(Path, outputs))
