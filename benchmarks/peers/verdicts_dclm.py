"""What DCLM's own filters, with the settings of its RefinedWeb, say of each document.

``python verdicts_dclm.py PRESET INPUT OUTPUT CHECKOUT``: CHECKOUT is a clone of mlfoundations/dclm; the Python needs
what its filters import: fasttext, nltk, uniseg, unidecode. INPUT is JSONL with ``text``; OUTPUT gets one line of JSON
for each document, ``[reason, null]``: a reason of null where it is kept.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

#: Functions and settings of baselines/baselines_configs/refinedweb.yaml, in its order.
STEPS: list[tuple[str, dict[str, Any]]] = [
    ("page_length_filter", {"length_type": "word", "min_length": 50, "max_length": 100000, "ignore_punctuation": True}),
    ("word_length_filter", {"min_length": 3, "max_length": 10}),
    ("symbol_ratio_filter", {"max_symbol_to_word_ratio": 0.1}),
    ("bullet_count_filter", {"max_bullet_start_ratio": 0.9}),
    ("ellipsis_count_filter", {"max_ellipsis_end_ratio": 0.3}),
    ("alphabetic_word_ratio_filter", {"max_ratio": 0.2}),
    ("stop_word_filter", {"count_unique": False, "min_stop_word": 2}),
    ("massive_web_repetition_filters", {}),
]


def content_filters(checkout: Path) -> ModuleType:
    """The module of the filters; what the packages around it import is left out."""
    for name, folder in (
        ("baselines", "baselines"),
        ("baselines.mappers", "baselines/mappers"),
        ("baselines.mappers.filters", "baselines/mappers/filters"),
        ("core", "baselines/core"),
    ):
        package = ModuleType(name)
        package.__path__ = [str(checkout / folder)]
        sys.modules[name] = package
    transformers = ModuleType("transformers")
    transformers.AutoTokenizer = None  # type: ignore[attr-defined]
    sys.modules["transformers"] = transformers
    return importlib.import_module("baselines.mappers.filters.content_filters")


def verdict(filters: ModuleType, text: str) -> str | None:
    """The first step that drops it, or None."""
    for name, settings in STEPS:
        try:
            kept = getattr(filters, name)({"text": text}, **settings)
        except ZeroDivisionError:
            return "ZeroDivisionError"
        if not kept:
            return name
    return None


def main() -> None:
    _, source, target, checkout = sys.argv[1:5]
    filters = content_filters(Path(checkout).resolve())
    with open(source, encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    started = time.process_time()
    reasons = [verdict(filters, text) for text in texts]
    seconds = time.process_time() - started
    with open(target, "w", encoding="utf-8") as out:
        for reason in reasons:
            out.write(json.dumps([reason, None]) + "\n")
    print(json.dumps({"cpu_s": seconds, "versions": {}}))


if __name__ == "__main__":
    main()
