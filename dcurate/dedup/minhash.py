"""MinHash signatures and sets of shingle hashes of texts, to estimate their similarity."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dcurate.dedup.shingles import Shingles
from dcurate.errors import PipelineError
from dcurate.frames.text import TextColumn
from dcurate.kernels import cuda_sets
from dcurate.kernels.cuda import CudaColumn
from dcurate.kernels.minhash import equal_shares, one_permutation
from dcurate.kernels.permutations import Permutations, Window, as_cudf, permuted
from dcurate.kernels.sets import Sets, jaccard_of_sets, shingle_sets

#: How signatures are made.
Method: TypeAlias = Literal["one_permutation", "permutations", "cudf"]

_METHODS = ("one_permutation", "permutations", "cudf")
_MOST_HASHES = 4096


@dataclass(frozen=True)
class MinHash:
    """Signatures of texts: the expected share of equal entries of two is the similarity of the texts.

    The share of equal entries is an unbiased estimate of the Jaccard similarity J of the sets of shingles, with a
    standard error of ``sqrt(J * (1 - J) / num_hashes)`` or less.

    Args:
        shingles: the features that are compared.
        num_hashes: entries of a signature, four bytes each.
        method: "one_permutation" hashes each shingle once, into one of ``num_hashes`` bins that keep their least value,
            and hashes again for bins that stay empty (Dahlgaard, Knudsen and Thorup: Fast Similarity Sketching, 2017);
            "permutations" takes the least of all shingles for each of ``num_hashes`` permutations (Broder, 1997);
            "cudf" is bit for bit what NeMo Curator's ``MinHashStage`` computes on a GPU with 32-bit hashes, for
            ``Shingles(24, "characters")`` and 260 hashes as it has them by default.

    Raises:
        PipelineError: a number of hashes out of range, or an unknown method.

    Examples:
        >>> from dcurate.frames.text import column_of
        >>> texts = column_of([b"once upon a time there was a king", b"Once upon a time, there was a king!"])
        >>> signatures = MinHash(num_hashes=64).signatures(texts)
        >>> estimated(signatures, np.array([0]), np.array([1]))
        array([1.])
    """

    shingles: Shingles = field(default_factory=Shingles)
    num_hashes: int = 128
    method: Method = "one_permutation"

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise PipelineError(f"method={self.method!r} is not one of {', '.join(_METHODS)}")
        if type(self.num_hashes) is not int or not 1 <= self.num_hashes <= _MOST_HASHES:
            raise PipelineError(f"num_hashes={self.num_hashes!r} is not a whole number from 1 to {_MOST_HASHES}")
        if self.method == "cudf" and (self.shingles.unit != "characters" or self.shingles.seed >= 2**32):
            raise PipelineError(
                'method="cudf" needs shingles of characters and a seed below 2**32: Shingles(24, "characters")'
            )

    def signatures(
        self, column: TextColumn | CudaColumn, rows: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.uint32]:
        """The signatures of texts, of shape (texts, num_hashes).

        That of a text without a shingle holds 2**32 - 1 in every place, or 0 with the method "cudf".

        Args:
            column: texts; texts on a GPU are signed there, with the same result.
            rows: numbers of texts; all by default.
        """
        rows = np.arange(len(column.offsets) - 1) if rows is None else rows
        rule, seed = self.shingles.rule, self.shingles.seed
        if self.method == "one_permutation":
            return one_permutation.run(column, rows, rule, self.num_hashes)
        if self.method == "permutations":
            return permuted.run(column, rows, rule, Permutations.seeded(self.num_hashes, seed))
        drawn = Permutations.of_nemo(self.num_hashes, seed)
        return as_cudf.run(column, rows, Window(rule.size, drawn.factors[0]), drawn)

    def sets(self, column: TextColumn | CudaColumn, rows: npt.NDArray[np.int64], most: int | None = 4096) -> Sets:
        """Return the sets of 32-bit shingle hashes of the texts numbered `rows`, at most `most` hashes for each.

        Args:
            column: texts; the sets of texts on a GPU are made there, with the same result on the host.
            rows: numbers of texts, in any order.
            most: how many hashes to keep of a text that has more, the least ones; None keeps all.

        Raises:
            PipelineError: ``most`` is no number of hashes.
        """
        if most is not None and most < 1:
            raise PipelineError(f"most={most!r}: keep at least one hash of a text, or None for all")
        if isinstance(column, CudaColumn):
            return cuda_sets.shingle_sets(column, rows, self.shingles.rule, most)
        return shingle_sets(*column, rows, self.shingles.rule, most)


def jaccard(sets: Sets, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The Jaccard similarity of pairs of texts: the sets numbered ``left`` with those numbered ``right``.

    It is exact, but for collisions of 32-bit hashes, for two sets that are whole. Else it is the share of both in the
    k least hashes of either, k being the size of the smaller set that was cut: an unbiased estimate with a standard
    error of ``sqrt(J * (1 - J) / k)``, 0.006 at J = 0.8 and k = 4096. Two texts without a shingle are alike: 1.

    Examples:
        >>> from dcurate.frames.text import column_of
        >>> texts = column_of([b"a b c d e f", b"a b c d e g", b"a b c d e f"])
        >>> sets = MinHash().sets(texts, np.arange(3))
        >>> jaccard(sets, np.array([0, 0]), np.array([1, 2])).round(3).tolist()
        [0.333, 1.0]
    """
    return jaccard_of_sets(sets, left, right)


def estimated(
    signatures: npt.NDArray[np.uint32], left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """The share of equal places in the signatures numbered ``left`` and ``right``, pair by pair.

    Examples:
        >>> signatures = np.array([[1, 2, 3, 4], [1, 2, 3, 5]], np.uint32)
        >>> estimated(signatures, np.array([0]), np.array([1]))
        array([0.75])
    """
    return equal_shares(signatures, left, right)
