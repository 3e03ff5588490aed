"""Compare the versions of libraries on the client, the scheduler and the workers, before a run and as workers join."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from distributed import Client

import dcurate
from dcurate.cluster import compat
from dcurate.errors import ResourceError

#: Packages that exchange messages or pickled objects of their own: any other version is refused.
_SAME = ("dcurate", "dask", "distributed")
#: Packages whose objects are in batches and stages: another major version is refused.
_SAME_MAJOR = ("numpy", "pandas", "pyarrow", "numba")


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of packages in this process; none of what is not installed as a package.

    That of dcurate is of the modules that were loaded, which may be others than those that are installed.
    """
    installed = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for package in (*_SAME, *_SAME_MAJOR):
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed | {"dcurate": dcurate.__version__}


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """Name the first version that differs in a way that matters; empty if there is none.

    Examples:
        >>> difference({"dask": "2026.7.1", "numpy": "2.1.0"}, {"dask": "2026.7.1", "numpy": "2.3.5"})
        ''
        >>> difference({"Python": "3.11"}, {"Python": "3.12"})
        'Python 3.12, and this process has 3.11'
    """
    for package in ("Python", *_SAME, *_SAME_MAJOR):
        ours, theirs = here.get(package), there.get(package)
        if ours is None or theirs is None:
            continue
        same = ours.split(".")[0] == theirs.split(".")[0] if package in _SAME_MAJOR else ours == theirs
        if not same:
            return f"{package} {theirs}, and this process has {ours}"
    return ""


def check_versions(client: Client) -> None:
    """Refuse a cluster whose scheduler or workers have versions that do not go with those of this process.

    Raises:
        ResourceError: names the process and the versions.
        ImportError: a worker, or the scheduler, cannot load dcurate, or has one without this function.
    """
    here = versions()
    by_process = {"the scheduler": client.run_on_scheduler(versions)}
    for address, answer in sorted(compat.ask_workers(client, versions).items()):
        if isinstance(answer, dict):
            by_process[f"worker {address}"] = answer
        elif any(kind in repr(answer) for kind in ("ModuleNotFoundError", "ImportError", "AttributeError")):
            raise ImportError(f"worker {address}: {answer}")  # other errors are of workers that die meanwhile
    for process, process_versions in by_process.items():
        differs = difference(here, process_versions)
        if differs:
            raise ResourceError(
                f"{process} has {differs}; install the same versions on the client, the scheduler and all workers"
            )
