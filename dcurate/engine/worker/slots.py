"""Slots: prepared copies of an operator in one worker process."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import Parameter, signature

import cloudpickle

from dcurate.core import gpu_memory
from dcurate.core.batch import Batch
from dcurate.core.gpu_memory import free_gpu_memory, too_full
from dcurate.core.names import file_safe
from dcurate.core.secrets import remember_secrets
from dcurate.core.slot_gpus import given_gpus
from dcurate.core.stage import NodeInfo, WorkerMetadata
from dcurate.engine.worker.call_guard import FATAL, CallError, attempt
from dcurate.engine.worker.calls import AnyStage, Calls
from dcurate.engine.worker.operator_task import OperatorSpec, TaskResult, run_operator
from dcurate.engine.worker.samples import ScoreSampler
from dcurate.engine.worker.sandbox import SandboxedProcess, Settings
from dcurate.engine.worker.timeouts import (
    WATCHDOG,
    acquire_host_folder,
    count_setup_end,
    host_folder,
    release_host_folder,
)
from dcurate.errors import DcurateError, StageError
from dcurate.fs.locks import lock
from dcurate.fs.temporary import remove_unused

#: Processes of a host that may end, one after the other, because a GPU is unusable when an operator is set up.
MAX_SETUP_ENDS = 4


class SlotPool:
    """The slots of one operator in one worker process.

    Args:
        run: id of the run; set-up of a host is per run.
        payload: the pickled `OperatorSpec`; every slot makes its own copy of it.
        slots: how many.
        worker: name of the worker, as `setup` receives it.
        gpus: CUDA indices of the GPUs that the slots may use.
        limits: whether a call that takes longer than its stage's ``timeout_s`` ends this process: for processes that
            are restarted by a nanny.
        memory_limit: bytes of data of a sandbox; None for no limit.
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
        self.operator_spec: OperatorSpec = _loaded(payload)
        remember_secrets(self.operator_spec)
        self.setup_seconds = 0.0
        self._payload = payload
        self._slots = slots
        self._worker = worker
        self._gpus = tuple(gpus)
        self._calls = Calls(self.operator_spec.ignore_failures, run if limits else None)
        self._sampler = ScoreSampler(self.operator_spec.examples)
        self._idle: queue.SimpleQueue[tuple[AnyStage, ...]] = queue.SimpleQueue()
        self._opened: list[AnyStage] = []
        self._closing = threading.Lock()
        self._sandbox = SandboxedProcess(payload, run, Settings(worker, self._gpus, memory_limit))

    def open(self, host: bool = True) -> None:
        """Set up the host, if no other process has, then every slot.

        Args:
            host: whether the host may need to be set up; False where a process is known to have done it.

        Raises:
            StageError: a stage's set-up raised, as often as it may be tried; what had been set up is torn down.
        """
        begin = time.perf_counter()
        try:
            if host:
                self._set_up_host()
            for number in range(self._slots):
                with given_gpus(self._gpus):
                    self._idle.put(self._set_up(WorkerMetadata(f"{self._worker}/{number}", self._gpus)))
        except DcurateError as error:
            for failure in self.close():
                error.add_note(failure)
            raise
        self.setup_seconds = time.perf_counter() - begin

    def work(self, inputs: Sequence[Batch], calls: Calls | None = None) -> TaskResult:
        """Run batches through one slot, waiting for an idle one.

        Args:
            calls: how stages are called, if not as usual.
        """
        stages, calls = self._idle.get(), calls or self._calls
        try:
            with given_gpus(self._gpus):
                return run_operator(self.operator_spec, stages, inputs, calls, self._sampler)
        except Exception as error:  # raises again, or ends the process: what a batch on a GPU raises between calls
            calls.end_if_poisoned(f"operator {self.operator_spec.operator!r}", CallError(error))
            raise
        finally:
            self._idle.put(stages)

    def work_sandboxed(self, inputs: Sequence[Batch]) -> TaskResult:
        """Run batches in a sandbox, because a worker died while it ran them; see `SandboxedProcess`.

        A slot waits meanwhile. The sandbox is kept for the next such task, until `close`.
        """
        stages = self._idle.get()
        try:
            return self._sandbox.run(inputs)
        finally:
            self._idle.put(stages)

    def close(self) -> list[str]:
        """Tear down every stage that was set up, whichever fails; return error messages."""
        with self._closing:
            opened, self._opened = self._opened, []
        failures = self._sandbox.close()
        for stage in reversed(opened):
            failure = _call_hook(stage, "teardown")
            if failure is not None:
                failures.append(str(failure.as_error(f"stage {stage.name!r}: teardown() failed")))
        return failures

    def _set_up_host(self) -> None:
        with _once_per_host(self.run, self.operator_spec.operator) as first:
            if not first:
                return
            slot = WorkerMetadata(f"{self._worker}/0", self._gpus)
            for stage in self.operator_spec.stages:
                attempts = stage.spec.num_setup_attempts
                failure = _call_hook(stage, "setup_on_node", NodeInfo(socket.gethostname()), slot, attempts=attempts)
                if failure is not None:
                    raise failure.as_error(f"stage {stage.name!r}: setup_on_node() failed")

    def _set_up(self, slot: WorkerMetadata) -> tuple[AnyStage, ...]:
        """Set up a slot's own copies of the stages."""
        stages: tuple[AnyStage, ...] = _loaded(self._payload).stages
        return tuple(self._stage_set_up(place, stage, slot) for place, stage in enumerate(stages))

    def _stage_set_up(self, place: int, stage: AnyStage, slot: WorkerMetadata) -> AnyStage:
        """Set up a stage, with retries on fresh copies."""
        attempt, waits = 1, iter((0.0, *gpu_memory.WAITS_S))
        while True:
            self._opened.append(stage)
            failure = _call_hook(stage, "setup", slot)
            if failure is None:
                return stage
            self._end_if_poisoned(stage, failure)
            failure.tries = attempt
            wait = next(waits, None) if failure.is_gpu_out_of_memory else None
            if wait is None and (attempt >= stage.spec.num_setup_attempts or isinstance(failure.error, FATAL)):
                if failure.is_gpu_out_of_memory:
                    raise too_full(failure.error, f"stage {stage.name!r}: setup() failed") from failure.error
                raise failure.as_error(f"stage {stage.name!r}: setup() failed")
            _call_hook(self._opened.pop(), "teardown")  # of what is half set up: it may well raise, too
            if wait is not None:
                failure.detach()
                free_gpu_memory()
                time.sleep(wait)
            stage = _loaded(self._payload).stages[place]
            attempt += 1

    def _end_if_poisoned(self, stage: AnyStage, failure: CallError) -> None:
        """End this process, a few times at most, if its GPU is unusable: another slot of it may have caused that."""
        if not failure.poisons or self._calls.run is None:
            return
        if count_setup_end(self.run, file_safe(self.operator_spec.operator)) < MAX_SETUP_ENDS:
            self._calls.end_if_poisoned(f"stage {stage.name!r}: setup() failed", failure)


