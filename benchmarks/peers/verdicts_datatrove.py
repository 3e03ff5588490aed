"""What datatrove's own filters say of each document. Runs in an environment that holds datatrove alone.

``python verdicts_datatrove.py PRESET INPUT OUTPUT``: PRESET is one of those below, ``fineweb2:deu_Latn:FILE`` with a
file of FineWeb-2's thresholds for the language, or ``bad-words:en:FILE`` with a list. INPUT is JSONL with ``text``;
OUTPUT gets one line of JSON for each document, ``[reason, text]``: a reason of null where it is kept, and the text as
the filters leave it. The last line of what is printed says how many CPU-seconds the filters took.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from collections.abc import Callable

import yaml
from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
    c4_filters,
)
from datatrove.pipeline.filters.base_filter import BaseFilter, get_filter_result
from datatrove.utils.text import split_into_words

PRESETS: dict[str, Callable[[], list[BaseFilter]]] = {
    "gopher": lambda: [GopherRepetitionFilter(), GopherQualityFilter()],
    "c4": lambda: [C4QualityFilter()],
    "c4-paragraphs": lambda: [c4_filters.C4ParagraphFilter()],
    "fineweb-quality": lambda: [FineWebQualityFilter()],
    "fineweb": lambda: [
        GopherRepetitionFilter(),
        GopherQualityFilter(),
        C4QualityFilter(filter_no_terminal_punct=False),
        FineWebQualityFilter(),
    ],
    "gopher+c4": lambda: [GopherRepetitionFilter(), GopherQualityFilter(), C4QualityFilter()],
}


def fineweb2(language: str, config: str) -> list[BaseFilter]:
    """The filters of FineWeb-2 (fineweb-2-pipeline.py) with the thresholds of a file, without the language's own."""
    with open(config, encoding="utf-8") as text:
        limits = yaml.safe_load(text)
    return [
        GopherRepetitionFilter(
            language=language,
            dup_para_frac=0,
            dup_line_char_frac=0,
            dup_para_char_frac=0,
            dup_line_frac=limits["dup_line_frac"],
            top_n_grams=limits["top_n_grams"],
            dup_n_grams=limits["dup_n_grams"],
        ),
        FineWebQualityFilter(
            language=language,
            short_line_thr=999,
            char_duplicates_ratio=0.1,
            line_punct_thr=limits["line_punct_thr"],
            new_line_ratio=limits["new_line_ratio"],
        ),
        GopherQualityFilter(
            language=language,
            max_avg_word_length=limits["max_avg_word_length"],
            min_avg_word_length=limits["min_avg_word_length"],
            stop_words=limits["stopwords"],
            max_non_alpha_words_ratio=limits["max_non_alpha_words_ratio"],
            min_stop_words=2,
        ),
    ]


def bad_words(language: str, path: str) -> list[BaseFilter]:
    """The filter on bad words with the list of a file, not the one that it would download."""
    c4_filters.cached_asset_path_or_download = lambda *_, **__: path
    return [c4_filters.C4BadWordsFilter(default_language=language)]


#: What takes a language and a file.
OF_LANGUAGES = {"fineweb2": fineweb2, "bad-words": bad_words}


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
    name, _, language = preset.partition(":")
    language, _, config = language.partition(":")
    filters = OF_LANGUAGES[name](language, config) if language else PRESETS[name]()
    split_into_words("Loads the words.", language or "eng")
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
