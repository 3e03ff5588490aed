"""Slots: prepared copies of an operator in one worker process."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from inspect import Parameter, signature

import cloudpickle

from dcurate.core.batch import Batch
from dcurate.core.names import file_safe
from dcurate.core.stage import NodeInfo, WorkerMetadata
from dcurate.engine.worker.call_guard import FATAL, CallError, attempt
from dcurate.engine.worker.calls import AnyStage, Calls
from dcurate.engine.worker.operator_task import OperatorSpec, TaskResult, run_operator
from dcurate.engine.worker.samples import ScoreSampler
from dcurate.engine.worker.sandbox import SandboxedProcess, Settings
from dcurate.engine.worker.timeouts import WATCHDOG
from dcurate.engine.worker.working_folder import hold_host_folder, host_folder, leave_host_folder
from dcurate.errors import DcurateError, StageError
from dcurate.fs.locks import lock


class SlotPool:
    """The slots of one operator in one worker process.

    Args:
        run: id of the run, so that hosts tell one run's set-up from another's.
        payload: the pickled `OperatorSpec`; every slot makes its own copy of it.
        slots: how many.
        worker: name of the worker, as `setup` is told it.
        gpus: CUDA indices of the GPUs that the slots may use.
        limits: whether a call that takes longer than its stage's ``timeout_s`` ends this process: for processes that
            somebody restarts.
        memory_limit: bytes of data that a process may have in which a call runs alone; None for no limit.
    """

    def __init__(
        self,
        run: str,
        payload: bytes,
        slots: int,
        worker: str,
        gpus: Sequence[int] = (),
        *,
        limits: bool = False,
        memory_limit: int | None = None,
    ) -> None:
        self.run = run
        self.program: OperatorSpec = cloudpickle.loads(payload)
        self.setup_seconds = 0.0
        self._payload = payload
        self._slots = slots
        self._worker = worker
        self._gpus = tuple(gpus)
        self._calls = Calls(self.program.ignore_failures, run if limits else None)
        self._evidence = ScoreSampler(self.program.examples)
        self._free: queue.SimpleQueue[tuple[AnyStage, ...]] = queue.SimpleQueue()
        self._opened: list[AnyStage] = []
        self._closing = threading.Lock()
        self._alone = SandboxedProcess(payload, run, Settings(worker, self._gpus, memory_limit))

    def open(self, host: bool = True) -> None:
        """Set up: once per host, then every slot.

        Args:
            host: whether the host may have to be set up; False where a process is known to have done it.

        Raises:
            StageError: a stage's set-up raised, as often as it may be tried; what had been set up is torn down.
        """
        begin = time.perf_counter()
        try:
            if host:
                self._set_up_host()
            for number in range(self._slots):
                self._free.put(self._set_up(WorkerMetadata(f"{self._worker}/{number}", self._gpus)))
        except DcurateError as error:
            for failure in self.close():
                error.add_note(failure)
            raise
        self.setup_seconds = time.perf_counter() - begin

    def work(self, inputs: Sequence[Batch], calls: Calls | None = None) -> TaskResult:
        """Run batches through one slot, waiting for a free one.

        Args:
            calls: how stages are called, if otherwise than this pool does.
        """
        stages = self._free.get()
        try:
            return run_operator(self.program, stages, inputs, calls or self._calls, self._evidence)
        finally:
            self._free.put(stages)

    def work_alone(self, inputs: Sequence[Batch]) -> TaskResult:
        """Run batches in a process of their own, as they were there when a worker process died; see `SandboxedProcess`.

        A slot waits meanwhile. The process is kept for the next such call, until `close`.
        """
        stages = self._free.get()
        try:
            return self._alone.run(inputs)
        finally:
            self._free.put(stages)

    def close(self) -> list[str]:
        """Tear down every stage that was set up, all of them whatever happens; returns what failed, in words."""
        with self._closing:
            opened, self._opened = self._opened, []
        failures = self._alone.close()
        for stage in reversed(opened):
            failure = _hooked(stage, "teardown")
            if failure is not None:
                failures.append(str(failure.as_error(f"stage {stage.name!r}: teardown() failed")))
        return failures

    def _set_up_host(self) -> None:
        with _once_per_host(self.run, self.program.operator) as first:
            if not first:
                return
            slot = WorkerMetadata(f"{self._worker}/0", self._gpus)
            for stage in self.program.stages:
                attempts = stage.spec.num_setup_attempts
                failure = _hooked(stage, "setup_on_node", NodeInfo(socket.gethostname()), slot, attempts=attempts)
                if failure is not None:
                    raise failure.as_error(f"stage {stage.name!r}: setup_on_node() failed")

    def _set_up(self, slot: WorkerMetadata) -> tuple[AnyStage, ...]:
        """A slot's own copies of the stages, set up."""
        stages: tuple[AnyStage, ...] = cloudpickle.loads(self._payload).stages
        return tuple(self._stage_set_up(place, stage, slot) for place, stage in enumerate(stages))

    def _stage_set_up(self, place: int, stage: AnyStage, slot: WorkerMetadata) -> AnyStage:
        """A stage after its set-up; where that fails, and may be tried again, another copy of it."""
        attempt = 1
        while True:
            self._opened.append(stage)
            failure = _hooked(stage, "setup", slot)
            if failure is None:
                return stage
            failure.tries = attempt
            if attempt >= stage.spec.num_setup_attempts or isinstance(failure.error, FATAL):
                raise failure.as_error(f"stage {stage.name!r}: setup() failed")
            _hooked(self._opened.pop(), "teardown")  # of what is half set up: it may well raise, too
            stage = cloudpickle.loads(self._payload).stages[place]
            attempt += 1


def _hooked(stage: AnyStage, name: str, *arguments: object, attempts: int = 1) -> CallError | None:
    """Call a set-up or tear-down method with as many of the arguments as it takes; gives how it failed, if it did."""
    method = getattr(stage, name)
    parameters = signature(method).parameters.values()
    variadic = any(one.kind is Parameter.VAR_POSITIONAL for one in parameters)
    takes = sum(one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD) for one in parameters)
    failure = attempt(lambda taken: method(*taken), arguments if variadic else arguments[:takes], attempts)
    return failure if isinstance(failure, CallError) else None


@contextmanager
def _once_per_host(run: str, operator: str) -> Iterator[bool]:
    """True for the first process of a host that comes here for a run and operator; the others wait for it."""
    folder, name = hold_host_folder(run), file_safe(operator)
    done = folder / f"{name}.done"
    with (folder / f"{name}.lock").open("w") as file:
        lock(file)
        first = not done.exists()
        yield first
        done.touch()


def forget_host_setup(run: str) -> None:
    """Remove what a run that is over left on this host: marks of `setup_on_node`, reports of calls that hung."""
    WATCHDOG.forget(run)
    folder = host_folder(run)
    for mark in folder.glob("*"):
        mark.unlink(missing_ok=True)
    with suppress(OSError):  # gone already, or another process of the run has just put something there
        folder.rmdir()
    leave_host_folder(run)


@contextmanager
def opened(pool: SlotPool) -> Iterator[SlotPool]:
    """The pool, set up; torn down at the end.

    Raises:
        StageError: set-up failed, or tear-down did after everything else went well.
    """
    pool.open()
    failures: list[str] = []
    try:
        yield pool
    finally:
        failures = pool.close()
    if failures:
        raise StageError("; ".join(failures))
