"""What each kernel of deduplication finds in texts, on the CPU and on a simulated GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dcurate.kernels import cuda, cuda_dedup_spans, cuda_minhash, cuda_sets
from dcurate.kernels.anchors import anchored_spans
from dcurate.kernels.folding import folding
from dcurate.kernels.sets import Sets, jaccard_of_sets, shingle_sets
from dcurate.kernels.shingles import Rule
from dcurate.kernels.units import LINE, PARAGRAPH, SENTENCE, SpanLimits, Spans, marks_of, unit_spans
from dcurate.kernels.units import SpanRule as Units
from dcurate.kernels.xxh3 import text_digests
from tests.kernels.cuda_process import serve
from tests.kernels.shingle_oracle import layout

RULES = [Rule(3, words, np.uint64(42)) for words in (True, False)]
#: The most hashes of a set: all, some, and fewer than even short texts have.
MOST = (None, 70, 3)
#: Bytes of a k-gram, and k-grams of which one is an anchor.
GRAMS = ((4, 3), (16, 8))
#: What texts are cut into, how that is compared, and of how many units spans are made, with what in them.
CUTS = [
    (Units(kind, folding(frozenset(steps)), marks_of(".!?。", "。")), limits)
    for kind, steps, limits in (
        (LINE, {"case", "whitespace"}, SpanLimits(1, 0, 0)),
        (PARAGRAPH, {"digits", "punctuation", "unicode"}, SpanLimits(1, 6, 2)),
        (SENTENCE, {"case", "whitespace"}, SpanLimits(3, 0, 0)),
        (SENTENCE, set[str](), SpanLimits(2, 9, 3)),
    )
]


def by_cpu(texts: Sequence[str]) -> dict[str, Any]:
    """What the kernels of the CPU find in texts."""
    offsets, data, rows = layout(*texts)
    column = offsets, data, rows[::-1]
    sets = [shingle_sets(*column, rule, most) for rule in RULES for most in MOST]
    return {
        "sets": _plain(sets),
        "jaccard": [jaccard_of_sets(one, *pairs(len(texts))).tolist() for one in sets],
        "digests": text_digests(offsets, data)[::-1].tolist(),
        "units": [_plain([unit_spans(offsets, data, *cut)]) for cut in CUTS],
        "anchors": _plain([anchored_spans(offsets, data, *sizes) for sizes in GRAMS]),
    }


def by_cuda(texts: Sequence[str]) -> dict[str, Any]:
    """What the kernels of CUDA find in texts."""
    offsets, data, rows = layout(*texts)
    column = cuda.on_gpu(offsets, data), rows[::-1]
    sets = [cuda_sets.shingle_sets(*column, rule, most) for rule in RULES for most in MOST]
    return {
        "sets": _plain(sets),
        "jaccard": [cuda_sets.jaccard_of_sets(one, *pairs(len(texts))).tolist() for one in sets],
        "digests": cuda_minhash.text_digests(*column).tolist(),
        "units": [_plain([cuda_dedup_spans.unit_spans(column[0], *cut)]) for cut in CUTS],
        "anchors": _plain([cuda_dedup_spans.anchored_spans(column[0], *sizes) for sizes in GRAMS]),
    }


def pairs(number: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All pairs of so many texts."""
    left, right = np.divmod(np.arange(number * number), max(1, number))
    return left, right


def _plain(sets: Sequence[Sets | Spans]) -> list[list[Any]]:
    return [[array.dtype.str, array.tolist()] for one in sets for array in one]


if __name__ == "__main__":
    serve(by_cuda)
