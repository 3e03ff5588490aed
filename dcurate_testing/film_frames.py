"""A stage that decodes every frame of films and tells what it saw of them. For benchmarks and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import pyarrow as pa

from dcurate.isolate.child import Answer
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.video import FramePolicy, VideoStage
from dcurate.video.film import FilmFrame
from dcurate.video.watch import WatchedClip, watching


class FrameWatcher:
    """Counts frames, and sums up their pixels if it is asked to."""

    def __init__(self, clip: WatchedClip, options: Mapping[str, Any]) -> None:
        self.policy = FramePolicy(*options["frames"])
        self._has_checksum, self._has_peak = options["checksum"], options["peak"]
        self._frames, self._sum = 0, 0

    def see(self, frame: FilmFrame) -> None:
        self._frames += 1
        if self._has_checksum:
            self._sum = crc32(frame.pixels().tobytes(), self._sum)

    def end(self) -> Answer:
        peak_mb = _peak_mb() if self._has_peak else None
        return {"frames": self._frames, "checksum": self._sum, "peak_mb": peak_mb}, []


def _peak_mb() -> float:
    """The most memory of this process; ru_maxrss counts that of the process that started this one, too."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1000


watch = watching(FrameWatcher)


@dataclass
class CountFrames(VideoStage):
    """Decode frames; add how many there are, and a checksum of their pixels.

    Args:
        peak: whether to add the most memory that the child process held until then, in MB.
        checksum: whether to make pixels of the frames and sum them up; without it frames are decoded and counted.
        frames: the frames that are counted; all unless given.
    """

    name: str = "count_frames"
    peak: bool = False
    checksum: bool = True
    frames: FramePolicy = field(default_factory=FramePolicy)

    kinds: ClassVar[Mapping[str, pa.DataType]] = {
        "frames": pa.int64(),
        "checksum": pa.int64(),
        "truncated": pa.bool_(),
        "damaged": pa.int64(),
        "peak_mb": pa.float64(),
    }

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        left_out = {"peak_mb": not self.peak, "checksum": not self.checksum}
        return {name: kind for name, kind in self.kinds.items() if not left_out.get(name)}

    @property
    def function(self) -> str:
        return f"{__name__}:watch"

    @property
    def watch_options(self) -> Mapping[str, Any]:
        return {"frames": self.frames.request, "checksum": self.checksum, "peak": self.peak}

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        return [answer.value[name] for name in self.columns]
