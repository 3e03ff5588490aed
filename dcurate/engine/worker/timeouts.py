"""Ends a process in which a call takes too long, whatever that call is doing.

Python threads cannot end a call that is in native code and keeps the interpreter's lock. A thread of C can: that of
``faulthandler``, which writes down where every Python thread stands and ends the process. There is one such
alarm clock in a process, so it is set for the earliest deadline of all calls under way.
"""

from __future__ import annotations

import faulthandler
import heapq
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from dcurate.engine.worker.working_folder import RANG, REPORT, hold_host_folder, host_folder


class Hang(NamedTuple):
    """A call that took too long, and ended its process.

    Attributes:
        doing: the stage and batch.
        trace: where every thread of the process stood.
    """

    doing: str
    trace: str


class _Deadline(NamedTuple):
    end: float
    number: int
    run: str
    doing: str


class Watchdog:
    """Ends this process when a call under way has taken longer than it may. Can be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heap: list[_Deadline] = []
        self._under_way: set[int] = set()
        self._count = 0
        self._armed: int | None = None
        self._files: dict[str, int] = {}

    @contextmanager
    def limit(self, run: str, seconds: float, doing: str) -> Iterator[None]:
        """What happens inside may take so many seconds; else the process ends and leaves a `Hang` on this host.

        Args:
            run: id of the run, in whose `host_folder` the report stands.
            doing: the stage and batch, for the report.
        """
        with self._lock:
            self._count += 1
            deadline = _Deadline(time.monotonic() + seconds, self._count, run, doing)
            heapq.heappush(self._heap, deadline)
            self._under_way.add(deadline.number)
            self._set()
        try:
            yield
        finally:
            with self._lock:
                self._under_way.discard(deadline.number)
                self._set()

    def forget(self, run: str) -> None:
        """Close what a run that is over had open."""
        with self._lock:
            file = self._files.pop(run, None)
            if file is not None:
                os.close(file)

    def _set(self) -> None:
        """Set the alarm clock for the earliest deadline of a call that is still under way."""
        while self._heap and self._heap[0].number not in self._under_way:
            heapq.heappop(self._heap)
        if not self._heap:
            self._armed = None
            faulthandler.cancel_dump_traceback_later()
            return
        first = self._heap[0]
        if first.number == self._armed:
            return
        file = self._file(first.run)
        os.ftruncate(file, 0)
        os.write(file, f"{first.doing}\n".encode(errors="backslashreplace"))
        faulthandler.dump_traceback_later(max(first.end - time.monotonic(), 0.001), exit=True, file=file)
        self._armed = first.number

    def _file(self, run: str) -> int:
        if run not in self._files:
            name = hold_host_folder(run) / f"{REPORT}{os.getpid()}.txt"
            self._files[run] = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        return self._files[run]


#: The watchdog of this process: there can be only one.
WATCHDOG = Watchdog()


def take_hangs(run: str) -> list[Hang]:
    """The calls of a run that took too long on this host, in processes that are gone; each is told once."""
    hangs = []
    for path in sorted(host_folder(run).glob(f"{REPORT}*.txt")):
        if _runs(int(path.stem.removeprefix(REPORT))):
            continue
        text = path.read_text(errors="replace")
        path.unlink(missing_ok=True)
        doing, rang, trace = text.partition(RANG)
        if rang:
            hangs.append(Hang(doing, rang.lstrip("\n") + trace))
    return hangs


def _runs(pid: int) -> bool:
    """Whether there is a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
