"""The page of filters and modifiers says of each what the code says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from dcurate import ColumnFilter
from dcurate.core.public import find_public, homes
from dcurate.text import DocumentFilter, DocumentModifier, NumberFilter

PAGE = (Path(__file__).parents[2] / "docs" / "filters.md").read_text("utf-8")
ROW = re.compile(r"\| `(?P<name>\w+)\((?P<arguments>.*?)\)` \| (?P<cells>.*) \|")
ROWS = {found["name"]: found for line in PAGE.splitlines() if (found := ROW.fullmatch(line))}
#: What a filter must be given, where the page shows no default.
GIVEN: dict[str, dict[str, Any]] = {
    "GeneralCommentToCodeFilter": {"language": "text/x-c"},
    "PerExtensionFilter": {"language": "python", "extension": "py"},
    "SubstringFilter": {"substring": "a", "position": "any"},
    "TokenizerFertilityFilter": {"tokenizer": "a.model"},
    "TokenCountFilter": {"tokenizer": "a.json"},
    "C4BadWordsFilter": {"words": ["a"]},
    "NumberRangeFilter": {"column": "column", "min_value": 1},
    "FastTextQualityFilter": {"model": "a.bin"},
    "PerplexityFilter": {"model": "a.bin"},
    "FastTextLanguageFilter": {"model": "a.bin"},
    "LabelScoreFilter": {"model": "model"},
}


#: Bases of filters of one's own.
BASES = (ColumnFilter, NumberFilter)


def classes(base: type) -> dict[str, Any]:
    """The public filters or modifiers."""
    kinds = {name: find_public(name) for name in homes() if inspect.isclass(find_public(name))}
    return {
        name: kind
        for name, kind in kinds.items()
        if issubclass(kind, base) and not inspect.isabstract(kind) and kind not in BASES
    }


def written(parameter: inspect.Parameter) -> str:
    default = f'"{parameter.default}"' if isinstance(parameter.default, str) else repr(parameter.default)
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name}={default}"


def test_the_page_has_all_filters_and_modifiers_and_no_others() -> None:
    public = {*classes(DocumentFilter), *classes(DocumentModifier)}
    assert public - set(ROWS) == set(), "add its row to docs/filters.md"
    assert set(ROWS) - public == set(), "docs/filters.md has a row for what is not public"


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
