"""Near-duplicates among texts that fit into memory: the steps of `FuzzyDuplicates`, without a dataset around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from dcurate.dedup.bands import Bands
from dcurate.dedup.minhash import MinHash, estimated, jaccard
from dcurate.errors import PipelineError, nearest
from dcurate.frames.convert import to_arrow
from dcurate.frames.gpus import texts_on_gpu
from dcurate.frames.text import TextColumn, column_of, text_column
from dcurate.groups.candidates import candidate_pairs
from dcurate.kernels import cuda_minhash, cuda_sets
from dcurate.kernels.cuda import CudaColumn, usable
from dcurate.kernels.hashing import text_hashes
from dcurate.kernels.layout import Ints

#: How candidate pairs are verified.
Verification: TypeAlias = Literal["exact", "estimated", "none"]

VERIFICATIONS = ("exact", "estimated", "none")
#: Texts that are signed at a time.
_SLICE = 2**14


def texts_of(frame: Any, name: str, gpu: bool) -> TextColumn | CudaColumn:
    """Return the texts of a column: on a GPU if `gpu` and there is one, without a copy if it is a cuDF frame's.

    Raises:
        DataError: the column does not exist, or does not hold text.
    """
    return texts_on_gpu(frame, name) if gpu and usable() else text_column(to_arrow(frame), name)


def hashes_of(column: TextColumn | CudaColumn) -> npt.NDArray[np.uint64]:
    """64-bit hashes of all texts."""
    if isinstance(column, CudaColumn):
        return cuda_minhash.text_hashes(column, np.arange(len(column.offsets) - 1))
    return text_hashes(*column)


class DuplicatePairs(NamedTuple):
    """Pairs of documents that were found to be duplicates, and how similar they seemed; of how many candidates."""

    left: Ints
    right: Ints
    similarity: npt.NDArray[np.float64]
    candidates: int


@dataclass(frozen=True)
class Search:
    """The settings of a search for near-duplicates.

    Args:
        threshold: pairs that are at least so similar are duplicates.
        minhash: signatures, and what they are made of.
        bands: bands of the signatures that are compared.
        verification: ``"exact"`` compares the shingles of each candidate, ``"estimated"`` its signatures, ``"none"``
            takes it for a duplicate.

    Raises:
        PipelineError: a threshold out of range, or an unknown verification.

    Examples:
        >>> from dcurate.frames.text import column_of
        >>> texts = column_of([b"one two three four five six", b"One, two, three, four, five: six!", b"seven"])
        >>> pairs = Search.at(0.8).pairs(texts)
        >>> pairs.left.tolist(), pairs.right.tolist(), pairs.similarity.tolist()
        ([0], [1], [1.0])
    """

    threshold: float
    minhash: MinHash
    bands: Bands
    verification: Verification = "exact"

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise PipelineError(f"threshold={self.threshold!r} is not a similarity; it must be above 0 and at most 1")
        if self.verification not in VERIFICATIONS:
            raise PipelineError(
                f"unknown verification={self.verification!r}{nearest(str(self.verification), VERIFICATIONS)}"
            )

    @classmethod
    def at(cls, threshold: float, minhash: MinHash | None = None, verification: Verification = "exact") -> Self:
        """The search with the bands that fit the threshold best."""
        minhash = minhash or MinHash()
        return cls(threshold, minhash, Bands.for_threshold(min(threshold, 0.99), minhash.num_hashes), verification)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of an index. Signatures and sets do not depend on the threshold."""
        shingles = self.minhash.shingles
        return {
            "shingles": f"{shingles.size} {shingles.unit}",
            "seed": shingles.seed,
            "num_hashes": self.minhash.num_hashes,
            "method": self.minhash.method,
            "bands": f"{self.bands.bands} of {self.bands.rows}",
            "verification": self.verification,
        }

    def pairs(
        self, column: TextColumn | CudaColumn, signatures: npt.NDArray[np.uint32] | None = None
    ) -> DuplicatePairs:
        """The pairs of texts that are found to be duplicates.

        Args:
            column: the texts; texts on a GPU are signed and compared there, with the same result.
            signatures: theirs, if they are known.
        """
        if signatures is None:
            signatures = self.minhash.signatures(column)
        left, right = self.candidates(signatures)
        if self.verification == "none" or not len(left):
            return DuplicatePairs(left, right, np.full(len(left), np.nan), len(left))
        if self.verification == "estimated":
            similarity = estimated(signatures, left, right)
        else:
            rows, places = np.unique(np.concatenate([left, right]), return_inverse=True)
            compare = cuda_sets.jaccard_of_sets if isinstance(column, CudaColumn) else jaccard
            similarity = compare(self.minhash.sets(column, rows), *np.split(places, 2))
        chosen = similarity >= self.threshold
        return DuplicatePairs(left[chosen], right[chosen], similarity[chosen], len(left))

    def banded(self, column: TextColumn | CudaColumn) -> tuple[npt.NDArray[np.uint64], Ints]:
        """The keys of the bands of all texts that have shingles, and the row of the text of each key.

        Signatures are made of some texts at a time, and not kept.

        Args:
            column: the texts; texts on a GPU are signed there, with the same result.
        """
        number = len(column.offsets) - 1
        of_nothing = self.minhash.signatures(column_of([b""]))
        keys, rows = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        for start in range(0, number, _SLICE):
            signatures = self.minhash.signatures(column, np.arange(start, min(start + _SLICE, number)))
            has = np.flatnonzero((signatures != of_nothing).any(axis=1))
            keys.append(self.bands.keys(signatures[has]).ravel())
            rows.append(has + start)
        return np.concatenate(keys), np.repeat(np.concatenate(rows), self.bands.bands)

    def candidates(self, signatures: npt.NDArray[np.uint32]) -> tuple[Ints, Ints]:
        """The pairs of texts whose signatures share a band; texts without words are in none."""
        rows = np.flatnonzero((signatures != np.uint32(0xFFFFFFFF)).any(axis=1))
        keys = self.bands.keys(signatures[rows])
        order = np.argsort(keys, axis=None, kind="stable")
        documents = rows[order // self.bands.bands]
        pairs = candidate_pairs(keys.ravel()[order], documents, documents.astype(np.uint32))
        return pairs.left, pairs.right
