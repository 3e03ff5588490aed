"""Spans of clips; ``nemo_spans.json`` holds what NeMo Curator's functions returned for random input."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import PipelineError
from dcurate.isolate.errors import MediaError
from dcurate.video.shots.spans import ClipLengths, FrameLengths, clip_spans, fixed_spans, scenes

NEMO = json.loads(Path(__file__).with_name("nemo_spans.json").read_text())

SHOTS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 400)), max_size=6).map(
    lambda parts: [
        (start, start + length)
        for start, length in zip(
            (sum(gap + length for gap, length in parts[:number]) + parts[number][0] for number in range(len(parts))),
            (length for _, length in parts),
            strict=True,
        )
    ]
)
LENGTHS = st.builds(
    FrameLengths,
    least=st.one_of(st.none(), st.integers(1, 90)),
    most=st.one_of(st.none(), st.integers(1, 200)),
    crop=st.one_of(st.none(), st.integers(1, 30)),
    mode=st.sampled_from(["stride", "truncate"]),
)


@pytest.mark.parametrize("case", NEMO["fixed"], ids=str)
def test_fixed_spans_are_those_of_nemo(case: dict[str, Any]) -> None:
    duration = case["frames"] / case["rate"]
    spans = fixed_spans(duration, case["length"], case["stride"], case["least"])
    assert [list(span) for span in spans[:40]] == case["spans"]


@pytest.mark.parametrize("case", NEMO["scenes"], ids=str)
def test_scenes_are_those_of_nemo(case: dict[str, Any]) -> None:
    changes = [change == "1" for change in case["changes"]]
    assert [list(span) for span in scenes(changes, whole=case["whole"])] == case["scenes"]


@pytest.mark.parametrize("case", NEMO["clips"], ids=str)
def test_clips_are_those_of_nemo(case: dict[str, Any]) -> None:
    lengths = ClipLengths(*case["lengths"]).frames(case["rate"])
    assert [list(span) for span in clip_spans(map(tuple, case["shots"]), lengths)] == case["clips"]


@given(SHOTS, LENGTHS)
def test_clips_are_within_shots_and_limits_and_do_not_overlap(
    shots: list[tuple[int, int]], lengths: FrameLengths
) -> None:
    clips = clip_spans(shots, lengths)
    assert clips == sorted(clips)
    for start, stop in clips:
        assert any(first <= start < stop <= end for first, end in shots)
        assert (lengths.least or 1) <= stop - start <= (lengths.most or stop)
    for before, after in itertools.pairwise(clips):
        assert before[1] <= after[0]


@given(SHOTS, st.integers(1, 200))
def test_without_crop_and_least_length_a_stride_keeps_every_frame(shots: list[tuple[int, int]], most: int) -> None:
    clips = clip_spans(shots, FrameLengths(None, most, None, "stride"))
    kept = [frame for start, stop in clips for frame in range(start, stop)]
    assert kept == [frame for start, stop in shots for frame in range(start, stop)]


@given(st.integers(0, 2000), st.integers(1, 50), st.integers(1, 50), st.integers(0, 50))
def test_fixed_spans_begin_at_each_stride_where_enough_is_left(
    duration: int, length: int, stride: int, least: int
) -> None:
    spans = fixed_spans(duration, length, stride, least)
    assert spans == [
        (start, min(start + length, duration))
        for start in range(0, duration, stride)
        if min(length, duration - start) >= least
    ]


def test_a_video_of_centuries_is_refused() -> None:
    with pytest.raises(MediaError, match="too many clips"):
        fixed_spans(1e12, 10.0, 1.0, 0.0)
    with pytest.raises(MediaError, match="too many clips"):
        clip_spans([(0, 2**40)], FrameLengths(None, 1, None, "stride"))


@pytest.mark.parametrize(
    "settings",
    [{"min_length_s": -1.0}, {"max_length_s": float("nan")}, {"crop_s": float("inf")}, {"max_length_mode": "cut"}],
)
def test_wrong_lengths_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(PipelineError, match="must be"):
        ClipLengths(**settings)
