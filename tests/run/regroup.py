"""A program that dies by SIGKILL where it is told: ``python -m tests.run.regroup INPUT OUTPUT EVENT NUMBER DEDUP``.

It dies before it touches a file of the output for the time of that number; the run's own records do not count. The
event is ``os.remove`` or ``os.rename``.
"""

import os
import signal
import sys
from typing import Any

from dcurate import ExactDuplicates, InlineExecutor, JsonlReader, JsonlWriter, Pipeline


def pipeline(source: str, output: str, dedup: bool = False, **options: Any) -> Pipeline:
    """Two files are a split; every row becomes a file."""
    reader = JsonlReader(source, files_per_partition=2, storage_options=options or None)
    writer = JsonlWriter(output, max_rows_per_file=1, storage_options=options or None)
    return Pipeline("regroup", stages=[reader, *([ExactDuplicates()] if dedup else []), writer])


def die_at(output: str, wanted: str, number: int) -> None:
    seen = 0

    def look(event: str, given: tuple[Any, ...]) -> None:
        nonlocal seen
        path = str(given[1 if event == "os.rename" else 0]) if event == wanted else ""
        if path.startswith(f"{output}/"):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


if __name__ == "__main__":
    _, source, output, event, number, dedup = sys.argv
    die_at(output, event, int(number))
    pipeline(source, output, dedup == "dedup").run(InlineExecutor(), resume=True)
