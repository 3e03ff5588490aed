from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.kernels.interning import Numbered, WordTable, expanded
from tests.text.strategies import texts


def layout(documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
    encoded = [text.encode() for text in documents]
    return np.cumsum([0, *map(len, encoded)]), np.frombuffer(b"".join(encoded), np.uint8)


def sequences(found: Numbered) -> list[list[int]]:
    return [
        found.numbers[begin : begin + count].tolist() for begin, count in zip(found.begins, found.counts, strict=True)
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(texts, max_size=5), min_size=1, max_size=4))
def test_words_are_numbered_in_the_order_in_which_they_are_met(batches):
    table, known = WordTable(), {}
    for documents in batches:
        expected = [[known.setdefault(word, len(known)) for word in text.split()] for text in documents]
        assert sequences(table.number(*layout(documents), np.arange(len(documents)))) == expected
    assert [word.decode() for word in table.words(0, len(table))] == list(known)


def test_a_table_grows_as_words_come():
    words = [f"word{number}" for number in range(60_000)]
    documents = [" ".join(words[start : start + 7000]) for start in range(0, len(words), 7000)]
    table = WordTable()
    found = table.number(*layout(documents), np.arange(len(documents)))
    assert found.numbers.tolist() == list(range(len(words)))
    assert table.words(59_998, 60_000) == [b"word59998", b"word59999"]
    assert found.numbers.tolist() == table.number(*layout(documents), np.arange(len(documents))).numbers.tolist()


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=4))
def test_each_word_is_replaced_by_its_parts(documents):
    parts = [[], [5], [6, 7], [8, 8, 8]]
    found = Numbered(
        np.array([number for text in documents for number in text], np.int32),
        np.cumsum([0, *map(len, documents)])[:-1],
        np.array([len(text) for text in documents], np.int64),
    )
    firsts = np.cumsum([0, *map(len, parts)])
    flat = np.array([part for word in parts for part in word], np.int32)
    assert sequences(expanded(found, firsts, flat)) == [
        [part for word in text for part in parts[word]] for text in documents
    ]
