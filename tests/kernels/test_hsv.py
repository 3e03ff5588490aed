"""Changes of hue, saturation and brightness."""

import cv2
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcurate.kernels.hsv import hsv_changes


def _changes(frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pixels = frames.shape[1] * frames.shape[2]
    before, sums = np.zeros((3, pixels), np.int32), np.empty((len(frames), 4), np.int64)
    hsv_changes(frames, before, sums)
    return before, sums


def _hsv(frame: np.ndarray) -> np.ndarray:
    return cv2.cvtColor(frame, cv2.COLOR_RGB2HSV).astype(np.int64)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 40), st.integers(1, 256), st.integers(1, 4))
def test_the_colours_and_sums_are_those_of_opencv(seed: int, height: int, width: int, levels: int, count: int) -> None:
    frames = np.random.default_rng(seed).integers(0, levels, (count, height, width, 3), dtype=np.uint8)
    before, sums = _changes(frames)
    expected = [np.zeros((height, width, 3), np.int64), *map(_hsv, frames)]
    assert (before.T.reshape(height, width, 3) == expected[-1]).all()
    for number in range(count):
        differences = np.abs(expected[number + 1] - expected[number]).sum((0, 1))
        assert sums[number].tolist() == [*differences.tolist(), int(frames[number].sum())]


def test_every_colour_is_converted_as_by_opencv() -> None:
    steps = np.arange(0, 256, 5, dtype=np.uint8)
    colours = np.stack(np.meshgrid(np.arange(256, dtype=np.uint8), steps, steps, indexing="ij"), -1)
    frame = colours.reshape(1, 256, -1, 3)
    before, _ = _changes(frame)
    assert (before.T.reshape(frame.shape[1:]) == _hsv(frame[0])).all()
