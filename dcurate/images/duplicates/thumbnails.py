"""Verify candidates: how likely two thumbnails are to show the same picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.images.duplicates.fingerprint import Fingerprints
from dcurate.kernels.layout import Ints
from dcurate.kernels.thumbnails import thumbnail_differences

Floats = npt.NDArray[np.float64]

#: Weights of what `evidence` makes of the measures of a pair, and a constant: a logistic regression on versions of
#: pictures (resized, saved again, brighter, and so on) and on different ones, of half of the clusters of three sets.
_WEIGHTS = np.array([6.89, -8.32, -3.01, -9.01, -23.11, 6.17, -5.35, -0.38])
_CONSTANT = 1.99
#: Plain pictures: the evidence that two of one colour are the same, and the levels of difference that take 1 from it.
_PLAIN, _LEVELS = 4.0, 8.0
#: The largest similarity of pictures whose thumbnails differ.
_NEXT_TO_ONE = 1 - 2.0**-20


def evidence(measures: npt.NDArray[Any]) -> Floats:
    """Say how likely pairs are to show the same picture: the logarithm of the odds.

    A picture with contrast is judged by its structure and hue; of a plain one the colour is all there is to compare.

    Args:
        measures: array of shape (pairs, measures), see `dcurate.kernels.thumbnails.MEASURES`.
    """
    residual, worst, texture, peak, hue, brightness, contrast, colour, shift = measures.T.astype(np.float64)
    columns = [
        np.log(residual + 1e-3),
        np.log(worst + 3e-3),
        np.log(texture + 2e-2),
        np.log(peak + 0.1),
        10 * np.clip(hue - 0.05, 0, 0.3),
        brightness / 64,
        colour / 32,
        shift,
    ]
    structure = np.stack(columns, axis=1) @ _WEIGHTS + _CONSTANT
    plain = np.exp(-contrast / 4)
    return np.asarray((1 - plain) * structure + plain * (_PLAIN - np.hypot(brightness, colour) / _LEVELS))


@dataclass(frozen=True)
class ThumbnailSimilarity:
    """The similarity of pairs of pictures by their thumbnails: 0 to 1, from 0.5 on they are likely to be the same.

    The thumbnails are aligned (moved and stretched by up to 5 % of a side), the tone of one is fitted to that of the
    other, and what is left is judged: over all, where it is worst, against the texture there, and by hue and colour.
    Equal thumbnails have a similarity of 1.

    Args:
        prints: the pictures.
        flips: whether a picture and its mirror image are the same.

    Examples:
        >>> from dcurate.images.duplicates.fingerprint import fingerprint_of
        >>> noise = np.random.default_rng(0).integers(0, 255, (8, 8, 3), np.uint8)
        >>> picture = np.kron(noise, np.ones((20, 20, 1), np.uint8))
        >>> pictures = [picture, picture // 2 + 40, picture[::-1]]
        >>> similarity = ThumbnailSimilarity(Fingerprints.of(b"".join(map(fingerprint_of, pictures))))
        >>> (similarity(np.array([0, 0]), np.array([1, 2])) > 0.5).tolist()
        [True, False]
    """

    prints: Fingerprints
    flips: bool = False

    def __call__(self, left: Ints, right: Ints) -> Floats:
        """Compare the pictures of these numbers, pair by pair."""
        similarity = self._compared(left, right, mirrored=False)
        return np.maximum(similarity, self._compared(left, right, mirrored=True)) if self.flips else similarity

    def _compared(self, left: Ints, right: Ints, mirrored: bool) -> Floats:
        grays, colours = (np.ascontiguousarray(array) for array in (self.prints.grays, self.prints.colours))
        left, right = (np.ascontiguousarray(array, np.int64) for array in (left, right))
        measures = thumbnail_differences(grays, colours, left, right, mirrored)
        similarity = 1 / (1 + np.exp(-np.clip(evidence(measures), -50, 50)))
        equal = (measures[:, [0, 5, 7]] == 0).all(axis=1)
        return np.where(equal, 1.0, np.minimum(similarity, _NEXT_TO_ONE))
