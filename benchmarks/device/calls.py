"""The calls of every kernel, for the CPU and for a GPU: what the parts of `benchmarks.device` compare and time."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dcurate.dedup import MinHash
from dcurate.dedup.spans import UnitFinder
from dcurate.dedup.substrings import AnchorFinder
from dcurate.frames.text import TextColumn, column_of
from dcurate.kernels.cuda import CudaColumn
from dcurate.kernels.cuda_minhash import text_digests as digests_on_gpu
from dcurate.kernels.cuda_sets import jaccard_of_sets as jaccard_on_gpu
from dcurate.kernels.layout import Rows
from dcurate.kernels.sets import jaccard_of_sets
from dcurate.kernels.units import SpanLimits
from dcurate.kernels.xxh3 import text_digests
from dcurate_testing.cuda_measures import MEASURES, given
from dcurate_testing.device import CUDF, sample

Call = tuple[Callable[[], Any], Callable[[], Any]]
Calls = dict[str, Call]
#: Sets that pairs are made of, and pairs.
_SETS, _PAIRS = 4096, 200_000


def texts(megabytes: float) -> TextColumn:
    """The texts of the sample again and again, each copy with bytes of its own."""
    # compute-sanitizer makes kernels hundreds of times slower
    column = column_of(sample()[: int(os.environ.get("DCURATE_DEVICE_TEXTS", "1000000"))])
    times = max(1, int(megabytes * 1e6 / len(column.data)))
    ends = (np.arange(times)[:, None] * len(column.data) + column.offsets[None, 1:]).ravel()
    return TextColumn(np.concatenate([[0], ends]), np.tile(column.data, times))


def same(left: Any, right: Any) -> bool:
    """Whether two answers of kernels are the same to the last bit."""
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return len(left) == len(right) and all(map(same, left, right))


def calls(column: TextColumn, gpu: CudaColumn, most_pairs: int = _PAIRS, only: str | None = None) -> Calls:
    """The calls of each kernel, by name, for the CPU and for a GPU.

    Args:
        column: texts; their offsets begin at 0.
        gpu: the same on a GPU.
        most_pairs: number of pairs of texts that are compared.
        only: the name of one; all by default.
    """
    rows = np.arange(len(column))
    made = _measures(column, gpu, rows, only) | _signatures(column, gpu)
    if only is None or only in _DEDUP:
        made |= _dedup(column, gpu, rows, most_pairs)
    return {name: call for name, call in made.items() if only in (None, name)}


def names() -> list[str]:
    """The names of all calls."""
    return [*(name for name, _, _ in MEASURES), *(f"MinHash, {plan.method}" for plan in _PLANS), *_DEDUP]


_PLANS = (MinHash(), MinHash(method="permutations"), CUDF)
_DEDUP = (
    *("sets of shingles", "Jaccard of pairs", "XXH3, 128 bits"),
    *("spans of lines", "spans of three sentences", "anchors"),
)


def _measures(column: TextColumn, gpu: CudaColumn, rows: Rows, only: str | None) -> Calls:
    """The calls that measure texts; words are cut beforehand."""
    layout = (*column, rows)
    options = {name: (kernel, given(asked, layout)) for name, kernel, asked in MEASURES if only in (None, name)}
    return {
        name: (partial(kernel, *layout, *asked), partial(kernel.gpu, gpu, rows, *asked))
        for name, (kernel, asked) in options.items()
    }


def _signatures(column: TextColumn, gpu: CudaColumn) -> Calls:
    return {
        f"MinHash, {plan.method}": (partial(plan.signatures, column), partial(plan.signatures, gpu)) for plan in _PLANS
    }


def _dedup(column: TextColumn, gpu: CudaColumn, rows: Rows, most_pairs: int) -> Calls:
    """What else deduplication asks for."""
    minhash = MinHash()
    sets = minhash.sets(column, rows[:_SETS])
    pairs = np.random.default_rng(0).integers(0, len(sets), (2, most_pairs))
    lines = UnitFinder("line", SpanLimits(1, 0, 0), ("case", "whitespace"))
    sentences = UnitFinder("sentence", SpanLimits(3, 0, 0), ("case", "unicode", "whitespace"))
    anchors = AnchorFinder(101, 50, "words")
    found: tuple[Call, ...] = (
        (lambda: minhash.sets(column, rows), lambda: minhash.sets(gpu, rows)),
        (lambda: jaccard_of_sets(sets, *pairs), lambda: jaccard_on_gpu(sets, *pairs)),
        (lambda: text_digests(*column), lambda: digests_on_gpu(gpu, rows)),
        (lambda: lines.spans(column), lambda: lines.spans(gpu)),
        (lambda: sentences.spans(column), lambda: sentences.spans(gpu)),
        (lambda: anchors.spans(column), lambda: anchors.spans(gpu)),
    )
    return dict(zip(_DEDUP, found, strict=True))
