"""The record of a run: state, history, manifest."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
