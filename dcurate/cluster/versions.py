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


def check_versions(client: Client) -> dict[str, str]:
    """Compare the versions of a cluster with those of this process.

    Returns:
        The workers that can take no part in a run, each with the reason; some others can, if there are any workers.

    Raises:
        ResourceError: the versions of the scheduler, or of all workers, do not go with those of this process; names the
            process and the versions.
        ImportError: the scheduler, or all workers, cannot load dcurate, or have one without this function.
    """
    here = versions()
    differs = difference(here, client.run_on_scheduler(versions))
    if differs:
        raise _refusal("the scheduler", differs)
    left_out: dict[str, str] = {}
    first: Exception | None = None
    answers = compat.ask_workers(client, versions)
    for address, answer in sorted(answers.items()):
        if isinstance(answer, dict):
            differs = difference(here, answer)
            if differs:
                left_out[address] = f"it has {differs}"
                first = first or _refusal(f"worker {address}", differs)
        elif any(kind in repr(answer) for kind in ("ModuleNotFoundError", "ImportError", "AttributeError")):
            left_out[address] = f"it cannot load dcurate ({answer})"
            first = first or ImportError(f"worker {address}: {answer}")  # other errors are of workers that die
    if first is not None and len(left_out) == len(answers):
        raise first
    return left_out


def _refusal(process: str, differs: str) -> ResourceError:
    return ResourceError(
        f"{process} has {differs}; install the same versions on the client, the scheduler and all workers"
    )
