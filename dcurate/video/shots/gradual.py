"""Gradual transitions: dissolves, fades and wipes, by trees on how frames mix those around them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError
from dcurate.kernels.mixtures import AROUND, FEATURES, Trees, mixture_features, votes
from dcurate.video.shots.content import AdaptiveDetector, ContentDetector
from dcurate.video.shots.spans import Span
from dcurate.video.shots.transitions import Frames, ShotDetector, SmallSize, Transition, shots_between

#: Height and width of frames.
HEIGHT, WIDTH = 27, 48
#: Trees that `benchmarks.make_transitions` made.
TREES = Path(__file__).parents[2] / "bundled" / "transitions.npz"

#: Frames around a gradual transition in which no cut is.
_MARGIN = 2

Floats = npt.NDArray[np.float32]


@lru_cache(maxsize=1)
def bundled_trees() -> Trees:
    """Return the trees that come with dcurate."""
    with np.load(TREES, allow_pickle=False) as file:
        return Trees(file["nodes"].astype(np.int32), file["limits"], file["values"], file["roots"].astype(np.int32))


def probabilities_of(features: Floats, trees: Trees) -> npt.NDArray[np.float64]:
    """Return the probability that each frame is one of a gradual transition.

    Args:
        features: a row for each frame.
        trees: what gives the logarithm of the odds.
    """
    sums = np.empty(len(features))
    votes(features, trees, sums)
    answer: npt.NDArray[np.float64] = 1.0 / (1.0 + np.exp(-sums))
    return answer


@dataclass(frozen=True)
class GradualDetector(ShotDetector):
    """Finds dissolves, fades and wipes, and cuts by another detector.

    Each frame is compared with those 2, 4, 8 and 16 before and after it: how far it is a mixture of both, and how the
    differences of frames around it are distributed. Boosted trees give a probability, and runs of frames above the
    threshold are transitions. As in Koala-36M (Wang et al., 2024), movement is told from transitions by what was
    learned, not by one limit. The trees were trained on drawn films (``benchmarks/make_transitions.py``), with
    transitions of 5 to 35 frames; longer ones may be found in parts.

    Args:
        threshold: least probability of a frame of a transition, as the mean of three.
        min_transition_frames: frames of the shortest gradual transition.
        cuts: what finds cuts; None for none. Cuts within gradual transitions are left out.

    Raises:
        PipelineError: the threshold is not from 0 to 1, or the shortest transition has no frames.

    Examples:
        >>> share = np.clip((np.arange(90) - 40) / 11, 0, 1)[:, None, None, None]
        >>> before, after = np.random.default_rng(7).integers(0, 256, (2, 3, 6, 3)).repeat(9, 1).repeat(8, 2)
        >>> scan = GradualDetector().start()
        >>> scan.add((before * (1 - share) + after * share).astype(np.uint8))
        >>> [(transition.start, transition.stop, transition.kind) for transition in scan.shot_changes()]
        [(41, 51, 'gradual')]
    """

    threshold: float = 0.5
    min_transition_frames: int = 4
    cuts: ContentDetector | AdaptiveDetector | None = field(default_factory=ContentDetector)

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise PipelineError(f"GradualDetector: threshold={self.threshold!r} must be from 0 to 1")
        if self.min_transition_frames < 1:
            raise PipelineError(
                f"GradualDetector: min_transition_frames={self.min_transition_frames!r} must be 1 or more"
            )

    @property
    def frames(self) -> SmallSize:
        return SmallSize(size=(WIDTH, HEIGHT), interpolation="AREA")

    def start(self, model: Any = None) -> GradualScan:
        return GradualScan(self, bundled_trees())


class GradualScan:
    """One pass over the frames of a video, of which it holds 32, and a probability each.

    Args:
        detector: the rule that makes transitions of probabilities.
        trees: what gives probabilities.
    """

    def __init__(self, detector: GradualDetector, trees: Trees) -> None:
        self._detector, self._trees = detector, trees
        self._cuts = detector.cuts.start() if detector.cuts is not None else None
        self._held: Frames | None = None
        self._answers: list[npt.NDArray[np.float64]] = []
        self._frames = 0
        self._is_over = False

    def add(self, frames: Frames) -> None:
        if not len(frames):
            return
        if self._cuts is not None:
            self._cuts.add(frames)
        self._frames += len(frames)
        flat = np.ascontiguousarray(frames).reshape(len(frames), -1)
        held = np.repeat(flat[:1], AROUND, axis=0) if self._held is None else self._held
        self._advance(np.concatenate([held, flat]))

    def probabilities(self) -> npt.NDArray[np.float64]:
        """Return a probability for each frame, after the last frame."""
        if self._held is not None and not self._is_over:
            self._advance(np.concatenate([self._held, np.repeat(self._held[-1:], AROUND, axis=0)]))
            self._is_over = True
        return np.concatenate([*self._answers, np.empty(0)])

    def shot_changes(self) -> list[Transition]:
        rule = self._detector
        gradual = runs_above(self.probabilities(), rule.threshold, rule.min_transition_frames)
        found = [Transition(start, stop, "gradual", score) for start, stop, score in gradual]
        cuts = self._cuts.shot_changes() if self._cuts is not None else []
        kept = [cut for cut in cuts if not any(run.start - _MARGIN <= cut.start <= run.stop + _MARGIN for run in found)]
        return sorted(found + kept)

    def shots(self) -> list[Span]:
        return shots_between(self.shot_changes(), self._frames)

    def _advance(self, flat: npt.NDArray[np.uint8]) -> None:
        count = len(flat) - 2 * AROUND
        if count > 0:
            self._answers.append(probabilities_of(_measured(flat), self._trees))
            flat = flat[count:]
        self._held = flat


def features_of(frames: Frames) -> Floats:
    """Return what the trees look at, a row for each frame of a video; ends are repeated.

    Args:
        frames: all frames, of 48 by 27 pixels.
    """
    flat = frames.reshape(len(frames), -1)
    return _measured(np.concatenate([flat[:1].repeat(AROUND, 0), flat, flat[-1:].repeat(AROUND, 0)]))


def _measured(flat: npt.NDArray[np.uint8]) -> Floats:
    features = np.empty((len(flat) - 2 * AROUND, FEATURES), np.float32)
    mixture_features(flat, features)
    return features


def runs_above(
    probabilities: npt.NDArray[np.float64], threshold: float, min_frames: int
) -> list[tuple[int, int, float]]:
    """Return runs of frames whose probability, as the mean of three, is above a threshold: start, stop and mean.

    Args:
        probabilities: one for each frame.
        threshold: least probability.
        min_frames: frames of the shortest run.

    Examples:
        >>> runs_above(np.array([0.0, 0.1, 0.9, 0.9, 0.9, 0.9, 0.0, 0.0]), 0.5, 3)
        [(2, 6, 0.9)]
    """
    if not len(probabilities):
        return []
    padded = np.pad(probabilities, 1, mode="edge")
    smooth = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    steps = np.diff(np.concatenate([[False], smooth >= threshold, [False]]).astype(np.int8))
    runs = zip(np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist(), strict=True)
    return [
        (start, stop, round(float(probabilities[start:stop].mean()), 6))
        for start, stop in runs
        if stop - start >= min_frames
    ]
