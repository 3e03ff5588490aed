"""Label a sample once, train a student on it, and score every document."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
