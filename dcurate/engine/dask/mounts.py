"""Check, before a run, that all workers see the same output and input as the driver."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Container, Sequence
from contextlib import suppress

from distributed import Client, Worker

from dcurate.cluster import compat
from dcurate.cluster.worker_info import worker_info
from dcurate.core.batch import FilePart
from dcurate.engine.dask.event_loop import in_thread
from dcurate.errors import DcurateError, ResourceError
from dcurate.fs.stores import TMP, Directory

#: Seconds after which a worker counts as one whose file system hangs.
LOOK_S = 8.0
#: Workers that an error names.
MAX_NAMED = 3


def check_mounts(client: Client, left_out: Container[str], output: Directory | None, parts: Sequence[FilePart]) -> None:
    """Have each worker read a token that this process writes to the output, and look at the first input file.

    Args:
        client: client of the cluster.
        left_out: addresses of the workers that take no part in the run.
        output: the output, which is locked for the run; None for none.
        parts: parts of input files; only those on disks are looked at, as stores are the same everywhere.

    Raises:
        ResourceError: workers see another output or input; names them and their hosts.
        DataError: the output cannot be written.
    """
    files = [(part.path, part.size) for part in parts if part.path.startswith("/") and os.path.exists(part.path)]
    name, token = f"{TMP}/token-{uuid.uuid4().hex}", uuid.uuid4().bytes
    if output is not None:
        with output.writing(name, durable=False) as file:
            file.write(token)
    try:
        answers = compat.ask_workers(client, look, output=output, name=name, token=token, files=files)
    finally:
        if output is not None:
            with suppress(DcurateError):  # it is small, and the next run removes it
                output.remove([name])
    troubles = {
        worker: answer for worker, answer in sorted(answers.items()) if worker not in left_out and _is_trouble(answer)
    }
    if troubles:
        named = "; ".join(
            f"worker {worker} on host {trouble}" for worker, trouble in list(troubles.items())[:MAX_NAMED]
        )
        more = f"; and {len(troubles) - MAX_NAMED:,} more workers" if len(troubles) > MAX_NAMED else ""
        raise ResourceError(
            f"{named}{more}; mount the same storage at the same path on every host, or end these workers, and run again"
        )


def _is_trouble(answer: object) -> bool:
    """Return whether an answer names a trouble; an exception is the answer of a worker that dies meanwhile."""
    return isinstance(answer, str) and bool(answer)


async def look(
    output: Directory | None, name: str, token: bytes, files: Sequence[tuple[str, int]], dask_worker: Worker
) -> str:
    """Return the host of a worker and what it does not see; empty if it sees all. For `Client.run`."""
    try:
        trouble = await asyncio.wait_for(in_thread(_trouble, output, name, token, files), LOOK_S)
    except TimeoutError:
        where = " and ".join([*([] if output is None else [output.url]), *(path for path, _ in files)])
        trouble = f"has waited {LOOK_S:g} s for the file system of {where}"
    return trouble and f"{worker_info(dask_worker).host} {trouble}"


def _trouble(output: Directory | None, name: str, token: bytes, files: Sequence[tuple[str, int]]) -> str:
    try:
        if output is not None and output.read(name) != token:
            return f"has another directory, or none, at the output {output.url!r}"
    except DcurateError as error:
        return f"cannot read the output: {error}"
    for path, size in files:
        try:
            seen = os.stat(path).st_size
        except OSError as error:
            return f"does not see the input file {path!r} ({error.strerror})"
        if seen != size:
            return f"sees another input file {path!r}, of {seen:,} bytes and not {size:,}"
    return ""
