"""Pictures: WebDataset shards with captions, without what is small, blank, blurred, or there twice.

pip install 'dcurate[images]'
dcurate sample shards --pictures
python pictures.py shards pictures
"""

import sys

from dcurate import Pipeline, ScoreFilter, WebDatasetReader, WebDatasetWriter
from dcurate.images import ImageExactDuplicates, ImageInfo, ImageNearDuplicates, ImageSignals
from dcurate.text.presets import images_datacomp, images_quality


def pipeline(source: str, output: str) -> Pipeline:
    """Headers before pixels; each picture is decoded once, and written byte for byte."""
    return Pipeline(
        "pictures",
        stages=[
            WebDatasetReader(source),
            ImageInfo(),
            ScoreFilter(images_datacomp(), name="datacomp"),
            ImageSignals(),
            ScoreFilter(images_quality(), name="quality"),
            ImageExactDuplicates(),
            ImageNearDuplicates(),
            WebDatasetWriter(output),
        ],
    )


if __name__ == "__main__":
    print(pipeline(*sys.argv[1:3]).run())
