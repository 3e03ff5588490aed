"""Lines of ARPA files."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.kernels.layout import Bytes, Offsets, Places

#: The logarithm written for that of 0.
_LEAST = np.float32(-99)


def arpa_lines(
    chances: npt.NDArray[np.float64],
    words: Places,
    names: tuple[Offsets, Bytes],
    backoffs: npt.NDArray[np.float64] | None,
) -> bytes:
    r"""Return the lines of n-grams: logarithm of the probability, words, and that of the backoff.

    Args:
        chances: probability of each n-gram.
        words: numbers of the words of the n-grams, of shape (n-grams, order).
        names: bounds and bytes of all words.
        backoffs: of each n-gram; None for the longest ones, which have none.

    Examples:
        >>> names = np.array([0, 1, 2]), np.frombuffer(b"ab", np.uint8)
        >>> arpa_lines(np.array([0.01]), np.array([[0, 1]], np.int32), names, np.array([1.0]))
        b'-2\ta b\t0\n'
    """
    texts = pa.LargeStringArray.from_buffers(len(names[0]) - 1, pa.py_buffer(names[0]), pa.py_buffer(names[1]))
    ngrams = pc.binary_join_element_wise(*(texts.take(pa.array(column)) for column in words.T), _text(" "))
    columns = [_logarithms(chances), ngrams, *([] if backoffs is None else [_logarithms(backoffs)])]
    lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, _text("\t")), _text(""), _text("\n"))
    bounds = np.frombuffer(lines.buffers()[1], np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return bytes(memoryview(lines.buffers()[2])[int(bounds[0]) : int(bounds[-1])]) if len(lines) else b""


def _logarithms(numbers: npt.NDArray[np.float64]) -> pa.Array:
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log10(numbers).astype(np.float32), _LEAST)
    return pc.cast(pa.array(logs + np.float32(0)), pa.large_string())


def _text(separator: str) -> pa.Scalar:
    return pa.scalar(separator, pa.large_string())
