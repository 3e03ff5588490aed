"""Run a call in a process of its own, so that a batch that kills its process harms nothing else.

The process receives the slices that are known to kill. Before every call of a stage it reports the slice. When it dies,
the slice that it reported last is known to kill, too; the next process splits that slice instead of trying it, down to
single rows: those are given up, and all others processed.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
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
from dcurate.engine.worker.calls import POISONED_EXIT, QUICK_S
from dcurate.engine.worker.operator_task import TaskResult
from dcurate.errors import RunError
from dcurate.isolate.process import REQUEST, Pipes, named, start

#: Exit code of a process that ran out of memory between two calls.
MEMORY_EXIT = 71
#: After this many deaths in one task the rest of the current batch is given up.
MAX_DEATHS = 200
#: After this many processes to which the GPU became unusable, each in its first call of a stage, no row is at fault.
MAX_POISONED = 8
#: How long a process may take to end when asked to, and to write down where it hangs, in seconds.
END_S, DUMP_S = 30.0, 2.0
#: How often `SandboxedProcess.close` checks whether the current call has ended, in seconds.
POLL_S = 0.1


class Settings(NamedTuple):
    """Settings of a sandbox besides the operator.

    Args:
        worker: name of the worker, as ``setup`` receives it.
        gpus: CUDA indices of the GPUs that it may use.
        memory_limit: bytes of data that it may have, so that runaway memory is an error of the stage and not the end of
            the host; None for no limit. It does not hold with GPUs: CUDA reserves more than it uses.
    """

    worker: str = "alone"
    gpus: tuple[int, ...] = ()
    memory_limit: int | None = None


@dataclass(frozen=True)
class Report:
    """A process's report before it calls a stage.

    Args:
        part: the input of the call.
        failed_on: the stage and the batches, as the beginning of a sentence.
        row: the row, in words, where it is a single one.
        final: whether the slice cannot be split.
        ignored: whether rows that kill are rejected and the rest is processed.
        timeout_s: seconds that the call may take.
    """

    part: BatchSlice
    failed_on: str
    row: str
    final: bool
    ignored: bool
    timeout_s: float | None


#: Slices that are known to kill, and how.
Deaths: TypeAlias = list[tuple[BatchSlice, Died]]


class _ProcessEnd(NamedTuple):
    """The end of a process: its last report, the seconds since, and how it ended."""

    doing: Report | str
    seconds: float
    how: Died


def run_sandboxed(
    payload: bytes,
    run: str,
    inputs: Sequence[Batch],
    settings: Settings = Settings(),  # noqa: B008 - a value
    max_deaths: int = MAX_DEATHS,
) -> TaskResult:
    """Run one task in a process of its own; see `SandboxedProcess`."""
    with closing(SandboxedProcess(payload, run, settings, max_deaths)) as sandboxed:
        return sandboxed.run(inputs)


class SandboxedProcess:
    """Runs tasks of one operator, one after the other, in a process that may die.

    The process is started when it is first needed, sets up one slot, and is kept: harmless tasks cost little.

    Args:
        payload: the pickled `OperatorSpec`.
        run: id of the run.
        max_deaths: after this many in one task the rest of the current batch is given up.
    """

    def __init__(
        self,
        payload: bytes,
        run: str,
        settings: Settings = Settings(),  # noqa: B008 - a value
        max_deaths: int = MAX_DEATHS,
    ) -> None:
        self._setup_message = payload, run, settings
        self._max_deaths = max_deaths
        self._process: _Process | None = None
        self._busy = threading.Lock()
        self._closing = False
        self._passed: set[int] = set()

    def run(self, inputs: Sequence[Batch]) -> TaskResult:
        """Run batches through the operator's stages.

        Rows that kill the process are rejected if failures are ignored; else the first death ends the run.

        Raises:
            StageError: a stage raised or its process died, and failures are not ignored; or the process died outside
                of any call of a stage.
            RunError: `close` was called meanwhile; or the GPU fails on any input.
            DcurateError: a stage raised one of dcurate's own.
        """
        packed = cloudpickle.dumps(list(inputs))
        deaths: Deaths = []
        with self._busy:
            self._passed.clear()
            while True:
                process, fresh = self._process, self._process is None
                if process is None:
                    process = self._process = _Process(pickle.dumps(self._setup_message))
                ended = process.ask(pickle.dumps((packed, deaths)), self._passed)
                if isinstance(ended, TaskResult):
                    return ended
                if isinstance(ended, Exception):
                    if not process.alive:
                        self._discard_process()
                    raise ended
                self._discard_process()
                if self._closing:
                    raise RunError("the worker closed while it ran a batch in a process of its own")
                if isinstance(ended.doing, Report) or fresh:
                    deaths.append(self._learn_from(ended, len(deaths) + 1))
                    self._check_gpu(deaths)

    def _check_gpu(self, deaths: Deaths) -> None:
        """Refuse to go on where a stage has only ever left the GPU unusable: rows are not at fault for a broken one."""
        part, died = deaths[-1]
        if not died.poisoned or part.stage in self._passed:
            return
        if sum(died.poisoned for known, died in deaths if known.stage == part.stage) >= MAX_POISONED:
            raise RunError(
                f"each of {MAX_POISONED} processes {died.message}; the GPU fails on any rows: look at "
                "nvidia-smi and dmesg for errors of the driver, and start the run again with resume=True"
            )

    def close(self) -> list[str]:
        """Have the process tear down and end, or kill it during a call; return error messages."""
        self._closing = True
        while not self._busy.acquire(timeout=POLL_S):
            process = self._process
            if process is not None:
                process.kill()
        try:
            process, self._process = self._process, None
            return process.close() if process is not None else []
        finally:
            self._closing = False
            self._busy.release()

    def _discard_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _learn_from(self, end: _ProcessEnd, count: int) -> tuple[BatchSlice, Died]:
        """Return the slice that kills. Raise if the run cannot continue after it."""
        doing = end.doing
        if isinstance(doing, str):
            raise end.how.as_error(f"{doing} in a process of its own")
        gives_up = count >= self._max_deaths
        if not doing.ignored and (doing.final or gives_up or end.seconds > QUICK_S):
            raise end.how.as_error(doing.failed_on, doing.row)
        if not gives_up:
            return doing.part, end.how
        message = f"{end.how.message}; given up with all rows that follow in its batch, after {count} deaths"
        return doing.part, replace(end.how, message=message, whole=True)


class _Process:
    """The process and its pipes."""

    def __init__(self, setup_message: bytes) -> None:
        self._pipes = Pipes()
        try:
            self._process = start("dcurate.engine.worker.sandbox_main:main", self._pipes.ends)
        finally:
            self._pipes.close_ends()
        self._poll = select.poll()
        self._poll.register(self._pipes.answers, select.POLLIN)
        self._read = bytearray()
        self._current: Report | str = "the operator could not be loaded"
        self._since = time.monotonic()
        self._timed_out = False
        self._pipes.send(setup_message)

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def ask(self, request: bytes, passed: set[int]) -> TaskResult | Exception | _ProcessEnd:
        """Have a task run: return its result, the exception, or how the process died.

        Args:
            passed: the stages of which a call has ended, by number; those that do are added.
        """
        self._pipes.send(request)
        while True:
            message = self._next()
            match message:
                case None:
                    return _ProcessEnd(self._current, time.monotonic() - self._since, self._death())
                case ("doing", doing):
                    if isinstance(self._current, Report):
                        passed.add(self._current.part.stage)
                    self._current, self._since = doing, time.monotonic()
                case ("done" | "failed", result):
                    return result  # type: ignore[no-any-return]

    def close(self) -> list[str]:
        """Have the process tear down, and wait for its end; return error messages."""
        failures: list[str] = []
        end = time.monotonic() + END_S
        self._pipes.close_requests()
        while (message := self._next(end)) is not None:
            if message[0] == "closed":
                failures = message[1]
        self.end()
        return failures

    def kill(self) -> None:
        """Kill the process if it still runs."""
        self._process.kill()

    def end(self) -> None:
        """Kill the process if it still runs, and close its pipes."""
        self._process.kill()
        self._process.wait()
        self._pipes.close()

    def _next(self, end: float | None = None) -> Any:
        """Return the next message; None once the process is dead, or was killed for taking too long."""
        while True:
            if len(self._read) >= REQUEST.size:
                size = REQUEST.unpack_from(self._read)[0] + REQUEST.size
                if len(self._read) >= size:
                    frame = bytes(self._read[REQUEST.size : size])
                    del self._read[:size]
                    return cloudpickle.loads(frame)
            if not self._receive(end):
                return None

    def _receive(self, end: float | None) -> bool:
        """Wait for more bytes; return whether some came."""
        limit = self._current.timeout_s if isinstance(self._current, Report) else None
        if limit is not None:
            end = self._since + limit
        while not self._poll.poll(1000 if end is None else max(0.0, min(1.0, end - time.monotonic())) * 1000):
            if end is not None and time.monotonic() >= end:
                self._timed_out = limit is not None
                self._stop()
            if not self.alive and not self._poll.poll(0):
                return False
        data = os.read(self._pipes.answers, 1 << 20)
        self._read += data
        return bool(data)

    def _stop(self) -> None:
        """Kill the process; it first writes down where it is."""
        self._process.send_signal(signal.SIGABRT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(DUMP_S)
            return
        self._process.kill()
        self._process.wait()

    def _death(self) -> Died:
        """Describe how the process ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)  # it may be at its exit handlers, and the machine busy
        self._process.kill()
        code = self._process.wait()
        trace = self._pipes.traces().decode(errors="backslashreplace")
        if self._timed_out and isinstance(self._current, Report) and self._current.timeout_s is not None:
            return Died("timeout", f"ran longer than timeout_s={self._current.timeout_s:g}", trace)
        if code == POISONED_EXIT and trace:
            error, _, trace = trace.partition("\n")
            message, _, trace = trace.partition("\n")
            return Died(f"died: {error}", f"left the GPU unusable to its process: {message}", trace, poisoned=True)
        if code == MEMORY_EXIT:
            why = "ran out of the memory that a worker may use"
            return Died("died: memory", f"{why}; use a smaller blocksize or batch_size, or workers with more", trace)
        if code >= 0:
            return Died(f"died: exit {code}", f"ended its process with exit code {code}", trace)
        name = named(code)
        hint = ", most likely because memory ran out" if -code == signal.SIGKILL else ""
        return Died(f"died: {name}", f"killed by {name}{hint}", trace)
