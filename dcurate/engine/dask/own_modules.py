"""Modules of a user that workers cannot import: their classes and functions travel by value."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import cloudpickle
from distributed import Client

from dcurate.cluster import compat
from dcurate.core.extras import missing

_INSTALLED = tuple({os.path.realpath(path) + os.sep for path in sysconfig.get_paths().values()})


def own_modules() -> dict[str, list[ModuleType]]:
    """Return the modules of this process that no package installed, by their top-level name: scripts' helpers, say."""
    modules: dict[str, list[ModuleType]] = {}
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        path = getattr(module, "__file__", None)
        if top in ("__main__", "dcurate") or not isinstance(path, str) or not path.endswith(".py"):
            continue
        if not os.path.realpath(path).startswith(_INSTALLED):
            modules.setdefault(top, []).append(module)
    return modules


@contextmanager
def travelling(client: Client) -> Iterator[None]:
    """Pickle by value what comes from modules that the cluster cannot import, for as long as the context lasts.

    The scheduler is asked, too, as policies run there, and workers may be started for this run alone.
    """
    modules = own_modules()
    absent: set[str] = set()
    if modules:
        absent.update(client.run_on_scheduler(missing, list(modules)))
        for names in compat.ask_workers(client, missing, list(modules)).values():
            absent.update(names if isinstance(names, list) else ())
    registered = [module for name in absent for module in modules[name]]
    before = cloudpickle.list_registry_pickle_by_value()
    registered = [module for module in registered if module.__name__ not in before]
    for module in registered:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)
