"""Programs that die by SIGKILL as soon as a file is there: ``python -m tests.dying FOLDER PATTERN MODULE ARGUMENT...``.

Who kills from outside must look, and strikes too late on a busy machine: here the program itself looks, before each
file that it opens, renames, makes or removes.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Audit events of Python before it touches files; `os.replace` raises that of a rename.
TOUCHES = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir"}


def dying(folder: Path, pattern: str, module: str, *arguments: object) -> list[str]:
    """The command of a module that dies as soon as a file of the folder matches the pattern."""
    return [sys.executable, "-m", __name__, *map(str, (folder, pattern, module, *arguments))]


def die_at(folder: Path, pattern: str) -> None:
    """Have this process die the next time that it touches files once one matches."""
    looking = False

    def look(event: str, _: Sequence[Any]) -> None:
        nonlocal looking
        if event in TOUCHES and not looking:
            looking = True
            if any(folder.glob(pattern)):
                os.kill(os.getpid(), signal.SIGKILL)
            looking = False

    sys.addaudithook(look)


if __name__ == "__main__":
    _, folder, pattern, module, *arguments = sys.argv
    sys.argv = [module, *arguments]
    die_at(Path(folder), pattern)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
