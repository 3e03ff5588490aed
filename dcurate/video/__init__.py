"""Video: properties of films, frames and clips as views, and one decode for all that looks at a film."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
