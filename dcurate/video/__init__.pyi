"""Public names of `dcurate.video` and the modules that define them; `__init__.py` reads this file."""

from .info import VideoInfo as VideoInfo
from .policy import FramePolicy as FramePolicy
from .stage import VideoReading as VideoReading
from .stage import VideoStage as VideoStage

__all__: list[str]
