"""dcurate: curate LLM training data on Dask.

Import everything public from here. `__init__.pyi` lists the names and the modules that define them; a name loads on
first use, so that ``import dcurate`` stays quick.
"""

import lazy_loader

from dcurate.moved import find_moved_modules

__version__ = "0.1.0"

find_moved_modules()

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
