from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.documents.ocr.lines import decode
from dcurate.media.ocr.boxes import Box, components, find_boxes


def flooded(mask: np.ndarray) -> list[set[tuple[int, int]]]:
    """The connected parts of a mask, by flooding each."""
    left = {(int(y), int(x)) for y, x in zip(*np.nonzero(mask), strict=True)}
    parts = []
    while left:
        part, stack = set(), [left.pop()]
        while stack:
            y, x = stack.pop()
            part.add((y, x))
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= near
            stack.extend(near)
        parts.append(part)
    return parts


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.randoms(use_true_random=False))
def test_components_are_those_of_flooding(height: int, width: int, random) -> None:
    mask = np.array([[random.random() < 0.45 for _ in range(width)] for _ in range(height)])
    labels, count = components(mask)
    found = [{(int(y), int(x)) for y, x in zip(*np.nonzero(labels == n), strict=True)} for n in range(1, count + 1)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, flooded(mask)))


@pytest.mark.parametrize("degrees", [0, 7, -12, 40])
def test_a_turned_line_is_one_turned_box(degrees: int) -> None:
    truth = Box(150, 120, 140, 16, math.radians(degrees), 0)
    ys, xs = np.mgrid[0:240, 0:300]
    cos, sin = math.cos(truth.angle), math.sin(truth.angle)
    along, across = (xs - 150) * cos + (ys - 120) * sin, (ys - 120) * cos - (xs - 150) * sin
    inside = (abs(along) <= 70) & (abs(across) <= 8)
    (box,) = find_boxes(np.where(inside, 0.9, 0.01).astype(np.float32))
    assert (box.x, box.y) == pytest.approx((150, 120), abs=1)
    assert math.degrees(box.angle) == pytest.approx(degrees, abs=1.5)
    grown = 140 * 16 * 1.6 / (2 * (140 + 16))
    assert (box.width, box.height) == pytest.approx((140 + 2 * grown, 16 + 2 * grown), abs=4)
    assert box.score == pytest.approx(0.9, abs=0.1)


def test_specks_and_faint_marks_are_no_boxes() -> None:
    map_ = np.zeros((64, 64), np.float32)
    map_[5, 5] = 1
    map_[20:30, 10:50] = 0.35
    assert find_boxes(map_) == []


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_decoding_follows_the_rule_of_ctc(classes: list[int]) -> None:
    answer = np.eye(4, dtype=np.float32)[classes]
    line = decode(answer, ["", "a", "b", " "])
    expected, before = "", 0
    for number in classes:
        expected += "" if number in (0, before) else "?ab "[number]
        before = number
    assert line.text == expected
    assert all(start < stop for start, stop in zip(line.starts, line.stops, strict=True))
    assert len(line.confidences) == len(line.text)
