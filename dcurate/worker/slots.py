"""Slots: prepared copies of an operator in one worker process."""

from __future__ import annotations

import fcntl
import getpass
import queue
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import cloudpickle

from dcurate.core.batch import Batch
from dcurate.core.stage import NodeInfo, ProcessingStage, WorkerMetadata
from dcurate.errors import DcurateError, StageError
from dcurate.worker.guard import user_code
from dcurate.worker.program import Outcome, Program, run_program

AnyStage = ProcessingStage[Any, Any]


class SlotPool:
    """The slots of one operator in one worker process.

    Args:
        run: id of the run, so that hosts tell one run's set-up from another's.
        payload: the pickled `Program`; every slot makes its own copy of it.
        slots: how many.
        worker: name of the worker, as `setup` is told it.
        gpus: CUDA indices of the GPUs that the slots may use.
    """

    def __init__(self, run: str, payload: bytes, slots: int, worker: str, gpus: Sequence[int] = ()) -> None:
        self.run = run
        self.program: Program = cloudpickle.loads(payload)
        self.setup_seconds = 0.0
        self._payload = payload
        self._slots = slots
        self._worker = worker
        self._gpus = tuple(gpus)
        self._free: queue.SimpleQueue[tuple[AnyStage, ...]] = queue.SimpleQueue()
        self._opened: list[AnyStage] = []
        self._closing = threading.Lock()

    def open(self) -> None:
        """Set up: once per host, then every slot.

        Raises:
            StageError: a stage's set-up raised; what had been set up is torn down.
        """
        begin = time.perf_counter()
        try:
            with _once_per_host(self.run, self.program.operator) as first:
                if first:
                    for stage in self.program.stages:
                        self._hook(stage, "setup_on_node", NodeInfo(socket.gethostname()), self._metadata(0))
            for number in range(self._slots):
                stages = cloudpickle.loads(self._payload).stages
                for stage in stages:
                    self._opened.append(stage)
                    self._hook(stage, "setup", self._metadata(number))
                self._free.put(stages)
        except DcurateError as error:
            for failure in self.close():
                error.add_note(failure)
            raise
        self.setup_seconds = time.perf_counter() - begin

    def work(self, inputs: Sequence[Batch]) -> Outcome:
        """Run batches through one slot, waiting for a free one."""
        stages = self._free.get()
        try:
            return run_program(self.program, stages, inputs)
        finally:
            self._free.put(stages)

    def close(self) -> list[str]:
        """Tear down every stage that was set up, all of them whatever happens; returns what failed, in words."""
        failures = []
        with self._closing:
            opened, self._opened = self._opened, []
        for stage in reversed(opened):
            try:
                self._hook(stage, "teardown")
            except DcurateError as error:
                failures.append(str(error))
        return failures

    def _metadata(self, number: int) -> WorkerMetadata:
        return WorkerMetadata(f"{self._worker}/{number}", self._gpus)

    def _hook(self, stage: AnyStage, name: str, *arguments: object) -> None:
        """Call a set-up or tear-down method with as many of the arguments as it takes."""
        method = getattr(stage, name)
        parameters = signature(method).parameters.values()
        variadic = any(one.kind is Parameter.VAR_POSITIONAL for one in parameters)
        takes = sum(one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD) for one in parameters)
        with user_code(f"stage {stage.name!r}: {name}() failed"):
            method(*(arguments if variadic else arguments[:takes]))


@contextmanager
def _once_per_host(run: str, operator: str) -> Iterator[bool]:
    """True for the first process of a host that comes here for a run and operator; the others wait for it."""
    folder = Path(tempfile.gettempdir()) / f"dcurate-{getpass.getuser()}" / run
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / f"{operator}.done"
    with (folder / f"{operator}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first = not done.exists()
        yield first
        done.touch()


def forget_host_setup(run: str) -> None:
    """Remove the marks that `setup_on_node` left on this host for a run."""
    folder = Path(tempfile.gettempdir()) / f"dcurate-{getpass.getuser()}" / run
    for mark in folder.glob("*"):
        mark.unlink(missing_ok=True)
    if folder.exists():
        folder.rmdir()


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
