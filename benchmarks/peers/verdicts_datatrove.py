"""What datatrove's own filters say of each document. Runs in an environment that holds datatrove alone.

``python verdicts_datatrove.py PRESET INPUT OUTPUT``: INPUT is JSONL with ``text``; OUTPUT gets one line of JSON for
each document, ``[reason, text]``: a reason of null where it is kept, and the text as the filters leave it. The last
line of what is printed says how many CPU-seconds the filters took.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from collections.abc import Callable

from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)
from datatrove.pipeline.filters.base_filter import BaseFilter, get_filter_result
from datatrove.pipeline.filters.c4_filters import C4ParagraphFilter
from datatrove.utils.text import split_into_words

PRESETS: dict[str, Callable[[], list[BaseFilter]]] = {
    "gopher": lambda: [GopherRepetitionFilter(), GopherQualityFilter()],
    "c4": lambda: [C4QualityFilter()],
    "c4-paragraphs": lambda: [C4ParagraphFilter()],
    "fineweb-quality": lambda: [FineWebQualityFilter()],
    "fineweb": lambda: [
        GopherRepetitionFilter(),
        GopherQualityFilter(),
        C4QualityFilter(filter_no_terminal_punct=False),
        FineWebQualityFilter(),
    ],
    "gopher+c4": lambda: [GopherRepetitionFilter(), GopherQualityFilter(), C4QualityFilter()],
}


def verdict(filters: list[BaseFilter], document: Document) -> str | None:
    """The reason for which the first of the filters drops it, or None."""
    for step in filters:
        try:
            kept, reason = get_filter_result(step.filter(document))
        except ZeroDivisionError:
            return "ZeroDivisionError"
        if not kept:
            return str(reason)
    return None


def main() -> None:
    preset, source, target = sys.argv[1:4]
    filters = PRESETS[preset]()
    split_into_words("Loads the words.", "eng")
    with open(source, encoding="utf-8") as lines:
        documents = [Document(text=json.loads(line)["text"], id=str(number)) for number, line in enumerate(lines)]
    started = time.process_time()
    reasons = [verdict(filters, document) for document in documents]
    seconds = time.process_time() - started
    with open(target, "w", encoding="utf-8") as out:
        for reason, document in zip(reasons, documents, strict=True):
            out.write(json.dumps([reason, None if reason else document.text]) + "\n")
    versions = {name: importlib.metadata.version(name) for name in ("datatrove", "spacy")}
    print(json.dumps({"cpu_s": seconds, "versions": versions}))


if __name__ == "__main__":
    main()
