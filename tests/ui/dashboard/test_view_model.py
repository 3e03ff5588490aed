from __future__ import annotations

from dataclasses import replace
from typing import Any

from dcurate.events import StageStats
from dcurate.runs.history import History
from dcurate.runs.snapshot import OperatorFigures, RunSnapshot
from dcurate.ui.dashboard.series import Series
from dcurate.ui.dashboard.view_model import BOTTLENECK, COLOURS, LATELY_S, SILENT_S, colour, state, view
from dcurate.ui.pace import Pace
from dcurate_testing.dashboard_runs import Shape, history


def told(*snapshots: RunSnapshot) -> History:
    history = History()
    for snapshot in snapshots:
        history.take(snapshot)
    return history


def reading(time: float, rows: int, **more: Any) -> RunSnapshot:
    """One operator of one slot that has read so many rows in calls of ten, half a second each."""
    one = OperatorFigures("read", ("read",), slots=1, calls=rows // 10, seconds=rows / 20, slot_seconds=time)
    stages = (StageStats("read", rows // 10, rows, rows // 2, 100 * rows, 50 * rows),)
    snapshot = RunSnapshot(
        "7f3a", "demo", "streaming", time=time, operators=(one,), stages=stages, splits=8, splits_done=2
    )
    return replace(snapshot, **more)


def test_rates_are_those_of_the_last_seconds_while_a_run_goes_on_and_of_the_whole_run_once_it_has_ended() -> None:
    slow, fast = reading(100, 100), reading(100 + LATELY_S, 600)
    now = view(told(slow, fast), now=110)
    assert (now.rate_in, now.rate_out, now.bytes_rate) == (50, 25, 5000)
    assert now.operators[0].rate == 50
    assert now.operators[0].busy == 1.0
    ended = view(told(slow, fast, reading(120, 600, ended=120.0)))
    assert (ended.rate_in, ended.operators[0].rate) == (5, 5)
    assert ended.state == "finished"


def test_while_long_calls_end_one_by_one_the_rates_stay_what_they_are() -> None:
    """Calls of 30 seconds, each of 300 documents: ten a second, however recently one ended."""
    history, pace, series = History(interval_s=1.0), Pace(), Series(0.0, ((0, "read"),))
    rates, paces = [], []
    for second in range(300):
        calls = second // 30
        read = OperatorFigures("read", ("read",), slots=1, calls=calls, seconds=30.0 * calls, slot_seconds=second)
        stages = (StageStats("read", calls, 300 * calls, 300 * calls),)
        now = RunSnapshot("7f3a", "demo", "streaming", time=float(second), operators=(read,), stages=stages)
        history.take(now)
        pace.see(now)
        if second >= 120:
            rates.append(view(history, now=float(second)).rate_in)
            paces.append(pace.rows_per_s)
    plotted = series.new(history)[0]["rate_in"]
    assert all(9 <= rate <= 11 for rate in (*rates, *paces, *plotted[130:]))


def test_what_is_left_of_a_run_is_what_other_views_say() -> None:
    assert view(told(replace(reading(50, 100), run_left_s=150.0)), now=50).left == 150
    assert view(told(reading(50, 100, splits=None)), now=50).left is None


def test_the_bottleneck_is_the_operator_with_most_waiting_for_each_of_the_busiest_slots() -> None:
    def operator(name: str, busy: float, waiting: int, slots: int = 2) -> OperatorFigures:
        return OperatorFigures(name, (name,), slots=slots, waiting=waiting, seconds=10 * busy, slot_seconds=10)

    def worst(*operators: OperatorFigures) -> list[str]:
        snapshot = RunSnapshot("7f3a", "demo", "streaming", time=5.0, operators=operators)
        return [one.figures.name for one in view(told(snapshot), now=5).operators if one.bottleneck]

    assert worst(operator("read", 0.95, 0), operator("embed", 0.93, 12), operator("write", 0.1, 90)) == ["embed"]
    assert worst(operator("read", BOTTLENECK - 0.01, 0), operator("write", 0.1, 90)) == []
    assert worst(operator("read", 1.0, 0)) == []


def test_a_run_that_is_not_heard_of_is_silent_until_it_says_that_it_ended() -> None:
    snapshot = reading(50, 100)
    assert state(snapshot, 50 + SILENT_S) == "running"
    assert state(snapshot, 51 + SILENT_S) == "silent"
    assert state(replace(snapshot, ended=50.0, error="the disk is full"), 99) == "stopped"


def test_an_operator_of_an_earlier_phase_keeps_its_colour_and_is_not_present() -> None:
    shape = Shape(operators=6, phases=2, seconds=40)
    first, second = (view(history("7f3a", shape, 0.0, until), now=until) for until in (10, 30))
    assert [one.present for one in first.operators] == [True] * 3
    assert [one.present for one in second.operators] == [False] * 3 + [True] * 3
    assert [one.colour for one in first.operators] == [one.colour for one in second.operators][:3]


def test_a_run_without_a_sample_or_a_point_can_be_shown() -> None:
    seen = view(told(RunSnapshot("7f3a", "demo", "streaming")), now=0)
    assert (seen.state, seen.operators, seen.rate_in, seen.kept) == ("setting up", (), 0, None)


def test_the_colour_blind_can_tell_the_colours_of_neighbours_apart() -> None:
    pairs = [(colour(number), colour(number + 1)) for number in range(len(COLOURS))]
    assert len(set(COLOURS)) == len(COLOURS)
    for lacking in ("none", "red", "green", "blue"):
        for one, other in pairs:
            assert difference(seen_as(one, lacking), seen_as(other, lacking)) > 20, (lacking, one, other)


# Dichromats' colours by the matrices of Machado, Oliveira and Fernandes (2009), severity 1, in linear RGB.
MACHADO = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}

Triple = tuple[float, float, float]


def seen_as(hexadecimal: str, lacking: str) -> Triple:
    linear = [_linear(int(hexadecimal[place : place + 2], 16) / 255) for place in (1, 3, 5)]
    red, green, blue = (
        min(1.0, max(0.0, sum(factor * part for factor, part in zip(row, linear, strict=True))))
        for row in MACHADO[lacking]
    )
    return red, green, blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


def difference(one: Triple, other: Triple) -> float:
    """The distance of two colours in CIE L*a*b* (1976): 2 can just be seen."""
    return sum((a - b) ** 2 for a, b in zip(_lab(one), _lab(other), strict=True)) ** 0.5


def _lab(colour: Triple) -> Triple:
    red, green, blue = colour
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    fx, fy, fz = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)
