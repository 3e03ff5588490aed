"""A sample of documents, with all pairs of near-duplicates in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from dcurate.dedup.minhash import MinHash
from dcurate.dedup.quality import BANDS, GroupScores, Pairs, score_groups, similar_pairs
from dcurate.dedup.shingles import Shingles
from dcurate.errors import DataError, listed
from dcurate.frames.text import TextColumn, column_of, text_column
from dcurate.groups.clusters import Clustering, clustered
from dcurate.io.document_reader import DocumentReader
from dcurate.kernels.all_pairs import arranged, hashes_of_sets
from dcurate.kernels.layout import Ints, frozen

_BLOCK = "32MiB"


class Removal(NamedTuple):
    """The removals at a threshold.

    ``removed`` counts documents, copies among them; ``groups`` those that have two documents or more, ``sizes`` how
    many documents each of those has, the largest first. ``scores`` leave copies out.
    """

    threshold: float
    clustering: Clustering
    removed: int
    sizes: Ints
    scores: GroupScores

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.sizes)


@dataclass(frozen=True)
class SimilaritySample:
    """Documents, and all pairs of them that are similar.

    Attributes:
        documents: how many there are.
        without_words: how many of them have no shingle; they are nobody's duplicates.
        texts: those with different sets of shingles: of copies the first.
        copies: number of documents that have the text of each of those.
        truth: all pairs of them from a similarity of 0.5 on.
    """

    documents: int
    without_words: int
    texts: TextColumn
    copies: Ints
    truth: Pairs

    @classmethod
    def of(cls, texts: TextColumn, shingles: Shingles) -> Self:
        """The sample of these texts.

        Examples:
            >>> sample = SimilaritySample.of(column_of([b"a b c", b"A, b, c!", b"", b"a b"]), Shingles())
            >>> sample.documents, sample.without_words, sample.copies.tolist()
            (4, 1, [2, 1])
        """
        sets = MinHash(shingles).sets(texts, np.arange(len(texts)), most=None)
        sizes = np.diff(sets.bounds)
        worded = np.flatnonzero(sizes)
        hashes = hashes_of_sets(frozen(sets.bounds, np.int64), frozen(sets.values, np.uint32))[worded]
        firsts, copies = np.unique(
            np.stack([hashes, sizes[worded].astype(np.uint64)]), axis=1, return_index=True, return_counts=True
        )[1:]
        order = np.argsort(firsts)
        chosen = worded[firsts[order]]
        kept = arranged(sets.bounds, sets.values, frozen(chosen, np.int64))
        different = (texts.data[texts.offsets[row] : texts.offsets[row + 1]].tobytes() for row in chosen)
        return cls(
            documents=len(texts),
            without_words=len(texts) - len(worded),
            texts=column_of(different),
            copies=copies[order],
            truth=similar_pairs(kept[0], kept[1], BANDS[0]),
        )

    def removal(self, threshold: float, clustering: Clustering) -> Removal:
        """Return the removals for exactly the pairs with at least a similarity."""
        left, right, similarity = self.truth.at_least(threshold)
        count = len(self.texts)
        groups = clustered(
            np.arange(count), np.zeros(count), left, right, similarity.astype(np.float32), how=clustering
        )
        labels, kept = np.arange(count), np.ones(count, np.bool_)
        labels[groups.member], kept[groups.member] = groups.group, groups.kept
        sizes = np.bincount(labels, weights=self.copies, minlength=count).astype(np.int64)
        return Removal(
            threshold,
            clustering,
            int(self.copies.sum() - kept.sum()),
            np.sort(sizes[sizes > 1])[::-1],
            score_groups(labels, kept, self.truth, threshold),
        )


class Texts(NamedTuple):
    """Texts that were read, whether those are all, and how many lines could not be read."""

    column: TextColumn
    whole: bool
    unreadable: int


def read_texts(paths: Sequence[str], text_field: str, most: int) -> Texts:
    """Read the texts of the first documents of JSONL or Parquet files, at most `most`.

    Raises:
        DataError: files that cannot be read, or no documents.
    """
    reader = DocumentReader(list(paths), blocksize=_BLOCK, fields=[text_field], on_bad_line="quarantine")
    columns: list[TextColumn] = []
    count = unreadable = 0
    for split in reader.splits():
        if count >= most:
            return Texts(joined(columns), whole=False, unreadable=unreadable)
        batch = reader.process(split)
        if batch is None:
            continue
        unreadable += sum(rejection.rows for rejection in batch.rejections)
        offsets, data = text_column(batch.to_arrow(), text_field)
        columns.append(TextColumn(offsets[: most - count + 1], data))
        count += len(offsets) - 1
    if not count:
        raise DataError(f"{listed(paths)} holds no documents")
    return Texts(joined(columns), whole=count <= most, unreadable=unreadable)


def joined(columns: Sequence[TextColumn]) -> TextColumn:
    """Texts of several columns, one after the other.

    Examples:
        >>> joined([column_of([b"a", b"bc"]), column_of([b"d"])]).offsets.tolist()
        [0, 1, 3, 4]
    """
    data = [column.data[column.offsets[0] : column.offsets[-1]] for column in columns]
    ends = np.concatenate([[0], *(np.diff(column.offsets) for column in columns)]).cumsum()
    return TextColumn(ends, np.concatenate([np.zeros(0, np.uint8), *data]))
