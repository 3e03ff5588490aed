"""Windows of clips, with NeMo Curator's names and defaults."""

from __future__ import annotations

from dcurate.video.windows import FrameWindow, windows_of


def compute_windows(
    total_frames: int | None, window_size: int = 128, remainder_threshold: int = 64
) -> list[FrameWindow]:
    """Cut the frames of a clip into windows.

    Args:
        total_frames: number of frames of the clip.
        window_size: frames of a window.
        remainder_threshold: frames that are enough for a window of their own at the end.

    Examples:
        >>> compute_windows(200)
        [FrameWindow(start=0, end=127), FrameWindow(start=128, end=199)]
    """
    return windows_of(total_frames or 0, window_size, remainder_threshold)
