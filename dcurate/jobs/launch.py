"""What the scheduler runs on a worker: start the driver of a job as a process of its own, watch it, and end it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from distributed import Worker

from dcurate.cluster import compat
from dcurate.cluster.address import tls_of_worker
from dcurate.jobs.calls import CALL
from dcurate.redaction import redacted

#: The module that is the driver; its arguments are the id of the job and the number of the attempt.
DRIVER = "dcurate.jobs.driver"
#: Last characters that are reported of what a driver printed before it could send its log.
_LAST = 2000


def start_driver(job: str, token: str, attempt: int, dask_worker: Worker) -> None:
    """Start a driver beside a worker: a process of its own session, that outlives the worker.

    Args:
        job: id of the job.
        token: what the driver shows to the board.
        attempt: number of the driver.
        dask_worker: given by Dask.

    Raises:
        OSError: the process cannot be started.
    """
    printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the watching thread
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", DRIVER, job, str(attempt)],
        stdin=subprocess.PIPE,
        stdout=printed,
        stderr=printed,
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as instructions:
        message = {
            "scheduler": dask_worker.scheduler.address,
            "token": token,
            "dask": tls_of_worker(dask_worker.security),
        }
        instructions.write(json.dumps(message).encode() + b"\n")

    def watch() -> None:
        code = process.wait()
        printed.seek(max(0, printed.seek(0, os.SEEK_END) - _LAST))
        text = redacted(printed.read().decode(errors="replace").strip())
        printed.close()
        if code:
            dask_worker.loop.add_callback(_tell, dask_worker, job, token, code, text)

    threading.Thread(target=watch, name=f"dcurate-job-{job}", daemon=True).start()


async def _tell(worker: Worker, job: str, token: str, code: int, text: str) -> None:
    """Tell the board that a driver has ended; it learns it from its silence if this fails."""
    with suppress(OSError):
        await compat.call_rpc(worker.scheduler, CALL, verb="lost", job=job, token=token, code=code, text=text)


def end_driver(process: int, job: str) -> None:
    """End a driver by its process id, if that is still the one of the job."""
    with suppress(OSError):
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        if DRIVER.encode() in command and job.encode() in command:
            os.kill(process, signal.SIGKILL)
