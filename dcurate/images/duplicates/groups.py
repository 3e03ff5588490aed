"""Groups of near-duplicate images: connected pairs, but nothing that looks unlike the image that stays."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from dcurate.groups.clusters import Groups, clustered
from dcurate.groups.components import Edges
from dcurate.groups.verify import Comparison
from dcurate.kernels.stars import Similarities

#: How groups are made of pairs: `ImageNearDuplicates` says it.
ImageClustering = Literal["guarded", "connected", "star"]

#: Least similarity of a member of a guarded group to the image that stays. Of versions of a picture that are changed
#: in different ways it may be small; of different pictures it is smaller still.
LEAST = 1e-6
_ROUNDS = 8


def guarded(
    ranks: npt.NDArray[np.float64], pairs: Edges, similarity: Similarities, compare: Comparison, least: float = LEAST
) -> Groups:
    """Group images that are connected by pairs; one that is unlike the image that stays leaves, with others as unlike.

    A chain of small changes would else join different pictures. Those that leave a group are grouped again among
    themselves, a few times; in the end each must be paired with the one that stays. Time is linear in the pairs.

    Args:
        ranks: rank of each image: the smallest of a group stays.
        pairs: images that are similar enough, by their places among all.
        similarity: similarity of each pair.
        compare: gives the similarity of any pairs.
        least: least similarity of an image and the one that stays.

    Examples:
        A chain in which each is like the next: 3 is not like 0.

        >>> far = lambda left, right: np.where(abs(left - right) < 3, 0.5, 0.0)
        >>> pairs = Edges(np.array([0, 1, 2]), np.array([1, 2, 3]))
        >>> guarded(np.zeros(4), pairs, np.full(3, 0.9, np.float32), far).member.tolist()
        [0, 1, 2]
    """
    places = np.arange(len(ranks))
    for _ in range(_ROUNDS):
        groups = clustered(places, ranks, *pairs, similarity)
        close = groups.similarity.astype(np.float64)
        unknown = np.flatnonzero(np.isnan(close))
        close[unknown] = compare(groups.member[unknown], groups.kept_member[unknown])
        near = close >= least
        if near.all():
            return groups
        far = np.zeros(len(ranks), np.bool_)
        far[groups.member[~near]] = True
        inside = far[pairs.left] == far[pairs.right]
        added = near & ~groups.kept
        pairs, similarity = (
            Edges(
                np.concatenate([pairs.left[inside], groups.kept_member[added]]),
                np.concatenate([pairs.right[inside], groups.member[added]]),
            ),
            np.concatenate([similarity[inside], close[added].astype(np.float32)]),
        )
    return clustered(places, ranks, *pairs, similarity, how="star")
