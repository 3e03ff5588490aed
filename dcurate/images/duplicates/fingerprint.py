"""What a picture is compared by: a hash of its coarse structure, and a thumbnail; 1,192 bytes, and the same everywhere.

Both show the middle 94 % of each side, so that a thin border does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash
from PIL import Image

from dcurate.kernels.structure import BITS, GRID, structure_hash
from dcurate.media.image.pixels import Pixels, decode

#: Column of fingerprints.
FINGERPRINT = "_dcurate_fingerprint"
#: Side of the thumbnail in gray, and of that in colours.
SIDE, COLOURS = 32, 8

_EDGE = 0.03
#: Pixels of the shorter side that are decoded.
_SHORT_SIDE = 128

Grays = npt.NDArray[np.uint8]

_TYPE = np.dtype(
    [
        ("hash", "<u8", (BITS // 64,)),
        ("mirrored", "<u8", (BITS // 64,)),
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
        hashes: array of shape (pictures, 2), uint64.
        mirrored: those of the pictures flipped, left to right.
        pixels: width times height of the files.
        grays: thumbnails of shape (pictures, 32, 32), uint8.
        colours: Cb and Cr, of shape (pictures, 2, 8, 8), int8.
    """

    hashes: npt.NDArray[np.uint64]
    mirrored: npt.NDArray[np.uint64]
    pixels: npt.NDArray[np.int64]
    grays: Grays
    colours: npt.NDArray[np.int8]

    @classmethod
    def of(cls, packed: bytes | pa.Array | pa.ChunkedArray) -> Fingerprints:
        """Unpack fingerprints: those of a column, without its nulls, or packed one after another."""
        if not isinstance(packed, bytes):
            packed = b"".join(packed.drop_null().to_pylist())
        rows = np.frombuffer(packed, _TYPE)
        pixels = rows["width"].astype(np.int64) * rows["height"]
        hashes, mirrored = rows["hash"].astype(np.uint64), rows["mirrored"].astype(np.uint64)
        return cls(hashes, mirrored, pixels, rows["gray"], rows["colours"])

    def with_others(self, others: Fingerprints) -> Fingerprints:
        """These, and others after them."""
        pairs: Iterable[Any] = zip(self, others, strict=True)
        return Fingerprints(*map(np.concatenate, pairs))

    @property
    def contents(self) -> npt.NDArray[np.uint64]:
        """A number for each thumbnail, equal for equal ones; numbers of similar colours are close to each other."""
        contents = np.empty(len(self.hashes), np.uint64)
        for row, (gray, colours) in enumerate(zip(self.grays, self.colours, strict=True)):
            light = int(gray.mean()) >> 2
            blue, red = ((int(plane.mean()) + 128) >> 3 for plane in colours)
            digest = xxhash.xxh3_64_intdigest(gray.tobytes() + colours.tobytes()) >> 16
            contents[row] = light << 58 | blue << 53 | red << 48 | digest
        return contents


def fingerprint_of(pixels: Pixels, width: int | None = None, height: int | None = None) -> bytes:
    """The fingerprint of a picture.

    Args:
        pixels: array of shape (height, width, 3), uint8, RGB; of reduced size where that has 64 pixels a side.
        width, height: size of the picture itself; by default that of `pixels`.

    Examples:
        >>> data = fingerprint_of(np.zeros((300, 200, 3), np.uint8))
        >>> len(data), Fingerprints.of(data).pixels.tolist()
        (1192, [60000])
    """
    rows, columns = pixels.shape[:2]
    box = (columns * _EDGE, rows * _EDGE, columns * (1 - _EDGE), rows * (1 - _EDGE))
    cells = np.asarray(Image.fromarray(pixels).resize((GRID, GRID), Image.Resampling.BOX, box), np.int64)
    red, green, blue = cells[..., 0], cells[..., 1], cells[..., 2]
    light = 299 * red + 587 * green + 114 * blue  # in thousandths
    gray = (light + 500) // 1000
    fingerprint = np.zeros((), _TYPE)
    fingerprint["hash"], fingerprint["mirrored"] = structure_hash(gray), structure_hash(gray[:, ::-1])
    fingerprint["width"], fingerprint["height"] = width or columns, height or rows
    fingerprint["gray"] = (_smoothed(_smoothed(gray).T).T + 32) // 64
    for place, (plane, unit) in enumerate(((blue, 1.772), (red, 1.402))):
        apart = _sums(1000 * plane - light, COLOURS) / (1000 * (GRID // COLOURS) ** 2 * unit)
        fingerprint["colours"][place] = np.clip(np.rint(apart), -128, 127)
    return fingerprint.tobytes()


def _smoothed(cells: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Halve the rows, each new one of four with the weights 1, 3, 3, 1: so it hardly matters where an edge lies."""
    padded = np.pad(cells, ((1, 1), (0, 0)), mode="edge")
    halved: npt.NDArray[np.int64] = padded[:-3:2] + 3 * padded[1:-2:2] + 3 * padded[2:-1:2] + padded[3::2]
    return halved


def _sums(cells: npt.NDArray[np.int64], side: int) -> npt.NDArray[np.int64]:
    """Add up cells until `side` of them are left along each side."""
    block_side = len(cells) // side
    summed: npt.NDArray[np.int64] = cells.reshape(side, block_side, side, block_side).sum(axis=(1, 3))
    return summed


def read_fingerprint(data: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Decode a picture and return its fingerprint; see `dcurate.isolate.sandbox.Sandbox`.

    Raises:
        MediaError: it cannot be decoded.
    """
    picture = decode(data, _SHORT_SIDE, max_pixels=options["max_pixels"])
    return {}, [fingerprint_of(picture.pixels, picture.header.width, picture.header.height)]


def read_pixel_digest(data: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Decode a picture and return a hash of its pixels and their shape; see `dcurate.isolate.sandbox.Sandbox`.

    Raises:
        MediaError: it cannot be decoded.
    """
    pixels = decode(data, max_pixels=options["max_pixels"]).pixels
    seed = pixels.shape[0] << 32 | pixels.shape[1]
    return {}, [xxhash.xxh3_128_digest(pixels.data, seed=seed)]
