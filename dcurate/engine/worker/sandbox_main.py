"""The process in which a call runs alone: see `dcurate.engine.worker.sandbox`, which starts it."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import pickle
import resource
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from dcurate.core.batch import Batch
from dcurate.engine.worker.bisect import BatchSlice
from dcurate.engine.worker.call_guard import Died, Failure
from dcurate.engine.worker.calls import AnyStage, Calls, Process, can_part, failed_on, row_of
from dcurate.engine.worker.sandbox import HEAD, Deaths, Report, Settings
from dcurate.engine.worker.slots import SlotPool
from dcurate.errors import DcurateError, StageError

_UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError, RecursionError)


class Wire:
    """Frames from and to the process that started this one."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests = os.fdopen(requests, "rb")
        self._answers = os.fdopen(answers, "wb")

    def receive(self) -> bytes | None:
        """The next request; None when there will be none."""
        head = self._requests.read(HEAD.size)
        return self._requests.read(HEAD.unpack(head)[0]) if len(head) == HEAD.size else None

    def send(self, kind: str, value: Any) -> None:
        """Say something."""
        frame = cloudpickle.dumps((kind, value))
        self._answers.write(HEAD.pack(len(frame)))
        self._answers.write(frame)
        self._answers.flush()


class Announced(Calls):
    """Calls stages and says so before; what is known to kill this process is not called.

    Args:
        ignore_failures: as for `Calls`.
        deaths: what killed processes before this one.
        tell: says which call is being made, or that it is over.
    """

    def __init__(self, ignore_failures: bool, deaths: Deaths, tell: Callable[[Report | None], None]) -> None:
        super().__init__(ignore_failures)
        self._tell = tell
        self._deadly = dict(deaths)
        self._given_up = {
            (piece.stage, batch): (piece.start, died)
            for piece, died in deaths
            if died.whole
            for batch in range(piece.first, piece.last)
        }

    def call(
        self, stage: AnyStage, piece: BatchSlice, batches: list[Batch], process: Process | None = None
    ) -> Sequence[Any] | Failure:
        died = self._deadly.get(piece) or self._among_given_up(piece)
        if died is not None:
            return died
        answers = super().call(stage, piece, batches, process)
        self._tell(None)
        return answers

    def watched(self, stage: AnyStage, piece: BatchSlice, batches: list[Batch], process: Process) -> Process:
        first = batches[0]
        is_row = len(batches) == 1 and first.num_items == 1 and first.rows(0, 1) is not None
        report = Report(
            piece=piece,
            failed_on=failed_on(stage, batches),
            row=row_of(first, piece.start) if is_row else "",
            final=not can_part(stage, batches),
            ignored=self.ignores(stage),
            timeout_s=stage.spec.timeout_s,
        )

        def announced(batches: list[Batch]) -> Sequence[Any]:
            self._tell(report)
            return process(batches)

        return announced

    def _among_given_up(self, piece: BatchSlice) -> Died | None:
        start, died = self._given_up.get((piece.stage, piece.first), (0, None))
        return died if piece.last == piece.first + 1 and piece.start >= start else None


def main(answers: int, lifeline: int, traces: int) -> None:
    """Set one slot up and make calls until there are no more requests; then tear down.

    Args:
        answers: file descriptor to answer to.
        lifeline: file descriptor of a pipe that is closed when the process that started this one is gone.
        traces: file descriptor to which a process that dies writes where it was.
    """
    _tie(lifeline)
    faulthandler.enable(traces)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wire = Wire(os.dup(0), answers)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # what a stage reads from standard input are not our requests
    opening = wire.receive()
    if opening is None:
        return
    payload, run, settings = pickle.loads(opening)
    pool = _opened(wire, payload, run, settings)
    if pool is not None:
        _serve(wire, pool)
        wire.send("closed", pool.close())


def _opened(wire: Wire, payload: bytes, run: str, settings: Settings) -> SlotPool | None:
    if settings.memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (settings.memory_limit, settings.memory_limit))
    pool = SlotPool(run, payload, 1, settings.worker, settings.gpus)
    wire.send("doing", f"operator {pool.program.operator!r} could not be set up")
    try:
        pool.open(host=False)
    except DcurateError as error:
        wire.send("failed", error)
        return None
    return pool


def _serve(wire: Wire, pool: SlotPool) -> None:
    between = f"operator {pool.program.operator!r} failed between two calls of a stage"
    while True:
        wire.send("doing", between)
        request = wire.receive()
        if request is None:
            return
        packed, deaths = pickle.loads(request)
        try:
            calls = Announced(pool.program.ignore_failures, deaths, lambda doing: wire.send("doing", doing or between))
            outcome = pool.work(cloudpickle.loads(packed), calls)
            wire.send("done", outcome)
        except DcurateError as error:
            wire.send("failed", error)
        except _UNPICKLABLE as error:
            wire.send("failed", StageError(f"operator {pool.program.operator!r} made what cannot be pickled: {error}"))


def _tie(lifeline: int) -> None:
    """Have this process end with the one that started it, whatever it is doing then: the kernel kills it."""
    threading.Thread(target=_follow, args=(lifeline,), daemon=True).start()  # where the kernel does not
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _follow(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)
