"""What a picture is compared by: a hash of its coarse structure, and a thumbnail; 1,176 bytes, and the same everywhere.

Both show the middle 94 % of each side, so that a thin border does not matter.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image

from dcurate.media.pixels import MAX_PIXELS, Pixels, decode

#: Column of fingerprints.
FINGERPRINT = "_dcurate_fingerprint"
#: Bits of the hash.
BITS = 128
#: Side of the thumbnail in gray, and of that in colours.
SIDE, COLOURS = 32, 8

_GRID = 64
_EDGE = 0.03
#: Pixels of the shorter side that are decoded.
_SHORT_SIDE = 128
_FREQUENCIES = 16
#: A frequency counts from this share of the mean on: what is weaker is noise, and so is what is weaker than 8 levels.
_SHARE, _LEAST = 0.4, 8.0
_SCALE = 2**12

Grays = npt.NDArray[np.uint8]

_TYPE = np.dtype(
    [
        ("hash", "<u8", (BITS // 64,)),
        ("width", "<u4"),
        ("height", "<u4"),
        ("gray", "u1", (SIDE, SIDE)),
        ("colours", "i1", (2, COLOURS, COLOURS)),
    ]
)
#: Bytes of a fingerprint.
SIZE = _TYPE.itemsize
#: The type of the column.
ARROW = pa.binary(SIZE)


class Fingerprints(NamedTuple):
    """Fingerprints of pictures, as arrays of one row each.

    Args:
        hashes: of shape (pictures, 2), uint64.
        pixels: width times height of the files.
        grays: thumbnails of shape (pictures, 32, 32), uint8.
        colours: Cb and Cr, of shape (pictures, 2, 8, 8), int8.
    """

    hashes: npt.NDArray[np.uint64]
    pixels: npt.NDArray[np.int64]
    grays: Grays
    colours: npt.NDArray[np.int8]

    @classmethod
    def of(cls, packed: bytes | pa.Array | pa.ChunkedArray) -> Fingerprints:
        """Unpack fingerprints: those of a column without nulls, or packed one after another."""
        if not isinstance(packed, bytes):
            packed = b"".join(packed.to_pylist())
        rows = np.frombuffer(packed, _TYPE)
        pixels = rows["width"].astype(np.int64) * rows["height"]
        return cls(rows["hash"].astype(np.uint64), pixels, rows["gray"], rows["colours"])

    @property
    def contents(self) -> npt.NDArray[np.uint64]:
        """A number for each thumbnail, equal for equal ones; numbers of similar colours are close to each other."""
        found = np.empty(len(self.hashes), np.uint64)
        for row, (gray, colours) in enumerate(zip(self.grays, self.colours, strict=True)):
            light = int(gray.mean()) >> 2
            blue, red = ((int(plane.mean()) + 128) >> 3 for plane in colours)
            own = hashlib.blake2b(gray.tobytes() + colours.tobytes(), digest_size=6).digest()
            found[row] = (light << 58 | blue << 53 | red << 48) | int.from_bytes(own, "little")
        return found

    @property
    def mirrored(self) -> npt.NDArray[np.uint64]:
        """The hashes of the pictures flipped left to right: they differ in the sign of each second column of waves."""
        raise NotImplementedError


def _waves() -> npt.NDArray[np.int64]:
    frequency, place = np.arange(1, _FREQUENCIES + 1)[:, None], np.arange(_GRID)[None, :]
    exact = np.sqrt(2 / _GRID) * np.cos(np.pi * frequency * (2 * place + 1) / (2 * _GRID))
    return np.round(exact * _SCALE).astype(np.int64)  # whole numbers give the same bits on every machine


def _lowest() -> npt.NDArray[np.int64]:
    """The places of the lowest frequencies, the lowest first."""
    down, across = np.divmod(np.arange(_FREQUENCIES**2), _FREQUENCIES)
    return np.lexsort((down, (down - across) ** 2, down + across))[:BITS]


_COSINES, _LOWEST = _waves(), _lowest()


def structure_hash(gray: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """The hash of 64 x 64 levels of gray: which of the 128 lowest frequencies of their cosine transform are strong.

    A bit is set where a frequency is above 0.4 of the root mean square of all, and 8 levels. So what is weak gives
    zeros rather than noise: pictures of one colour have the hash 0.

    Args:
        gray: of shape (64, 64), whole numbers from 0 to 255.

    Examples:
        >>> structure_hash(np.full((64, 64), 200)).tolist()
        [0, 0]
    """
    waves = (_COSINES @ gray.astype(np.int64) @ _COSINES.T).ravel()[_LOWEST] / float(_SCALE**2)
    least = max(_LEAST, _SHARE * float(np.sqrt(np.square(waves).sum() / BITS)))
    return np.packbits(waves > least, bitorder="little").view("<u8").astype(np.uint64)


def fingerprint_of(pixels: Pixels, width: int | None = None, height: int | None = None) -> bytes:
    """The fingerprint of a picture.

    Args:
        pixels: of shape (height, width, 3), uint8, RGB; of reduced size where that has 64 pixels a side.
        width, height: of the picture itself; by default those of `pixels`.

    Examples:
        >>> data = fingerprint_of(np.zeros((300, 200, 3), np.uint8))
        >>> len(data), Fingerprints.of(data).pixels.tolist()
        (1176, [60000])
    """
    rows, columns = pixels.shape[:2]
    box = (columns * _EDGE, rows * _EDGE, columns * (1 - _EDGE), rows * (1 - _EDGE))
    cells = np.asarray(Image.fromarray(pixels).resize((_GRID, _GRID), Image.Resampling.BOX, box), np.int64)
    red, green, blue = cells[..., 0], cells[..., 1], cells[..., 2]
    light = 299 * red + 587 * green + 114 * blue  # in thousandths
    gray = (light + 500) // 1000
    found = np.zeros((), _TYPE)
    found["hash"] = structure_hash(gray)
    found["width"], found["height"] = width or columns, height or rows
    found["gray"] = (_sums(gray, SIDE) + 2) // 4
    for place, (plane, unit) in enumerate(((blue, 1.772), (red, 1.402))):
        apart = _sums(1000 * plane - light, COLOURS) / (1000 * (_GRID // COLOURS) ** 2 * unit)
        found["colours"][place] = np.clip(np.rint(apart), -128, 127)
    return found.tobytes()


def _sums(cells: npt.NDArray[np.int64], side: int) -> npt.NDArray[np.int64]:
    """Add up cells so that so many are left along a side."""
    each = len(cells) // side
    return cells.reshape(side, each, side, each).sum(axis=(1, 3))


def read_fingerprint(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Decode a picture and return its fingerprint; for a `dcurate.media.sandbox.Sandbox`.

    Raises:
        MediaError: it cannot be decoded.
    """
    picture = decode(data, _SHORT_SIDE, max_pixels=options.get("max_pixels", MAX_PIXELS))
    header = picture.header
    return {}, [fingerprint_of(picture.pixels, header.width, header.height)]


def read_digest(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Decode a picture and return a hash of its pixels; for a `dcurate.media.sandbox.Sandbox`.

    Raises:
        MediaError: it cannot be decoded.
    """
    pixels = decode(data, max_pixels=options.get("max_pixels", MAX_PIXELS)).pixels
    digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(pixels).data)
    return {}, [digest.digest()]
