"""Seconds of CPU of calls that run at the same time in one process."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass


@dataclass
class _MeteredCall:
    clock: int
    last: float  # time of the clock of its thread when CPU time was last shared
    outer: _MeteredCall | None  # the call in whose course it was made, in the same thread
    seconds: float = 0.0


class CpuMeter:
    """Shares the CPU time of a process between the calls in it.

    A call gets the CPU time of its own thread, that of processes that it starts (`add`), and an even share of that of
    threads without a call: pools of libraries, and the engine's own. A call within a call of the same thread, as where
    a stage runs a pipeline, counts for both. Linux only.

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
        self._calls: dict[int, _MeteredCall] = {}
        self._last = time.process_time()

    def begin(self) -> None:
        """Note that a call begins in this thread."""
        thread = threading.get_ident()
        clock = time.pthread_getcpuclockid(thread)
        with self._lock:
            self._share()
            self._calls[thread] = _MeteredCall(clock, time.clock_gettime(clock), self._calls.get(thread))

    def end(self) -> float:
        """Return the seconds of CPU of the call of this thread, which has ended."""
        thread = threading.get_ident()
        with self._lock:
            self._share()
            call = self._calls.pop(thread)
            if call.outer is not None:
                call.outer.seconds += call.seconds
                call.outer.last = call.last
                self._calls[thread] = call.outer
            return call.seconds

    def add(self, seconds: float) -> None:
        """Count seconds that another process took for the call of this thread, if there is one."""
        with self._lock:
            call = self._calls.get(threading.get_ident())
            if call is not None:
                call.seconds += seconds

    def _share(self) -> None:
        """Share the CPU time since the last time that it was shared."""
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
