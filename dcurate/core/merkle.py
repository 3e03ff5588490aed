"""Merkle trees of SHA-256: one digest for many, and the path from one of them to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

#: Children of a node: few nodes beside the leaves, and short paths.
FAN_OUT = 16


@dataclass(frozen=True)
class MerklePath:
    """The digests that lead from a leaf to the root of its tree.

    Args:
        about: what the root says besides its leaves.
        count: number of leaves.
        steps: of each level, the digests before and after the one that is followed, from the leaf up.
    """

    about: bytes
    count: int
    steps: tuple[tuple[tuple[bytes, ...], tuple[bytes, ...]], ...]

    def root(self, leaf: bytes) -> bytes:
        """The root of the tree that has this leaf here."""
        for before, after in self.steps:
            leaf = sha256(b"".join([*before, leaf, *after])).digest()
        return _closed(self.about, self.count, leaf)


def merkle_root(leaves: Sequence[bytes], about: bytes = b"") -> bytes:
    """The root of a tree over leaves in this order.

    The number of leaves and their description are part of it, so that neither a node passes for a leaf nor one tree
    for another.

    Args:
        leaves: digests of 32 bytes.
        about: what they are of.

    Examples:
        >>> merkle_root([bytes(32), bytes(32)]).hex()[:8], merkle_root([bytes(32)]).hex()[:8]
        ('9d46fd24', '0cfdbeb5')
    """
    level = list(leaves)
    while len(level) > 1:
        level = [sha256(b"".join(level[at : at + FAN_OUT])).digest() for at in range(0, len(level), FAN_OUT)]
    return _closed(about, len(leaves), level[0] if level else b"")


def merkle_path(leaves: Sequence[bytes], place: int, about: bytes = b"") -> MerklePath:
    """The path from a leaf to the root of its tree.

    Examples:
        >>> leaves = [bytes([number]) * 32 for number in range(40)]
        >>> merkle_path(leaves, 17).root(leaves[17]) == merkle_root(leaves)
        True
    """
    level, steps = list(leaves), []
    while len(level) > 1:
        start = place - place % FAN_OUT
        steps.append((tuple(level[start:place]), tuple(level[place + 1 : start + FAN_OUT])))
        level = [sha256(b"".join(level[at : at + FAN_OUT])).digest() for at in range(0, len(level), FAN_OUT)]
        place //= FAN_OUT
    return MerklePath(about, len(leaves), tuple(steps))


def _closed(about: bytes, count: int, top: bytes) -> bytes:
    return sha256(b"dcurate\0" + len(about).to_bytes(8) + about + count.to_bytes(8) + top).digest()
