"""Detectors of cuts by colours and brightness, against PySceneDetect."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenedetect import AdaptiveDetector as TheirAdaptive
from scenedetect import ContentDetector as TheirContent
from scenedetect import FrameTimecode
from scenedetect import ThresholdDetector as TheirThreshold

from dcurate import PipelineError
from dcurate.video.shots.content import (
    AdaptiveDetector,
    ContentDetector,
    ThresholdDetector,
    adaptive_cuts,
    content_cuts,
    fades,
)

#: Scores near the thresholds and far from them.
SCORES = st.lists(
    st.one_of(st.sampled_from([0.0, 5.0, 14.0, 15.0, 26.0, 27.0, 28.0, 60.0]), st.floats(0, 255)), max_size=120
)
LENGTHS = st.integers(0, 20)


def _cuts_of(detector: Any, frames: Any) -> list[int]:
    rate = Fraction(25)
    cuts: list[int] = []
    for number, frame in enumerate(frames):
        cuts += [cut.frame_num for cut in detector.process_frame(FrameTimecode(number, rate), frame)]
    return sorted(set(cuts))


def _with_scores(detector: Any, scores: Sequence[float]) -> list[int]:
    following = iter(scores)
    detector._calculate_frame_score = lambda timecode, frame: next(following)
    return _cuts_of(detector, [None] * len(scores))


@given(SCORES, LENGTHS)
def test_content_cuts_are_those_of_pyscenedetect(scores: list[float], length: int) -> None:
    theirs = _with_scores(TheirContent(min_scene_len=length), scores)
    assert content_cuts(scores, 27.0, length) == theirs


@given(SCORES, LENGTHS, st.integers(1, 4))
def test_adaptive_cuts_are_those_of_pyscenedetect(scores: list[float], length: int, window: int) -> None:
    theirs = _with_scores(TheirAdaptive(min_scene_len=length, window_width=window), scores)
    rule = AdaptiveDetector(min_shot_frames=length, window=window)
    assert adaptive_cuts(np.array(scores, np.float64), rule) == theirs


@given(st.lists(st.integers(0, 40), max_size=120), LENGTHS, st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]))
def test_fades_are_those_of_pyscenedetect(levels: list[int], length: int, bias: float) -> None:
    frames = [np.full((2, 2, 3), level, np.uint8) for level in levels]
    theirs = _cuts_of(TheirThreshold(min_scene_len=length, fade_bias=bias), frames)
    assert sorted(set(fades(levels, 12, length, bias))) == theirs


DETECTORS: list[tuple[Any, Callable[[], Any]]] = [
    (ContentDetector(), TheirContent),
    (AdaptiveDetector(), TheirAdaptive),
    (ThresholdDetector(), TheirThreshold),
]


def _video(seed: int, shots: Sequence[int]) -> np.ndarray:
    """Noisy frames around a colour for each shot."""
    random = np.random.default_rng(seed)
    colours = random.integers(0, 256, (len(shots), 1, 1, 3))
    frames = np.repeat(colours, shots, axis=0) + random.integers(-9, 10, (sum(shots), 9, 16, 3))
    return np.clip(frames, 0, 255).astype(np.uint8)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_frames_give_the_cuts_of_pyscenedetect(seed: int, shots: list[int]) -> None:
    frames = _video(seed, shots)
    for ours, theirs in DETECTORS:
        scan = ours.start()
        scan.add(frames)
        turned = np.ascontiguousarray(frames[..., ::-1])
        assert [cut.start for cut in scan.shot_changes()] == _cuts_of(theirs(), turned)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(1, 50))
def test_cuts_do_not_depend_on_how_frames_come(seed: int, shots: list[int], step: int) -> None:
    frames = _video(seed, shots)
    for detector, _ in DETECTORS:
        whole, parts = detector.start(), detector.start()
        whole.add(frames)
        for first in range(0, len(frames), step):
            parts.add(frames[first : first + step])
        assert whole.shot_changes() == parts.shot_changes()


def test_a_video_without_frames_has_no_cuts() -> None:
    for detector, _ in DETECTORS:
        assert detector.start().shot_changes() == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: ContentDetector(threshold=-1),
        lambda: ContentDetector(threshold=float("nan")),
        lambda: AdaptiveDetector(window=0),
        lambda: AdaptiveDetector(min_shot_frames=-1),
        lambda: ThresholdDetector(bias=2),
    ],
)
def test_wrong_numbers_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(PipelineError, match="must be"):
        make()
