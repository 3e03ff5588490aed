from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DocumentBatch, InlineExecutor, PipelineError, ScoreFilter, profile
from dcurate.text import Annotate, DocumentFilter, NumberRangeFilter, WordCountFilter, refilter
from dcurate.text.thresholds import thresholds

PAGES = NumberRangeFilter("n_pages", 2, 500)
SHARE = NumberRangeFilter("share", max_value=0.5)
numbers = st.none() | st.integers(0, 1000)
shares = st.none() | st.sampled_from([0.0, 0.5, 0.75, float("nan")])


def batch(rows: list[tuple[int | None, float | None]]) -> DocumentBatch:
    columns = {
        "text": pa.array([f"text {number}" for number in range(len(rows))], pa.string()),
        "n_pages": pa.array([pages for pages, _ in rows], pa.int32()),
        "share": pa.array([share for _, share in rows], pa.float64()),
    }
    return DocumentBatch(data=pa.table(columns))


def is_kept(pages: int | None, share: float | None) -> bool:
    return (pages is None or 2 <= pages <= 500) and (share is None or not share > 0.5)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(numbers, shares), max_size=8))
def test_rows_are_kept_by_their_numbers_and_the_rest_is_rejected_unchanged(
    rows: list[tuple[int | None, float | None]],
) -> None:
    given_rows = batch(rows)
    result = ScoreFilter([PAGES, SHARE, WordCountFilter(min_words=1)]).process(given_rows)
    kept = [place for place, row in enumerate(rows) if is_kept(*row)]
    assert str(result.to_arrow().to_pylist()) == str([given_rows.to_arrow().to_pylist()[place] for place in kept])
    assert result.to_arrow().schema.equals(given_rows.to_arrow().schema)
    assert sum(each.rows for each in result.rejections) == len(rows) - len(kept)
    annotated = Annotate([PAGES, SHARE]).process(given_rows)
    assert annotated.to_arrow().schema.field("n_pages").type == pa.int32()
    assert str(refilter([PAGES, SHARE]).process(annotated).to_arrow()["text"].to_pylist()) == str(
        result.to_arrow()["text"].to_pylist()
    )


def test_it_reads_its_own_column_and_says_its_thresholds() -> None:
    stage = ScoreFilter([PAGES, SHARE], name="pages")
    assert stage.inputs() == (["data"], ["n_pages", "share"])
    assert Annotate([PAGES, WordCountFilter()]).inputs() == (["data"], ["n_pages", "text"])
    assert {name: [cut.keeps for cut in cuts] for name, cuts in thresholds([stage])["pages"].items()} == {
        "n_pages": [">= 2", "<= 500"],
        "share": ["<= 0.5"],
    }


def test_a_profile_says_what_it_would_drop(tmp_path: Path) -> None:
    pq.write_table(batch([(1, 0.1), (3, 0.9), (3, None)]).to_arrow(), tmp_path / "rows.parquet")
    rules: list[DocumentFilter] = [PAGES, SHARE]
    found = profile(str(tmp_path), filters=rules, executor=InlineExecutor(), observers=[])
    assert [(each.name, each.drops) for each in found.filters] == [("n_pages", 1), ("share", 1)]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: NumberRangeFilter("n_pages"), "no bound for 'n_pages'; give min_value=, max_value= or both"),
        (lambda: NumberRangeFilter("", 1), "must be the name of a column"),
        (lambda: NumberRangeFilter("n_pages", "1"), "not a number"),  # type: ignore[arg-type]
    ],
)
def test_a_rule_that_cannot_work_is_refused(make: object, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        make()  # type: ignore[operator]
