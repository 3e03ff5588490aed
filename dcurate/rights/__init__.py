"""What the owners of files say about their use, as columns, and policies over these."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
