"""Thresholds of filters are numbers from the moment that a filter is made."""

import math
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from inspect import getmembers, isclass
from typing import Any

import numpy as np
import pytest

import dcurate
from dcurate import PipelineError
from dcurate.kernels import segments
from dcurate.kernels.repeats import Counting
from dcurate.text import DocumentFilter, WordCountFilter, measures, refinedweb
from dcurate.text.filters import c4, fineweb, gopher

NUMBERS = ("int", "float", "int | None", "float | None")
GRAMS = measures.Grams("whitespace", Counting(False, 0, False, False, True))
LINES = measures.Lines(segments.Cut(segments.NEWLINE, trimmed=False, stripped=False, blank=True), begins=("-",))
#: What filters need that have fields without a default.
NEEDED: dict[str, dict[str, Any]] = {
    "C4BadWordsFilter": {"words": ["bad"]},
    "FastTextLanguageFilter": {"model": "model.bin"},
    "FastTextQualityFilter": {"model": "model.bin"},
    "PerplexityFilter": {"model": "model.bin"},
    "GeneralCommentToCodeFilter": {"language": "text/x-python"},
    "GopherBulletsFilter": {"lines": LINES},
    "GopherDuplicateLinesFilter": {"lines": LINES},
    "GopherLineEllipsesFilter": {"lines": LINES},
    "GopherDuplicateNgramsFilter": {"n": 5, "max_ratio": 0.1, "grams": GRAMS},
    "GopherTopNgramFilter": {"n": 2, "max_ratio": 0.1, "grams": GRAMS},
    "NumberRangeFilter": {"column": "n", "min_value": 1, "max_value": 2},
    "PerExtensionFilter": {"language": "python", "extension": "py"},
    "TokenCountFilter": {"tokenizer": "model"},
    "TokenizerFertilityFilter": {"tokenizer": "code.model"},
}


def built_in() -> list[tuple[type[Any], Field[Any]]]:
    """Every field of every filter that is said to be a number."""
    modules = (dcurate, c4, fineweb, gopher, refinedweb)
    found: set[Any] = {
        kind for one in modules for _, kind in getmembers(one, isclass) if issubclass(kind, DocumentFilter)
    }
    classes = sorted(found, key=lambda kind: kind.__name__)
    return [(kind, one) for kind in classes if is_dataclass(kind) for one in fields(kind) if one.type in NUMBERS]  # type: ignore[misc]


def given(kind: type[Any]) -> dict[str, Any]:
    return NEEDED.get(kind.__name__, {})


@pytest.mark.parametrize(
    ("kind", "one"), [pytest.param(*pair, id=f"{pair[0].__name__}.{pair[1].name}") for pair in built_in()]
)
def test_a_threshold_that_is_no_number_is_refused_when_the_filter_is_made(kind: type[Any], one: Field[Any]) -> None:
    if one.default is not MISSING:
        kind(**{**given(kind), one.name: one.default})
    for value in ("fifty", True, math.nan, [1]):
        with pytest.raises(PipelineError, match=rf"^{kind.__name__}: {one.name}=.* is \w+, not a number"):
            kind(**{**given(kind), one.name: value})


def test_numbers_of_numpy_and_no_limit_at_all_are_numbers() -> None:
    two: list[Any] = [np.int64(2), np.float32(2)]
    no_limit: Any = math.inf
    numbers = WordCountFilter(min_words=two[0], max_words=no_limit), WordCountFilter(two[1])
    assert [rule.keep_document(2) for rule in numbers] == [True, True]


@dataclass
class Own(DocumentFilter):
    least: int
    most: float | None = None

    def score_document(self, text: str) -> int:
        return len(text)

    def keep_document(self, score: int) -> bool:
        return score >= self.least


def test_filters_of_one_s_own_are_held_to_what_they_say_of_their_fields() -> None:
    assert Own(3).keep_document(3)
    with pytest.raises(PipelineError, match="Own: least='3' is str, not a number; give one"):
        Own("3")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="Own: most='3' is str, not a number; give one"):
        Own(3, "3")  # type: ignore[arg-type]
