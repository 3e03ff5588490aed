"""dcurate: curate LLM training data on Dask.

Import everything public from here. `__init__.pyi` lists the names and the modules that define them; a name loads on
first use, so that ``import dcurate`` stays quick.
"""

from typing import Any

import lazy_loader

from dcurate.core.extras import extra_of, missing_dependency
from dcurate.errors import ResourceError
from dcurate.moved import find_moved_modules

__version__ = "0.1.0"

find_moved_modules()

_load, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__all__":  # for `from dcurate import *`: without names whose extra is not installed
        return [public for public in __dir__() if _can_load(public)]
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        extra = extra_of(error.name or "")
        if not extra:
            raise
        raise missing_dependency(f"dcurate.{name}", str(error), extra) from error


def _can_load(name: str) -> bool:
    try:
        __getattr__(name)
    except ResourceError:
        return False
    return True
