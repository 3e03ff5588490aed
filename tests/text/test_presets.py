from __future__ import annotations

import gzip
import json
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.kernels.english import cut_english
from dcurate.recipe import load_recipe
from dcurate.text import lexicon, refinedweb
from dcurate.text.english import short_way, split_english
from dcurate.text.filters.gopher import GopherTopNgramFilter, GopherWordCountFilter
from dcurate.text.lexicon import SPLITTERS, words_of
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
from dcurate.text.score import ScoreFilter
from dcurate.text.signals import text_as_column
from tests.text import rule_sets
from tests.text.strategies import texts

SAMPLE = Path(lexicon.__file__).parents[1] / "bundled" / "sample"

#: Words and marks that the rules look at, of which whole documents are made.
PIECES = st.sampled_from(
    [
        *("the", "of", "and", "to", "house", "river", "Don't", "it's", "U.S.", "e.g.", "well-known", "3.14", "#", "##"),
        *("...", "…", ". . .", "•", "-", "- milk", "* tea", "●", "(see", "below)", '"quoted"', "end.", "end?", "a,b"),
        *("[1]", "[edit]", "[٣]", "end.[2]", "[citation needed]", "javascript", "Lorem ipsum", "use cookies", "{", "}"),
        *(
            "use coo\u212aies",
            "x" * 1001,
            "é",
            "naïve",
            "中文字",
            "३",
            "¡hola!",
            "”",
            "’s",
            "don’t",
            "10am",
            ":)",
            "&",
            "–",
        ),
        *("\n", "\n", "\n\n", "\n\n\n", "\r\n", "\t", "  ", "\xa0", "\u2028", "\x0b", "\x1c", "\x85", "\x00", "\ufeff"),
    ]
)
LINES = st.sampled_from(
    [
        "The quick brown fox jumps over the lazy dog and runs to the river with a friend.",
        "It was the best of times, it was the worst of times. Who would have thought of that?",
        "Menu",
        "- one point of the list, and that with more words",
        "We have read the terms of use and the privacy policy of this site.",
        "And so it goes on, and on, and on...",
        "",
        "SHOUTING AT THE READER",
        "1,024 likes",
        "He said so. [3] And then? Nothing!  (Or so.)",
    ]
)
DOCUMENTS = st.one_of(
    texts,
    st.lists(PIECES, max_size=80).map(" ".join),
    st.lists(LINES, max_size=25).map("\n".join),
    st.lists(LINES | PIECES, max_size=40).map(" ".join),
    st.lists(PIECES, min_size=3, max_size=6).map(lambda pieces: " ".join(pieces * 15)),
)


def reasons(stages, documents: list[str]) -> tuple[list[str | None], dict[int, str]]:
    """Why each document is dropped, or None, and the texts of those that are left."""
    found: list[str | None] = [None] * len(documents)
    batch = DocumentBatch(data=pa.table({"text": pa.array(documents, pa.string()), "row": range(len(documents))}))
    for stage in stages:
        batch = stage.process(batch)
        for rejection in batch.rejections:
            for row in rejection.data["row"].to_pylist():
                found[row] = rejection.reason
    left = batch.to_arrow()
    return found, dict(zip(left["row"].to_pylist(), left["text"].to_pylist(), strict=True))


def sample_texts() -> list[str]:
    """Every ninth of the bundled documents, of which some lines are damaged on purpose."""
    files = sorted(SAMPLE.glob("*.jsonl")) + sorted(SAMPLE.glob("*.gz"))
    opened = (gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes() for file in files)
    found = []
    for line in (line for data in opened for line in data.splitlines()):
        with suppress(ValueError):
            found.append(json.loads(line).get("text") or "")
    return found[::9]


@pytest.mark.parametrize("variant", rule_sets.GOPHER)
def test_gopher_drops_what_its_variant_drops_for_the_same_reason(variant):
    rules = ScoreFilter(list(gopher(variant)))

    @settings(max_examples=100, deadline=None)
    @given(st.lists(DOCUMENTS, min_size=1, max_size=4))
    def holds(documents):
        assert reasons([rules], documents)[0] == [rule_sets.GOPHER[variant](text) for text in documents]

    holds()


@pytest.mark.parametrize("variant", rule_sets.GOPHER)
def test_gopher_drops_of_real_documents_what_its_variant_drops(variant):
    documents = sample_texts()
    found, _ = reasons([ScoreFilter(list(gopher(variant)))], documents)
    assert found == [rule_sets.GOPHER[variant](text) for text in documents]
    assert None in found
    assert len(set(found)) > 3


@pytest.mark.parametrize(("variant", "end_marks"), [("paper", True), ("datatrove", True), ("datatrove", False)])
def test_c4_drops_documents_and_lines_as_its_variant_does(variant, end_marks):
    stages = c4(variant, end_marks)

    @settings(max_examples=100, deadline=None)
    @given(st.lists(DOCUMENTS, min_size=1, max_size=4))
    def holds(documents):
        expected = [rule_sets.c4(text, variant, end_marks) for text in documents]
        found, left = reasons(stages, documents)
        assert found == [reason for reason, _ in expected]
        assert left == {row: text for row, (reason, text) in enumerate(expected) if reason is None}

    holds()


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
    rules = {rule.name: rule for stage in fineweb2(path) for rule in stage.filters}
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
        ("stopwords: [de]", "lack"),
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
    assert [replace(rule, lang="en") if hasattr(rule, "lang") else rule for rule in preset] == written


