"""Find and measure the URLs of texts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, Bytes, Ints, Scalar
from dcurate.kernels.signal import columns, signal

#: Bytes that can be in a URL, regardless of their neighbours.
_INNER = np.array([(byte < 128 and chr(byte).isalnum()) or byte in b"$-_@.&+/:=?#~!*()," for byte in range(256)])
_HEX = np.array([byte in b"0123456789abcdefABCDEF" for byte in range(256)])
_HTTP = int.from_bytes(b"http", "big")
_PORN = int.from_bytes(b"porn", "big")
_COLON, _SLASH, _PERCENT, _S = 0x3A, 0x2F, 0x25, 0x73
_FOUR_BYTES = 0xFFFFFFFF


class UrlSignals(NamedTuple):
    r"""The URLs of each text: ``total`` is their number, ``characters`` the sum of their lengths.

    ``pornographic`` counts those that contain "porn". A URL matches the pattern
    ``https?://(?:[A-Za-z0-9$\-_@.&+/:=?#~!*(),]|%[0-9A-Fa-f]{2})+``.
    """

    total: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int64]
    pornographic: npt.NDArray[np.int64]


@njit(**INLINE)
def _four_before(data: Bytes, start: int, at: int) -> Scalar:
    """The four bytes before ``at`` as one number, or 0 if there are fewer."""
    if at - 4 < start:
        return 0
    return (
        (np.int64(data[at - 4]) << 24)
        | (np.int64(data[at - 3]) << 16)
        | (np.int64(data[at - 2]) << 8)
        | np.int64(data[at - 1])
    )


@njit(**INLINE)
def _begin(data: Bytes, start: int, colon: int, stop: int) -> Scalar:
    """Start of the URL with this colon; -1 if it is none."""
    if colon + 3 >= stop or data[colon + 1] != _SLASH or data[colon + 2] != _SLASH:
        return -1
    if _four_before(data, start, colon) == _HTTP:
        return colon - 4
    if colon > start and data[colon - 1] == _S and _four_before(data, start, colon - 1) == _HTTP:
        return colon - 5
    return -1


@njit(**INLINE)
def _end(data: Bytes, at: int, stop: int) -> Scalar:
    """End of the bytes from ``at`` on that can be in a URL."""
    while at < stop:
        if _INNER[data[at]]:
            at += 1
        elif data[at] == _PERCENT and at + 2 < stop and _HEX[data[at + 1]] and _HEX[data[at + 2]]:
            at += 3
        else:
            break
    return at


@njit(**INLINE)
def _is_pornographic(data: Bytes, start: int, stop: int) -> Scalar:
    last = np.int64(0)
    for at in range(start, stop):
        last = ((last << 8) | np.int64(data[at])) & _FOUR_BYTES
        if last == _PORN:
            return True
    return False


@njit(**INLINE)
def measure_urls(data: Bytes, span: tuple[int, int], tables: int, scratch: Bytes, out: Ints) -> None:
    """Measure the URLs of one text, as in `UrlSignals`."""
    free, stop = span
    at = free
    total = characters = pornographic = 0
    while at < stop:
        if data[at] != _COLON:
            at += 1
            continue
        begin = _begin(data, free, at, stop)
        end = _end(data, at + 3, stop) if begin >= 0 else 0
        if end <= at + 3:
            at += 1
            continue
        total += 1
        characters += end - begin
        pornographic += _is_pornographic(data, begin, end)
        at = free = end
    out[0], out[1], out[2] = total, characters, pornographic


@signal(measure_urls, columns(UrlSignals))
def url_signals() -> int:
    """Find URLs.

    Examples:
        >>> text = b"see http://a.b/c%20d and https://e, or http://"
        >>> signals = url_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> [int(count[0]) for count in signals]
        [2, 26, 0]
    """
    return 0
