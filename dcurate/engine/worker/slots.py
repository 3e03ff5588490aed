"""Slots: prepared copies of an operator in one worker process."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
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
from dcurate.engine.worker.calls import POISONED_EXIT, AnyStage, Calls
from dcurate.engine.worker.operator_task import OperatorSpec, TaskResult, run_operator
from dcurate.engine.worker.samples import ScoreSampler
from dcurate.engine.worker.sandbox import SandboxedProcess, Settings
from dcurate.engine.worker.timeouts import (
    WATCHDOG,
    acquire_host_folder,
    count_setup_end,
    end_process,
    host_folder,
    release_host_folder,
)
from dcurate.errors import DcurateError, StageError
from dcurate.fs.locks import lock
from dcurate.fs.temporary import remove_unused

#: Processes of a host that may end, one after the other, because a GPU is unusable when an operator is set up.
MAX_SETUP_ENDS = 4


class Slot:
    """A copy of an operator that is set up, and a sandbox for batches that may end its process.

    One thread at a time uses it; any may `close` it.

    Args:
        run: id of the run; set-up of a host is per run.
        payload: the pickled `OperatorSpec`.
        name: name of the slot, as `setup` receives it.
        gpus: CUDA indices of the GPUs that it may use.
        restarts: whether a nanny restarts this process when it ends, so that a call which hangs may end it.
        memory_limit: bytes of data of the sandbox; None for no limit.

    Raises:
        ImportError: a module is missing; or AttributeError.
        StageError: the operator cannot be unpickled.
    """

    def __init__(
        self,
        run: str,
        payload: bytes,
        name: str,
        gpus: Sequence[int] = (),
        *,
        restarts: bool = False,
        memory_limit: int | None = None,
    ) -> None:
        self.run = run
        self.operator_spec = _loaded(payload)
        remember_secrets(self.operator_spec)
        self._payload = payload
        self._gpus = tuple(gpus)
        self._metadata = WorkerMetadata(name, self._gpus)
        self._restarts = restarts
        self.stages = list(self.operator_spec.stages)
        self._sampler = ScoreSampler(self.operator_spec.examples)
        self._opened: list[AnyStage] = []
        self._closing = threading.Lock()
        self._sandbox = SandboxedProcess(payload, run, Settings(name, self._gpus, memory_limit))

    def open(self, host: bool = True) -> None:
        """Set up the host, if no other process has, then the stages.

        Args:
            host: whether the host may need to be set up; False where a process is known to have done it.

        Raises:
            StageError: a stage's set-up raised, as often as it may be tried; what had been set up is torn down.
        """
        try:
            if host:
                self._set_up_host()
            with given_gpus(self._gpus):
                for number in range(len(self.stages)):
                    self._set_up(number)
            self._calls = Calls(self.stages, self.operator_spec.ignore_failures, self.run if self._restarts else None)
        except DcurateError as error:
            for failure in self.close():
                error.add_note(failure)
            raise

    def work(self, inputs: Sequence[Batch], calls: Calls | None = None) -> TaskResult:
        """Run batches through the stages.

        Args:
            calls: how stages are called, if not as usual.
        """
        calls = calls or self._calls
        try:
            with given_gpus(self._gpus):
                return run_operator(self.operator_spec, inputs, calls, self._sampler)
        except Exception as error:  # raises again, or ends the process: what a batch on a GPU raises between calls
            calls.end_if_poisoned(f"operator {self.operator_spec.operator!r}", CallError(error))
            raise

    def work_sandboxed(self, inputs: Sequence[Batch]) -> TaskResult:
        """Run batches in the sandbox, which is kept for the next such task; see `SandboxedProcess`."""
        return self._sandbox.run(inputs)

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
            for stage in _loaded(self._payload).stages if first else ():
                attempts = stage.spec.num_setup_attempts
                node = NodeInfo(socket.gethostname())
                failure = _call_hook(stage, "setup_on_node", node, self._metadata, attempts=attempts)
                if failure is not None:
                    raise failure.as_error(f"stage {stage.name!r}: setup_on_node() failed")

    def _set_up(self, number: int) -> None:
        """Set up a stage, with retries on fresh copies."""
        tries, waits = 1, iter((0.0, *gpu_memory.WAITS_S))
        while True:
            stage = self.stages[number]
            self._opened.append(stage)
            failure = _call_hook(stage, "setup", self._metadata)
            if failure is None:
                return
            self._end_if_poisoned(stage, failure)
            failure.tries = tries
            wait = next(waits, None) if failure.is_gpu_out_of_memory else None
            if wait is None and (tries >= stage.spec.num_setup_attempts or isinstance(failure.error, FATAL)):
                if failure.is_gpu_out_of_memory:
                    raise too_full(failure.error, f"stage {stage.name!r}: setup() failed") from failure.error
                raise failure.as_error(f"stage {stage.name!r}: setup() failed")
            _call_hook(self._opened.pop(), "teardown")  # of what is half set up: it may well raise, too
            if wait is not None:
                failure.detach()
                free_gpu_memory()
                time.sleep(wait)
            self.stages[number] = _loaded(self._payload).stages[number]
            tries += 1

    def _end_if_poisoned(self, stage: AnyStage, failure: CallError) -> None:
        """End this process, a few times at most, if its GPU is unusable: another slot of it may have caused that."""
        if not failure.poisons or not self._restarts:
            return
        if count_setup_end(self.run, file_safe(self.operator_spec.operator)) < MAX_SETUP_ENDS:
            sentence = f"stage {stage.name!r}: setup() failed: {failure.message}".replace("\n", " ")
            end_process(self.run, sentence, failure.trace, POISONED_EXIT)


class SlotPool:
    """The slots of one operator in one worker process; they can be added and removed while others work.

    Args:
        run: id of the run.
        payload: the pickled `OperatorSpec`; every slot makes its own copy of it.
        restarts: whether a nanny restarts this process when it ends, so that a call which hangs may end it.
        memory_limit: bytes of data of a sandbox; None for no limit.

    Attributes:
        setup_seconds: duration of the last set-up of a slot.
    """

    def __init__(self, run: str, payload: bytes, restarts: bool = False, memory_limit: int | None = None) -> None:
        self.run = run
        self.payload = payload
        self.restarts = restarts
        self.memory_limit = memory_limit
        self.setup_seconds = 0.0
        self._slots: list[Slot] = []
        self._idle: deque[Slot] = deque()
        #: Removals that wait for an idle slot; they come before tasks.
        self._removals = 0
        self._changed = threading.Condition()

    @property
    def count(self) -> int:
        """Slots that are set up, busy or not."""
        return len(self._slots)

    def add(self, name: str, gpus: Sequence[int] = ()) -> None:
        """Set one more slot up; arguments and errors are those of `Slot` and `Slot.open`."""
        begin = time.perf_counter()
        slot = Slot(self.run, self.payload, name, gpus, restarts=self.restarts, memory_limit=self.memory_limit)
        slot.open()
        self.setup_seconds = time.perf_counter() - begin
        with self._changed:
            self._slots.append(slot)
            self._idle.append(slot)
            self._changed.notify_all()

    def work(self, inputs: Sequence[Batch], sandboxed: bool = False) -> TaskResult:
        """Run batches through one slot, waiting for an idle one.

        Args:
            inputs: batches, as keyed by the operator before.
            sandboxed: whether to run them in the slot's sandbox, because a worker died while it ran them.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._idle) > self._removals)
            slot = self._idle.popleft()
        try:
            return slot.work_sandboxed(inputs) if sandboxed else slot.work(inputs)
        finally:
            with self._changed:
                if slot in self._slots:
                    self._idle.append(slot)
                    self._changed.notify_all()

    def remove(self, patience_s: float | None = None) -> list[str]:
        """Remove one slot as soon as it is idle and tear it down; return error messages.

        Args:
            patience_s: how long to wait for an idle slot; then any is torn down, busy or not. None waits for ever.
        """
        with self._changed:
            self._removals += 1
            self._changed.wait_for(lambda: self._idle or not self._slots, patience_s)
            self._removals -= 1
            if not self._slots:  # the process closes, and has closed all
                return []
            slot = self._idle.popleft() if self._idle else self._slots[-1]
            self._slots.remove(slot)
            self._changed.notify_all()
        return slot.close()

    def close(self) -> list[str]:
        """Tear all slots down at once, as the process ends; return error messages."""
        with self._changed:
            slots, self._slots = self._slots, []
            self._idle.clear()
            self._changed.notify_all()
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
def opened(slot: Slot) -> Iterator[Slot]:
    """Set a slot up; tear it down at the end.

    Raises:
        StageError: set-up failed, or tear-down did after everything else went well.
    """
    slot.open()
    failures: list[str] = []
    try:
        yield slot
    finally:
        failures = slot.close()
    if failures:
        raise StageError("; ".join(failures))
