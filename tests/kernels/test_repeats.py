from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate.kernels.repeats import COVERED, EVERY, SKIPPING, Counting, repeat_signals
from dcurate.kernels.traits import sought_signals, trait_signals
from dcurate.kernels.word_features import Kinds, word_facts

#: Some of these are equal when joined with their neighbours, such as "ab" "c" and "a" "bc".
WORDS = ["a", "b", "ab", "bc", "c", "é", "aaaa"]
DOCUMENTS = st.lists(st.lists(st.integers(0, len(WORDS) - 1), max_size=30), min_size=1, max_size=4)
#: Sizes of n-grams for the most frequent and for those that repeat, in ascending order and in another.
SIZES = [((1, 2), (2, 3, 5)), ((2, 1), (5, 1, 3))]


def numbered(documents: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ids = np.array([number for text in documents for number in text], np.int32)
    return np.cumsum([0, *map(len, documents)]), ids, np.arange(len(documents))


def facts():
    encoded = [word.encode() for word in WORDS]
    nothing = Kinds(*(np.zeros(128, np.uint8) for _ in range(3)))
    return word_facts(np.cumsum([0, *map(len, encoded)]), np.frombuffer(b"".join(encoded), np.uint8), nothing)


def grams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[at : at + n]) for at in range(len(words) - n + 1)]


def top(words: list[str], n: int, how: Counting) -> int:
    counts = Counter(grams(words, n))
    most = max(counts.values(), default=0)
    if most == 0 or (most == 1 and not how.singles):
        return 0
    sizes = [sum(map(len, key)) for key, count in counts.items() if count == most]
    return most * ((max(sizes) if how.longest else sizes[0]) + (n - 1) * how.spaced)


def repeated(words: list[str], n: int, how: Counting) -> int:
    found = grams(words, n)
    keys = ["".join(gram) if how.joined else gram for gram in found]
    counts = Counter(keys)
    if how.duplicates == EVERY:
        return sum(sum(map(len, gram)) for gram, key in zip(found, keys, strict=True) if counts[key] > 1)
    if how.duplicates == COVERED:
        places = {at + step for at, key in enumerate(keys) if counts[key] > 1 for step in range(n)}
        return sum(len(words[place]) for place in places)
    seen, total, at = set(), 0, 0
    while at < len(keys):
        if keys[at] in seen:
            total += sum(map(len, found[at]))
            at += n
        else:
            seen.add(keys[at])
            at += 1
    return total


@settings(max_examples=80, deadline=None)
@given(DOCUMENTS)
@example([[0, 3, 2, 4]])  # "a bc" and "ab c" are two n-grams, as one of which they were counted
@example([[0, 0, 1, 0, 1, 0, 2, 0]])
@example([[0, 0, 6, 0]])  # fewer words than the first of the sizes
def test_repeated_ngrams_are_counted_as_the_options_say(documents):
    known = facts()
    texts = [[WORDS[number] for number in text] for text in documents]
    flags = list(
        itertools.product([False, True], [SKIPPING, EVERY, COVERED], [False, True], [False, True], [False, True])
    )
    for how, (tops, duplicates) in itertools.product(itertools.starmap(Counting, flags), SIZES):
        found = repeat_signals(
            *numbered(documents), (known.characters, known.hashes, known.powers), (tops, duplicates), how
        )
        expected_tops = [[top(words, n, how) for n in tops] for words in texts]
        expected_repeated = [[repeated(words, n, how) for n in duplicates] for words in texts]
        assert found.top[:, : len(tops)].tolist() == expected_tops, how
        assert found.repeated[:, len(tops) :].tolist() == expected_repeated, how


@given(DOCUMENTS)
def test_words_are_counted_by_their_traits(documents):
    lengths = np.array([len(word) for word in WORDS], np.int32)
    traits = np.array([1, 2, 3, 0, 128, 1, 0], np.uint8)
    found = trait_signals(*numbered(documents), lengths, traits)
    for row, text in enumerate(documents):
        sizes = [len(WORDS[number]) for number in text]
        assert (found.total[row], found.characters[row]) == (len(text), sum(sizes))
        assert found.median[row] == (np.median(sizes) if sizes else 0.0)
        for bit in range(8):
            having = [number for number in text if traits[number] >> bit & 1]
            assert found.having[row, bit] == len(having)
            assert found.having_characters[row, bit] == sum(len(WORDS[number]) for number in having)


@given(DOCUMENTS)
def test_words_that_are_sought_are_counted_once_and_each_time(documents):
    places = np.array([0, 1, 2, 0, 1, 0, 3], np.int32)
    found = sought_signals(*numbered(documents), places)
    hits = [[places[number] for number in text if places[number]] for text in documents]
    assert found.total.tolist() == [len(text) for text in hits]
    assert found.different.tolist() == [len(set(text)) for text in hits]
