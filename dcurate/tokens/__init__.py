"""From documents to files of tokens that a trainer reads."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
