"""Other tools that decode films, for `benchmarks.video_decode`: each counts the frames of a film, on one thread.

They are measured where they are installed: ``pip install opencv-python-headless decord daft``. OpenCV decodes frames
without making pixels of them, as the loop over PyAV's frames does; Decord and Daft always make pixels, and Daft runs in
threads as it comes. OpenCV's wheels read no AV1.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from itertools import chain
from typing import Any

import av


def pyav(path: str) -> int:
    """A bare loop over the frames of PyAV."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.thread_count, stream.thread_type = 1, "NONE"
        return sum(1 for _ in container.decode(stream))


def pyav_key_frames(path: str) -> int:
    """A bare loop over the key frames of PyAV: no reader of them is much faster."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.thread_count, stream.thread_type = 1, "NONE"
        packets = (packet for packet in container.demux(stream) if packet.is_keyframe)
        return sum(len(stream.decode(packet)) for packet in chain(packets, [None]))


def opencv(path: str) -> int:
    """OpenCV's reader, without `retrieve`."""
    cv2: Any = importlib.import_module("cv2")
    film, frames = cv2.VideoCapture(path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1]), 0
    while film.grab():
        frames += 1
    film.release()
    return frames


def decord(path: str) -> int:
    """Decord's reader, frame by frame."""
    film = importlib.import_module("decord").VideoReader(path, num_threads=1)
    return sum(film.next() is not None for _ in range(len(film)))


def daft(path: str) -> int:
    """A dataframe of frames, in the size of the film."""
    reader = importlib.import_module("daft").read_video_frames
    with av.open(path) as container:
        stream = container.streams.video[0]
        frames = reader(path, image_height=stream.height, image_width=stream.width)
    return int(frames.count_rows())


#: The tools by name, with the module that each needs.
_TOOLS: dict[str, tuple[str, Callable[[str], int]]] = {
    "opencv": ("cv2", opencv),
    "decord": ("decord", decord),
    "daft": ("daft", daft),
}
#: Those that are installed, and the names of the others.
INSTALLED = {name: count for name, (module, count) in _TOOLS.items() if importlib.util.find_spec(module)}
MISSING = sorted(set(_TOOLS) - set(INSTALLED))
