from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.errors import PipelineError
from dcurate.kernels.english import cut_english
from dcurate.text import lexicon
from dcurate.text.english import short_way, split_english
from dcurate.text.filters.gopher import GopherWordCountFilter
from dcurate.text.lexicon import SPLITTERS, words_of
from dcurate.text.presets import gopher
from dcurate.text.score import ScoreFilter
from tests.text.verdicts import DOCUMENTS, reasons, sample_texts


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


@settings(max_examples=500, deadline=None)
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


def test_a_tokenizer_of_spacy_is_asked_for_in_a_sentence_where_spacy_is_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(PipelineError, match="words='spacy:fr' needs spaCy: pip install spacy; words='english' needs"):
        GopherWordCountFilter(words="spacy:fr").score_document("un mot")
