"""Every modifier, filter and extractor is held to the law that its time grows with the length of the text."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import dcurate
import dcurate.llm
import dcurate.text
from dcurate.download import DocumentExtractor
from dcurate.text import DocumentFilter, DocumentModifier, HTMLExtractorAlgorithm, NumberFilter
from tests.download import test_growth as downloads
from tests.text import test_growth as texts
from tests.text.extract import test_growth as pages

#: Those that look at no text, or as they are told, by module and name.
WITHOUT_TEXT = {
    "dcurate.audio.modifiers.RegexSubstituter": "applies the expressions that it is given, and its page says so",
    "dcurate.compat.nemo.math_stages.content.MathContentExtractor": "gives pages to lynx, with a time limit",
    "dcurate.llm.nemotron_pipeline.MinimumTokens": "compares a number",
    "dcurate.text.filters.language.LanguageFilter": "compares a code of a language",
}


def below(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from below(each)


def name(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@pytest.mark.parametrize("kind", [DocumentModifier, DocumentFilter, DocumentExtractor, HTMLExtractorAlgorithm])
def test_each_modifier_filter_and_extractor_is_held_to_linear_time(kind: type[Any]) -> None:
    for module in pkgutil.walk_packages(dcurate.__path__, "dcurate."):
        if module.name.split(".")[1] in ("audio", "dedup", "download", "models", "text"):
            importlib.import_module(module.name)
    held: set[type[Any]] = {type(one) for one in (*texts.MODIFIERS, *texts.OTHER_MODIFIERS)}
    held |= {type(rule) for rules, _ in texts.RULES.values() for rule in rules}
    held |= {*texts.OTHER_FILTERS, *pages.ALGORITHMS.values(), *downloads.EXTRACTORS}
    there = {each for each in below(kind) if each.__module__.startswith("dcurate.") and not inspect.isabstract(each)}
    there -= {each for each in there if each.__module__ == "dcurate.compat.nemo.builtin"}  # only names
    there -= {NumberFilter, *below(NumberFilter)}  # they compare numbers
    missing = {name(each) for each in there - held} - WITHOUT_TEXT.keys()
    assert missing == set(), "add it to a group of tests/text/test_growth.py with the texts that are hostile to it"
