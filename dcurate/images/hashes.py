"""Perceptual hashes of pictures: aHash, dHash, pHash, and a hash of 256 bits made as PDQ is.

All are made of one thumbnail: the mean brightness in a grid of 64 x 64 cells. Similar pictures have hashes that differ
in few bits. The bits are the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.errors import DataError
from dcurate.kernels.pictures import PADDED, SIDE, WAVES, hash_bits, luma, shrink, transform

Floats = npt.NDArray[np.float32]


def _waves() -> Floats:
    frequency, place = np.arange(WAVES)[:, None], np.arange(SIDE)[None, :]
    scale = np.where(frequency == 0, np.sqrt(1 / SIDE), np.sqrt(2 / SIDE))
    # rounded, as libraries differ in the last digit of a cosine
    return np.round(scale * np.cos(np.pi * frequency * (2 * place + 1) / (2 * SIDE)), 6).astype(np.float32)


_COSINES = _waves()
#: What `dcurate.kernels.pictures.measure` needs to make hashes.
COSINES = _COSINES, np.ascontiguousarray(np.pad(_COSINES.T, ((0, 0), (0, PADDED - WAVES))))


@dataclass(frozen=True, slots=True)
class Hashes:
    """The hashes of a picture.

    Attributes:
        ahash: 64 bits: which of 8 x 8 cells are brighter than the mean.
        dhash: 64 bits: where each of 8 rows of 9 cells gets brighter to the right.
        phash: 64 bits: which of the 8 x 8 lowest frequencies are above their median.
        pdq: 256 bits: which of the 16 x 16 lowest frequencies, without the constant, are above their median.
        detail: 0 to 100: how much there is to hash, as PDQ counts it. Hashes of pictures below about 50 say little.
    """

    ahash: bytes
    dhash: bytes
    phash: bytes
    pdq: bytes
    detail: int


def thumbnail64(gray: npt.NDArray[Any]) -> Floats:
    """Average a picture in a grid of 64 x 64 cells that covers all of it.

    Args:
        gray: height x width, uint8, of any size; or height x width x 3 in RGB.

    Returns:
        64 x 64, float32, brightness 0 to 255.

    Raises:
        DataError: an array of another form.

    Examples:
        >>> thumbnail64(np.full((100, 30), 7, np.uint8)).mean()
        np.float32(7.0)
    """
    plane = np.ascontiguousarray(gray)
    if plane.dtype != np.uint8 or plane.size == 0 or not (plane.ndim == 2 or plane.shape[2:] == (3,)):
        raise DataError(
            f"pixels of type {plane.dtype} and shape {plane.shape} cannot be hashed; give uint8, "
            "height x width, or height x width x 3"
        )
    if plane.ndim == 3:
        pixels, plane = plane, np.empty(plane.shape[:2], np.uint8)
        luma(pixels, plane)
    small = np.empty((SIDE, SIDE), np.float32)
    shrink(plane, small)
    return small


def hashes_of(thumbnail: Floats) -> Hashes:
    """Make all hashes of a thumbnail of 64 x 64 cells.

    Args:
        thumbnail: what `thumbnail64` returns; turn or flip it for the hashes of the picture turned or flipped.

    Examples:
        >>> ramp = np.tile(np.arange(64, dtype=np.float32) * 4, (64, 1))
        >>> hashes_of(ramp).dhash.hex(), hashes_of(np.ascontiguousarray(ramp[:, ::-1])).dhash.hex()
        ('ffffffffffffffff', '0000000000000000')
    """
    waves, packed = np.empty((WAVES, PADDED), np.float32), np.empty(56, np.uint8)
    transform(np.ascontiguousarray(thumbnail, np.float32), *COSINES, waves)
    detail = hash_bits(np.ascontiguousarray(thumbnail, np.float32), waves, packed)
    bits = packed.tobytes()
    return Hashes(bits[:8], bits[8:16], bits[16:24], bits[24:], int(detail))


def pdq256(gray: npt.NDArray[Any]) -> bytes:
    """The 256-bit hash of a picture; see `thumbnail64` for its form.

    Examples:
        >>> noise = np.random.default_rng(1).integers(0, 256, (64, 64), dtype=np.uint8)
        >>> len(pdq256(noise)), hamming(pdq256(noise), pdq256(noise)), hamming(pdq256(noise), pdq256(255 - noise))
        (32, 0, 256)
    """
    return hashes_of(thumbnail64(gray)).pdq


def phash64(gray: npt.NDArray[Any]) -> bytes:
    """The pHash of a picture: 8 bytes; see `thumbnail64` for its form."""
    return hashes_of(thumbnail64(gray)).phash


def dhash64(gray: npt.NDArray[Any]) -> bytes:
    """The dHash of a picture: 8 bytes; see `thumbnail64` for its form."""
    return hashes_of(thumbnail64(gray)).dhash


def ahash64(gray: npt.NDArray[Any]) -> bytes:
    """The aHash of a picture: 8 bytes; see `thumbnail64` for its form."""
    return hashes_of(thumbnail64(gray)).ahash


def hamming(first: bytes, second: bytes) -> int:
    r"""Count the bits in which two hashes of one length differ.

    Examples:
        >>> hamming(b"\x0f", b"\x01")
        3
    """
    return (int.from_bytes(first) ^ int.from_bytes(second)).bit_count()