@pytest.mark.parametrize("make", [lambda: gopher("gofer"), lambda: c4("tfds")])
def test_a_variant_that_there_is_not_is_refused(make):
    with pytest.raises(PipelineError, match="no variant"):
        make()


def test_a_way_of_splitting_that_there_is_not_is_refused():
    with pytest.raises(PipelineError, match="did you mean 'english'"):
        GopherWordCountFilter(words="englsh")


def test_an_ngram_filter_whose_size_is_not_counted_is_refused():
    counting = gopher("paper")[-1].grams.how
    with pytest.raises(PipelineError, match="n=7 is not among the sizes"):
        GopherTopNgramFilter(7, 0.1, Grams("whitespace", counting))


@pytest.mark.parametrize("splitter", SPLITTERS)
@settings(max_examples=60, deadline=None)
@given(documents=st.lists(DOCUMENTS, min_size=1, max_size=5))
def test_words_are_those_of_each_run_of_characters_whatever_was_read_before(splitter, documents):
    data = "".join(documents).encode()
    offsets = np.cumsum([0, *(len(text.encode()) for text in documents)])
    rows = np.arange(len(documents))[::-1].copy()
    words = words_of(offsets, np.frombuffer(data, np.uint8), rows, splitter).words
    known = words._words.words(0, len(words._words))
    for row, text in enumerate(documents):
        begin, count = words.found.begins[row], words.found.counts[row]
        found = [known[number].decode() for number in words.found.numbers[begin : begin + count]]
        assert found == [word for run in text.split() for word in SPLITTERS[splitter].words(run)]


@settings(deadline=None)
@given(st.text(min_size=1).filter(lambda text: not any(map(str.isspace, text))))
def test_english_words_are_the_run_of_characters_cut_up(chunk):
    assert "".join(split_english(chunk)) == chunk


RUNS = st.lists(
    st.sampled_from(
        [
            *("a", "Z", "the", "US", "it", "don", "cannot", "Mr", "e", "g", "am", "s", "th", "km", "7", "10", "3.14"),
            *(
                "'",
                "’",
                "“",
                "”",
                '"',
                ".",
                "..",
                ",",
                "-",
                "--",
                "---",
                "/",
                ":",
                ";",
                "(",
                ")",
                "[",
                "]",
                "*",
                "#",
                "_",
            ),
            *("<", ">", "&", "!", "?", "=", "+", "$", "%", "@", "é", "—", "…", "\u200b"),
        ]
    ),
    min_size=1,
    max_size=7,
).map("".join)


@settings(max_examples=1000, deadline=None)
@given(st.lists(RUNS, min_size=1, max_size=20))
def test_the_short_way_to_split_english_says_what_the_long_way_says_or_nothing(runs):
    data = "".join(runs).encode()
    offsets = np.cumsum([0, *(len(run.encode()) for run in runs)])
    counts, words = cut_english(offsets, np.frombuffer(data, np.uint8), short_way())
    found = iter(words.tobytes().decode().split("\n"))
    for run, count in zip(runs, counts.tolist(), strict=True):
        assert not count or [next(found) for _ in range(count)] == split_english(run)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("cannot", "can not"),
        ("couldn't've", "could n't 've"),
        ("(U.K.),", "( U.K. ) ,"),
        ("well-known", "well - known"),
        ("http://example.org/a?b=c.", "http://example.org/a?b=c ."),
        ("10am", "10 am"),
        ("$5.00", "$ 5.00"),
        ("5km", "5 km"),
        (":-)", ":-)"),
        ("John’s", "John ’s"),
        ("id.", "i d."),
        ("3-4", "3 - 4"),
    ],
)
def test_english_words_are_those_of_spacy(run, words):
    assert split_english(run) == words.split()


def test_a_long_run_of_marks_is_split_in_time_linear_in_its_length():
    assert split_english("(" * 30_000) == ["("] * 30_000
    assert split_english("." * 30_000 + "x") == ["." * 30_000, "x"]


def test_more_words_than_a_process_keeps_give_the_same_verdicts(monkeypatch):
    documents = sample_texts()[:40]
    rules = [ScoreFilter(list(gopher("datatrove")))]
    expected = [reasons(rules, [text]) for text in documents]
    monkeypatch.setattr(lexicon, "_MOST", 50)
    assert [reasons(rules, [text]) for text in documents] == expected


def test_a_filter_scores_one_text_as_it_scores_a_column():
    rule = GopherWordCountFilter(words="english", worded=True)
    assert rule.score_document("Don't — stop.") == 3
    assert len(text_as_column("Don't").data) == 5


def test_a_tokenizer_of_spacy_is_asked_for_in_a_sentence_where_spacy_is_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(PipelineError, match="words='spacy:fr' needs spaCy: pip install spacy; words='english' needs"):
        GopherWordCountFilter(words="spacy:fr").score_document("un mot")
