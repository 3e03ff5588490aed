"""Whole datasets: samples, blends, order, and the sizes of batches."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
