from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import DocumentBatch, PipelineError, ScoreFilter
from dcurate.recipe import load_recipe
from dcurate.text import refinedweb
from dcurate.text.filters.gopher import GopherTopNgramFilter, GopherWordCountFilter
from dcurate.text.measures import Grams
from dcurate.text.presets import (
    c4,
    c4_paragraphs,
    fineweb,
    fineweb2,
    fineweb_quality,
    gopher,
    nemo_english,
    nemo_non_english,
)
from dcurate.text.presets import refinedweb as refinedweb_stages
from dcurate.text.signals import text_as_column
from tests.text import rule_sets
from tests.text.verdicts import DOCUMENTS, reasons, sample_texts


@pytest.mark.parametrize("variant", rule_sets.GOPHER)
@settings(max_examples=100, deadline=None)
@given(documents=st.lists(DOCUMENTS, min_size=1, max_size=4))
@example(documents=["a a b a ba ab a"])  # "a ba" and "ab a" were taken for one n-gram
def test_gopher_drops_what_its_variant_drops_for_the_same_reason(variant, documents):
    rules = ScoreFilter(list(gopher(variant)))
    assert reasons([rules], documents)[0] == [rule_sets.GOPHER[variant](text) for text in documents]


@pytest.mark.parametrize("variant", rule_sets.GOPHER)
def test_gopher_drops_of_real_documents_what_its_variant_drops(variant):
    documents = sample_texts()
    found, _ = reasons([ScoreFilter(list(gopher(variant)))], documents)
    assert found == [rule_sets.GOPHER[variant](text) for text in documents]
    assert None in found
    assert len(set(found)) > 3


@pytest.mark.parametrize(("variant", "end_marks"), [("paper", True), ("datatrove", True), ("datatrove", False)])
@settings(max_examples=100, deadline=None)
@given(documents=st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_c4_drops_documents_and_lines_as_its_variant_does(variant, end_marks, documents):
    expected = [rule_sets.c4(text, variant, end_marks) for text in documents]
    found, left = reasons(c4(variant, end_marks), documents)
    assert found == [reason for reason, _ in expected]
    assert left == {row: text for row, (reason, text) in enumerate(expected) if reason is None}


@pytest.mark.parametrize("variant", ["paper", "datatrove"])
def test_c4_leaves_of_real_documents_what_its_variant_leaves(variant):
    documents = sample_texts()
    expected = [rule_sets.c4(text, variant, end_marks=True) for text in documents]
    found, left = reasons(c4(variant), documents)
    assert found == [reason for reason, _ in expected]
    assert left == {row: text for row, (reason, text) in enumerate(expected) if reason is None}


@settings(max_examples=60, deadline=None)
@given(st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_c4_paragraphs_wants_three_lines_of_two_hundred_characters(documents):
    documents = [text * 20 for text in documents]
    expected = [sorted(map(len, text.split("\n")))[::-1][2:3] >= [200] for text in documents]
    assert [reason is None for reason in reasons([ScoreFilter(list(c4_paragraphs()))], documents)[0]] == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_fineweb_quality_drops_what_its_rules_drop(documents):
    found, _ = reasons([ScoreFilter(list(fineweb_quality()))], documents)
    assert found == [rule_sets.first_failed(rule_sets.fineweb_quality(text)) for text in documents]


def test_fineweb_is_gopher_then_c4_then_its_own_rules_on_what_c4_leaves():
    documents = sample_texts()

    def expected(text):
        reason = rule_sets.datatrove(text)
        if reason is None:
            reason, text = rule_sets.c4(text, "datatrove", end_marks=False)
        if reason is None:
            reason = rule_sets.first_failed(rule_sets.fineweb_quality(text))
        return reason

    assert reasons(fineweb(), documents)[0] == [expected(text) for text in documents]


THRESHOLDS = {
    "dup_line_frac": 0.264,
    "dup_n_grams": [[5, 0.15], [10, 0.1]],
    "language_score": 0.824,
    "line_punct_thr": 0.1,
    "max_avg_word_length": 11,
    "max_non_alpha_words_ratio": 0.812,
    "min_avg_word_length": 2,
    "new_line_ratio": 0.185,
    "stopwords": ["de", "la", "l'"],
    "top_n_grams": [[2, 0.161], [4, 0.134]],
}


def test_fineweb2_takes_the_thresholds_of_a_language_from_a_file(tmp_path):
    path = tmp_path / "fra_Latn.yml"
    path.write_text(json.dumps(THRESHOLDS))  # JSON is YAML
    assert fineweb2(path) == fineweb2(THRESHOLDS)
    rules = {rule.name: rule for stage in fineweb2(path) for rule in stage.filters}  # type: ignore[attr-defined]
    assert rules["gopher_duplicate_lines"].max_ratio == 0.264
    assert rules["gopher_duplicate_10grams"].max_ratio == 0.1
    assert rules["gopher_top_4gram"].max_ratio == 0.134
    assert rules["fineweb_line_ends"].min_ratio == 0.1
    assert rules["fineweb_duplicate_lines"].max_ratio == 0.1
    assert (rules["gopher_word_length"].min_length, rules["gopher_word_length"].max_length) == (2, 11)
    assert rules["gopher_stop_words"].stop_words == ("de", "la", "l'")
    assert not {"fineweb_short_lines", "gopher_duplicate_paragraphs"} & rules.keys()


def test_fineweb2_drops_documents_whose_language_is_doubtful():
    stage = fineweb2(THRESHOLDS, language_score_field="score")[0]
    batch = DocumentBatch(data=pa.table({"text": ["a", "b", "c"], "score": [0.9, 0.8, None]}))
    assert stage.process(batch).to_arrow()["text"].to_pylist() == ["a"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read"),
        ("a: [", "cannot be read"),
        ("3", "mapping"),
        ("stopword: [de]", "did you mean 'stopwords'"),
        ("stopwords: [de]", "have no"),
    ],
)
def test_thresholds_that_cannot_be_used_are_refused_in_a_sentence(tmp_path, content, sentence):
    path = tmp_path / "x.yml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PipelineError, match=sentence):
        fineweb2(path)


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS)
def test_refinedweb_only_takes_out(text):
    rest = iter(text)
    assert all(character in rest for character in refinedweb.lines_left(text))


