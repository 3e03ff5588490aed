"""Compilation options of kernels, and the form of their arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import config, njit
from numba.core import event

from dcurate.fs.temporary import own_folder
from dcurate.kernels.first_use import FirstUse
from dcurate.kernels.inlining import Inlining, LateInlining

_WRITABLE = any(os.access(place, os.W_OK) for place in (Path(__file__).parent, Path.home()))
if not _WRITABLE and not os.environ.get("NUMBA_CACHE_DIR"):
    # numba keeps compiled kernels beside the package or at home; in a container that may write to neither, here.
    # What is kept is code, so nobody else may write there.
    vars(config)["CACHE_DIR"] = os.environ["NUMBA_CACHE_DIR"] = str(own_folder("kernels"))

event.register("numba:compile", FirstUse())  # type: ignore[no-untyped-call]

#: Every kernel is compiled with these: without the GIL, kept on disk, no bounds checks, not callable from C.
OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "boundscheck": False, "no_cfunc_wrapper": True}

#: Functions that allocate arrays and that kernels call: compiled into them, as a call would pass arrays by the dozen.
ALLOCATING: dict[str, Any] = {**OPTIONS, "cache": False, "forceinline": True, "pipeline_class": Inlining}

#: All other functions that kernels call. They count no references to the arrays that they are passed, which their
#: callers hold: counting is atomic, and took up to half of a kernel's time. Numba refuses to let them allocate.
INLINE: dict[str, Any] = {**ALLOCATING, "_nrt": False}

#: Those of kernels that were measured to be as fast if they are optimised as a whole, which compiles in less time.
INLINE_LATE: dict[str, Any] = {**INLINE, "pipeline_class": LateInlining}

#: Large functions that kernels call in several places, and not for each byte: each kernel has one copy of them. It
#: compiles in less time than with a copy at each call, and is a little slower.
SHARED: dict[str, Any] = {**INLINE_LATE, "forceinline": False}

Rows = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
#: Numbers of rows or words of one text, plus one where 0 is none.
Places = npt.NDArray[np.int32]
#: Values passed between kernels have numba's types (int64, bool, uint64), unknown to type checkers.
Scalar = Any
Word = Any


def frozen(array: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
    """The array in the kernels' form: contiguous, of one type and read-only, so that each kernel compiles once.

    Examples:
        >>> frozen(np.array([0, 3], np.int32), np.int64).flags.writeable
        False
    """
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view


@njit(**INLINE)
def longest(offsets: Offsets, rows: Rows) -> Scalar:
    """Bytes of the longest of the texts numbered ``rows``: the size of scratch arrays."""
    most = np.int64(0)
    for row in rows:
        most = max(most, offsets[row + 1] - offsets[row])
    return most
