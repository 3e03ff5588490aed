"""Public names of `dcurate.video` and the modules that define them; `__init__.py` reads this file."""

from .captions import CaptionWindows as CaptionWindows
from .clips.stage import CutVideo as CutVideo
from .duplicates.exact import VideoExactDuplicates as VideoExactDuplicates
from .duplicates.near import VideoNearDuplicates as VideoNearDuplicates
from .frames import ExtractFrames as ExtractFrames
from .frames import PoolFrames as PoolFrames
from .info import VideoInfo as VideoInfo
from .layouts.folder import VideoFolderReader as VideoFolderReader
from .layouts.folder import VideoFolderWriter as VideoFolderWriter
from .layouts.lerobot import LeRobotReader as LeRobotReader
from .layouts.nemo_clips import NemoClipWriter as NemoClipWriter
from .policy import FramePolicy as FramePolicy
from .previews import MakePreviews as MakePreviews
from .shots.clips import ClipRows as ClipRows
from .shots.clips import FixedStrideClips as FixedStrideClips
from .shots.clips import ShotClips as ShotClips
from .shots.content import AdaptiveDetector as AdaptiveDetector
from .shots.content import ContentDetector as ContentDetector
from .shots.content import ThresholdDetector as ThresholdDetector
from .shots.find import FindShots as FindShots
from .shots.gradual import GradualDetector as GradualDetector
from .shots.spans import ClipLengths as ClipLengths
from .shots.transnet import TransNetV2Detector as TransNetV2Detector
from .signals import VideoSignals as VideoSignals
from .stage import VideoReading as VideoReading
from .stage import VideoStage as VideoStage
from .subtitles import Subtitles as Subtitles
from .track_rows import TrackRows as TrackRows

__all__: list[str]
