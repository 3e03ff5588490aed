"""Remove C4's lines on a GPU, with the functions of `cleaning`: one text per thread.

Not tested on a GPU, like all of `dcurate.kernels.cuda`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dcurate.kernels.cleaning import Cleaned, LineRules, clean_text, limits_of
from dcurate.kernels.cuda import CudaColumn, TextFunction, empty_on_gpu, fetched, launch, tables_on_gpu
from dcurate.kernels.layout import INLINE, Bytes, Ints, Rows


@njit(**INLINE)
def _clean(data: Bytes, span: tuple[int, int], tables: tuple[Any, Bytes], scratch: Bytes, out: Ints) -> None:
    limits, new = tables
    used, out[1], out[2], out[3] = clean_text(data, span, limits, new, span[0])
    out[0] = used - span[0]


def clean_lines(column: CudaColumn, rows: Rows, rules: LineRules) -> Cleaned:
    """Do as `dcurate.kernels.cleaning.clean_lines`; the result is on the host.

    The remaining text is written in place in a copy of its column, because it never grows.

    Args:
        column: texts.
        rows: numbers of texts, none twice.
        rules: which lines are removed.
    """
    new = empty_on_gpu(column.data.size)
    out = np.empty((len(rows), 4), np.int64)
    launch(TextFunction(_clean), column, rows, (tables_on_gpu(limits_of(rules)), new), out=out)
    data = memoryview(fetched(new))  # type: ignore[arg-type]
    begins = column.offsets[rows].tolist()
    left = b"".join(data[begin : begin + size] for begin, size in zip(begins, out[:, 0].tolist(), strict=True))
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(out[:, 0], out=offsets[1:])
    return Cleaned(offsets, np.frombuffer(left, np.uint8), *out[:, 1:].T)
