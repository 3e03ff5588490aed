"""Runs a call in a process of its own, so that a batch that kills its process takes nothing else with it.

The process is told what is known to kill. Before every call of a stage it says what it is about to do. When it dies,
the piece that it spoke of last is known to kill, too; the next process cuts that piece into parts instead of trying
it, until single rows are left: those are given up, and all others processed.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import cloudpickle

from dcurate.core.batch import Batch
from dcurate.engine.worker.bisect import BatchSlice
from dcurate.engine.worker.call_guard import Died
from dcurate.engine.worker.calls import QUICK_S
from dcurate.engine.worker.operator_task import TaskResult
from dcurate.errors import RunError

#: After so many deaths in one call the rest of the batch under way is given up whole.
MOST_DEATHS = 200
#: How long a process may take to end when it is asked to, and to write down where it hangs, in seconds.
END_S, DUMP_S = 30.0, 2.0
#: How often `SandboxedProcess.close` looks whether the call under way has ended, in seconds.
LOOK_S = 0.1

_BOOT = (
    "import sys; wires, sys.path[:] = sys.argv[1:4], sys.argv[4:]; "
    "from dcurate.engine.worker.sandbox_main import main; main(*map(int, wires))"
)
#: What goes before each frame between the processes: its length.
HEAD = struct.Struct("<Q")


class Settings(NamedTuple):
    """What a process is told besides the program.

    Args:
        worker: name of the worker, as ``setup`` is told it.
        gpus: CUDA indices of the GPUs that it may use.
        memory_limit: bytes of data that it may have, so that memory that runs away is an error of the stage and not
            the end of the host; None for no limit.
    """

    worker: str = "alone"
    gpus: tuple[int, ...] = ()
    memory_limit: int | None = None


@dataclass(frozen=True)
class Report:
    """What a process says before it calls a stage.

    Args:
        piece: what the stage is given.
        failed_on: the stage and the batches, as the beginning of a sentence.
        row: the row, in words, where it is a single one.
        final: whether the piece cannot be cut.
        ignored: whether rows that kill are taken out and the rest is processed.
        timeout_s: seconds that the call may take.
    """

    piece: BatchSlice
    failed_on: str
    row: str
    final: bool
    ignored: bool
    timeout_s: float | None


#: What is known to kill, and how.
Deaths: TypeAlias = list[tuple[BatchSlice, Died]]


class _End(NamedTuple):
    """A process died: what it had said last, how long before, and how it ended."""

    doing: Report | str
    seconds: float
    how: Died


def run_alone(
    payload: bytes,
    run: str,
    inputs: Sequence[Batch],
    settings: Settings = Settings(),  # noqa: B008 - a value
    most_deaths: int = MOST_DEATHS,
) -> TaskResult:
    """Run one call in a process of its own; see `SandboxedProcess`."""
    with closing(SandboxedProcess(payload, run, settings, most_deaths)) as alone:
        return alone.run(inputs)


class SandboxedProcess:
    """Runs calls of one operator, one after the other, in a process that may die.

    The process is started when it is first needed, sets up one slot, and is kept: calls that do no harm cost little.

    Args:
        payload: the pickled `Program`.
        run: id of the run.
        most_deaths: after so many in one call the rest of the batch under way is given up whole.
    """

    def __init__(
        self,
        payload: bytes,
        run: str,
        settings: Settings = Settings(),  # noqa: B008 - a value
        most_deaths: int = MOST_DEATHS,
    ) -> None:
        self._opening = payload, run, settings
        self._most = most_deaths
        self._child: _Child | None = None
        self._busy = threading.Lock()
        self._closing = False

    def run(self, inputs: Sequence[Batch]) -> TaskResult:
        """Run batches through the operator's stages.

        Rows that kill the process are taken out where failures are ignored; else the first death ends the run.

        Raises:
            StageError: a stage raised or its process died, and failures are not ignored; or the process died outside
                of any call of a stage.
            RunError: `close` was called meanwhile.
            DcurateError: a stage raised one of dcurate's own.
        """
        packed = cloudpickle.dumps(list(inputs))
        deaths: Deaths = []
        with self._busy:
            while True:
                child, fresh = self._child, self._child is None
                if child is None:
                    child = self._child = _Child(pickle.dumps(self._opening))
                ended = child.ask(pickle.dumps((packed, deaths)))
                if isinstance(ended, TaskResult):
                    return ended
                if isinstance(ended, Exception):
                    if not child.alive:
                        self._drop()
                    raise ended
                self._drop()
                if self._closing:
                    raise RunError("the worker closed while it ran a batch in a process of its own")
                if isinstance(ended.doing, Report) or fresh:
                    deaths.append(self._judged(ended, len(deaths) + 1))

    def close(self) -> list[str]:
        """Have the process tear down and end, or kill it if a call is under way; returns what failed, in words."""
        self._closing = True
        while not self._busy.acquire(timeout=LOOK_S):
            child = self._child
            if child is not None:
                child.kill()
        try:
            child, self._child = self._child, None
            return child.close() if child is not None else []
        finally:
            self._closing = False
            self._busy.release()

    def _drop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def _judged(self, end: _End, count: int) -> tuple[BatchSlice, Died]:
        """What is learnt from a death: the piece that kills. Raises if the run cannot go on after it."""
        doing = end.doing
        if isinstance(doing, str):
            raise end.how.as_error(f"{doing} in a process of its own")
        lasts = count >= self._most
        if not doing.ignored and (doing.final or lasts or end.seconds > QUICK_S):
            raise end.how.as_error(doing.failed_on, doing.row)
        if not lasts:
            return doing.piece, end.how
        message = f"{end.how.message}; given up with all rows that follow in its batch, after {count} deaths"
        return doing.piece, replace(end.how, message=message, whole=True)


class _Child:
    """The process, and the pipes to it: requests in, answers out, and one that only tells it that we are there."""

    def __init__(self, opening: bytes) -> None:
        answers, answers_end = os.pipe()
        lifeline_end, lifeline = os.pipe()
        self._traces = os.fdopen(os.memfd_create("traces"), "r+b")
        ends = (answers_end, lifeline_end, self._traces.fileno())
        command = [sys.executable, "-c", _BOOT, *map(str, ends), *sys.path]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=ends)
        finally:
            os.close(answers_end)
            os.close(lifeline_end)
        self._answers, self._lifeline = os.fdopen(answers, "rb", buffering=0), os.fdopen(lifeline, "wb", buffering=0)
        self._poll = select.poll()
        self._poll.register(answers, select.POLLIN)
        self._read = bytearray()
        self._doing: Report | str = "the operator could not be loaded"
        self._since = time.monotonic()
        self._timed_out = False
        self._send(opening)

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def ask(self, request: bytes) -> TaskResult | Exception | _End:
        """Have a call made: gives what came of it, what was raised, or how the process died."""
        self._send(request)
        while True:
            news = self._next()
            match news:
                case None:
                    return _End(self._doing, time.monotonic() - self._since, self._death())
                case ("doing", doing):
                    self._doing, self._since = doing, time.monotonic()
                case ("done" | "failed", result):
                    return result  # type: ignore[no-any-return]

    def close(self) -> list[str]:
        """Have the process tear down, and wait until it has ended; returns what failed, in words."""
        failures: list[str] = []
        end = time.monotonic() + END_S
        with suppress(BrokenPipeError):
            self._stdin.close()
        while (news := self._next(end)) is not None:
            if news[0] == "closed":
                failures = news[1]
        self.end()
        return failures

    def kill(self) -> None:
        """Kill the process if it still runs."""
        self._process.kill()

    def end(self) -> None:
        """Kill the process if it still runs, and let go of all that belongs to it."""
        self._process.kill()
        self._process.wait()
        for file in (self._stdin, self._answers, self._lifeline, self._traces):
            with suppress(BrokenPipeError):
                file.close()

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    def _send(self, frame: bytes) -> None:
        with suppress(BrokenPipeError):  # it died: reading says so
            self._stdin.write(HEAD.pack(len(frame)))
            self._stdin.write(frame)
            self._stdin.flush()

    def _next(self, end: float | None = None) -> Any:
        """What the process says next; None once it is dead, or killed for taking too long."""
        while True:
            if len(self._read) >= HEAD.size:
                size = HEAD.unpack_from(self._read)[0] + HEAD.size
                if len(self._read) >= size:
                    frame = bytes(self._read[HEAD.size : size])
                    del self._read[:size]
                    return cloudpickle.loads(frame)
            if not self._receive(end):
                return None

    def _receive(self, end: float | None) -> bool:
        """Wait for more bytes; whether some came."""
        limit = self._doing.timeout_s if isinstance(self._doing, Report) else None
        if limit is not None:
            end = self._since + limit
        while not self._poll.poll(1000 if end is None else max(0.0, min(1.0, end - time.monotonic())) * 1000):
            if end is not None and time.monotonic() >= end:
                self._timed_out = limit is not None
                self._stop()
            if not self.alive and not self._poll.poll(0):
                return False
        data = self._answers.read(1 << 20)
        self._read += data or b""
        return bool(data)

    def _stop(self) -> None:
        """Kill the process; it writes down first where it is."""
        self._process.send_signal(signal.SIGABRT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(DUMP_S)
            return
        self._process.kill()
        self._process.wait()

    def _death(self) -> Died:
        """How the process came to its end."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)  # it may be at its exit handlers, and the machine busy
        self._process.kill()
        code = self._process.wait()
        self._traces.seek(0)
        trace = self._traces.read().decode(errors="backslashreplace")
        if self._timed_out and isinstance(self._doing, Report) and self._doing.timeout_s is not None:
            return Died("timeout", f"ran longer than timeout_s={self._doing.timeout_s:g}", trace)
        if code >= 0:
            return Died(f"died: exit {code}", f"ended its process with exit code {code}", trace)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = ", most likely because memory ran out" if -code == signal.SIGKILL else ""
        return Died(f"died: {name}", f"killed by {name}{hint}", trace)
