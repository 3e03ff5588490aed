"""What stages print, log and warn on workers, on its way to the driver of a job: a few messages a second.

Each place has a bound. A worker keeps `MOST_WAITING` lines and sends 2,000 a second, the scheduler passes on
`PASSED_S` a second of a run, and keeps none. Where lines are left out, a line says how many.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from distributed import Scheduler, Worker

from dcurate.cluster import compat
from dcurate.engine.worker.output import RunOutput, left_out, weight

#: Seconds between two messages of a worker: the least, and for each worker of a cluster, so that many send no more.
SEND_S, WORKER_S = 0.25, 0.005
#: The weight of lines that the scheduler passes on in a second, for each run, and after a while without any.
PASSED_S, PASSED_AT_ONCE = 4000, 8000
#: Messages that wait on a worker for its scheduler while it sends no lines, and that it keeps when they are sent.
MOST_MESSAGES, KEPT = 100, 10
#: The scheduler's extension with the relay of each run.
_RELAYS = "dcurate-output"
#: The message with lines.
_LINES = "dcurate-lines"


def interval_s(workers: int) -> float:
    """Seconds between two messages with lines of each worker.

    Examples:
        >>> interval_s(2), interval_s(1000)
        (0.25, 5.0)
    """
    return max(SEND_S, WORKER_S * workers)


class _Sending:
    """The output of one run on a worker, and the thread that sends it."""

    def __init__(self, worker: Worker, run: str, seconds: float) -> None:
        self.output = RunOutput()
        self._worker, self._run, self._seconds = worker, run, seconds
        self._send = compat.message_sender(worker)
        self._guard, self._over = threading.Lock(), threading.Event()
        self._sent = 0
        compat.shorten_own_log(worker, KEPT)
        threading.Thread(target=self._send_often, name=f"dcurate-output-{run}", daemon=True).start()

    def _send_often(self) -> None:
        while not self._over.wait(self._seconds):
            if compat.waiting_messages(self._worker) < MOST_MESSAGES:  # else the scheduler takes none
                self._send_lines(last=False)

    def _send_lines(self, *, last: bool) -> bool:
        """Send the lines that have waited longest; return whether there were any."""
        with self._guard:  # the next lines come after these
            if lines := self.output.take():
                self._sent += 1
                rows = [list(line) for line in lines]
                self._send({"op": _LINES, "run": self._run, "lines": rows, "last": last})
        return bool(lines)

    def end(self) -> int:
        """Send what is left, and end; return how many messages there were."""
        self._over.set()
        self.output.close()
        while self._send_lines(last=True):
            pass
        return self._sent


class OutputSender:
    """Sends the lines of runs on a worker that take them; those of other runs stay where they are.

    Args:
        worker: the worker.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._runs: dict[str, _Sending] = {}

    def begin(self, run: str, seconds: float) -> None:
        """Begin to send the lines of a run, so many seconds apart; again does nothing."""
        if run not in self._runs:
            self._runs[run] = _Sending(self._worker, run, seconds)

    def call(self, run: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a function for a run, and take what it prints if the run wants it."""
        sending = self._runs.get(run)
        if sending is None:
            return function(*arguments, **named)
        with sending.output.taken():
            return function(*arguments, **named)

    def end(self, run: str) -> int:
        """End a run: send its last lines; return how many messages with lines there were."""
        sending = self._runs.pop(run, None)
        return 0 if sending is None else sending.end()

    def end_all(self) -> None:
        """End all runs, as the worker closes."""
        for run in list(self._runs):
            self.end(run)


class Relay:
    """Passes the lines of one run on to its driver."""

    def __init__(self, scheduler: Scheduler, topic: str, client: str) -> None:
        self.topic, self.client = topic, client
        self._scheduler = scheduler
        self._may, self._at = float(PASSED_AT_ONCE), time.monotonic()
        self._missing: defaultdict[str, int] = defaultdict(int)

    def pass_on(self, worker: str, lines: Sequence[Sequence[Any]], last: bool) -> None:
        """Pass on the lines of a worker, as many as may pass."""
        now = time.monotonic()
        self._may, self._at = min(PASSED_AT_ONCE, self._may + PASSED_S * (now - self._at)), now
        passed: list[Sequence[Any]] = []
        if self._missing[worker] and (last or self._may > 0):
            passed.append(left_out(self._missing.pop(worker)))
        for number, line in enumerate(lines):
            if self._may <= 0:
                self._missing[worker] += len(lines) - number
                break
            self._may -= weight(line[2])
            passed.append(line)
        if last and self._missing[worker]:
            passed.append(left_out(self._missing.pop(worker)))
        state = self._scheduler.workers.get(worker)
        event = {"worker": worker, "name": str(state.name if state else worker), "lines": [list(row) for row in passed]}
        compat.send_event(self._scheduler, self.topic, self.client, event)


def begin_relay(scheduler: Scheduler, run: str, topic: str, client: str) -> None:
    """Have the scheduler pass the lines of a run on to its driver; also what comes as the run ends."""
    relays = compat.extensions(scheduler).setdefault(_RELAYS, {})
    relays[run] = Relay(scheduler, topic, client)
    compat.handle_stream(scheduler, _LINES, partial(_pass_on, relays))


def end_relay(scheduler: Scheduler, run: str) -> None:
    """Pass nothing more on."""
    compat.extensions(scheduler).get(_RELAYS, {}).pop(run, None)


def _pass_on(relays: dict[str, Relay], run: str, worker: str, lines: Sequence[Sequence[Any]], last: bool) -> None:
    if run in relays:
        relays[run].pass_on(worker, lines, last)
