"""A program that tests start, several at a time, and kill: ``python -m tests.dedup.bloom_pass IN OUT FILTER LABEL``."""

import sys

from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline
from dcurate.dedup import BloomDuplicates
from dcurate.run import AnyStage
from tests.stages import Sleep


def pipeline(source: str, output: str, path: str, label: str) -> Pipeline:
    """Drops duplicates with a filter that hardly ever is wrong, slowly enough to be killed in between."""
    stages: list[AnyStage] = [
        JsonlReader(source),
        BloomDuplicates(path, capacity=5_000, false_positive_rate=1e-9, label=label),
        Sleep(0.005),
        JsonlWriter(output),
    ]
    return Pipeline("bloom", stages=stages)


if __name__ == "__main__":
    pipeline(*sys.argv[1:]).run(InlineExecutor(), resume=True)
