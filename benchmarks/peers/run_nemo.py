"""The same filters of NeMo Curator, under Ray Data, on the files that dcurate reads. Runs in its own environment.

``python run_nemo.py INPUT OUTPUT WORKERS``, or ``--about`` for versions and rules; answers in one line of JSON.
All filters stand in one stage, which is how it is quickest.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import ray
from nemo_curator.backends.ray_data import RayDataExecutor
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.text.filters import DocumentFilter, ScoreFilter
from nemo_curator.stages.text.filters.heuristic.repetition import (
    RepeatedLinesFilter,
    RepeatedParagraphsFilter,
    RepeatingDuplicateNGramsFilter,
    RepeatingTopNGramsFilter,
)
from nemo_curator.stages.text.filters.heuristic.string import (
    BulletsFilter,
    EllipsisFilter,
    LongWordFilter,
    MeanWordLengthFilter,
    NonAlphaNumericFilter,
    NumbersFilter,
    PunctuationFilter,
    SymbolsToWordsFilter,
    WhiteSpaceFilter,
    WordCountFilter,
)
from nemo_curator.stages.text.io.reader import JsonlReader
from nemo_curator.stages.text.io.writer import JsonlWriter

TOP = {2: 0.2, 3: 0.18, 4: 0.16}
REPEATED = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}


def rules() -> list[DocumentFilter]:
    return [
        WordCountFilter(),
        MeanWordLengthFilter(),
        LongWordFilter(),
        NonAlphaNumericFilter(),
        SymbolsToWordsFilter(),
        NumbersFilter(),
        WhiteSpaceFilter(),
        PunctuationFilter(),
        BulletsFilter(),
        EllipsisFilter(),
        RepeatedLinesFilter(),
        RepeatedParagraphsFilter(),
        *(RepeatingTopNGramsFilter(n=n, max_repeating_ngram_ratio=most) for n, most in TOP.items()),
        *(
            RepeatingDuplicateNGramsFilter(n=n, max_repeating_duplicate_ngram_ratio=most)
            for n, most in REPEATED.items()
        ),
    ]


def about() -> dict[str, object]:
    names = ("nemo-curator", "ray", "pandas", "pyarrow")
    found = {"python": platform.python_version(), **{name: version(name) for name in names}}
    return {"rules": [rule.name for rule in rules()], "versions": found}


def curate(source: str, output: str, workers: int) -> dict[str, int]:
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    stages = [JsonlReader(source, files_per_partition=1), ScoreFilter(rules()), JsonlWriter(output)]
    Pipeline(name="filters", stages=stages).run(RayDataExecutor())
    ray.shutdown()
    return {"documents_in": _lines(source), "documents_out": _lines(output)}


def _lines(folder: str) -> int:
    return sum(path.read_bytes().count(b"\n") for path in Path(folder).rglob("*.jsonl"))


if __name__ == "__main__":
    answer = about() if sys.argv[1] == "--about" else curate(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print(json.dumps(answer))
