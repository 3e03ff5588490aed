"""`MakePreviews`: clips as small pictures that move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.errors import PipelineError
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.video.stage import VideoStage

#: Bytes of the pixels of a preview, at most.
_MOST_BYTES = 2**28


@dataclass
class MakePreviews(VideoStage):
    """Add a preview of each film or clip: an animated WebP, as NeMo Curator's ``PreviewStage`` makes it.

    `NemoClipWriter` writes it as a file of its own. The frames of a clip are scaled to `height`, in their proportions.
    Rows go to quarantine as with `VideoStage`, and as ``too many frames`` if the pixels of a preview take more than
    256 MiB.

    Args:
        fps: frames a second.
        height: height in pixels.
        quality: quality, 0 to 100.
        effort: time to spend for a smaller file, 0 to 6.
        preview_field: the new column.
        reading: limits.
        name: name of the stage.

    Raises:
        PipelineError: a number out of range.

    Examples:
        >>> import io, av
        >>> from dcurate import DocumentBatch
        >>> file = io.BytesIO()
        >>> with av.open(file, "w", format="mp4") as container:
        ...     stream = container.add_stream("mpeg4", rate=25)
        ...     stream.width, stream.height = 64, 48
        ...     for number in range(50):
        ...         _ = container.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        ...     _ = container.mux(stream.encode())
        >>> stage = MakePreviews(height=24)
        >>> rows = stage.process(DocumentBatch(data=pa.table({"bytes": [file.getvalue()]}))).to_arrow()
        >>> stage.teardown()
        >>> rows["preview"][0].as_py()[8:12]
        b'WEBP'
    """

    fps: float = 1.0
    height: int = 240
    quality: int = 50
    effort: int = 6
    preview_field: str = "preview"
    name: str = "make_previews"

    function: ClassVar[str] = "dcurate.video.preview_encoding:watch"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.fps, int | float) or not 0 < self.fps <= 1000:
            raise PipelineError(f"{self.name}: fps={self.fps!r} must be above 0, and at most 1000")
        for setting, least, most in (("height", 1, 16_383), ("quality", 0, 100), ("effort", 0, 6)):
            value = getattr(self, setting)
            if type(value) is not int or not least <= value <= most:
                raise PipelineError(f"{self.name}: {setting}={value!r} must be a whole number from {least} to {most}")

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {self.preview_field: pa.large_binary()}

    @property
    def watch_options(self) -> Mapping[str, Any]:
        settings = {"fps": self.fps, "height": self.height, "quality": self.quality, "method": self.effort}
        return {**settings, "max_bytes": _MOST_BYTES}

    def requires(self) -> dict[str, str]:
        return {"av": "video", "PIL": "video"}

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        return answer.blobs[:1]
