"""Jobs: runs that belong to a cluster, and go on when the process that submitted them ends."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
