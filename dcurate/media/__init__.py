"""Media by reference: where the bytes of a picture, a PDF or another file lie, and how to read them safely."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
