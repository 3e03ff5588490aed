"""The filters over the columns that extraction adds: which documents stay, at their limits and beside them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dcurate import DocumentBatch, ScoreFilter
from dcurate.documents import BrokenTextFilter, CharactersPerPageFilter, PageCountFilter, ScannedFilter
from dcurate.text import DocumentFilter

CASES = [
    (PageCountFilter(), "n_pages", [0, 1, 5_000], [1, 5_000]),
    (PageCountFilter(2, 3), "n_pages", [1, 2, 3, 4], [2, 3]),
    (CharactersPerPageFilter(), "characters_per_page", [0.0, 49.9, 50.0, 4_000.0], [50.0, 4_000.0]),
    (BrokenTextFilter(), "broken_share", [0.0, 0.1, 0.11, 1.0], [0.0, 0.1]),
    (BrokenTextFilter(max_broken_ratio=1.0), "broken_share", [0.0, 1.0], [0.0, 1.0]),
    (ScannedFilter(max_scanned_ratio=0.5), "scanned_share", [0.0, 0.5, 0.51, 1.0], [0.0, 0.5]),
]


@pytest.mark.parametrize(("rule", "column", "values", "kept"), CASES)
def test_a_filter_keeps_documents_up_to_its_limits(
    rule: DocumentFilter, column: str, values: list[float], kept: list[float]
) -> None:
    batch = DocumentBatch(data=pa.table({"text": ["a"] * len(values), column: values}))
    assert ScoreFilter(rule).process(batch).to_arrow()[column].to_pylist() == kept
