"""Near-duplicates among texts in memory, found on a GPU; see `tests.kernels.cuda_process`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dcurate.dedup import MinHash
from dcurate.dedup.near import Search, Verification
from dcurate.frames.text import TextColumn, column_of
from dcurate.kernels.cuda import CudaColumn, on_gpu
from tests.kernels.cuda_process import serve


def pairs(texts: Sequence[str], place: Callable[[TextColumn], TextColumn | CudaColumn]) -> dict[str, Any]:
    """The pairs of texts that are found, and how similar they are, by each verification."""
    column = place(column_of(text.encode() for text in texts))
    found: dict[str, Any] = {}
    kinds: tuple[Verification, ...] = "exact", "estimated", "none"
    for verification in kinds:
        one = Search.at(0.6, MinHash(num_hashes=16), verification).pairs(column)
        found[verification] = np.stack([one.left, one.right, np.nan_to_num(one.similarity)], axis=1).tolist()
    return found


if __name__ == "__main__":
    serve(lambda texts: pairs(texts, lambda column: on_gpu(*column)))
