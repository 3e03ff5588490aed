"""Ask workers to join a run, and know which of them do not answer or take no part."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from distributed import Scheduler

from dcurate.cluster import compat
from dcurate.cluster.versions import difference
from dcurate.cluster.versions import versions as own_versions
from dcurate.engine.dask.event_loop import collection_limit
from dcurate.engine.dask.observation import RunConfig
from dcurate.engine.dask.output import interval_s
from dcurate.engine.dask.records import WorkerRecord
from dcurate.engine.dask.routing import TaskRouter

#: Dask keeps this many of the messages that it sent to a worker or the driver.
MESSAGES = 10
#: Number of workers from which messages to each are so rare that waiting for more of them costs more than it saves, and
#: seconds between messages to the driver then.
MANY_WORKERS, CLIENT_INTERVAL_S = 100, 0.02
#: The last status of workers that Dask takes away.
RETIRED = ("retired", "closing_gracefully")
#: A nanny starts a worker again that was killed. One that ends this many times before it registers cannot start.
EARLY_ENDS = 3
#: Seconds after which a worker counts as absent that has not answered.
ANSWER_S = 30.0

_TAKES_NO_PART = "takes no part in the run"
_SILENT = f"it has not for {ANSWER_S:g} seconds; its log says why, for example that it has no dcurate"
_QUIET = (
    f"has sent nothing for {ANSWER_S:g} seconds, as it is stopped or a call keeps it from that; what it does is done "
    "again elsewhere once Dask ends it, by its setting distributed.scheduler.worker-ttl"
)
_ENDED_EARLY = "it ended before it said what it has; its log says why, for example that it has no dcurate"


class JoinedRun(Protocol):
    """What workers that join a run need of its slot manager."""

    run: str
    config: RunConfig
    client: str
    scheduler: Scheduler
    router: TaskRouter
    workers: dict[str, WorkerRecord]
    ended: bool

    def publish(self, event: dict[str, Any]) -> None:
        """Send an event to the driver."""


class JoiningWorkers:
    """Asks the workers of a scheduler to join a run. Those that lack what it needs are left out, each with a notice.

    Args:
        manager: slot manager of the run.

    Attributes:
        left_out: addresses of the workers that take no part.
        quiet: addresses of those that take part and have sent the scheduler nothing for `ANSWER_S` seconds.
    """

    def __init__(self, manager: JoinedRun) -> None:
        self.left_out = set(manager.config.left_out)
        self.quiet: set[str] = set()
        self._manager = manager
        #: Workers that were asked to register: their nannies, and when; how often those of a nanny ended first.
        self._asked: dict[str, tuple[str, float]] = {}
        self._silent: set[str] = set()
        self._ended_early: Counter[str] = Counter()

    def ask(self, worker: str) -> None:
        """Ask a worker to register, once a plugin that is being installed there is there."""
        manager, scheduler = self._manager, self._manager.scheduler
        if manager.ended or worker not in scheduler.workers or worker in self.left_out:
            return
        self._asked[worker] = str(scheduler.workers[worker].nanny or ""), time.monotonic()
        installing = compat.plugin_under_way(scheduler, worker)
        if installing is not None and not installing.done():
            installing.add_done_callback(lambda _: self.ask(worker))
            return
        compat.shorten_message_logs(scheduler, worker, MESSAGES)
        if manager.router.many_workers:
            compat.send_at_once(scheduler, worker)
        elif len(scheduler.workers) >= MANY_WORKERS:
            manager.router.many_workers = True
            collection_limit.freeze()
            compat.send_to_client_every(scheduler, manager.client, CLIENT_INTERVAL_S)
            for address in scheduler.workers:
                compat.send_at_once(scheduler, address)
        lines_s = interval_s(len(scheduler.workers)) if manager.config.takes_lines else None
        message = {"run": manager.run, "lines_s": lines_s, "needs": manager.config.needs}
        compat.send_to_worker(scheduler, worker, {"op": "dcurate-describe", **message})

    def registered(self, worker: str, versions: Mapping[str, str], lacks: str) -> bool:
        """Take in the answer of a worker; return whether it takes part.

        Args:
            worker: address of the worker.
            versions: versions of its libraries.
            lacks: why it cannot take part, as the end of a sentence; empty if it can.
        """
        self._ended_early.pop(self._asked.pop(worker, ("", 0.0))[0], None)
        self._silent.discard(worker)
        differs = difference(own_versions(), versions).replace("this process", "the scheduler")
        if differs or lacks:
            self.leave_out(worker, f"it has {differs}" if differs else lacks)
        return not (differs or lacks)

    def leave_out(self, worker: str, reason: str) -> None:
        """Let a worker take no part any more, and say why."""
        self.left_out.add(worker)
        self._manager.publish({"notice": f"worker {worker} {_TAKES_NO_PART}: {reason}"})

    def remove(self, worker: str) -> None:
        """Forget a worker that is gone; if it never registered, say so, unless its nanny may start it again."""
        self.left_out.discard(worker)
        nanny, _ = self._asked.pop(worker, (None, 0.0))
        status = compat.last_status(self._manager.scheduler, worker)
        if nanny is not None and worker not in self._manager.workers and status not in RETIRED:
            self._ended_early[nanny] += 1
            if worker not in self._silent and (not nanny or self._ended_early[nanny] == EARLY_ENDS):
                self._manager.publish({"notice": f"worker {worker} {_TAKES_NO_PART}: {_ENDED_EARLY}"})
        self._silent.discard(worker)
        self.quiet.discard(worker)

    def present(self) -> int:
        """Return the number of workers that take part, or may once they have answered."""
        return len(self._manager.scheduler.workers.keys() - self.left_out - self._silent)

    def note_silence(self) -> None:
        """Note which workers do not answer: some are stopped or failed to start, and Dask keeps them for minutes."""
        now, latest = time.monotonic(), time.time() - ANSWER_S
        for worker, (_, asked_at) in self._asked.items():
            if now > asked_at + ANSWER_S and worker not in self._silent and worker not in self._manager.workers:
                self._silent.add(worker)
                self._manager.publish({"notice": f"worker {worker} {_TAKES_NO_PART} until it answers: {_SILENT}"})
        for worker, state in self._manager.scheduler.workers.items():
            if state.last_seen >= latest:
                self.quiet.discard(worker)
            elif worker in self._manager.workers and worker not in self.quiet:
                self.quiet.add(worker)
                self._manager.publish({"notice": f"worker {worker} {_QUIET}"})
