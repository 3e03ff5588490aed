"""The page of filters and modifiers says of each what the code says."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from dcurate.text import DocumentFilter, DocumentModifier

PAGE = (Path(__file__).parents[2] / "docs" / "filters.md").read_text("utf-8")
ROW = re.compile(r"\| `(?P<name>\w+)\((?P<arguments>.*?)\)` \| (?P<cells>.*) \|")
ROWS = {found["name"]: found for line in PAGE.splitlines() if (found := ROW.fullmatch(line))}
FILTERS = (
    *("characters", "code", "comments", "extension", "fasttext", "histogram", "lines", "phrases", "repetition"),
    *("tokens", "urls", "words"),
)
MODULES = [
    *(f"dcurate.text.filters.{name}" for name in FILTERS),
    "dcurate.text.modifiers",
    "dcurate.text.unicode_repair",
]
#: What a filter must be given, where the page shows no default.
GIVEN: dict[str, dict[str, Any]] = {
    "GeneralCommentToCodeFilter": {"language": "text/x-c"},
    "PerExtensionFilter": {"language": "python", "extension": "py"},
    "SubstringFilter": {"substring": "a", "position": "any"},
    "TokenizerFertilityFilter": {"tokenizer": "a.model"},
    "TokenCountFilter": {"tokenizer": "a.json"},
    "FastTextQualityFilter": {"model": "a.bin"},
    "FastTextLanguageFilter": {"model": "a.bin"},
}


def classes(base: type) -> dict[str, type]:
    found = [value for name in MODULES for value in vars(importlib.import_module(name)).values()]
    own = [
        value for value in found if isinstance(value, type) and issubclass(value, base) and value.__module__ in MODULES
    ]
    return {value.__name__: value for value in own if not value.__name__.startswith("_")}


def written(parameter: inspect.Parameter) -> str:
    default = f'"{parameter.default}"' if isinstance(parameter.default, str) else repr(parameter.default)
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name}={default}"


def test_the_page_has_the_35_filters_and_9_modifiers_and_no_others() -> None:
    filters, modifiers = classes(DocumentFilter), classes(DocumentModifier)
    assert (len(filters), len(modifiers)) == (35, 9)
    assert sorted(ROWS) == sorted([*filters, *modifiers])


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_the_arguments_and_defaults_of_its_class(name: str) -> None:
    made = {**classes(DocumentFilter), **classes(DocumentModifier)}[name]
    assert ROWS[name]["arguments"] == ", ".join(map(written, inspect.signature(made).parameters.values()))


@pytest.mark.parametrize("name", classes(DocumentFilter))
def test_a_row_has_the_name_of_its_filter_and_its_score_of_nothing(name: str) -> None:
    rule = classes(DocumentFilter)[name](**GIVEN.get(name, {}))
    score, _, nothing = ROWS[name]["cells"].rsplit(" | ", 2)
    assert f"(`{rule.name}`)" in score
    if re.match(r"-?\d", nothing) and name not in ("HistogramFilter", "TokenizerFertilityFilter"):
        stated = float(re.match(r"-?[\d.]+", nothing)[0])  # type: ignore[index]
        assert rule.score_document("") == stated
