"""How the images of rows are read and decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dcurate.errors import PipelineError
from dcurate.media.image.pixels import MAX_PIXELS
from dcurate.media.stage import FileReading

#: The libraries that decode images, and the extra that has them.
LIBRARIES: Final = {"PIL": "images", "simplejpeg": "images"}


@dataclass(frozen=True)
class ImageReading(FileReading):
    """How a stage reads and decodes the images of rows.

    Args:
        max_file_bytes, sandbox, timeout_s, memory, storage_options: same settings as in `FileReading`. Images are
            decoded in the process of the stage unless ``sandbox=True``, which takes about 0.1 ms an image and two
            copies of its bytes. Then `timeout_s` is 60 and `memory` 2 GiB unless given.
        max_pixels: most pixels of an image, as stored; one with more goes to quarantine as ``too many pixels``.

    Raises:
        PipelineError: a limit that is not above zero.

    Examples:
        >>> ImageReading(sandbox=True, timeout_s=10).max_pixels
        178000000
    """

    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_pixels < 1:
            raise PipelineError(f"max_pixels={self.max_pixels!r} must be above zero")
