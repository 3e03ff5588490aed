"""A pipeline that filters and deduplicates, with or without slots that have a GPU: FILE, FOLDER of output."""

from __future__ import annotations

import importlib
import json
import sys
import warnings

import numpy as np

from dcurate import FuzzyDuplicates, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, Resources, ScoreFilter
from dcurate.core.pipeline import AnyStage
from dcurate.kernels import cuda
from dcurate.kernels.unicode import alphabetic_bits
from dcurate.text import RepeatedLinesFilter, RepeatingTopNGramsFilter, WordCountFilter


def curate(source: str, output: str, gpus: float) -> None:
    """Read documents, drop some by their words and lines, and near-duplicates, and write the rest; remember them."""
    resources = Resources(cpus=1, gpus=gpus)
    filters = [
        WordCountFilter(min_words=5),
        RepeatedLinesFilter(max_repeated_line_fraction=0.7),
        RepeatingTopNGramsFilter(n=2, max_repeating_ngram_ratio=1.0),  # alone of these it pays on a GPU
    ]
    stages: list[AnyStage] = [
        JsonlReader(source),
        ScoreFilter(filters, score_field=["words", None, None]).with_(resources=resources),  # type: ignore[arg-type]
        FuzzyDuplicates(num_hashes=16, index_path=f"{output}-seen").with_(resources=resources),
        JsonlWriter(output),
    ]
    Pipeline(name="curated", stages=stages).run(InlineExecutor())


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # numbers that wrap around
    simulated = importlib.import_module("numba.cuda")
    to_gpu, moved = simulated.to_device, []
    vars(simulated)["to_device"] = lambda array, **stream: moved.append(array) or to_gpu(array, **stream)
    curate(sys.argv[1], sys.argv[2], gpus=1)
    of_text = [array.nbytes for array in moved if array.dtype == np.uint8 and array.size != alphabetic_bits().size]
    of_text = [size for size in of_text if size > 500]  # those of set-up are short
    said = {"kernels": cuda._compiled.cache_info().currsize, "moved": of_text}
    sys.stdout.write(json.dumps(said))
