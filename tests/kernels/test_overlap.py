"""N-grams are found where plain Python finds them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.kernels.normal_words import normalised
from dcurate.kernels.overlap import gram_hashes, gram_table, overlaps
from dcurate_testing.word_oracle import words
from tests.text.strategies import texts

WORDS = st.sampled_from(
    [
        "a",
        "A",
        "b",
        "be",
        "Be!",
        "'be'",
        "or",
        "é",
        "É",
        "e\u0301",
        "中",
        "中文",
        "don't",
        "dont",
        "-",
        "x" * 9,
        "X" * 9,
    ]
)
GAPS = st.sampled_from([" ", "\n", "  ", "\u3000", ", ", " — "])
SENTENCES = st.lists(st.tuples(WORDS, GAPS), max_size=25).map(lambda parts: "".join(map("".join, parts)))


def column(documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
    encoded = [text.encode() for text in documents]
    return np.cumsum([2, *map(len, encoded)]), np.frombuffer(b"--" + b"".join(encoded), np.uint8)


@settings(deadline=None)
@given(st.lists(st.one_of(SENTENCES, texts), max_size=4))
def test_words_are_letters_marks_and_digits_in_lower_case(documents: list[str]) -> None:
    found = normalised(*column(documents), np.arange(len(documents)))
    expected = [word for text in documents for word, _, _ in words(text)]
    assert "".join(map(chr, found.points)) == "".join(f"{word} " for word in expected)
    assert np.diff(found.bounds).tolist() == [len(words(text)) for text in documents]
    assert len(set(expected)) == len(set(found.hashes.tolist()))


def test_a_word_is_the_same_however_it_is_written() -> None:
    written = ["Don't", "dont", "DONT,", "«dont»", "d'o'n't"]
    found = normalised(*column(written), np.arange(5))
    assert len(set(found.hashes.tolist())) == 1
    long = ["Internationalization", "internationalization!", "inter-nationalization"]
    assert len(set(normalised(*column(long), np.arange(3)).hashes.tolist())) == 1


@settings(deadline=None, max_examples=300)
@given(
    st.lists(SENTENCES, min_size=1, max_size=3),
    st.lists(SENTENCES, max_size=4),
    st.sets(st.integers(1, 14), min_size=1, max_size=3),
)
def test_every_shared_ngram_is_found_in_its_place(benchmark: list[str], documents: list[str], sizes: set[int]) -> None:
    held = [word for text in benchmark[:1] for word, _, _ in words(text)]
    wanted = sorted({tuple(held[at : at + n]) for n in sizes for at in range(len(held) - n + 1)})
    known = normalised(*column(benchmark[:1]), np.arange(1))
    places = {tuple(held[at : at + n]): (at, n) for n in sizes for at in range(len(held) - n + 1)}
    firsts, lengths = np.array([places[gram] for gram in wanted], np.int64).reshape(-1, 2).T
    grams = gram_table(known, gram_hashes(known, firsts, lengths), firsts, lengths)
    expected = []
    offset = 2
    bounds = [0]
    for text in [*documents, *benchmark]:
        found = words(text)
        for at in range(len(found)):
            for n in sorted(sizes):
                gram = tuple(word for word, _, _ in found[at : at + n])
                if len(gram) == n and gram in places:
                    start, stop = (
                        len(text[:place].encode()) + offset for place in (found[at][1], found[at + n - 1][2])
                    )
                    expected.append((start, stop, wanted.index(gram)))
        bounds.append(len(expected))
        offset += len(text.encode())
    everything = [*documents, *benchmark]
    matches = overlaps(*column(everything), np.arange(len(everything)), grams)
    assert list(zip(matches.starts, matches.stops, matches.grams, strict=True)) == expected
    assert matches.bounds.tolist() == bounds


def test_ngrams_of_one_hash_are_told_apart_by_their_words() -> None:
    known = normalised(*column(["a b c d"]), np.arange(1))
    firsts, sizes = np.array([0, 2]), np.array([2, 2])
    same = np.repeat(gram_hashes(known, firsts[1:], sizes[1:]), 2)
    grams = gram_table(known, same, firsts, sizes)
    assert overlaps(*column(["c d"]), np.arange(1), grams).grams.tolist() == [1]


def test_more_matches_than_there_was_room_for_are_all_given() -> None:
    known = normalised(*column(["a b"]), np.arange(1))
    one = np.array([0]), np.array([2])
    grams = gram_table(known, gram_hashes(known, *one), *one)
    assert len(overlaps(*column(["a b " * 3000]), np.arange(1), grams).grams) == 3000
