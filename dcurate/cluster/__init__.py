"""A connected Dask client: an embedded cluster, one that runs elsewhere, or one that grows and shrinks by kind."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
