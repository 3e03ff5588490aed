"""datatrove's nearest rules on the files that dcurate reads. Runs in an environment that holds datatrove alone.

``python run_datatrove.py INPUT OUTPUT WORKERS``, or ``--about`` for versions and rules; answers in one line of JSON.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import version

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.text import split_into_words

RULES = ["GopherQualityFilter", "GopherRepetitionFilter"]


def about() -> dict[str, object]:
    split_into_words("The rules need this.", "eng")  # raises where spaCy is missing
    names = ("datatrove", "spacy", "numpy", "orjson")
    return {
        "rules": RULES,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in names}},
    }


def curate(source: str, output: str, workers: int) -> dict[str, int]:
    stats = LocalPipelineExecutor(
        pipeline=[
            JsonlReader(source, glob_pattern="*.jsonl"),
            GopherQualityFilter(),
            GopherRepetitionFilter(),
            JsonlWriter(f"{output}/kept", compression=None),
        ],
        tasks=workers,
        workers=workers,
        logging_dir=f"{output}/logs",
    ).run()
    steps = json.loads(stats.to_json())
    return {"documents_in": _total(steps[0], "documents"), "documents_out": _total(steps[-1], "total")}


def _total(step: dict[str, dict[str, object]], name: str) -> int:
    value = step["stats"].get(name, 0)
    return int(value["total"] if isinstance(value, dict) else value)  # type: ignore[call-overload]


if __name__ == "__main__":
    answer = about() if sys.argv[1] == "--about" else curate(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print(json.dumps(answer))
