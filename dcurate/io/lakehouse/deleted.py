"""`DeletedRows`: rows of a file that its table does not have any more, as deletion vectors of Delta Lake say."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class DeletedRows:
    """Which rows of a file are deleted.

    Args:
        packed: a bit for each row of the file up to the last deleted one, which is set for a deleted row; compressed.

    Examples:
        >>> deleted = DeletedRows.of(np.array([True, False, False, True]))
        >>> deleted.kept(np.array([0, 1, 3, 9])).tolist()
        [True, False, True, True]
    """

    packed: bytes

    @classmethod
    def of(cls, kept: npt.NDArray[np.bool_]) -> DeletedRows:
        """The rows for which a mask is false; those beyond its end are kept."""
        return cls(zlib.compress(np.packbits(~kept).tobytes()))

    @property
    def digest(self) -> str:
        """A hash of the numbers of the rows."""
        return hashlib.blake2b(zlib.decompress(self.packed).rstrip(b"\0"), digest_size=8).hexdigest()

    def kept(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether each of these rows of the file is kept.

        Args:
            rows: numbers of rows.
        """
        if not len(rows):
            return np.ones(0, np.bool_)
        first, last = int(rows.min()) // 8, int(rows.max()) // 8 + 1
        bits = np.zeros(last - first, np.uint8)
        stored = np.frombuffer(zlib.decompress(self.packed), np.uint8)[first:last]
        bits[: len(stored)] = stored
        return ~np.unpackbits(bits).astype(np.bool_)[rows - 8 * first]
