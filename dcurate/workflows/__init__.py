"""Deduplication of whole datasets in one call, under the names that NeMo Curator gives it."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
