"""What a run needs of a worker that joins it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

from distributed import Worker

from dcurate.core.extras import Library, missing
from dcurate.engine.dask.mounts import Mounts, look, reason


@dataclass(frozen=True)
class WorkerNeeds:
    """What a run needs of each worker.

    Args:
        libraries: libraries of extras that its stages need.
        mounts: what it must see.
    """

    libraries: tuple[Library, ...] = ()
    mounts: Mounts = field(default_factory=Mounts)


async def lacking(needs: bytes, worker: Worker) -> str:
    """Return why a worker cannot take part in a run, as a sentence; empty if it can (runs there).

    Args:
        needs: pickled `WorkerNeeds`.
        worker: the worker.
    """
    try:
        wanted: WorkerNeeds = pickle.loads(needs)
        absent = missing([library.module for library in wanted.libraries])
        for library in wanted.libraries:
            if library.module in absent:
                return str(library.error)
        host, trouble = await look(wanted.mounts, worker)
    except Exception as error:  # of any library that opens a store, or of another version of dcurate
        return f"it cannot look at what the run needs ({type(error).__name__}: {error})"
    return trouble and reason(host, trouble)
