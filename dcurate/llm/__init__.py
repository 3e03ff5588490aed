"""Stages that call a language model behind any OpenAI-compatible HTTP endpoint."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
