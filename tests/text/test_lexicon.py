from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pythainlp.tokenize import word_tokenize

from dcurate import PipelineError, ScoreFilter
from dcurate.kernels.english import cut_english
from dcurate.text import lexicon
from dcurate.text.english import short_way, split_english
from dcurate.text.filters.gopher import GopherWordCountFilter
from dcurate.text.lexicon import SPLITTERS, words_of
from dcurate.text.presets import gopher
from tests.text.verdicts import DOCUMENTS, reasons, sample_texts


@pytest.mark.parametrize("splitter", SPLITTERS)
@settings(max_examples=60, deadline=None)
@given(documents=st.lists(DOCUMENTS, min_size=1, max_size=5))
def test_words_are_those_of_each_run_of_characters_whatever_was_read_before(splitter, documents):
    data = "".join(documents).encode()
    offsets = np.cumsum([0, *(len(text.encode()) for text in documents)])
    rows = np.arange(len(documents))[::-1].copy()
    words = words_of(offsets, np.frombuffer(data, np.uint8), rows, splitter).words
    table = words._lexicon.table
    known = table.words(0, len(table))
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
            *(
                "<",
                ">",
                "&",
                "!",
                "?",
                "=",
                "+",
                "$",
                "%",
                "@",
                "|",
                "\\",
                "~",
                "^",
                "X.y",
                "x.Y",
                "v1",
                "é",
                "—",
                "…",
                "\u200b",
            ),
        ]
    ),
    min_size=1,
    max_size=7,
).map("".join)


#: Any characters, and those near which the rules change their mind.
ANY_RUNS = st.text(min_size=1, max_size=8).filter(lambda text: not any(map(str.isspace, text)))
ADDRESSES = st.lists(
    st.sampled_from([*("http", "://", "b.c", "org", ":80", ":8", "10.1.2.3"), *"a./?@-_é中٣"]),
    min_size=2,
    max_size=7,
).map("".join)
UNITS = st.lists(
    st.sampled_from([*("km²", "KB", "US$", "A$", "°C.", "кг", "……", "——", "N.Y", "'s", "’S"), *"5€°,…☃x+"]),
    min_size=2,
    max_size=6,
).map("".join)


def split_by_kernel(runs: list[str]) -> list[list[str]]:
    """The words of each run as the kernel cuts them, none where it leaves that to the long way."""
    data = "".join(runs).encode()
    offsets = np.cumsum([0, *(len(run.encode()) for run in runs)])
    counts, words = cut_english(offsets, np.frombuffer(data, np.uint8), short_way())
    found = iter(words.tobytes().decode().split("\n"))
    return [[next(found) for _ in range(count)] for count in counts.tolist()]


@settings(max_examples=400, deadline=None)
@given(st.lists(RUNS | ANY_RUNS | ADDRESSES | UNITS, min_size=1, max_size=20))
def test_the_short_way_to_split_english_says_what_the_long_way_says_or_nothing(runs):
    for run, words in zip(runs, split_by_kernel(runs), strict=True):
        assert words in ([], split_english(run))


@pytest.mark.parametrize(
    "run", ["(don't", "naïve—but", "http://a.org/a?b=c.", "(5km²),", "Ελλάδα.", "U.S.-led,", "«да»"]
)
def test_the_short_way_knows_words_of_all_scripts_exceptions_units_and_addresses(run):
    assert split_by_kernel([run]) == [split_english(run)]


@pytest.mark.parametrize("run", ["10.1.2.3", "foo(x):", "\U00031350"])
def test_the_short_way_leaves_what_needs_more_than_its_tables(run):
    assert split_by_kernel([run]) == [[]]


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


def test_a_tokenizer_of_spacy_is_asked_for_in_a_sentence_where_spacy_is_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(PipelineError, match="words='spacy:fr' needs spaCy: pip install spacy; words='english' needs"):
        GopherWordCountFilter(words="spacy:fr").score_document("un mot")


def test_a_language_that_a_library_does_not_have_is_refused(monkeypatch):
    with pytest.raises(PipelineError, match="words='spacy:qqq': "):
        GopherWordCountFilter(words="spacy:qqq").score_document("one")
    monkeypatch.setitem(sys.modules, "indicnlp", None)
    with pytest.raises(PipelineError, match="needs the Indic NLP Library: pip install indic-nlp-library"):
        GopherWordCountFilter(words="indic:hi").score_document("one")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["ไทย", "ภาษา", " ", "10", "คน"]), max_size=8).map("".join))
def test_thai_words_are_those_of_pythainlp(text):
    expected = [word for run in text.split() for word in word_tokenize(run, engine="newmm-safe", keep_whitespace=False)]
    assert GopherWordCountFilter(words="pythainlp:th").score_document(text) == len(expected)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=6), min_size=1, max_size=6))
def test_traits_of_words_are_those_of_their_characters_whatever_the_script(words):
    words = [word for text in words for word in text.split()]
    offsets = np.cumsum([0, *(len(word.encode()) for word in words)])
    known = lexicon._known(offsets, np.frombuffer("".join(words).encode(), np.uint8))
    assert known.traits.tolist() == [lexicon._traits(word) for word in words]
    assert known.characters.tolist() == list(map(len, words))
