"""Sublinear counts of fastText's features, compared with the definition in plain Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate.frames.text import TextColumn, column_of
from dcurate.kernels.fasttext import SOFTMAX, Network
from dcurate.kernels.fasttext_damped import score_damped_texts, word_features
from dcurate.kernels.fasttext_training import list_texts
from dcurate.kernels.layout import frozen
from dcurate.learn.head import StudentHead, layout_of
from dcurate.text.fasttext import new_network

BUCKETS, KNOWN = 500, (b"</s>", b"ab", b"abc", b"de", b"\xc3\xa4")
WORDS = st.sampled_from(["ab", "abc", "de", "ä", "xyz", "ab,", "</s>", "__label__x", "abc" * 9])
TEXTS = st.lists(WORDS, max_size=40).map(" \n".join)
HEAD = StudentHead("label", "classes", ("no", "yes"))


def network_of(min_chars: int, max_chars: int, word_ngrams: int) -> Network:
    nothing = np.zeros((0, 0), np.float32)
    sizes = [len(KNOWN), 0, BUCKETS, min_chars, max_chars, word_ngrams, SOFTMAX]
    return new_network(list(KNOWN), np.empty(0), nothing, nothing, sizes)


def column(texts: Sequence[str]) -> TextColumn:
    offsets, data = column_of([text.encode() for text in texts])
    return TextColumn(np.asarray(offsets, np.int64), data)


def listed(network: Network, text: str) -> Counter[int]:
    _, features, times = list_texts(*column([text]), np.array([0]), network)
    return Counter(dict(zip(features.tolist(), times.tolist(), strict=True)))


def tokens_of(text: str) -> list[str]:
    """The words of a text up to the end of a sentence, with that."""
    words = [word for word in text.split() if not word.startswith("__label__")]
    if "</s>" in words:
        return words[: words.index("</s>") + 1]
    return [*words, "</s>"] if words else []


def score(texts: Sequence[str], network: Network) -> Any:
    return score_damped_texts(column(texts), np.arange(len(texts)), network, word_features(network), layout_of([HEAD]))


SIZES = st.sampled_from([(0, 0, 1), (0, 0, 2), (3, 5, 1), (2, 4, 3)])


@given(st.lists(TEXTS, min_size=1, max_size=3), SIZES, st.integers(0, 2**32 - 1))
@example(["ab " * 3000, "", "ab ab"], (3, 5, 2), 0)
def test_scores_are_means_of_vectors_weighted_by_logarithms_of_counts(
    texts: list[str], sizes: tuple[int, int, int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    of_words = {bucket for word in KNOWN for bucket in listed(network_of(*sizes[:2], 1), word.decode()) if bucket >= 0}
    trained = sorted(of_words | set(random.choice(BUCKETS, 250, replace=False).tolist()))
    pruned = np.full(BUCKETS, len(trained), np.int32)
    pruned[trained] = np.arange(len(trained))
    rows = random.normal(size=(len(KNOWN) + len(trained) + 1, 1)).astype(np.float32)
    rows[-1] = 0
    weights = frozen(np.array([[-0.5], [0.5]]), np.float32)
    network = network_of(*sizes)._replace(
        pruned=frozen(pruned, np.int32), rows=frozen(rows, np.float32), weights=weights
    )
    for answer, text in zip(score(texts, network), texts, strict=True):
        if not tokens_of(text):
            assert np.isnan(answer).all()
            continue
        counts = listed(network_of(*sizes), text)
        damped = {feature: 1 + math.log(min(count, 1023)) for feature, count in counts.items()}
        logit = sum(
            weight * float(rows[-1 - feature if feature < 0 else len(KNOWN) + int(pruned[feature]), 0])
            for feature, weight in damped.items()
        ) / max(sum(damped.values()), 1)
        assert abs(answer[1] - 1 / (1 + math.exp(-logit))) < 1e-4
