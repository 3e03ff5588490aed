"""Split examples so that the parts share no near-duplicate and no site."""

from __future__ import annotations

from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from dcurate.frames.text import TextColumn
from dcurate.kernels.minhash import band_keys, one_permutation
from dcurate.kernels.shingles import Rule
from dcurate.kernels.union_find import joined, roots
from dcurate.learn.training import ExampleSplit

#: Texts are near-duplicates if any band of their signatures is equal: so are 64 of 100 pairs with a similarity of 0.5
#: and 99 of 100 with one of 0.7.
BANDS, ROWS = 16, 4
_NO_SHINGLE = np.uint32(0xFFFFFFFF)

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


def bands_of(texts: TextColumn) -> Words:
    """Return the keys of the bands of each text, of shape (texts, bands); 0 for texts of fewer than five words."""
    signatures = one_permutation.run(texts, np.arange(len(texts)), Rule(5, True, np.uint64(0)), BANDS * ROWS)
    keys = band_keys(signatures, BANDS, ROWS)
    keys[(signatures == _NO_SHINGLE).all(axis=1)] = 0
    return keys


def site_of(value: object) -> str:
    """Return the host of a URL without ``www.``; another value as it is, as text; empty for null.

    Examples:
        >>> site_of("https://www.example.org/page"), site_of("a book"), site_of(None)
        ('example.org', 'a book', '')
    """
    if value is None:
        return ""
    text = str(value)
    if "://" not in text:
        return text
    try:
        host = urlsplit(text).hostname or ""
    except ValueError:
        return text
    return host.removeprefix("www.")


def groups_of(keys: Words) -> Ints:
    """Return the group of each text: the number of the first text that it is joined with, by equal keys of a column.

    Args:
        keys: keys of shape (texts, columns); 0 joins nothing.

    Examples:
        >>> groups_of(np.array([[1, 7], [2, 8], [1, 9], [3, 8]], np.uint64)).tolist()
        [0, 1, 0, 1]
    """
    left, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for column in keys.T:
        order = np.argsort(column, kind="stable")
        ordered = column[order]
        equal = np.flatnonzero((ordered[1:] == ordered[:-1]) & (ordered[1:] != 0))
        left.append(order[equal])
        right.append(order[equal + 1])
    return roots(joined(len(keys), np.concatenate(left), np.concatenate(right)))


def split(order: Ints, keys: Words, fractions: tuple[float, float], seed: int) -> ExampleSplit:
    """Split texts by groups, in random order; a group that is larger than what a part still lacks is trained on.

    Args:
        order: the numbers of the texts in an order that does not depend on how they were read.
        keys: keys of each text, see `groups_of`.
        fractions: the part of the texts for validation, and the part that is held back.
    """
    groups = groups_of(keys[order])
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    wanted = [round(fraction * len(order)) for fraction in fractions]
    part = np.zeros(len(sizes), np.int8)
    for number in np.random.default_rng([seed, 1]).permutation(len(sizes)).tolist():
        for place in (1, 0):
            if 0 < sizes[number] <= wanted[place]:
                wanted[place] -= int(sizes[number])
                part[number] = place + 1
                break
        if not any(wanted):
            break
    which = part[group]
    return ExampleSplit(*(order[which == number] for number in range(3)))
