"""Remove C4's lines on a GPU, with the functions of `cleaning`: one text per thread.

Not tested on a GPU, like all of `dcurate.kernels.cuda`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

from dcurate.kernels import cleaning
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
        rules: rules that decide which lines are removed.
    """
    new = empty_on_gpu(column.data.size)
    out = np.empty((len(rows), 4), np.int64)
    by_cpu: list[tuple[Rows, Cleaned]] = []

    def on_cpu(long: Rows) -> Ints:
        assert column.host is not None
        by_cpu.append((long, cleaning.clean_lines(column.offsets, column.host, long, rules)))
        result = by_cpu[-1][1]
        return np.stack([np.diff(result.offsets), result.outcome, result.lines, result.ragged], axis=1)

    launch(TextFunction(_clean, on_cpu=on_cpu), column, rows, (tables_on_gpu(limits_of(rules)), new), out=out)
    data = fetched(new)
    for long, cleaned in by_cpu:
        for row, (start, stop) in zip(long, pairwise(cleaned.offsets), strict=True):
            at = column.offsets[row]
            data[at : at + stop - start] = cleaned.data[start:stop]
    begins, view = column.offsets[rows].tolist(), memoryview(data)  # type: ignore[arg-type]
    remaining = b"".join(view[begin : begin + size] for begin, size in zip(begins, out[:, 0].tolist(), strict=True))
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(out[:, 0], out=offsets[1:])
    return Cleaned(offsets, np.frombuffer(remaining, np.uint8), *out[:, 1:].T)
