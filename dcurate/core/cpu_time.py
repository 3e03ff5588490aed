"""Seconds of CPU of calls that run at the same time in one process."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass


@dataclass
class _Call:
    clock: int
    seconds: float = 0.0
    last: float = 0.0  # of the clock of its thread


class CpuMeter:
    """Shares the CPU time of a process between the calls in it.

    A call gets what its own thread takes, what processes take that it starts (`add`), and an even share of what
    threads take that are of no call: pools of libraries, and the engine's own. Linux only.

    Examples:
        >>> meter = CpuMeter()
        >>> meter.begin()
        >>> total = sum(range(100_000))
        >>> meter.end() > 0
        True
    """

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[int, _Call] = {}
        self._last = time.process_time()

    def begin(self) -> None:
        """A call begins in this thread."""
        thread = threading.get_ident()
        clock = time.pthread_getcpuclockid(thread)
        with self._lock:
            self._share()
            self._calls[thread] = _Call(clock, 0.0, time.clock_gettime(clock))

    def end(self) -> float:
        """The call of this thread has ended; returns its seconds of CPU."""
        with self._lock:
            self._share()
            return self._calls.pop(threading.get_ident()).seconds

    def add(self, seconds: float) -> None:
        """Count seconds that another process took for the call of this thread, if there is one."""
        with self._lock:
            call = self._calls.get(threading.get_ident())
            if call is not None:
                call.seconds += seconds

    def _share(self) -> None:
        """Share what was taken since the last look."""
        now = time.process_time()
        rest = now - self._last
        for call in self._calls.values():
            thread_now = time.clock_gettime(call.clock)
            call.seconds += thread_now - call.last
            rest -= thread_now - call.last
            call.last = thread_now
        for call in self._calls.values():
            call.seconds += max(0.0, rest) / len(self._calls)
        self._last = now


#: The meter of this process.
CPU_METER = CpuMeter()
