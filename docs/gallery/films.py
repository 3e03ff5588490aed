"""Films: clips between cuts that move, without what is small, black, frozen, or there twice.

pip install 'dcurate[video]'
dcurate sample films --films
python films.py films clips
"""

import sys

from dcurate import MediaReader, Pipeline, ScoreFilter
from dcurate.dedup import Highest
from dcurate.text.presets import video_openvid, video_quality
from dcurate.video import (
    ClipLengths,
    ClipRows,
    CutVideo,
    FindShots,
    GradualDetector,
    ShotClips,
    VideoFolderWriter,
    VideoInfo,
    VideoNearDuplicates,
    VideoSignals,
)


def pipeline(source: str, output: str) -> Pipeline:
    """What containers say comes before what must be decoded; clips are cut out last."""
    return Pipeline(
        "films",
        stages=[
            MediaReader(source, kinds=["video"]),
            VideoInfo(),
            ScoreFilter(video_openvid(), name="size"),
            FindShots(GradualDetector()),
            ShotClips(lengths=ClipLengths(min_length_s=2, max_length_s=10, crop_s=0.25)),
            ClipRows(),
            VideoSignals(),
            ScoreFilter(video_quality(), name="quality"),
            VideoNearDuplicates(keep=Highest("video_width")),
            CutVideo(),
            VideoFolderWriter(output),
        ],
    )


if __name__ == "__main__":
    print(pipeline(*sys.argv[1:3]).run())