class SlotQueue:
    """The slots of one operator in one worker process; slots can be added and removed while others work.

    Args:
        payload: the pickled `OperatorSpec`; every slot makes its own copy of it.
        restarts: whether a nanny restarts this process when it ends, so that a call which hangs may end it.
        memory_limit: bytes of data of a sandbox; None for no limit.
    """

    def __init__(self, payload: bytes, restarts: bool = False, memory_limit: int | None = None) -> None:
        self.payload = payload
        self.restarts = restarts
        self.memory_limit = memory_limit
        self.setup_seconds = 0.0
        self._slots: list[SlotPool] = []
        self._idle: queue.SimpleQueue[SlotPool] = queue.SimpleQueue()
        self._leaving: queue.SimpleQueue[SlotPool] = queue.SimpleQueue()
        self._removals = 0
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """Slots that are set up, busy or not."""
        return len(self._slots)

    def add(self, run: str, name: str, gpus: Sequence[int]) -> None:
        """Set one more slot up.

        Args:
            name: name of the slot, as ``setup`` receives it.

        Raises:
            StageError: a stage's set-up raised.
        """
        slot = SlotPool(run, self.payload, 1, name, gpus, limits=self.restarts, memory_limit=self.memory_limit)
        slot.open()
        self.setup_seconds = slot.setup_seconds
        self._slots.append(slot)
        self._idle.put(slot)

    def work(self, inputs: Sequence[Batch], sandboxed: bool = False) -> TaskResult:
        """Run batches through one slot, waiting for an idle one.

        Args:
            sandboxed: whether to run them in a sandbox.
        """
        slot = self._idle.get()
        try:
            return slot.work_sandboxed(inputs) if sandboxed else slot.work(inputs)
        finally:
            self._return_slot(slot)

    def _return_slot(self, slot: SlotPool) -> None:
        """Return an idle slot: to a pending removal first, else to the tasks that wait."""
        with self._lock:
            if self._removals:
                self._removals -= 1
                self._leaving.put(slot)
            else:
                self._idle.put(slot)

    def remove(self, patience_s: float | None = None) -> list[str]:
        """Remove one slot as soon as it is idle and tear it down; return error messages.

        Args:
            patience_s: how long to wait for an idle slot; then any is torn down, busy or not. None waits for ever.
        """
        with self._lock:
            try:
                self._leaving.put(self._idle.get_nowait())
            except queue.Empty:
                self._removals += 1
        try:
            slots = [self._leaving.get(timeout=patience_s)]
        except queue.Empty:
            slots = self._slots[-1:]
        slots = [slot for slot in slots if slot in self._slots]  # none where the process closes, and has closed all
        for slot in slots:
            self._slots.remove(slot)
        return [failure for slot in slots for failure in slot.close()]

    def close(self) -> list[str]:
        """Tear all slots down at once, as the process ends; return error messages."""
        slots, self._slots = self._slots, []
        return [failure for slot in slots for failure in slot.close()]


