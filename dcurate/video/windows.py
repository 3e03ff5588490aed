"""Windows of frames, as NeMo Curator cuts clips for captions: which frames, of how many."""

from __future__ import annotations

from typing import NamedTuple

#: Frames of the shortest clip that has a window; frames that a model gets, at least and at most; and their factor.
MIN_FRAMES, LEAST, MOST, _FACTOR = 4, 4, 768, 2


class FrameWindow(NamedTuple):
    """A window of a clip.

    Args:
        start: number of its first frame, from 0.
        end: number of its last frame.
    """

    start: int
    end: int


def windows_of(frames: int, window_frames: int = 256, min_window_frames: int = 128) -> list[FrameWindow]:
    """Cut the frames of a clip into windows; NeMo Curator's ``compute_windows``.

    What is left behind the last whole window is a window of its own, or if it is too short, a part of that window. A
    clip of fewer than 4 frames has none.

    Args:
        frames: number of frames of the clip.
        window_frames: frames of a window.
        min_window_frames: frames that are enough for a window of their own at the end.

    Examples:
        >>> windows_of(600)
        [FrameWindow(start=0, end=255), FrameWindow(start=256, end=599)]
    """
    if frames < MIN_FRAMES:
        return []
    if frames <= window_frames:
        return [FrameWindow(0, frames - 1)]
    whole, rest = divmod(frames, window_frames)
    cut = [FrameWindow(number * window_frames, (number + 1) * window_frames - 1) for number in range(whole)]
    if rest >= min_window_frames:
        return [*cut, FrameWindow(frames - rest, frames - 1)]
    return [*cut[:-1], FrameWindow(cut[-1].start, frames - 1)]


def sampled_frames(window: FrameWindow, fps: float, sampling_fps: float = 2.0) -> list[int]:
    """Return the numbers of the frames of a window that a model gets; NeMo Curator's ``smart_nframes`` and linspace.

    They are spread evenly from the first to the last: `sampling_fps` of a second, an even number, 4 to 768. Places
    half between two frames go to the even one. They are computed exactly; Torch does so in single precision, which
    is the same up to some thousands of frames.

    Args:
        window: the window.
        fps: frames a second of the film.
        sampling_fps: frames a second that are taken.

    Examples:
        >>> sampled_frames(FrameWindow(0, 99), fps=25)
        [0, 14, 28, 42, 57, 71, 85, 99]
    """
    total = window.end - window.start + 1
    least, most = LEAST, min(MOST, total) // _FACTOR * _FACTOR
    count = round(min(max(total / fps * sampling_fps, least), most) / _FACTOR) * _FACTOR
    length, steps = window.end - window.start, count - 1
    numbers = []
    for number in range(count):
        whole, rest = divmod(number * length, steps)
        place = window.start + whole
        numbers.append(place + (2 * rest > steps or (2 * rest == steps and place % 2 == 1)))
    return numbers
