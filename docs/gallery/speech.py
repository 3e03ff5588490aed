"""Speech: segments of speech in recordings, without copies and noise, as a manifest for NeMo.

pip install 'dcurate[audio]'
pip install --no-deps silero-vad
dcurate sample recordings --recordings
python speech.py recordings segments
"""

import sys

from dcurate import MediaReader, Pipeline, ScoreFilter
from dcurate.audio import (
    AudioInfo,
    AudioNearDuplicates,
    AudioSignals,
    FindSpeech,
    NemoManifestWriter,
    SegmentRows,
)
from dcurate.text.presets import speech_quality


def pipeline(source: str, output: str) -> Pipeline:
    """From `SegmentRows` on, a row is a reference to a part of a recording; no sound is copied."""
    return Pipeline(
        "speech",
        stages=[
            MediaReader(source, kinds=["audio"]),
            AudioInfo(),
            AudioNearDuplicates(keep="longest"),
            FindSpeech(),
            SegmentRows(),
            AudioSignals(),
            ScoreFilter(speech_quality(), name="quality"),
            NemoManifestWriter(output),
        ],
    )


if __name__ == "__main__":
    print(pipeline(*sys.argv[1:3]).run())
