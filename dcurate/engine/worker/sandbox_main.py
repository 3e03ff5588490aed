"""The process of a sandbox: see `dcurate.engine.worker.sandbox`, which starts it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import cloudpickle

from dcurate.core.batch import Batch
from dcurate.core.gpu_memory import wait_for_gpu
from dcurate.engine.worker.bisect import BatchSlice
from dcurate.engine.worker.call_guard import CallError, Died, Failure
from dcurate.engine.worker.calls import POISONED_EXIT, AnyStage, Calls, Process, failed_on, is_divisible, row_of
from dcurate.engine.worker.sandbox import MEMORY_EXIT, Deaths, Report, Settings
from dcurate.engine.worker.slots import Slot
from dcurate.errors import DcurateError, StageError
from dcurate.isolate.process import REQUEST, begin, limit_memory, receive
from dcurate.redaction import text_of

_UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError, RecursionError)


class Channel:
    """Frames from and to the process that started this one."""

    def __init__(self, requests: int, answers: int) -> None:
        self.requests = os.fdopen(requests, "rb")
        self._answers = os.fdopen(answers, "wb")

    def send(self, kind: str, value: Any) -> None:
        """Send a message."""
        frame = cloudpickle.dumps((kind, value))
        self._answers.write(REQUEST.pack(len(frame)))
        self._answers.write(frame)
        self._answers.flush()


class ReportingCalls(Calls):
    """Calls stages and reports each call first; slices that are known to kill are not tried.

    Args:
        stages: stages of the operator, set up.
        ignore_failures: whether rows on which a stage fails are rejected, as in `Calls`.
        deaths: slices that killed earlier processes.
        report: sends the call that is being made, or None when it has ended.
        traces: file descriptor to which a dying process writes why.
    """

    def __init__(
        self,
        stages: Sequence[AnyStage],
        ignore_failures: bool,
        deaths: Deaths,
        report: Callable[[Report | None], None],
        traces: int,
    ) -> None:
        super().__init__(stages, ignore_failures)
        self._traces = traces
        self._send_report = report
        self._known_deaths = dict(deaths)
        self._given_up = {
            (part.stage, batch): (part.start, died)
            for part, died in deaths
            if died.whole
            for batch in range(part.first, part.last)
        }

    def call(self, part: BatchSlice, batches: list[Batch], function: Process | None = None) -> Sequence[Any] | Failure:
        died = self._known_deaths.get(part) or self._among_given_up(part)
        if died is not None:
            return died
        answers = super().call(part, batches, function)
        self._send_report(None)
        return answers

    def watched(self, part: BatchSlice, batches: list[Batch], function: Process) -> Process:
        stage, first = self.stages[part.stage], batches[0]
        is_row = len(batches) == 1 and first.num_items == 1 and first.rows(0, 1) is not None
        report = Report(
            part=part,
            failed_on=failed_on(stage, batches),
            row=row_of(first, part.start) if is_row else "",
            final=not is_divisible(stage, batches),
            ignored=self.ignores(stage),
            timeout_s=stage.spec.timeout_s,
        )

        def reported(batches: list[Batch]) -> Sequence[Any]:
            self._send_report(report)
            answers = function(batches)
            wait_for_gpu()  # what fails there later would be blamed on other rows
            return answers

        return reported

    def end_poisoned(self, sentence: str, failure: CallError) -> NoReturn:
        with open(self._traces, "w", errors="backslashreplace", closefd=False) as file:
            file.write(f"{failure.reason}\n{failure.message}\n{failure.trace}".replace("\0", ""))
        os._exit(POISONED_EXIT)

    def _among_given_up(self, part: BatchSlice) -> Died | None:
        start, died = self._given_up.get((part.stage, part.first), (0, None))
        return died if part.last == part.first + 1 and part.start >= start else None


def main(*ends: str) -> None:
    """Set one slot up and run tasks until there are no more requests; then tear down.

    Args:
        ends: file descriptors of requests, for answers, of the lifeline, and for the traceback of a dying process.
    """
    requests, answers, lifeline, traces = map(int, ends)
    begin(lifeline, traces)
    channel = Channel(requests, answers)
    setup_message = receive(channel.requests)
    if setup_message is None:
        return
    payload, run, settings = pickle.loads(setup_message)
    slot = _opened(channel, payload, run, settings)
    if slot is not None:
        try:
            _serve(channel, slot, traces)
        except MemoryError:  # between calls, as results are counted or sent: other handling may fail, too
            os._exit(MEMORY_EXIT)
        channel.send("closed", slot.close())


def _opened(channel: Channel, payload: bytes, run: str, settings: Settings) -> Slot | None:
    if settings.memory_limit is not None and not settings.gpus:  # CUDA maps far more than it uses
        limit_memory(settings.memory_limit)
    slot = Slot(run, payload, settings.worker, settings.gpus)
    channel.send("doing", f"operator {slot.operator_spec.operator!r} could not be set up")
    try:
        slot.open(host=False)
    except DcurateError as error:
        channel.send("failed", error)
        return None
    return slot


def _serve(channel: Channel, slot: Slot, traces: int) -> None:
    between = f"operator {slot.operator_spec.operator!r} failed between two calls of a stage"
    while True:
        channel.send("doing", between)
        request = receive(channel.requests)
        if request is None:
            return
        packed, deaths = pickle.loads(request)
        try:
            calls = ReportingCalls(
                slot.stages,
                slot.operator_spec.ignore_failures,
                deaths,
                lambda doing: channel.send("doing", doing or between),
                traces,
            )
            result = slot.work(cloudpickle.loads(packed), calls)
            channel.send("done", result)
        except DcurateError as error:
            channel.send("failed", error)
        except _UNPICKLABLE as error:
            channel.send(
                "failed",
                StageError(f"operator {slot.operator_spec.operator!r} made what cannot be pickled: {text_of(error)}"),
            )
