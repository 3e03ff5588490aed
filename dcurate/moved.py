"""Modules that documentation named before they moved: importing the old name warns and gives the new module."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: Old names, and the new; packages that hold only such modules have no new name. They go with the release after 0.1.
MOVED = {
    "dcurate.cluster.kinds": "dcurate.cluster.elastic",
    "dcurate.cluster.shape": "dcurate.cluster.worker_shape",
    "dcurate.cluster.supply": "dcurate.cluster.worker_pools",
    "dcurate.execute": "",
    "dcurate.execute.config": "dcurate.engine.config",
    "dcurate.execute.dask_executor": "dcurate.engine.dask.executor",
    "dcurate.execute.inline": "dcurate.engine.inline",
    "dcurate.observe": "",
    "dcurate.observe.progress": "dcurate.ui.progress",
    "dcurate.observe.tracing": "dcurate.ui.tracing",
}


class _MovedFinder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=not MOVED[fullname]) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        new = MOVED[module.__name__]
        if not new:
            return
        warnings.warn(f"{module.__name__} is now {new}", DeprecationWarning, stacklevel=2)
        module.__dict__.update(
            {name: value for name, value in vars(importlib.import_module(new)).items() if name[:2] != "__"}
        )


def find_moved_modules() -> None:
    """Let old names of modules be imported."""
    if not any(isinstance(finder, _MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(_MovedFinder())
