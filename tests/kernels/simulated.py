"""What each kernel of signals and signatures finds in texts, on the CPU and on a simulated GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dcurate.kernels import cuda, cuda_minhash
from dcurate.kernels.hashing import text_hashes
from dcurate.kernels.minhash import band_keys, one_permutation
from dcurate.kernels.permutations import Permutations, Window, as_cudf, permuted
from dcurate.kernels.shingles import Rule
from dcurate_testing.cuda_measures import MEASURES, given
from tests.kernels.cuda_process import serve
from tests.kernels.shingle_oracle import layout

HASHES, BANDS = 6, (3, 2)
RULES = [Rule(3, words, np.uint64(42)) for words in (True, False)]
PERMUTATIONS, WINDOW = Permutations.seeded(HASHES, 7), Window(5, np.uint32(9))


def by_cpu(texts: Sequence[str]) -> dict[str, Any]:
    """What the kernels of the CPU find in texts."""
    offsets, data, rows = layout(*texts)
    column = offsets, data, rows[::-1]
    signatures = [one_permutation(*column, rule, HASHES) for rule in RULES]
    found = {
        "one permutation": signatures,
        "bands": [band_keys(signature, *BANDS) for signature in signatures],
        "permutations": [permuted(*column, rule, PERMUTATIONS) for rule in RULES],
        "as cuDF": [as_cudf(*column, WINDOW, PERMUTATIONS)],
        "hashes": [text_hashes(offsets, data)[rows[::-1]]],
    }
    found |= {name: kernel(*column, *given(options, column)) for name, kernel, options in MEASURES}
    return {name: _plain(each) for name, each in found.items()}


def by_cuda(texts: Sequence[str]) -> dict[str, Any]:
    """What the kernels of CUDA find in texts."""
    offsets, data, rows = layout(*texts)
    column = cuda.on_gpu(offsets, data), rows[::-1]
    signatures = [one_permutation.gpu(*column, rule, HASHES) for rule in RULES]
    found = {
        "one permutation": signatures,
        "bands": [cuda_minhash.band_keys(signature, *BANDS) for signature in signatures],
        "permutations": [permuted.gpu(*column, rule, PERMUTATIONS) for rule in RULES],
        "as cuDF": [as_cudf.gpu(*column, WINDOW, PERMUTATIONS)],
        "hashes": [cuda_minhash.text_hashes(*column)],
    }
    for name, kernel, options in MEASURES:
        found[name] = kernel.gpu(*column, *given(options, (offsets, data, rows[::-1])))
    return {name: _plain(each) for name, each in found.items()}


def _plain(found: Any) -> Any:
    """What a kernel found as lists; of each size of n-grams, where it is by size."""
    if isinstance(found, np.ndarray):
        return found.tolist()
    if isinstance(found, dict):
        return [_plain(values) for _, values in sorted(found.items())]
    return [_plain(each) for each in found]


if __name__ == "__main__":
    serve(by_cuda)
