"""dcurate: curate training data on Dask.

The names of every pipeline are here; each subject has its own: `dcurate.text`, `dcurate.dedup`, `dcurate.models` and so
on. A package lists its names, and the modules that define them, in its `__init__.pyi`; a name loads on first use, so
that ``import dcurate`` stays quick.
"""

from dcurate.core.public import attach

__version__ = "0.1.0"

__getattr__, __dir__ = attach(__name__, __file__)
