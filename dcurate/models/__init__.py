"""Stages that run models: tokenize, then classify, embed or score. Torch is imported when a stage is set up."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
