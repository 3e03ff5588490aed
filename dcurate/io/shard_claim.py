"""The claim of a process on a shard: two that run the same one at once must not both go on."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import orjson
import psutil

from dcurate.errors import DataError
from dcurate.fs.stores import META_DIR, Directory
from dcurate.io.shards import Shard

_CLAIM = f"{META_DIR}/claim.json"
#: Seconds between two signs of life of a shard, and without one after which another process may go on with it.
BEAT_S, LEASE_S = 2.0, 10.0


@contextmanager
def claimed(directory: Directory, shard: Shard) -> Iterator[None]:
    """Hold a shard for this process during the ``with`` statement; signs of life keep others out.

    A shard whose process is gone is taken over: at once on its own host, else after `LEASE_S` seconds without a sign.

    Args:
        directory: output, with the records of the shard.
        shard: the shard.

    Raises:
        DataError: another process runs the shard.
    """
    claim = _Claim(directory, shard)
    claim.take()
    over = threading.Event()
    beats = threading.Thread(target=claim.beat, args=(over,), name="dcurate-shard", daemon=True)
    beats.start()
    try:
        yield
    finally:
        over.set()
        beats.join()
        claim.leave()


class _Claim:
    """The claim of a process on a shard: a file with who it is, and how often it gave a sign."""

    def __init__(self, directory: Directory, shard: Shard) -> None:
        self.directory, self.shard = directory, shard
        self.holder = uuid.uuid4().hex
        self.count = 0

    def take(self) -> None:
        """Take the shard, once it is known that nobody has it.

        Raises:
            DataError: somebody has.
        """
        end = time.monotonic() + LEASE_S
        first = self._read()
        while first and not _is_gone(first):
            if _is_alive(first) or self._read() not in ({}, first):
                raise self._refusal(first)
            if time.monotonic() >= end:
                break
            time.sleep(BEAT_S / 4)
        self._write()
        time.sleep(0.05)  # for one that takes it at the same moment
        if (now := self._read()).get("holder") != self.holder:
            raise self._refusal(now)

    def beat(self, over: threading.Event) -> None:
        """Give signs of life until the shard is over; a store that fails for a moment costs one sign."""
        while not over.wait(BEAT_S):
            with suppress(DataError):
                if self._read().get("holder", self.holder) != self.holder:
                    return  # the check of the claim at the end says so
                self._write()

    def leave(self) -> None:
        """Give the shard back."""
        with suppress(DataError):
            if self._read().get("holder") == self.holder:
                self.directory.remove([_CLAIM])

    def _refusal(self, other: Mapping[str, Any]) -> DataError:
        where = f"process {other.get('process', '?')} on {other.get('host', '?')}"
        return DataError(
            f"shard {self.shard} of {self.directory.url!r} is being run by {where}; let it end, or end it and run again"
        )

    def _read(self) -> dict[str, Any]:
        data = self.directory.read(_CLAIM)
        with suppress(ValueError, TypeError):
            return dict(orjson.loads(data or b"{}"))
        return {}

    def _write(self) -> None:
        self.count += 1
        values = {"holder": self.holder, "count": self.count, **_process(os.getpid())}
        self.directory.write(_CLAIM, orjson.dumps(values))


def _process(pid: int) -> dict[str, Any]:
    """What identifies a process of this host, and of its container."""
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return {
        "host": socket.gethostname(),
        "space": space,
        "process": pid,
        "began": round(psutil.Process(pid).create_time(), 1),
    }


def _is_here(claim: Mapping[str, Any]) -> bool:
    """Whether the process of a claim is, or was, on this host and in this container, where it can be seen."""
    here = _process(os.getpid())
    return bool(here["space"]) and all(claim.get(name) == here[name] for name in ("host", "space"))


def _is_alive(claim: Mapping[str, Any]) -> bool:
    """Whether the process of a claim is seen to live."""
    if not _is_here(claim):
        return False
    with suppress(psutil.Error):
        process = psutil.Process(int(claim["process"]))
        same = bool(round(process.create_time(), 1) == claim["began"])
        return same and process.status() != psutil.STATUS_ZOMBIE
    return False


def _is_gone(claim: Mapping[str, Any]) -> bool:
    """Whether the process of a claim is seen to be gone."""
    return _is_here(claim) and not _is_alive(claim)
