"""Groups of near-duplicates, made of pairs that were verified, and which document of each group stays."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError, nearest
from dcurate.groups.components import positions
from dcurate.kernels.layout import Ints, frozen
from dcurate.kernels.stars import Links, Similarities, similarity_to, stars
from dcurate.kernels.union_find import joined, roots

#: How groups are made of pairs: `clustered` says it.
Clustering: TypeAlias = Literal["connected", "star"]

_WAYS = ("connected", "star")


class Groups(NamedTuple):
    """The members of groups of two or more documents, in the order of their numbers.

    ``group`` is the smallest number of the group, ``kept_member`` the one that stays, ``kept`` whether it is this one,
    ``size`` of how many the group is. ``similarity`` is that to the one that stays, 1 for itself; NaN where the two
    were not compared.
    """

    member: Ints
    group: Ints
    kept: npt.NDArray[np.bool_]
    kept_member: Ints
    similarity: Similarities
    size: Ints


def clustered(
    members: Ints,
    ranks: npt.NDArray[np.float64],
    left: Ints,
    right: Ints,
    similarity: Similarities,
    *,
    how: Clustering = "connected",
) -> Groups:
    """Groups of documents, of the pairs that are similar enough.

    ``"connected"``: documents that are connected by any number of pairs are a group. ``"star"``: in the order of rank
    and number, a document that is in no group yet takes all that it is paired with and that are in none. So each
    document that goes is similar to the one that stays, and no chain of small differences makes a group.

    Documents with a similarity of 1 are the same for all others, so they are taken for one: what one of them is paired
    with, all are. The document of the smallest rank stays, and of several of one rank, that with the smallest number;
    NaN is the largest rank. Neither order nor repetition of pairs matters. Time and memory are linear in the pairs, and
    any number of components may come at once.

    Args:
        members: the documents by number, in order, without repetition.
        ranks: rank of each of them.
        left: documents of verified pairs; ``members`` holds them.
        right: what they are paired with.
        similarity: similarity of each pair.
        how: see above.

    Raises:
        PipelineError: no such way.

    Examples:
        A chain: 1 and 2 are similar, and 2 and 3.

        >>> chain = [np.array([1, 2, 3]), np.zeros(3), np.array([1, 2]), np.array([2, 3]), np.float32([0.75, 0.5])]
        >>> groups = clustered(*chain)
        >>> groups.group.tolist(), groups.kept.tolist(), groups.similarity.tolist()
        ([1, 1, 1], [True, False, False], [1.0, 0.75, nan])
        >>> clustered(*chain, how="star").member.tolist()
        [1, 2]
    """
    if how not in _WAYS:
        raise PipelineError(f"unknown clustering={how!r}{nearest(str(how), _WAYS)}")
    order = np.lexsort((members, ranks))  # from here on documents are known by their places in this order
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    ends = [place[at] for at in positions(members, left, right)]
    links = Links(np.minimum(*ends), np.maximum(*ends), frozen(similarity, np.float32))
    same = links.similarity >= 1
    twins = roots(joined(len(order), links.low[same], links.high[same]))
    links = Links(twins[links.low], twins[links.high], links.similarity)
    links = Links(*(frozen(array, array.dtype) for array in (np.minimum(*links[:2]), np.maximum(*links[:2]), links[2])))
    centres = stars(links, len(order)) if how == "star" else roots(joined(len(order), links.low, links.high))
    close = similarity_to(links, centres)[twins]
    return _groups(members, order, centres[twins], close)


def _groups(members: Ints, order: Ints, centres: Ints, close: Similarities) -> Groups:
    """The groups, given for each place in the order its centre's place, and how similar the two are."""
    sizes = np.bincount(centres, minlength=len(order))[centres]
    chosen = np.flatnonzero(sizes > 1)
    chosen = chosen[np.argsort(order[chosen])]
    centre, who = centres[chosen], order[chosen]
    smallest = np.full(len(order), len(order))
    np.minimum.at(smallest, centre, who)
    return Groups(
        members[who], members[smallest[centre]], chosen == centre, members[order[centre]], close[chosen], sizes[chosen]
    )
