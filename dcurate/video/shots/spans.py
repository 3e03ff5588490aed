"""Spans of clips: at fixed steps, and from shots with a least and a greatest length; NeMo Curator's arithmetic.

Spans are pairs of a start and an end, in seconds or in numbers of frames; the end is outside.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError
from dcurate.isolate.errors import MediaError

Span = tuple[int, int]

#: Clips of the longest list that is made of a video.
MAX_CLIPS = 1_000_000
#: What `max_length_mode` may be.
MODES = ("stride", "truncate")


class FrameLengths(NamedTuple):
    """Lengths of clips in frames; None is no limit.

    Args:
        least: frames of the shortest clip.
        most: frames of the longest clip.
        crop: frames that are left out at either end of a shot.
        mode: ``"stride"`` divides a shot that is too long, ``"truncate"`` keeps its beginning.
    """

    least: int | None
    most: int | None
    crop: int | None
    mode: str


@dataclass(frozen=True)
class ClipLengths:
    """Lengths of clips in seconds, with the defaults of NeMo Curator's ``TransNetV2ClipExtractionStage``.

    A shot longer than `max_length_s` is divided or truncated; then `crop_s` is cut off either end of each clip, and
    clips that are shorter than `min_length_s` are left out.

    Args:
        min_length_s: seconds of the shortest clip; None or 0 for any.
        max_length_s: seconds of the longest clip; None or 0 for any.
        max_length_mode: ``"stride"`` divides a shot that is too long, ``"truncate"`` keeps its beginning.
        crop_s: seconds that are cut off at either end; None or 0 for none.

    Raises:
        PipelineError: a number is below 0, or the mode is unknown.

    Examples:
        >>> ClipLengths().frames(30.0)
        FrameLengths(least=60, most=300, crop=15, mode='stride')
    """

    min_length_s: float | None = 2.0
    max_length_s: float | None = 10.0
    max_length_mode: str = "stride"
    crop_s: float | None = 0.5

    def __post_init__(self) -> None:
        for name in ("min_length_s", "max_length_s", "crop_s"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise PipelineError(f"ClipLengths: {name}={value!r} must be 0 or more, or None")
        if self.max_length_mode not in MODES:
            raise PipelineError(f"ClipLengths: max_length_mode={self.max_length_mode!r} must be 'stride' or 'truncate'")

    def frames(self, rate: float) -> FrameLengths:
        """Return the lengths in frames, rounded down, for a number of frames a second."""
        least, most, crop = (
            int(seconds * rate) if seconds else None for seconds in (self.min_length_s, self.max_length_s, self.crop_s)
        )
        return FrameLengths(least, most, crop, self.max_length_mode)


def fixed_spans(duration_s: float, length_s: float, stride_s: float, min_length_s: float) -> list[tuple[float, float]]:
    """Return spans of one length at fixed steps, as NeMo Curator's ``FixedStrideExtractorStage`` does.

    The k-th begins at k strides and ends after the length, or with the video if that is earlier; it is left out if it
    is shorter than the least length.

    Args:
        duration_s: seconds of the video: its frames divided by their rate.
        length_s: seconds of a clip.
        stride_s: seconds from the start of a clip to that of the next.
        min_length_s: seconds of the shortest clip.

    Raises:
        MediaError: there are more than a million.

    Examples:
        >>> fixed_spans(25.0, 10.0, 10.0, 2.0)
        [(0.0, 10.0), (10.0, 20.0), (20.0, 25.0)]
        >>> fixed_spans(21.0, 10.0, 10.0, 2.0)
        [(0.0, 10.0), (10.0, 20.0)]
    """
    if duration_s / stride_s > MAX_CLIPS:
        raise MediaError("too many clips", f"{duration_s} s at a stride of {stride_s} s")
    starts = itertools.takewhile(lambda start: start < duration_s, _steps(stride_s))
    spans = ((start, min(start + length_s, duration_s)) for start in starts)
    return [(start, end) for start, end in spans if end - start >= min_length_s]


def _steps(stride: float) -> Iterable[float]:
    """Multiples of the stride, each the sum of the one before and the stride, with its rounding."""
    return itertools.accumulate(itertools.repeat(stride), initial=0.0)


def scenes(changes: Sequence[bool] | npt.NDArray[np.bool_], *, whole: bool) -> list[Span]:
    """Return the spans between frames of transitions, as NeMo Curator makes scenes of TransNetV2's predictions.

    A scene ends with the first frame of a transition, and begins with the first frame after one; the last ends with the
    last frame, which is outside.

    Args:
        changes: whether each frame is one of a transition.
        whole: whether a video without scenes is one, with its last frame.

    Examples:
        >>> scenes([False, False, True, True, False, False], whole=True)
        [(0, 2), (4, 5)]
        >>> scenes([False, False, False], whole=True)
        [(0, 3)]
    """
    mask = np.concatenate([[False], np.asarray(changes, np.bool_)])
    count = len(mask) - 1
    steps = np.diff(mask.astype(np.int8))
    starts = [0, *np.flatnonzero(steps == -1).tolist()]
    ends = [place for place in np.flatnonzero(steps == 1).tolist() if place != 0]
    begins_with_change = bool(mask[1:2].any())
    spans = list(zip(starts[begins_with_change:], ends, strict=False))
    if spans and not mask[-1]:
        spans.append((starts[-1], count - 1))
    return spans or ([(0, count)] if whole else [])


def clip_spans(shots: Iterable[Span], lengths: FrameLengths) -> list[Span]:
    """Return spans of clips within shots: divided or truncated, cropped, and not too short.

    Args:
        shots: first frame of each shot, and the frame after its last.
        lengths: lengths of clips.

    Raises:
        MediaError: there are more than a million.

    Examples:
        >>> clip_spans([(0, 40), (40, 165)], FrameLengths(least=20, most=50, crop=5, mode="stride"))
        [(5, 35), (45, 85), (95, 135)]
        >>> clip_spans([(0, 40), (40, 165)], FrameLengths(least=20, most=50, crop=5, mode="truncate"))
        [(5, 35), (45, 85)]
    """
    clips: list[Span] = []
    for start, end in shots:
        pieces: Iterable[Span] = _pieces(start, end, lengths)
        if lengths.crop is not None:
            cropped = ((first + lengths.crop, stop - lengths.crop) for first, stop in pieces)
            pieces = ((first, stop) for first, stop in cropped if stop > first)
        clips.extend((first, stop) for first, stop in pieces if stop - first >= (lengths.least or 0))
        if len(clips) > MAX_CLIPS:
            raise MediaError("too many clips", f"more than {MAX_CLIPS:,} of at most {lengths.most} frames")
    return clips


def _pieces(start: int, end: int, lengths: FrameLengths) -> list[Span]:
    """Return the parts of a shot of at most the greatest length."""
    most = lengths.most
    if most is None:
        return [(start, end)]
    if lengths.mode == "truncate":
        return [(start, min(start + most, end))]
    if most < 1:
        raise MediaError("no frame rate", "the greatest length of a clip has no frames")
    if (end - start) // most > MAX_CLIPS:
        raise MediaError("too many clips", f"{end - start} frames in clips of {most}")
    pieces = [(first, min(first + most, end)) for first in range(start, end, most)]
    return [piece for piece in pieces if not (piece[1] == end and piece[1] - piece[0] < (lengths.least or 0))]
