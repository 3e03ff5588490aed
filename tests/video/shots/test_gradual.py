"""Gradual transitions by trees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import PipelineError
from dcurate.kernels.mixtures import AROUND, FEATURES, mixture_features
from dcurate.video.shots.gradual import GradualDetector, bundled_trees, features_of, probabilities_of, runs_above


def _scene(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (3, 6, 3)).repeat(9, 0).repeat(8, 1)


def _mixed(shares: np.ndarray, seed: int = 7) -> np.ndarray:
    """Frames between two scenes."""
    shares = shares[:, None, None, None]
    return (_scene(seed) * (1 - shares) + _scene(seed + 1000) * shares).astype(np.uint8)


def _found(frames: np.ndarray) -> list[tuple[int, int, str]]:
    scan = GradualDetector().start()
    scan.add(frames)
    return [(found.start, found.stop, found.kind) for found in scan.shot_changes()]


@pytest.mark.parametrize("length", [6, 10, 20])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_dissolve_is_one_gradual_transition(length: int, seed: int) -> None:
    frames = _mixed(np.clip((np.arange(120) - 50) / (length + 1), 0, 1), seed)
    ((start, stop, kind),) = _found(frames)
    assert kind == "gradual"
    assert abs(start - 51) <= 2
    assert abs(stop - 51 - length) <= 2


def test_a_cut_is_a_cut_and_a_still_film_has_none() -> None:
    assert _found(_mixed(np.repeat([0.0, 1.0], 60))) == [(60, 60, "cut")]
    assert _found(_mixed(np.zeros(90))) == []


def test_a_movement_is_no_transition() -> None:
    wide = np.random.default_rng(3).integers(0, 256, (3, 30, 3)).repeat(9, 0).repeat(8, 1)
    frames = np.stack([wide[:, number : number + 48] for number in range(0, 150)]).astype(np.uint8)
    assert _found(frames) == []


@given(st.lists(st.integers(0, 60), max_size=6), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_frames_may_come_in_any_parts_and_few_are_held(parts: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    frames = random.integers(0, 256, (sum(parts), 27, 48, 3), dtype=np.uint8)
    scan, first = GradualDetector().start(), 0
    for count in parts:
        scan.add(frames[first : first + count])
        first += count
        assert scan._held is None or len(scan._held) <= 2 * AROUND
    expected = probabilities_of(features_of(frames), bundled_trees()) if first else np.empty(0)
    assert scan.probabilities().tolist() == expected.tolist()


@given(st.integers(0, 2**32 - 1), st.integers(33, 40))
@settings(deadline=None, max_examples=20)
def test_features_are_those_of_the_formulas(seed: int, count: int) -> None:
    frames = np.random.default_rng(seed).integers(0, 256, (count, 5 * 3), dtype=np.uint8)
    features = np.empty((count - 2 * AROUND, FEATURES), np.float32)
    mixture_features(frames, features)
    values = frames.astype(np.float64)
    for number in range(len(features)):
        t = number + AROUND
        for place, reach in enumerate((2, 4, 8, 16)):
            a, x, b = values[t - reach], values[t], values[t + reach]
            d = b - a
            share = (x - a) @ d / (d @ d)
            left = np.sqrt(np.sum((x - a - share * d) ** 2) / (d @ d))
            either = np.minimum(np.abs(x - a), np.abs(x - b)).sum() / np.abs(d).sum()
            expected = [np.abs(d).mean(), np.clip(share, -1, 2), min(left, 4), min(either, 4)]
            ours = features[number, 7 * place : 7 * place + 7]
            assert np.allclose(ours[[0, 1, 2, 4]], expected, rtol=1e-4, atol=1e-4)
        assert features[number, 28] == pytest.approx(np.abs(values[t] - values[t - 1]).mean(), rel=1e-5)
        assert features[number, 33] == pytest.approx(values[t].mean(), rel=1e-5)


def test_runs_are_frames_above_the_threshold_in_a_row() -> None:
    probabilities = np.array([0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0], np.float64)
    assert [run[:2] for run in runs_above(probabilities, 0.5, 3)] == [(2, 7)]
    assert [run[:2] for run in runs_above(probabilities, 0.5, 1)] == [(2, 7), (10, 12)]
    assert runs_above(np.empty(0), 0.5, 1) == []


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(PipelineError, match="threshold"):
        GradualDetector(threshold=-0.1)
    with pytest.raises(PipelineError, match="min_transition_frames"):
        GradualDetector(min_transition_frames=0)
