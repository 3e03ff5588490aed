"""The lock of an output: a file that names the run that writes there, and is renewed while it does.

Clocks of hosts are not compared: a process that finds a lock watches it for a time by its own monotonic clock, and
takes it for stale if it does not change.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from dcurate.core.owner import present_owner
from dcurate.errors import DataError
from dcurate.fs.stores import META_DIR, Directory

#: Name of the file in an output.
LOCK = f"{META_DIR}/owner.json"
#: Seconds between two heartbeats, and seconds without one after which a run counts as dead.
BEAT_S, STALE_S = 2.0, 30.0
#: Seconds between two looks at a lock, and seconds after which one that was taken over is read again.
POLL_S, SETTLE_S = 0.2, 0.5

#: Seconds that the end of a run waits for a heartbeat that is being written.
JOIN_S = 10.0

#: Nonces of the locks that this process holds.
_held: set[str] = set()

_log = logging.getLogger("dcurate.io")


class OutputLock:
    """Keeps other runs out of an output directory.

    Use it in a ``with`` statement, at whose end it is released. A run whose process ended without that is dead at once
    where its process can be seen, else after `STALE_S` seconds without a heartbeat. Another driver of the same job
    takes the lock over at once.

    Args:
        run: id of the run.

    Examples:
        >>> from dcurate.fs.stores import Directory
        >>> output = Directory("memory://locked")
        >>> with OutputLock("7f3a90c1") as lock:
        ...     lock.acquire(output)
        ...     with OutputLock("11111111") as other:
        ...         other.acquire(output)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        dcurate.errors.DataError: 'memory://locked' is being written by run 7f3a90c1 of ...
    """

    def __init__(self, run: str) -> None:
        self._nonce, self._run = uuid.uuid4().hex, run
        self._directory: Directory | None = None
        self._about: dict[str, Any] = {}
        self._dead = b""  # content of a lock whose run is dead
        self._taker = ""  # the run that has taken the output over
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> OutputLock:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        _held.discard(self._nonce)
        if self._directory is None or self._thread is None or sys.is_finalizing():
            return
        self._thread.join(JOIN_S)
        if not self._taker:
            with suppress(DataError):  # a store that is away: the lock is stale soon
                if self._is_ours(self._directory.read(LOCK)):
                    self._directory.remove([LOCK])

    @property
    def lost(self) -> bool:
        """Whether another run has taken the output over."""
        return bool(self._taker)

    def refuse_others(self, directory: Directory) -> None:
        """Refuse an output that another run writes to; nothing is written.

        Raises:
            DataError: a run writes to it, or it cannot be read.
        """
        if self._directory is None:
            self._free_lock(directory)

    def acquire(self, directory: Directory) -> None:
        """Take the lock of an output, and renew it from now on; a second call does nothing.

        Raises:
            DataError: a run writes to it, or it cannot be written.
        """
        if self._directory is not None:
            return
        self._about = _about(self._run)
        while True:
            old = self._free_lock(directory)
            if old is None:
                if directory.create_file(LOCK, self._content(0)):
                    break
                continue
            self._write(directory, 0)
            time.sleep(0.0 if self._same_job(old) else SETTLE_S)
            if self._is_ours(directory.read(LOCK)):
                break
        self._directory = directory
        _held.add(self._nonce)
        self._thread = threading.Thread(target=self._beat, args=(directory,), name="dcurate-output-lock", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Check that the output is still that of this run.

        Raises:
            DataError: another run has taken it over, as this process gave no sign of life for `STALE_S` seconds.
        """
        if self._taker and self._directory is not None:
            raise DataError(
                f"{self._taker} has taken {self._directory.url!r} over, as this run gave no sign of life for a while; "
                "let that run end, or stop it and run again with resume=True"
            )

    def _free_lock(self, directory: Directory) -> bytes | None:
        """Return a lock that may be taken over: that of a dead run or of this job; None if there is no lock.

        Raises:
            DataError: the run of the lock goes on.
        """
        first = content = directory.read(LOCK)
        if content is None or content == self._dead or self._same_job(content):
            return content
        end, warned = time.monotonic() + STALE_S, False
        while content == first and not _is_dead(content):
            if time.monotonic() >= end:
                _log.warning("%s gave no sign for %g s, so %r is taken over", _who(content), STALE_S, directory.url)
                break
            if not warned and time.monotonic() >= end - STALE_S + 2 * BEAT_S:
                warned = True
                _log.warning(
                    "%r is locked by %s; waiting up to %g s for a sign of it", directory.url, _who(content), STALE_S
                )
            time.sleep(POLL_S)
            content = directory.read(LOCK)
            if content is None:
                return None
        if content != first:
            raise DataError(_refusal(directory, content))
        self._dead = content
        return content

    def _beat(self, directory: Directory) -> None:
        """Write heartbeats until the end of the run, or until another run has the lock."""
        number = 0
        while not self._over.wait(BEAT_S):
            number += 1
            with suppress(DataError):  # a store or a disk that is away for a while; the next one may succeed
                content = directory.read(LOCK)
                if content is None:
                    continue  # the output was deleted, which the run finds itself
                if not self._is_ours(content):
                    self._taker = _who(content)
                    return
                self._write(directory, number)

    def _write(self, directory: Directory, number: int) -> None:
        with directory.writing(LOCK, durable=False) as file:
            file.write(self._content(number))

    def _content(self, number: int) -> bytes:
        return orjson.dumps({**self._about, "nonce": self._nonce, "beat": number, "at": time.time()})

    def _is_ours(self, content: bytes | None) -> bool:
        return content is not None and _parsed(content).get("nonce") == self._nonce

    def _same_job(self, content: bytes) -> bool:
        job = present_owner().job
        return bool(job) and _parsed(content).get("job") == job


