"""What kernels of deduplication find on the CPU and on a card, for the section `kernels` to compare and to time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dcurate.dedup.minhash import MinHash
from dcurate.dedup.spans import UnitFinder
from dcurate.dedup.substrings import AnchorFinder
from dcurate.frames.text import TextColumn
from dcurate.kernels.cuda import CudaColumn
from dcurate.kernels.cuda_minhash import text_digests as digests_on_gpu
from dcurate.kernels.cuda_sets import jaccard_of_sets as jaccard_on_gpu
from dcurate.kernels.sets import jaccard_of_sets
from dcurate.kernels.units import SpanLimits
from dcurate.kernels.xxh3 import text_digests

Calls = dict[str, tuple[Callable[[], Any], Callable[[], Any]]]
#: Sets that pairs are made of, and pairs.
_SETS, _PAIRS = 4096, 200_000


def calls(column: TextColumn, card: CudaColumn, most_pairs: int = _PAIRS) -> Calls:
    """The calls of each kernel, for the CPU and for a card.

    Args:
        column: texts; their offsets begin at 0.
        card: the same on a card.
        most_pairs: so many pairs of texts are compared.
    """
    rows, minhash = np.arange(len(column)), MinHash()
    sets = minhash.sets(column, rows[:_SETS])
    pairs = np.random.default_rng(0).integers(0, len(sets), (2, most_pairs))
    lines = UnitFinder("line", SpanLimits(1, 0, 0), ("case", "whitespace"))
    sentences = UnitFinder("sentence", SpanLimits(3, 0, 0), ("case", "unicode", "whitespace"))
    anchors = AnchorFinder(101, 50, "words")
    return {
        "sets of shingles": (lambda: minhash.sets(column, rows), lambda: minhash.sets(card, rows)),
        "Jaccard of pairs": (lambda: jaccard_of_sets(sets, *pairs), lambda: jaccard_on_gpu(sets, *pairs)),
        "XXH3, 128 bits": (lambda: text_digests(*column), lambda: digests_on_gpu(card, rows)),
        "spans of lines": (lambda: lines.spans(column), lambda: lines.spans(card)),
        "spans of three sentences": (lambda: sentences.spans(column), lambda: sentences.spans(card)),
        "anchors": (lambda: anchors.spans(column), lambda: anchors.spans(card)),
    }
