"""Locality-sensitive hashing: texts whose signatures agree in a whole band are worth comparing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError
from dcurate.kernels.minhash import band_keys

#: What a band costs, as false candidates: sixteen bytes of each text that is shuffled.
_BAND_COST = 0.001
_STEPS = 1000


@dataclass(frozen=True)
class Bands:
    """Bands of a signature: two texts are candidates if they agree in all entries of any band.

    Args:
        bands: number of bands: more find more pairs.
        rows: entries of a band: more let fewer dissimilar pairs through.

    Raises:
        PipelineError: invalid numbers.

    Examples:
        >>> Bands(20, 13).probability([0.5, 0.8, 0.9]).round(3).tolist()
        [0.002, 0.677, 0.997]
    """

    bands: int
    rows: int

    def __post_init__(self) -> None:
        for name in ("bands", "rows"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise PipelineError(f"{name}={getattr(self, name)!r} is not a whole number from 1 on")

    @classmethod
    def for_threshold(cls, threshold: float, num_hashes: int, recall: float = 0.98) -> Self:
        """Bands that find pairs at a similarity with a chance of ``recall``, and pairs below it as rarely as can be.

        Of all bands that fit ``num_hashes`` places, those that let the fewest pairs below the threshold through; a
        band less is worth as much as 0.1 % of these pairs. If none reaches the recall, those that come nearest.

        Args:
            threshold: similarity, above 0 and below 1.
            num_hashes: places of a signature.
            recall: chance at the threshold; above it the chance is greater.

        Raises:
            PipelineError: an invalid threshold or recall.

        Examples:
            >>> bands = Bands.for_threshold(0.8, 256)
            >>> bands, bands.probability([0.5, 0.8]).round(3).tolist()
            (Bands(bands=28, rows=9), [0.053, 0.982])
        """
        if not (0 < threshold < 1 and 0 < recall < 1):
            raise PipelineError(f"threshold={threshold!r} and recall={recall!r} must be above 0 and below 1")
        if num_hashes < 1:
            raise PipelineError(f"num_hashes={num_hashes!r} is not a whole number from 1 on")
        grid = (np.arange(_STEPS) + 0.5) / _STEPS * threshold
        choices = []
        for rows in range(1, num_hashes + 1):
            needed = _bands_for(threshold**rows, recall)
            if needed * rows > num_hashes:
                break
            choice = cls(needed, rows)
            choices.append((choice.probability(grid).mean() + _BAND_COST * needed, choice))
        if not choices:
            return cls(num_hashes, 1)
        return min(choices, key=lambda item: item[0])[1]

    def probability(self, similarity: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The chance that a pair of texts of a similarity, or of several, becomes a candidate: the S-curve."""
        return np.asarray(1.0 - (1.0 - np.asarray(similarity, np.float64) ** self.rows) ** self.bands)

    def keys(self, signatures: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
        """A hash of each band of each signature, of shape (texts, bands): its number and its places; never 0.

        Raises:
            PipelineError: signatures that have fewer places than the bands.
        """
        if signatures.shape[1] < self.bands * self.rows:
            raise PipelineError(
                f"{self.bands} bands of {self.rows} need signatures of {self.bands * self.rows} places, not"
                f" {signatures.shape[1]}; choose fewer bands or a larger num_hashes"
            )
        return band_keys(signatures, self.bands, self.rows)


def _bands_for(chance: float, recall: float) -> int:
    """Return the number of bands that reach a recall, given the probability of a match in one."""
    return max(int(np.ceil(np.log1p(-recall) / np.log1p(-chance))), 1) if chance > 1e-12 else 2**62
