"""The steps of a search for duplicates over partitions of rows, as functions of tables: the caller shuffles.

A document is known by a *number*: that of its partition, and that of its row there. They are in the order of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.dedup.fuzzy import FuzzyDuplicates
from dcurate.dedup.minhash import estimated, jaccard
from dcurate.dedup.near import hashes_of, texts_of
from dcurate.frames.columns import lists_of, numbers, rows_at, table_of, with_column, with_lists
from dcurate.frames.hashes import RowHashes, content_hashes, row_hashes
from dcurate.frames.text import text_column
from dcurate.groups.candidates import candidate_pairs, pairs_once
from dcurate.groups.clusters import clustered
from dcurate.groups.components import components, forest
from dcurate.groups.exact import ExactDuplicates
from dcurate.groups.keep import keep_of, ranks_in, with_ranks
from dcurate.kernels.layout import Ints
from dcurate.kernels.sets import Sets

#: Columns that are shuffled.
PARTITION, ROW = "partition", "row"
HIGH, LOW, NUMBER = "high", "low", "number"
KEY, CONTENT, LABEL, LEFT, RIGHT = "key", "content", "label", "left", "right"
_SHINGLES, _WHOLE = "shingles", "whole"

_ROW_BITS = 32


def compared(stage: ExactDuplicates | FuzzyDuplicates, table: Any) -> RowHashes:
    """Return the hashes of the compared columns."""
    if isinstance(stage, FuzzyDuplicates):
        return content_hashes(table, stage.text_field)
    if stage.fields is None:
        return content_hashes(table, stage.text_field, stage.normalize)
    return row_hashes(table, stage.fields)


def hashed(exact: ExactDuplicates, table: Any, partition: int) -> Any:
    """Return a row for each document that can be a copy: its hash, number and rank."""
    hashes, rows = compared(exact, table)
    made = table_of({HIGH: hashes[:, 0], LOW: hashes[:, 1], NUMBER: _numbers(partition, rows)})
    return with_ranks(made, keep_of(exact.keep, exact.name), table, exact.text_field, rows)


def equal_ones(entries: Any) -> Any:
    """The copies that go, where all of equal hashes are together: partition, row and hash of each."""
    columns = [numbers(entries, HIGH), numbers(entries, LOW), ranks_in(entries), numbers(entries, NUMBER)]
    order = np.lexsort(columns[::-1])
    high, low, _, documents = (column[order] for column in columns)
    again = 1 + np.flatnonzero((high[1:] == high[:-1]) & (low[1:] == low[:-1]))
    return _places(documents[again], high[again])


def banded(fuzzy: FuzzyDuplicates, table: Any, partition: int) -> Any:
    """A row for each band of each document that has shingles: its key, the document, and a hash of its text."""
    texts = texts_of(table, fuzzy.text_field, fuzzy.resources.requires_gpu)
    keys, rows = fuzzy.search.banded(texts)
    contents = hashes_of(texts) >> np.uint64(32)
    return table_of({KEY: keys, NUMBER: _numbers(partition, rows), CONTENT: contents[rows].astype(np.uint32)})


def paired(entries: Any) -> Any:
    """The candidates, where all of equal keys are together; each pair with the partition of its first document."""
    keys, documents, contents = (numbers(entries, name) for name in (KEY, NUMBER, CONTENT))
    order = np.lexsort((documents, keys))
    left, right, _ = candidate_pairs(keys[order], documents[order], contents[order])
    return table_of({PARTITION: left >> _ROW_BITS, LEFT: left, RIGHT: right})


def connected(pairs: Any) -> Any:
    """Return a spanning forest of pairs."""
    return table_of(forest(numbers(pairs, LEFT), numbers(pairs, RIGHT))._asdict())


def labelled(pairs: Any) -> Any:
    """The documents of pairs, each with its partition and the first document that it is connected to."""
    membership = components(numbers(pairs, LEFT), numbers(pairs, RIGHT))
    return table_of({PARTITION: membership.members >> _ROW_BITS, NUMBER: membership.members, LABEL: membership.labels})


def gathered(fuzzy: FuzzyDuplicates, table: Any, labels: Any) -> Any:
    """Return the features of the candidates of one partition, with their labels."""
    documents, names = _ordered(labels, NUMBER, LABEL)
    rows = rows_at(table, documents & (2**_ROW_BITS - 1))
    made = table_of({LABEL: names, NUMBER: documents, HIGH: compared(fuzzy, rows).hashes[:, 0]})
    made = with_ranks(made, keep_of(fuzzy.keep, fuzzy.name), rows, fuzzy.text_field)
    texts, minhash = text_column(rows, fuzzy.text_field), fuzzy.search.minhash
    if fuzzy.verification == "exact":
        sets = minhash.sets(texts, np.arange(len(texts)))
        return with_column(with_lists(made, _SHINGLES, sets.bounds, sets.values), _WHOLE, sets.whole)
    signatures = minhash.signatures(texts)
    return with_lists(made, _SHINGLES, np.arange(len(texts) + 1) * minhash.num_hashes, signatures.ravel())


def named(pairs: Any, labels: Any) -> Any:
    """The pairs of one partition, each once, with the label of their component."""
    documents, names = _ordered(labels, NUMBER, LABEL)
    left, right = pairs_once(numbers(pairs, LEFT), numbers(pairs, RIGHT))
    return table_of({LABEL: names[np.searchsorted(documents, left)], LEFT: left, RIGHT: right})


def similar_ones(fuzzy: FuzzyDuplicates, candidates: Any, pairs: Any) -> Any:
    """The near-duplicates that go, where all of one component are together: partition, row and hash of each."""
    candidates = rows_at(candidates, np.argsort(numbers(candidates, NUMBER)))
    documents = numbers(candidates, NUMBER)
    left, right = (np.searchsorted(documents, numbers(pairs, side)) for side in (LEFT, RIGHT))
    similarity = _similarity(fuzzy, candidates, left, right)
    chosen = ~(similarity < fuzzy.threshold)
    groups = clustered(
        np.arange(len(documents)),
        ranks_in(candidates),
        left[chosen],
        right[chosen],
        similarity[chosen].astype(np.float32),
        how=fuzzy.clustering,
    )
    dropped = groups.member[~groups.kept]
    return _places(documents[dropped], numbers(candidates, HIGH)[dropped])


def still_there(stage: ExactDuplicates | FuzzyDuplicates, table: Any, dropped: Any) -> bool:
    """Check that rows are the ones that were marked for removal."""
    hashes, rows = compared(stage, table)
    return len(rows) == dropped.num_rows and bool((hashes[:, 0] == numbers(dropped, HIGH)).all())


def _similarity(fuzzy: FuzzyDuplicates, candidates: Any, left: Ints, right: Ints) -> npt.NDArray[np.float64]:
    bounds, shingles = lists_of(candidates, _SHINGLES)
    if fuzzy.verification == "exact":
        return jaccard(Sets(bounds, shingles, numbers(candidates, _WHOLE)), left, right)
    signatures = shingles.reshape(candidates.num_rows, fuzzy.num_hashes)
    if fuzzy.verification == "estimated":
        return estimated(signatures, left, right)
    return np.where((signatures[left] == signatures[right]).all(axis=1), 1.0, np.nan)


def _numbers(partition: int, rows: Ints) -> Ints:
    return (np.int64(partition) << _ROW_BITS) + rows.astype(np.int64)


def _places(documents: Ints, high: npt.NDArray[np.uint64]) -> Any:
    return table_of({PARTITION: documents >> _ROW_BITS, ROW: documents & (2**_ROW_BITS - 1), HIGH: high})


def _ordered(table: Any, by: str, column: str) -> tuple[Ints, Ints]:
    order = np.argsort(numbers(table, by))
    return numbers(table, by)[order], numbers(table, column)[order]
