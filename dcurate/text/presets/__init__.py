"""Rule sets by name: tuples of filters for `ScoreFilter`, and of stages for a pipeline where the text is changed."""

from dcurate.text.presets.c4 import c4, c4_filters, c4_paragraphs
from dcurate.text.presets.fineweb import fineweb, fineweb2, fineweb_quality
from dcurate.text.presets.gopher import gopher, gopher_quality, gopher_repetition
from dcurate.text.presets.nemo import nemo_english, nemo_non_english
from dcurate.text.presets.refinedweb import refinedweb

__all__ = [
    "c4",
    "c4_filters",
    "c4_paragraphs",
    "fineweb",
    "fineweb2",
    "fineweb_quality",
    "gopher",
    "gopher_quality",
    "gopher_repetition",
    "nemo_english",
    "nemo_non_english",
    "refinedweb",
]