def _about(run: str) -> dict[str, Any]:
    """The values of the lock of a run of this process, but for the heartbeat."""
    owner = present_owner()
    process = os.getpid()
    return {
        "run": run,
        "owner": owner.person,
        "job": owner.job,
        "host": socket.gethostname(),
        "process": process,
        "since": time.time(),
        "machine": _machine(),
        "born": _born(process),
    }


def _refusal(directory: Directory, content: bytes) -> str:
    about = _parsed(content)
    stop = f"stop it (dcurate stop {about['job']})" if about.get("job") else "stop that process"
    return (
        f"{directory.url!r} is being written by {_who(content)}, whose last sign came just now; wait for its end, "
        f"{stop}, or name another directory"
    )


def _who(content: bytes) -> str:
    """Describe the run of a lock, for a sentence; times are by the clock of its host."""
    about = _parsed(content)
    if not about:
        return "another run"
    job = f"job {about.get('job')}, " if about.get("job") else ""
    since, at = (_moment(about.get(name)) for name in ("since", "at"))
    return (
        f"run {about.get('run')} of {about.get('owner')} ({job}process {about.get('process')} on {about.get('host')}, "
        f"since {since}, last heartbeat {at})"
    )


def _moment(seconds: Any) -> str:
    with suppress(TypeError, ValueError, OverflowError, OSError):
        return f"{datetime.fromtimestamp(float(seconds), UTC):%Y-%m-%d %H:%M:%S} UTC"
    return "an unknown time"


def _parsed(content: bytes) -> dict[str, Any]:
    """The values of a lock; none if it is being written, or damaged."""
    with suppress(orjson.JSONDecodeError):
        about = orjson.loads(content)
        return about if isinstance(about, dict) else {}
    return {}


def _is_dead(content: bytes) -> bool:
    """Whether the process of a lock is known to have ended; False if it is on another host or in another container."""
    about = _parsed(content)
    machine, process, born = about.get("machine"), about.get("process"), about.get("born")
    if not (machine and born and isinstance(process, int)) or machine != _machine():
        return False
    return (
        about.get("nonce") not in _held if process == os.getpid() and _born(process) == born else _born(process) != born
    )


def _machine() -> str:
    """Identify the boot of this host and the process namespace; empty where the system does not tell."""
    with suppress(OSError):
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _born(process: int) -> str:
    """Start of a process, in clock ticks since the boot of its host; empty if there is no such process."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    return ""
