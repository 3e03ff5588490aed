"""Pipelines that cut lines, sentences and substrings, with or without slots that have a GPU: FILE, FOLDER of output."""

from __future__ import annotations

import json
import sys
import warnings

from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline, Resources, SpanDuplicates, SubstringDuplicates
from dcurate.kernels import cuda

KINDS = {
    "lines": SpanDuplicates(unit="line"),
    "sentences": SpanDuplicates(unit="sentence", span=2, normalize=["case", "unicode"], min_words=3),
    "substrings": SubstringDuplicates(min_bytes=40),
}


def cut(source: str, output: str, gpus: float) -> None:
    """Read documents, cut the text that several share, and write the rest, in a folder for each way."""
    for kind, stage in KINDS.items():
        cutting = stage.with_(resources=Resources(cpus=1, gpus=gpus))
        Pipeline(kind, stages=[JsonlReader(source), cutting, JsonlWriter(f"{output}/{kind}")]).run(InlineExecutor())


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # numbers that wrap around
    cut(sys.argv[1], sys.argv[2], gpus=1)
    sys.stdout.write(json.dumps({"kernels": cuda._compiled.cache_info().currsize}))
