"""Count personal data in texts on a GPU, with the functions of `pii`: one text per thread.

Untested on a GPU, as all of `dcurate.kernels.cuda`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda import CudaColumn, build_of, launch
from dcurate.kernels.layout import INLINE, Bytes, Ints, Rows
from dcurate.kernels.pii import scan
from dcurate.kernels.pii.groups import DigitGroups, group_room


@njit(**INLINE)
def _counts(data: Bytes, span: tuple[int, int], task: tuple[Any, Any, int], out: Ints) -> None:
    options, rooms, place = task
    starts, stops, sizes, totals, gaps, digits = rooms
    groups = DigitGroups(starts[place], stops[place], sizes[place], totals[place], gaps[place], digits[place])
    scan.count_pii(data, span, options, groups, out)


@build_of(scan.pii_counts)
def pii_counts(column: CudaColumn, rows: Rows, kinds: int, public: bool) -> npt.NDArray[np.int64]:
    """CUDA build of `dcurate.kernels.pii.scan.pii_counts`."""
    out = np.empty((len(rows), 1), np.int64)
    launch(_counts, column, rows, (int(kinds), bool(public)), room=group_room, out=out)
    return out[:, 0]
