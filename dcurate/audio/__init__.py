"""Audio: what the headers of recordings say."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
