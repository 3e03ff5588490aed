"""Pairs of documents of which hashes are within a distance, as rounds of a run find them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.stage import ProcessingStage
from dcurate.frames.columns import numbers, table_of
from dcurate.frames.document import DocumentBatch
from dcurate.groups.labels import LEFT, RIGHT
from dcurate.groups.pairs import CONTENT, KEY, ROW
from dcurate.groups.parts import HashPairs, Parts
from dcurate.kernels.layout import Ints
from dcurate.shuffle.keys import scale_keys
from dcurate.shuffle.ranges import FILE
from dcurate.shuffle.spill import read_row_offsets

_GROUP, _WORDS = "group", ("hash_0", "hash_1")
#: Added to the row of a mirror image.
MIRRORED = 2**31


def hash_entries(cut: Parts, hashes: npt.NDArray[np.uint64], rows: Ints, contents: npt.NDArray[np.uint64]) -> Any:
    """Make a row for each key of each hash: its number among them, the row and content of the document, and the hash.

    Args:
        cut: how hashes are cut.
        hashes: array of shape (hashes, 2).
        rows: the row of the document of each hash, plus `MIRRORED` for that of a mirror image.
        contents: what is known of the document beside the hash, as a number: equal ones are copies.
    """
    keys_per_hash = cut.keys_each
    columns: dict[str, npt.NDArray[Any]] = {
        KEY: cut.keys(hashes).ravel(),
        ROW: np.repeat(rows, keys_per_hash).astype(np.uint32),
        CONTENT: np.repeat(contents, keys_per_hash),
        _GROUP: np.tile(np.arange(keys_per_hash, dtype=np.uint16), len(hashes)),
    }
    return table_of(columns | {name: np.repeat(hashes[:, word], keys_per_hash) for word, name in enumerate(_WORDS)})


@dataclass
class FindNearHashes(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Pairs the documents of which hashes are within the distance, of the keys of one range.

    Args:
        cut: how hashes are cut.
        first: pictures of smaller numbers were seen before, and are not paired with each other.
    """

    url: str
    options: dict[str, Any]
    cut: Parts
    first: int = 0
    name: str = "find_near_hashes"

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        row_offsets = read_row_offsets(self.url, self.options)
        rows = numbers(table, ROW).astype(np.int64)
        pictures = row_offsets[numbers(table, FILE)] + rows % MIRRORED
        pairs = self._pairs(table, pictures, rows >= MIRRORED)
        new = pairs.right >= self.first
        left, right = pairs.left[new], pairs.right[new]
        result = task.with_data(table_of({KEY: scale_keys(left, int(row_offsets[-1])), LEFT: left, RIGHT: right}))
        result.found = {"large buckets": pairs.short} if pairs.short else {}
        return result

    def _pairs(self, table: Any, pictures: Ints, mirrored: npt.NDArray[np.bool_]) -> HashPairs:
        hashes = np.stack([numbers(table, name) for name in _WORDS], axis=1)
        pairs = self.cut.pairs_of(
            numbers(table, KEY), hashes, numbers(table, CONTENT), 2 * pictures + mirrored, numbers(table, _GROUP)
        )
        wanted = (pairs.left % 2 + pairs.right % 2 < 2) & (pairs.left // 2 != pairs.right // 2)
        left, right = pairs.left[wanted] // 2, pairs.right[wanted] // 2
        return HashPairs(np.minimum(left, right), np.maximum(left, right), pairs.short, pairs.compared)
