"""A program that tests start, kill and start again: ``python -m tests.dedup.cut_spans INPUT OUTPUT``."""

import sys

from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline, SpanDuplicates, SubstringDuplicates
from tests.stages import Sleep


def pipeline(source: str, output: str) -> Pipeline:
    return Pipeline(
        "cut",
        stages=[
            JsonlReader(source),
            SpanDuplicates(unit="line", report_path=f"{output}-report"),
            Sleep(0.04),
            SubstringDuplicates(min_bytes=40),
            Sleep(0.04).with_(name="nap"),
            JsonlWriter(output),
        ],
    )


if __name__ == "__main__":
    pipeline(sys.argv[1], sys.argv[2]).run(InlineExecutor(), resume=True)
