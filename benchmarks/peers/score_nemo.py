"""Scores of NeMo Curator's own filters, and texts of its modifiers. Runs in an environment of its own.

``python score_nemo.py CHECKOUT DOCUMENTS``: CHECKOUT is a clone of NeMo Curator, whose modules are loaded without
the packages around them, which would import Ray. DOCUMENTS is JSON, for each rule ``{"make": [class, arguments],
"texts": [...]}``. It answers in one line of JSON: for each rule its scores, null where the filter raised, and the
CPU-seconds that they took.

It needs beautifulsoup4, comment_parser, ftfy, huggingface_hub, loguru, platformdirs, regex, requests, sentencepiece and
transformers.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any

_TEXT = "nemo_curator.stages.text"
_STRINGS = (
    "c4",
    "line_remover",
    "markdown_remover",
    "newline_normalizer",
    "quotation_remover",
    "slicer",
    "url_remover",
)
MODULES = (
    *(f"{_TEXT}.filters.heuristic.{name}" for name in ("string", "repetition.repetition", "code.code")),
    *(f"{_TEXT}.filters.{name}" for name in ("histogram.histogram", "token.token_count")),
    *(f"{_TEXT}.modifiers.string.{name}" for name in _STRINGS),
    *(f"{_TEXT}.modifiers.{name}" for name in ("fasttext.fasttext_label", "unicode.unicode_reformatter")),
)


def classes(checkout: Path) -> dict[str, Any]:
    """All classes of the modules by name; the packages that hold them are empty."""
    for module in MODULES:
        parts = module.split(".")
        for depth in range(1, len(parts)):
            package = types.ModuleType(".".join(parts[:depth]))
            package.__path__ = [str(checkout.joinpath(*parts[:depth]))]
            sys.modules.setdefault(package.__name__, package)
    for package in ("filters", "modifiers"):
        part = "filter" if package == "filters" else "modifier"
        base = importlib.import_module(f"nemo_curator.stages.text.{package}.doc_{part}")
        vars(sys.modules[f"nemo_curator.stages.text.{package}"]).update(vars(base))
    return {name: value for module in MODULES for name, value in vars(importlib.import_module(module)).items()}


def scores(rule: Any, texts: list[str]) -> list[Any]:
    """What the filter says of each text, None where it raises."""
    score = getattr(rule, "score_document", None) or rule.modify_document
    found = []
    for text in texts:
        try:
            found.append(score(text))
        except Exception:
            found.append(None)
    return found


def main(checkout: Path, documents: Path) -> None:
    known = classes(checkout)
    answer = {}
    for name, job in json.loads(documents.read_text("utf-8")).items():
        kind, arguments = job["make"]
        rule = known[kind](**arguments)
        if hasattr(rule, "load_tokenizer"):
            rule.load_tokenizer()
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            start = time.process_time()
            found = scores(rule, job["texts"])
            answer[name] = {"scores": found, "cpu_s": time.process_time() - start}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
