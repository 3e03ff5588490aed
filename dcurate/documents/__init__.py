"""PDF, office and ebook files to text."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