def test_refinedweb_drops_a_text_that_loses_one_word_in_twenty():
    text = "\n".join(
        [
            "The river runs to the sea, and boats of every kind go down with it from the mountains in the spring.",
            "Along its banks there are towns that have been markets since people first wrote their names in books.",
            "Each summer a fair is held on an island, where singers, cooks and jugglers meet for nine loud days.",
            "When autumn comes, fog hides both shores, so pilots steer by bells which hang from old wooden posts.",
        ]
    )
    documents = [text, text + "\n12 likes", text + "\nHOME PAGE AND MORE SHOUTED LINKS"]
    found, left = reasons(refinedweb_stages(), documents)
    assert found == [None, None, "refinedweb_removed"]
    assert left == {0: text, 1: text}


@pytest.mark.parametrize(
    ("recipe", "preset"), [("nemo-english", nemo_english()), ("nemo-non-english", nemo_non_english("fr"))]
)
def test_nemo_curators_filters_are_those_of_its_recipes(recipe, preset):
    stages = load_recipe(recipe, {"input": "in"}).pipeline.stages[1:-1]
    written = [rule for stage in stages for rule in stage.filters]
    assert [type(rule) for rule in preset] == [type(rule) for rule in written]
    assert [replace(rule, language="en") if hasattr(rule, "language") else rule for rule in preset] == written


@pytest.mark.parametrize("make", [lambda: gopher("gofer"), lambda: c4("tfds")])  # type: ignore[arg-type]
def test_a_variant_that_there_is_not_is_refused(make):
    with pytest.raises(PipelineError, match="unknown variant"):
        make()


def test_a_way_of_splitting_that_there_is_not_is_refused():
    with pytest.raises(PipelineError, match="did you mean 'english'"):
        GopherWordCountFilter(words="englsh")


def test_an_ngram_filter_whose_size_is_not_counted_is_refused():
    counting = gopher("paper")[-1].grams.how  # type: ignore[attr-defined]
    with pytest.raises(PipelineError, match="n=7 is not among the sizes"):
        GopherTopNgramFilter(7, 0.1, Grams("whitespace", counting))


def test_a_filter_scores_one_text_as_it_scores_a_column():
    rule = GopherWordCountFilter(words="english", worded=True)
    assert rule.score_document("Don't — stop.") == 3
    assert len(text_as_column("Don't").data) == 5
