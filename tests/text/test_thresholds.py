import time
from dataclasses import dataclass

import pytest

from dcurate import Filter, ScoreFilter
from dcurate.text import DocumentFilter, MeanWordLengthFilter, NumberRangeFilter, NumbersFilter, WordCountFilter
from dcurate.text.thresholds import thresholds


def keeps(*stages) -> list[str]:
    return [cut.keeps for found in thresholds(stages).values() for cuts in found.values() for cut in cuts]


@dataclass
class Own(DocumentFilter):
    low: float = -1e300
    high: float = 1e300

    def score_document(self, text: str) -> float:
        return len(text)

    def keep_document(self, score: float) -> bool:
        return self.low < score <= self.high


def test_a_filter_with_two_thresholds_has_both() -> None:
    assert keeps(ScoreFilter(MeanWordLengthFilter(min_mean_word_length=3, max_mean_word_length=10))) == [
        ">= 3",
        "<= 10",
    ]


@pytest.mark.parametrize("value", [0.0001, 0.07, 0.333, 17, 99.5, 123456])
def test_a_threshold_is_found_wherever_it_lies_with_its_own_digits(value: float) -> None:
    assert keeps(ScoreFilter(Own(high=value))) == [f"<= {value:g}"]
    assert keeps(ScoreFilter(Own(low=value))) == [f"> {value:g}"]


def test_a_threshold_of_zero_is_zero() -> None:
    assert keeps(ScoreFilter(Own(high=0))) == ["<= 0"]
    assert keeps(ScoreFilter(Own(low=0))) == ["> 0"]
    assert keeps(ScoreFilter(NumberRangeFilter("gain", min_value=0))) == [">= 0"]
    assert keeps(ScoreFilter(Own(low=0), invert=True)) == ["<= 0"]


def test_a_filter_turned_round_keeps_the_other_side() -> None:
    assert keeps(ScoreFilter(WordCountFilter(min_words=50, max_words=1000), invert=True)) == ["< 50", "> 1000"]


def test_functions_on_a_column_of_scores_have_thresholds_too() -> None:
    found = thresholds([Filter([lambda score: score > 0.5, NumbersFilter(0.2)], ["a", "b"], name="both")])
    assert [[cut.keeps for cut in cuts] for cuts in found["both"].values()] == [["> 0.5"], ["<= 0.2"]]


class Odd(Own):
    def keep_document(self, score) -> bool:
        return score["en"] > 0.5


def test_a_filter_that_keeps_all_or_cannot_be_asked_has_none() -> None:
    assert keeps(ScoreFilter(Own()), ScoreFilter(Odd()), Filter(lambda label: label == "en", "lang")) == []


def test_a_slow_function_of_a_user_is_probed_for_half_a_second_at_most() -> None:
    calls = []

    def is_good(score: float) -> bool:
        calls.append(score)
        time.sleep(0.2)
        return score > 0.5

    assert thresholds([Filter(is_good, "score")]) == {}
    assert len(calls) <= 4
