"""Labels of a filter in the report: which are dropped, and shares that agree with the exact counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dcurate.core.report import RunReport
from dcurate.events import OTHER_LABELS, StageStats
from dcurate.runs.history import History
from dcurate.ui.report.page import run_page
from dcurate.ui.report.stages import _labels

COUNTS = st.dictionaries(
    st.sampled_from([f"l{number}" for number in range(30)] + [OTHER_LABELS]), st.integers(1, 100), min_size=1
)


@given(COUNTS, st.data())
def test_shares_of_labels_add_up_to_the_rows_that_were_kept_and_dropped(
    counts: dict[str, int], data: st.DataObject
) -> None:
    gone = {label: number for label, number in counts.items() if data.draw(st.booleans())}
    taken, kept = sum(gone.values()), sum(counts.values()) - sum(gone.values())
    scale = data.draw(st.floats(1, 50))
    dropped = round(taken * scale) if taken else data.draw(st.integers(0, 5))
    rows = dropped + round(kept * data.draw(st.floats(1, 50)))
    found = _labels(counts, gone, rows, dropped)
    if kept or not rows - dropped:
        assert abs(sum(row.rows for row in found) - rows) <= len(found)
        assert abs(sum(row.rows * row.dropped for row in found) - dropped) <= len(found)
    assert len(found) <= 14
    for row in found:
        if row.name in counts:
            assert row.dropped == (1.0 if row.name in gone else 0.0)
    if len(counts) > 12 and OTHER_LABELS not in counts:
        assert found[12].name == f"{len(counts) - 12} others"


def test_the_page_draws_dropped_labels_as_dropped() -> None:
    stats = StageStats("language", rows_in=1000, rows_out=800, dropped={"language": 200})
    stats.scores = {"language": {"en": 70, "la": 30}}
    stats.dropped_labels = {"language": {"la": 30}}
    page = run_page(
        RunReport("7f3a", "demo", "inline", 0.0, 1.0, (StageStats("read", rows_in=1000, rows_out=1000), stats)),
        History(),
        {},
    )
    card = page.partition('<article id="score-0">')[2].partition("</article>")[0]
    assert "estimated from a sample" in card
    english, latin = card.partition("<th>en</th>")[2].split("<th>la</th>")
    assert 'class="drop" style="width:0.00%"' in english
    assert '<i style="width:0.00%"></i><i class="drop" style="width:25.00%">' in latin
    assert ("80 %" in english, "20 %" in latin, "drops 20 %" in card) == (True, True, True)
