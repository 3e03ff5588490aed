"""Images: properties, quality signals, hashes, near-duplicates, and documents of text and pictures."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
