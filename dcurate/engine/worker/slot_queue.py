"""The slots of one operator in one worker process: their number changes while calls go on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

from dcurate.core.batch import Batch
from dcurate.engine.worker.operator_task import TaskResult
from dcurate.engine.worker.slots import SlotPool


class SlotQueue:
    """Slots of one operator; some can be added and taken away while others work.

    Args:
        payload: the pickled program, of which every slot makes its own copy.
        restarts: whether somebody restarts this process when it ends, so that a call which hangs may end it.
        memory_limit: bytes that a process may have in which a call runs alone; None for no limit.
    """

    def __init__(self, payload: bytes, restarts: bool = False, memory_limit: int | None = None) -> None:
        self.payload = payload
        self.restarts = restarts
        self.memory_limit = memory_limit
        self.setup_seconds = 0.0
        self._slots: list[SlotPool] = []
        self._free: queue.SimpleQueue[SlotPool] = queue.SimpleQueue()
        self._leaving: queue.SimpleQueue[SlotPool] = queue.SimpleQueue()
        self._surplus = 0
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """Slots that are set up, busy or not."""
        return len(self._slots)

    def add(self, run: str, name: str, gpus: Sequence[int]) -> None:
        """Set one more slot up.

        Args:
            name: of the slot, as ``setup`` is told it.

        Raises:
            StageError: a stage's set-up raised.
        """
        slot = SlotPool(run, self.payload, 1, name, gpus, limits=self.restarts, memory_limit=self.memory_limit)
        slot.open()
        self.setup_seconds = slot.setup_seconds
        self._slots.append(slot)
        self._free.put(slot)

    def work(self, inputs: Sequence[Batch], alone: bool = False) -> TaskResult:
        """Run batches through one slot, waiting for a free one.

        Args:
            alone: whether to run them in a process of their own, as workers died under them.
        """
        slot = self._free.get()
        try:
            return slot.work_alone(inputs) if alone else slot.work(inputs)
        finally:
            self._give_back(slot)

    def _give_back(self, slot: SlotPool) -> None:
        """A slot is free: for one who waits to take it away, before any call that waits for it."""
        with self._lock:
            if self._surplus:
                self._surplus -= 1
                self._leaving.put(slot)
            else:
                self._free.put(slot)

    def remove(self, patience_s: float | None = None) -> list[str]:
        """Take one slot away as soon as it is free and tear it down; returns what failed, in words.

        Args:
            patience_s: how long to wait for a free one; then any is torn down, busy or not. None waits for ever.
        """
        with self._lock:
            try:
                self._leaving.put(self._free.get_nowait())
            except queue.Empty:
                self._surplus += 1
        try:
            slots = [self._leaving.get(timeout=patience_s)]
        except queue.Empty:
            slots = self._slots[-1:]
        slots = [slot for slot in slots if slot in self._slots]  # none where the process closes, and has closed all
        for slot in slots:
            self._slots.remove(slot)
        return [failure for slot in slots for failure in slot.close()]

    def close(self) -> list[str]:
        """Tear all down at once, as the process ends."""
        slots, self._slots = self._slots, []
        return [failure for slot in slots for failure in slot.close()]
