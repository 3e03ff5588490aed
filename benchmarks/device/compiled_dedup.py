"""Calls each kernel of deduplication once, for `benchmarks.device.compiled` to compile."""

from __future__ import annotations

import numpy as np

from dcurate.kernels import cuda_dedup_spans, cuda_minhash, cuda_sets
from dcurate.kernels.cuda import CudaColumn
from dcurate.kernels.folding import folding
from dcurate.kernels.layout import Rows
from dcurate.kernels.sets import Sets
from dcurate.kernels.shingles import Rule
from dcurate.kernels.units import SENTENCE, SpanLimits, marks_of
from dcurate.kernels.units import SpanRule as Units


def call_all(column: CudaColumn, rows: Rows) -> None:
    """Call every kernel of deduplication.

    Args:
        column: texts.
        rows: numbers of some of them.
    """
    rule = Rule(2, True, np.uint64(1))
    cuda_sets.shingle_sets(column, rows, rule, 3)
    sets = Sets(np.array([0, 1, 2]), np.array([1, 1], np.uint32), np.ones(2, np.bool_))
    cuda_sets.jaccard_of_sets(sets, np.array([0]), np.array([1]))
    cuda_minhash.text_digests(column, rows)
    units = Units(SENTENCE, folding(frozenset({"case", "unicode"})), marks_of(".", ""))
    cuda_dedup_spans.unit_spans(column, units, SpanLimits(2, 1, 1))
    cuda_dedup_spans.anchored_spans(column, 4, 2)
