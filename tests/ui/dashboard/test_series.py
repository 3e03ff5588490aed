from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from bokeh.document import Document
from bokeh.models import VArea

from dcurate.events import StageStats
from dcurate.runs.history import POINTS, History
from dcurate.runs.snapshot import OperatorFigures, RunSnapshot
from dcurate.ui.dashboard.pages import Page
from dcurate.ui.dashboard.series import FILL, Columns, Series
from dcurate.ui.dashboard.view_model import key
from dcurate_testing.dashboard_runs import Shape, history, snapshots


def series(history: History) -> Series:
    return Series(history.snapshot().started, tuple(key(one) for one in history.snapshot().operators))


def same(one: Columns, other: Columns) -> bool:
    return one.keys() == other.keys() and all(repr(one[name]) == repr(other[name]) for name in one)


def test_what_is_streamed_piece_by_piece_is_what_is_given_at_once_however_often_points_are_thinned() -> None:
    shape = Shape(operators=4, seconds=1.2 * POINTS)
    kept, replaced = History(), 0
    given: Columns = {}
    shown: Series | None = None
    for snapshot in snapshots("7f3a", shape, 1000.0):
        kept.take(snapshot)
        shown = shown or series(kept)
        columns, fresh = shown.new(kept)
        given = columns if fresh or not given else {name: given[name] + columns[name] for name in given}
        replaced += fresh
    assert replaced >= 2
    assert len(given["time"]) == len(kept.points) <= POINTS
    assert same(given, series(kept).new(kept)[0])


def test_nothing_is_streamed_while_nothing_is_new() -> None:
    kept = history("7f3a", Shape(seconds=10), 0.0)
    shown = series(kept)
    assert shown.new(kept)[0]["time"]
    assert shown.new(kept) == ({name: [] for name in shown.empty()}, False)


def test_a_row_of_the_busy_plot_is_filled_by_the_share_of_the_last_seconds() -> None:
    kept = History()
    for second in range(20):
        busy = OperatorFigures("busy", ("busy",), slots=2, seconds=1.0 * second, slot_seconds=2.0 * second)
        idle = OperatorFigures("idle", ("idle",), slots=1, slot_seconds=1.0 * second)
        kept.take(RunSnapshot("7f3a", "demo", "streaming", time=float(second), operators=(busy, idle)))
    columns, _ = series(kept).new(kept)
    assert columns["busy0"][-1] == -1 + FILL / 2
    assert columns["busy1"][-1] == -2
    assert columns["slots0"][-1] == 2


def test_an_operator_of_an_earlier_phase_is_not_busy() -> None:
    kept = History()
    for second in range(6):
        first = OperatorFigures("first", ("first",), seconds=float(min(second, 3)), slot_seconds=float(min(second, 3)))
        later = OperatorFigures("later", ("later",), phase=1, slots=1, seconds=second - 3.0, slot_seconds=second - 3.0)
        running = (first,) if second <= 3 else (first, later)
        kept.take(RunSnapshot("7f3a", "demo", "streaming", time=float(second), operators=running))
    columns, _ = series(kept).new(kept)
    assert columns["busy0"] == pytest.approx([-1, -1 + FILL, -1 + FILL, -1 + FILL, -1, -1])
    assert columns["busy1"] == pytest.approx([-2, -2, -2, -2, -2 + FILL, -2 + FILL])


def test_a_new_phase_that_counts_from_nothing_again_has_no_negative_rate() -> None:
    kept = History()
    for second in range(8):
        stages = (StageStats("read", rows_in=10 * second), StageStats(f"write{second // 4}", rows_out=5 * (second % 4)))
        kept.take(RunSnapshot("7f3a", "demo", "streaming", time=float(second), phase=second // 4, stages=stages))
    columns, _ = series(kept).new(kept)
    assert min(columns["rate_out"]) == 0
    assert columns["rate_in"][1:] == [10] * 7


def test_columns_of_phases_tell_which_points_are_theirs() -> None:
    kept = history("7f3a", Shape(operators=4, phases=2, seconds=20), 0.0)
    columns, _ = series(kept).new(kept)
    first, second = ([not math.isnan(value) for value in columns[name]] for name in ("phase0", "phase1"))
    assert first == [not one for one in second]
    assert sum(one != other for one, other in pairwise(first)) == 1


def test_memory_is_not_known_before_a_host_has_told() -> None:
    kept = History()
    kept.take(RunSnapshot("7f3a", "demo", "streaming", time=1.0))
    assert math.isnan(series(kept).new(kept)[0]["memory"][0])


def snapshot(second: int, operators: int) -> RunSnapshot:
    """A run whose operators are idle, and of which one more begins later."""
    figures = tuple(
        OperatorFigures(f"operator{number}", (f"operator{number}",), slots=1, slot_seconds=float(second))
        for number in range(operators)
    )
    return RunSnapshot("7f3a", "demo", "streaming", time=float(second), operators=figures)


class Store:
    def __init__(self, kept: History) -> None:
        self.runs = {"7f3a": kept}


def test_no_row_of_the_busy_plot_is_ever_full_of_idle_slots_while_operators_begin() -> None:
    kept = History()
    kept.take(snapshot(0, 1))
    document = Document()
    page = Page(document, None, Store(kept), only="busy")
    page.update()
    document.add_root(page.drawings["busy"].figure)
    seen = []

    def check(event: Any) -> None:  # what a browser shows between two messages
        for renderer in page.drawings["busy"].figure.renderers:
            glyph = renderer.glyph
            if isinstance(glyph, VArea):
                low, heights = glyph.y1.value, page.source.data[glyph.y2]
                seen.append(len(heights))
                assert all(math.isnan(value) or value == low for value in heights), type(event).__name__

    document.on_change(check)
    for second, operators in enumerate([1, 2, 2, 4, 3], 1):
        kept.take(snapshot(second, operators))
        page.update()
    assert seen
