"""Motion by NeMo Curator's definition, written down pixel by pixel, as its stages are not installed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

import av
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_BLOCKS = [(8, 8), (16, 16), (16, 8), (8, 16)]
_EXPORT_MVS = 1 << 28


def sampled_vectors(
    path: str | BinaryIO, fps: float = 2.0, ratio: float = 0.5
) -> tuple[list[npt.NDArray[Any]], tuple[int, int]]:
    """Motion vectors of the frames that are measured, and the size of the film.

    Args:
        path: name of the file, or a file object.
    """
    vectors: list[npt.NDArray[Any]] = []
    size = (0, 0)
    with av.open(path) as container:
        stream: Any = container.streams.video[0]
        stream.codec_context.flags2 |= _EXPORT_MVS
        step = max(1, round(float(stream.average_rate) / fps))
        seconds = int((container.duration or 0) / 1e6) or 30
        for number, frame in enumerate(container.decode(stream)):
            size = (frame.height, frame.width) if size == (0, 0) else size
            side: Any = frame.side_data.get("MOTION_VECTORS")
            if number % step == 0 and side is not None:
                vectors.append(side.to_ndarray())
                if len(vectors) >= max(10, round(fps * (seconds * ratio))):
                    break
    return vectors, size


def motion(vectors: Sequence[npt.NDArray[Any]], size: tuple[int, int]) -> tuple[float, float]:
    """The mean of all pixels and frames, and the least of the means over time, reduced to 1/256."""
    height, width = size
    total = np.zeros(size)
    for frame in vectors:
        flow = np.zeros((height, width, 2), np.float32)
        for wide, high in _BLOCKS:
            for vector in frame[(frame["w"] == wide) & (frame["h"] == high)]:
                columns = np.clip(int(vector["dst_x"]) + np.arange(-wide // 2, wide // 2), 0, width - 1)
                rows = np.clip(int(vector["dst_y"]) + np.arange(-high // 2, high // 2), 0, height - 1)
                flow[np.ix_(rows, columns)] = [
                    -np.float32(vector[name]) / np.float32(vector["motion_scale"]) for name in ("motion_x", "motion_y")
                ]
        total += np.linalg.norm(flow, axis=2) / (width + height)
    mean = total / len(vectors)
    return float(mean.mean()), float(_reduced(_reduced(mean).T).min())


def _reduced(rows: Floats) -> Floats:
    """Rows reduced to 1/256 by a bilinear filter with the middle of pixels as their place: OpenCV's ``resize``."""
    place = (np.arange(round(len(rows) / 256)) + 0.5) * 256 - 0.5
    below = np.minimum(np.floor(place).astype(int), len(rows) - 1)
    part = (place - below)[:, None] * (below < len(rows) - 1)[:, None]
    return rows[below] * (1 - part) + rows[np.minimum(below + 1, len(rows) - 1)] * part
