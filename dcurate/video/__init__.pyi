"""Public names of `dcurate.video` and the modules that define them; `__init__.py` reads this file."""

from .clips.stage import CutVideo as CutVideo
from .frames import ExtractFrames as ExtractFrames
from .frames import PoolFrames as PoolFrames
from .info import VideoInfo as VideoInfo
from .layouts.folder import VideoFolderReader as VideoFolderReader
from .layouts.folder import VideoFolderWriter as VideoFolderWriter
from .layouts.lerobot import LeRobotReader as LeRobotReader
from .layouts.nemo_clips import NemoClipWriter as NemoClipWriter
from .policy import FramePolicy as FramePolicy
from .stage import VideoReading as VideoReading
from .stage import VideoStage as VideoStage

__all__: list[str]
