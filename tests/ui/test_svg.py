import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.core.profile import Bar
from dcurate.ui.svg import HEIGHT, WIDTH, LineSeries, ceiling, clock, histogram, over_time, short


def drawn(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def titles(svg: str) -> list[str]:
    return [one.text or "" for one in drawn(svg).iter("title")]


def numbers(svg: str, *names: str) -> list[float]:
    return [float(one.get(name, "0")) for one in drawn(svg).iter() for name in names if name in one.attrib]


BARS = (Bar(0, 1, 100), Bar(1, 2, 10, dropped=4), Bar(2, 3, 0), Bar(3, 4, 1, dropped=1))


def test_every_bar_of_a_histogram_tells_what_was_kept_and_what_was_dropped() -> None:
    assert titles(histogram(BARS, whole=True)) == ["1: 100 kept", "2: 6 kept, 4 dropped", "4: 0 kept, 1 dropped"]


def test_a_threshold_is_marked_where_it_lies_on_the_scale_and_left_out_beyond_it() -> None:
    svg = histogram(BARS, [(2.0, "<= 2"), (9.0, "<= 9")])
    words = [one.text for one in drawn(svg).iter("text") if one.get("class") == "mark"]
    assert words == ["<= 2"]
    (place,) = re.findall(r'd="M([\d.]+) \d+V\d+"', svg)
    edges = [float(one.get("x", "0")) for one in drawn(svg).iter("rect")]
    assert min(abs(float(place) - x) for x in edges) > 0 or float(place) in edges
    assert edges[0] < float(place) < WIDTH


def test_what_is_dropped_is_drawn_above_what_is_kept() -> None:
    svg = drawn(histogram((Bar(0, 1, 100, dropped=50),)))
    kept, dropped = (float(one.get("y", "0")) for one in svg.iter("rect"))
    assert dropped < kept


@given(
    st.lists(st.one_of(st.none(), st.floats(0, 1e15), st.just(0.0)), min_size=2, max_size=90),
    st.booleans(),
    st.one_of(st.none(), st.floats(1e-3, 1e12)),
)
def test_a_plot_over_time_stays_within_its_frame(values, stacked: bool, limit) -> None:
    times = [0.5 * place for place in range(len(values))]
    svg = over_time(times, [LineSeries("a", values), LineSeries("b", values)], short, stacked=stacked, limit=limit)
    for path in re.findall(r' d="([^"]+)"', svg):
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path):
            assert 0 <= float(x) <= WIDTH
            assert 0 <= float(y) <= HEIGHT


def test_areas_stand_on_each_other() -> None:
    svg = over_time([0, 1], [LineSeries("a", [1, 1]), LineSeries("b", [3, 1])], short, stacked=True)
    lower, upper = re.findall(r'd="M([^"]+)Z"', svg)
    assert lower.split("L")[1] in upper  # the upper area comes back along the upper edge of the lower one


def test_whoever_points_at_a_moment_is_told_all_values_there() -> None:
    svg = over_time([0, 60, 120], [LineSeries("in", [1, 2, 3]), LineSeries("<out>", [None, 5, 6])], short)
    assert titles(svg) == ["0 s\nin: 1", "1:00\nin: 2\n<out>: 5", "2:00\nin: 3\n<out>: 6"]


def test_long_runs_have_no_more_places_to_point_at_than_others() -> None:
    times = [float(place) for place in range(1000)]
    assert len(titles(over_time(times, [LineSeries("a", times)], short))) <= 60


def test_a_limit_above_all_values_is_seen() -> None:
    svg = over_time([0, 1], [LineSeries("a", [1, 2])], short, limit=10)
    assert [one.text for one in drawn(svg).iter("text")][:3] == ["0", "5", "10"]


@pytest.mark.parametrize("points", [0, 1])
def test_fewer_than_two_moments_give_no_plot(points: int) -> None:
    assert over_time([0.0] * points, [LineSeries("a", [1.0] * points)], short) == ""


@given(st.floats(1e-9, 1e15))
def test_a_ceiling_is_above_its_value_but_not_by_far(value: float) -> None:
    assert value * (1 - 1e-6) <= ceiling(value) <= 2 * value * (1 + 1e-6)


def test_durations_and_numbers_are_short() -> None:
    assert (clock(3661), short(1234567)) == ("1:01:01", "1.23M")


def test_a_scale_of_factors_gives_each_decade_the_same_room() -> None:
    bars = (Bar(1, 10, 1), Bar(10, 100, 1), Bar(100, 1000, 1))
    widths = numbers(histogram(bars, across=True), "width")
    assert max(widths) - min(widths) < 1
