"""Check that workers see the same output and input as the driver: all before a run, and others as they join."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from distributed import Client, Worker

from dcurate.cluster import compat
from dcurate.cluster.worker_info import worker_info
from dcurate.core.batch import FilePart
from dcurate.engine.dask.event_loop import in_thread
from dcurate.errors import DcurateError, ResourceError
from dcurate.fs.stores import TMP, Directory

#: Seconds after which a worker counts as one whose file system hangs.
LOOK_S = 8.0
#: Seconds for which a worker that does not see all looks again, and between two looks: file systems of a network show
#: a new file to other hosts a moment later.
AGAIN_S, PAUSE_S = 3.0, 0.5
#: Workers that an error names.
MAX_NAMED = 3
_FIX = "mount the same storage at the same path on every host"


@dataclass(frozen=True)
class Mounts:
    """What each worker of a run must see.

    Args:
        output: the output, which is locked for the run and holds a token; None for none.
        name: file of the token.
        token: its content.
        files: paths and sizes of input files.
        underway: whether the run has begun, so that an input file may be removed from a folder that holds others.
    """

    output: Directory | None = None
    name: str = ""
    token: bytes = b""
    files: tuple[tuple[str, int], ...] = ()
    underway: bool = False

    def trouble(self) -> str:
        """Return what this process does not see, as the end of a sentence about its host; empty if it sees all."""
        try:
            if self.output is not None and self.output.read(self.name) != self.token:
                return f"has another directory, or none, at the output {self.output.url!r}"
        except DcurateError as error:
            return f"cannot read the output: {error}"
        for path, size in self.files:
            try:
                seen = os.stat(path).st_size
            except OSError as error:
                if self.underway and _holds_any(os.path.dirname(path)):
                    continue
                return f"does not see the input file {path!r} ({error.strerror})"
            if seen != size:
                return f"sees another input file {path!r}, of {seen:,} bytes and not {size:,}"
        return ""

    def __str__(self) -> str:
        """Name the output and the files."""
        return " and ".join([*([] if self.output is None else [self.output.url]), *(path for path, _ in self.files)])


def _holds_any(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


@contextmanager
def mounts_of(output: Directory | None, parts: Sequence[FilePart]) -> Iterator[Mounts]:
    """Write a token to an output, for as long as the ``with`` statement lasts.

    Args:
        output: the output, which is locked for the run; None for none.
        parts: parts of input files; only those on disks are looked at, as stores are the same everywhere.

    Raises:
        DataError: the output cannot be written.
    """
    files = tuple((part.path, part.size) for part in parts if part.path.startswith("/") and os.path.exists(part.path))
    if output is None:
        yield Mounts(files=files)
        return
    name, token = f"{TMP}/token-{uuid.uuid4().hex}", uuid.uuid4().bytes
    with output.writing(name, durable=False) as file:
        file.write(token)
    try:
        yield Mounts(output, name, token, files)
    finally:
        with suppress(DcurateError):  # it is small, and the next run removes it
            output.remove([name])


def check_mounts(client: Client, left_out: Container[str], mounts: Mounts) -> dict[str, str]:
    """Have each worker look at the output and the input.

    Args:
        client: client of the cluster.
        left_out: addresses of the workers that take no part in the run.
        mounts: what they must see.

    Returns:
        The workers that see something else, each with the reason; some others see all, if there are any workers.

    Raises:
        ResourceError: no worker sees all; names workers and their hosts.
    """
    answers = compat.ask_workers(client, look, mounts=mounts)
    # An exception is the answer of a worker that dies meanwhile.
    looked = {
        worker: answer
        for worker, answer in sorted(answers.items())
        if worker not in left_out and isinstance(answer, list)
    }
    blind = {worker: (host, trouble) for worker, (host, trouble) in looked.items() if trouble}
    if blind and len(blind) == len(looked):
        named = [f"worker {worker} on host {host} {trouble}" for worker, (host, trouble) in blind.items()]
        more = f"; and {len(named) - MAX_NAMED:,} more workers" if len(named) > MAX_NAMED else ""
        raise ResourceError(f"{'; '.join(named[:MAX_NAMED])}{more}; {_FIX}, and run again")
    return {worker: reason(*answer) for worker, answer in blind.items()}


def reason(host: str, trouble: str) -> str:
    """Say why a worker is left out.

    Examples:
        >>> reason("south", "cannot read the output: it is gone")
        'its host south cannot read the output: it is gone; mount the same storage at the same path on every host'
    """
    return f"its host {host} {trouble}; {_FIX}"


async def look(mounts: Mounts, dask_worker: Worker) -> list[str]:
    """Return the host of a worker and what it does not see; for `Client.run`."""
    again_until = time.monotonic() + AGAIN_S
    while True:
        try:
            trouble = await asyncio.wait_for(in_thread(mounts.trouble), LOOK_S)
        except TimeoutError:
            trouble = f"has waited {LOOK_S:g} s for the file system of {mounts}"
        if not trouble or time.monotonic() > again_until:
            return [worker_info(dask_worker).host, trouble]
        await asyncio.sleep(PAUSE_S)
