from __future__ import annotations

import pickle
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dcurate.text
from dcurate import PipelineError
from dcurate.frames.text import text_column
from dcurate.text import (
    AlphaFilter,
    BoilerPlateStringFilter,
    DocumentFilter,
    EllipsisFilter,
    LanguageFilter,
    LongWordFilter,
    Needs,
    NonAlphaNumericFilter,
    NumbersFilter,
    RepeatingDuplicateNGramsFilter,
    RepeatingTopNGramsFilter,
    SignalFilter,
    Signals,
    SubstringFilter,
    SymbolsToWordsFilter,
    UrlsFilter,
    WordCountFilter,
)
from dcurate.text.boilerplate import POLICY
from dcurate_testing.filter_oracle import RULES
from tests.text.strategies import texts

ALL = reduce(Needs.__or__, (rule.needs for rule, _ in RULES))


@settings(max_examples=300, deadline=None)
@given(st.lists(texts, min_size=1, max_size=5))
@example([""])
@example([" \n\t"])
@example(["the\x00", "...\x00"])
def test_every_filter_scores_as_its_rule_says(documents: list[str]) -> None:
    signals = Signals(text_column(pa.table({"text": documents}), "text"), ALL)
    for rule, expected in RULES:
        assert rule.score(signals).tolist() == [expected(text) for text in documents], rule


@settings(max_examples=50, deadline=None)
@given(texts)
@pytest.mark.parametrize(("rule", "expected"), RULES, ids=lambda value: getattr(value, "name", ""))
def test_a_filter_alone_scores_one_document_as_its_rule_says(rule: SignalFilter, expected: object, text: str) -> None:
    assert rule.score_document(text) == expected(text)  # type: ignore[operator]


@given(st.lists(texts, min_size=2, max_size=6), st.data())
@settings(max_examples=50, deadline=None)
def test_signals_of_some_rows_are_those_rows_of_the_signals_of_all(documents: list[str], data: st.DataObject) -> None:
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(documents), max_size=len(documents))))
    column = text_column(pa.table({"text": documents}), "text")
    before = Signals(column, ALL)
    for rule, _ in RULES:
        rule.score(before)
    kept, afresh = before.narrowed(mask), Signals(column, ALL, np.flatnonzero(mask))
    for rule, _ in RULES:
        assert rule.score(kept).tolist() == rule.score(afresh).tolist() == rule.score(before)[mask].tolist()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_slice_of_a_table_scores_like_its_rows(kind: pa.DataType) -> None:
    table = pa.table({"text": pa.array(["ignore me", "one two", "", "trés 中文 x", None, "and this"], kind)}).slice(
        1, 4
    )
    signals = Signals(text_column(table, "text"), ALL)
    assert WordCountFilter().score(signals).tolist() == [2, 0, 3, 0]
    assert LongWordFilter().score(signals).tolist() == [3, 1001, 4, 1001]


def test_a_column_of_nulls_scores_like_empty_texts() -> None:
    signals = Signals(text_column(pa.table({"text": pa.nulls(2)}), "text"), ALL)
    for rule, expected in RULES:
        assert rule.score(signals).tolist() == [expected("")] * 2


def test_no_texts_have_no_scores() -> None:
    signals = Signals(text_column(pa.table({"text": pa.array([], pa.string())}), "text"), ALL)
    assert all(len(rule.score(signals)) == 0 for rule, _ in RULES)


def test_of_ngrams_equally_frequent_the_first_to_occur_is_removed() -> None:
    assert RepeatingTopNGramsFilter(n=1).score_document("bbb a a bbb") == 6 / 11
    assert RepeatingTopNGramsFilter(n=2).score_document("one two three") == 7 / 13


def test_the_top_ngram_is_removed_inside_words_too_but_only_where_one_space_joins_it() -> None:
    assert RepeatingTopNGramsFilter(n=2).score_document("a b a b  xa by a  b") == 9 / 19


def test_overlapping_repeats_are_counted_once() -> None:
    assert RepeatingDuplicateNGramsFilter(n=2).score_document("a a a a") == 5 / 7


def test_a_long_text_far_beyond_a_block_of_the_kernels_is_counted_in_full() -> None:
    text = "word 1,\n" * 20_000
    assert NumbersFilter().score_document(text) == 1 / 8
    assert NonAlphaNumericFilter().score_document(text) == 1 / 8
    assert WordCountFilter().score_document(text) == 40_000


def test_a_line_that_says_read_more_trails_off_in_any_case() -> None:
    assert EllipsisFilter().score_document("READ More\nread more..\nread more.\n -» ") == 3 / 4


def test_words_of_hashes_are_symbols() -> None:
    assert SymbolsToWordsFilter().score_document("# ## #a# #a a#b") == 2 / 5


def test_an_ngram_has_at_least_one_word() -> None:
    with pytest.raises(PipelineError, match="n=0 must be at least 1"):
        RepeatingTopNGramsFilter(n=0)


def test_filters_are_equal_by_their_settings_and_travel_small() -> None:
    for rule, _ in RULES:
        copy = pickle.loads(pickle.dumps(rule))
        assert copy == rule
        assert len(pickle.dumps(rule)) < 300


def test_a_filter_keeps_by_its_limits_ends_included() -> None:
    rule = WordCountFilter(min_words=2, max_words=3)
    assert [rule.keep_document(words) for words in (1, 2, 3, 4)] == [False, True, True, False]


@pytest.mark.parametrize("phrase", POLICY)
def test_every_phrase_about_policies_is_found_in_any_case_and_not_cut_short(phrase: str) -> None:
    rule = BoilerPlateStringFilter()
    assert rule.score_document(f"A tale.\n\nSee: {phrase.upper()}, end") == 0.5
    assert rule.score_document(f"A tale.\n\n{phrase[:-1]}") == 0.0
    assert not any(other in phrase for other in POLICY if other != phrase)


def test_rules_that_cannot_be_are_refused_with_what_came() -> None:
    with pytest.raises(PipelineError, match=r"urls_ratio: url_regex='\(' is not a regular expression"):
        UrlsFilter(url_regex="(")
    with pytest.raises(PipelineError, match="position='middle' must be one of prefix, suffix, any"):
        SubstringFilter("a", "middle")  # type: ignore[arg-type]


def test_a_share_is_from_0_to_1_and_a_percentage_is_refused_with_the_share_that_it_is() -> None:
    public: list[Any] = [getattr(dcurate.text, name) for name in dir(dcurate.text)]
    classes = [kind for kind in public if isinstance(kind, type) and issubclass(kind, DocumentFilter)]
    settings_of_all = [setting for kind in classes for setting in vars(kind).get("__dataclass_fields__", {}).values()]
    #: Ratios of one thing to another, which may be above 1.
    others = {"max_symbol_to_word_ratio", "min_char_to_token_ratio"}
    shares = {setting.name for setting in settings_of_all if setting.type == "Share"}
    named = {setting.name for setting in settings_of_all if setting.name.endswith(("_ratio", "_fraction"))}
    assert named - others <= shares
    assert not others & shares
    for make, sentence in (
        (lambda: UrlsFilter(max_url_to_text_ratio=20), "UrlsFilter: .*=20 must be from 0 to 1; write 0.2 for 20 %"),
        (lambda: LanguageFilter("en", min_score=65), "min_score=65 must be from 0 to 1; write 0.65 for 65 %"),
        (lambda: AlphaFilter(min_alpha_ratio=-0.1), "min_alpha_ratio=-0.1 must be from 0 to 1$"),
    ):
        with pytest.raises(PipelineError, match=sentence):
            make()
