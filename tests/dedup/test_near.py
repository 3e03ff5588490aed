"""Near-duplicates of texts in memory are those that sets of words in plain Python say."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from dcurate import PipelineError
from dcurate.dedup import Bands, MinHash, Shingles
from dcurate.dedup.near import Search
from dcurate.frames.text import column_of


def texts() -> list[str]:
    """Families of three texts: an original, one with a few words changed, one with many."""
    draw = random.Random(7)
    words = [f"{syllable}{number}" for syllable in ("ba", "dé", "Fu", "ки") for number in range(200)]
    made = [""]
    for _ in range(30):
        original = draw.choices(words, k=draw.randint(40, 200))
        made.append(" ".join(original))
        for changes in (1, 10):
            edited = list(original)
            for _ in range(changes):
                edited[draw.randrange(len(edited))] = draw.choice(words)
            made.append(" ".join(edited))
    return made


def shingles(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + 5]) for at in range(max(1, len(words) - 4))} if words else set()


TEXTS = texts()
COLUMN = column_of([text.encode() for text in TEXTS])


def found(search: Search) -> dict[tuple[int, int], float]:
    pairs = search.pairs(COLUMN)
    return dict(
        zip(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True), pairs.similarity.tolist(), strict=True)
    )


def test_verified_pairs_are_those_of_plain_python() -> None:
    sets = list(map(shingles, TEXTS))
    every = {
        (a, b): len(sets[a] & sets[b]) / len(sets[a] | sets[b])
        for a, b in combinations(range(len(TEXTS)), 2)
        if sets[a] and sets[b]
    }
    for threshold in (0.6, 0.8):
        verified = found(Search.at(threshold))
        assert all(similarity >= threshold for similarity in verified.values())
        assert verified == pytest.approx({pair: every[pair] for pair in verified}, abs=1e-6)
        sure = {pair for pair, similarity in every.items() if similarity >= threshold + 0.1}
        assert sure <= verified.keys()
        assert len(sure) >= 20


def test_pairs_are_not_lost_by_verifying_less() -> None:
    exact, unverified = found(Search.at(0.8)), found(Search.at(0.8, verification="none"))
    assert exact.keys() <= unverified.keys()
    assert all(np.isnan(similarity) for similarity in unverified.values())
    estimated = found(Search.at(0.8, verification="estimated"))
    assert all(similarity >= 0.8 for similarity in estimated.values())
    assert estimated.keys() <= unverified.keys()


def test_texts_without_words_are_nobody_s_duplicates() -> None:
    pairs = Search.at(0.8).pairs(column_of([b"", b" .. ", b"", b"one", b"One!"]))
    assert (pairs.left.tolist(), pairs.right.tolist()) == ([3], [4])


def test_a_threshold_of_one_finds_the_same_shingles() -> None:
    pairs = Search.at(1.0).pairs(column_of([b"a b c d e f", b"A, b; c d e f", b"a b c d e g"]))
    assert (pairs.left.tolist(), pairs.right.tolist()) == ([0], [1])


def test_what_is_compared_can_be_chosen() -> None:
    search = Search(0.5, MinHash(Shingles(3, "characters"), 64), Bands(16, 2))
    pairs = search.pairs(column_of([b"abcdefgh", b"abcdefgi", b"zyx"]))
    assert pairs.similarity.tolist() == pytest.approx([5 / 7])


def test_settings_that_are_none_are_refused() -> None:
    with pytest.raises(PipelineError, match="threshold=0 is not a similarity"):
        Search.at(0.8).__class__(0, MinHash(), Bands(20, 12))
    with pytest.raises(PipelineError, match="unknown verification='exakt'"):
        replace(Search.at(0.8), verification="exakt")  # type: ignore[arg-type]
