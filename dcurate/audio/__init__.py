"""Audio: headers of recordings, speech in them and how good it sounds, and error rates of transcripts."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