#: Held while an operator is unpickled: two threads that import the same package for the first time may each find the
#: other's half of it.
_LOADING = threading.Lock()


def _loaded(payload: bytes) -> OperatorSpec:
    """Unpickle an operator, one at a time in a process.

    Raises:
        ImportError: a module is not there, or lacks something; or AttributeError.
        StageError: a stage's own code raised.
    """
    with _LOADING:
        spec: OperatorSpec | CallError = attempt(cloudpickle.loads, payload)
        if isinstance(spec, CallError) and isinstance(spec.error, ImportError):
            # The set-up of another operator may import a package that replaces itself, as transformers does: whoever
            # waits for that import gets the package as it was before.
            spec = attempt(cloudpickle.loads, payload)
    if not isinstance(spec, CallError):
        return spec
    if isinstance(spec.error, ImportError | AttributeError):
        raise spec.error
    raise spec.as_error("a stage cannot be loaded")


def _call_hook(stage: AnyStage, name: str, *arguments: object, attempts: int = 1) -> CallError | None:
    """Call a set-up or tear-down method with as many arguments as it takes; return its error, if any."""
    method = getattr(stage, name)
    parameters = signature(method).parameters.values()
    variadic = any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in parameters)
    takes = sum(
        parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD) for parameter in parameters
    )
    failure = attempt(lambda taken: method(*taken), arguments if variadic else arguments[:takes], attempts)
    return failure if isinstance(failure, CallError) else None


@contextmanager
def _once_per_host(run: str, operator: str) -> Iterator[bool]:
    """Yield True in the first process of a host for a run and operator; the others wait for it."""
    folder, name = acquire_host_folder(run), file_safe(operator)
    done = folder / f"{name}.done"
    with (folder / f"{name}.lock").open("w") as file:
        lock(file)
        first = not done.exists()
        yield first
        done.touch()


def forget_host_setup(run: str) -> None:
    """Remove the files of an ended run on this host: marks of `setup_on_node`, reports of calls that hung.

    They stay while another process of this host still uses them; the last one removes them.
    """
    WATCHDOG.forget(run)
    release_host_folder(run)
    remove_unused(host_folder(run))


@contextmanager
def opened(pool: SlotPool) -> Iterator[SlotPool]:
    """Set the pool up; tear it down at the end.

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
