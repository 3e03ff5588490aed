"""Run a program that has the lines of a page, in a process that `tests.forked` starts."""

import sys
from pathlib import Path

if __name__ == "__main__":  # workers import this module, too
    exec(compile(Path(sys.argv[1]).read_text("utf-8"), sys.argv[2], "exec"))
