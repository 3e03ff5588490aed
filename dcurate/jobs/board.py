"""The board of jobs: a plugin of the scheduler that starts drivers on workers' hosts, and others when these die."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from distributed import Client, Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from dcurate.cluster import compat
from dcurate.cluster.scale_api import DRIVERS
from dcurate.errors import PipelineError, nearest
from dcurate.jobs.calls import CALL
from dcurate.jobs.launch import end_driver, start_driver
from dcurate.jobs.records import ENDED, JobRecord, LogLine
from dcurate.jobs.store import JobFiles

#: Name of the plugin.
PLUGIN = "dcurate-jobs"
#: Seconds between two looks at all jobs.
TICK_S = 0.25
#: Seconds without a sign after which a driver counts as gone, and that one may take to give its first. They double with
#: each driver of a job that falls silent, up to this many times: on a busy machine the next one is as slow.
LEASE_S, START_S, MAX_DOUBLED = 10.0, 60.0, 4
#: Drivers of a job that may die in a row without a split finished, before the job fails.
MAX_DEATHS = 5
#: Seconds for which a host gets no driver of a job after one has died there, if there are others.
AVOID_S = 30.0
#: Seconds after which a worker that has sent the scheduler nothing gets no driver.
SILENT_S = 15.0
#: Ended jobs that are listed; those of which the log is kept here, and which can be resumed; lines of a log.
MAX_ENDED, MAX_RESUMABLE, MAX_LINES = 1000, 100, 20_000
#: Characters of a log that are kept here, and of those of all jobs that ended.
MAX_LOG, MAX_LOGS = 4 << 20, 64 << 20
#: Longest time for which a call may wait here, in seconds.
MAX_WAIT_S = 30.0

#: Dask shows what loggers below its own say, and of others warnings only.
_log = logging.getLogger("distributed.scheduler.dcurate")


@dataclass
class JobEntry:
    """A job on the board.

    Attributes:
        record: state of the job.
        spec: what it runs, as plain values; empty once it cannot be resumed.
        token: password of the present driver; one with another token must end.
        begun: whether a driver has prepared the output, so that the next one resumes.
        order: ``stop`` once somebody has asked for it.
        deaths: drivers that died in a row without progress, ``silences`` of which gave no sign any more.
        signed: when the driver gave its last sign, by the monotonic clock.
        client: the id of the driver's Dask client.
        worker: address of the worker on whose host the driver was started.
        lines: the last lines of its log, of ``size`` characters, and ``dropped`` the number of those before.
        avoided: until when a worker gets no driver, by the monotonic clock.
        starting: the start that is under way.
        changed: set when there is something new.
    """

    record: JobRecord
    spec: Mapping[str, Any] = field(default_factory=dict)
    token: str = ""
    begun: bool = False
    order: str = ""
    deaths: int = 0
    silences: int = 0
    done_before: int = 0
    signed: float = field(default_factory=time.monotonic)
    client: str = ""
    worker: str = ""
    lines: deque[LogLine] = field(default_factory=deque)
    size: int = 0
    dropped: int = 0
    avoided: dict[str, float] = field(default_factory=dict)
    starting: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, lines: Iterable[LogLine]) -> None:
        """Add lines to the log."""
        for line in lines:
            self.lines.append(line)
            self.size += len(line.text)
        self.keep(MAX_LINES, MAX_LOG)
        self.wake()

    def keep(self, lines: int, characters: int) -> None:
        """Keep the last lines, one at least."""
        while len(self.lines) > max(1, lines) or (self.size > characters and len(self.lines) > 1):
            self.size -= len(self.lines.popleft().text)
            self.dropped += 1

    def note(self, text: str, level: str = "INFO") -> None:
        """Add a line of the board's own."""
        self.write([LogLine(time.time(), "scheduler", level, text)])

    def wake(self) -> None:
        """Wake those who wait for something new."""
        self.changed.set()
        self.changed = asyncio.Event()

    def to_dict(self) -> dict[str, Any]:
        """What a file keeps."""
        kept = {name: getattr(self, name) for name in ("token", "begun", "order", "deaths", "worker")}
        return {"record": self.record.to_dict(), "spec": dict(self.spec), **kept}


class JobBoard(SchedulerPlugin):  # type: ignore[misc]
    """Keep jobs, start their drivers, and serve the calls of drivers and of people.

    Args:
        folder: where jobs are kept for a scheduler that is started again; None to keep them in memory alone. Then a
            driver that lives brings its job back.
    """

    name = PLUGIN
    idempotent = True

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder

    async def start(self, scheduler: Scheduler) -> None:
        """Start on a scheduler (called by Dask)."""
        self.scheduler = scheduler
        self.boot = secrets.token_hex(8)
        self.entries: dict[str, JobEntry] = {}
        self.files = JobFiles(self.folder)
        for values in self.files.load():
            entry = JobEntry(JobRecord.from_dict(values.pop("record")), **values)
            self.entries[entry.record.id] = entry
        self._verbs: dict[str, Callable[..., Any]] = {
            name.removeprefix("on_"): getattr(self, name) for name in dir(self) if name.startswith("on_")
        }
        compat.handle_rpc(scheduler, CALL, self.answer)
        compat.ask_for_workers(scheduler, DRIVERS, lambda: 1 if self._live() else 0)  # to start drivers beside
        self._loop = asyncio.create_task(self._watch(), name=PLUGIN)

    async def close(self) -> None:
        """Stop with the scheduler (called by Dask)."""
        self._loop.cancel()

    async def answer(self, verb: str, **arguments: Any) -> dict[str, Any]:
        """Answer a call; what is refused comes back as a sentence."""
        arguments.pop("comm", None)
        if verb not in self._verbs:
            return {"refused": f"the scheduler has another dcurate, without {verb!r}; install the same version on both"}
        try:
            answer = self._verbs[verb](**arguments)
            answer = await answer if asyncio.iscoroutine(answer) else answer
        except PipelineError as error:
            return {"refused": str(error)}
        return {"boot": self.boot, **answer}

    # What people ask for

    def on_submit(self, record: dict[str, Any], spec: dict[str, Any], attach: bool = False) -> dict[str, Any]:
        """Take a new job; with ``attach`` give the one of this name that goes on, if it runs the same."""
        new = JobRecord.from_dict(record)
        namesake = next((entry for entry in self._live() if entry.record.name == new.name), None)
        if namesake is not None:
            known = namesake.record
            if attach and not namesake.order and _work_of(namesake.spec) == _work_of(spec):
                return {"job": known.to_dict()}
            but = ", but runs something else" if attach and not namesake.order else ""
            raise PipelineError(
                f"job {known.id} of {known.owner} has the name {new.name!r} and is {known.state}{but}; give "
                f"another --name, or end it with: dcurate stop {known.id}"
            )
        entry = self.entries[new.id] = JobEntry(new, spec)
        entry.note(f"submitted by {new.owner}: {new.title}")
        self._save(entry)
        _log.info("job %s (%s) was submitted by %s", new.id, new.name, new.owner)
        return {"job": new.to_dict()}

    def on_list(self) -> dict[str, Any]:
        """List jobs, the newest first."""
        return {"jobs": [entry.record.to_dict() for entry in reversed(self.entries.values())]}

    async def on_get(self, job: str, unless: str = "", wait_s: float = 0.0) -> dict[str, Any]:
        """Give a job; wait for another state than ``unless``."""
        entry, end = self._entry(job), time.monotonic() + min(wait_s, MAX_WAIT_S)
        while entry.record.state == unless and (left := end - time.monotonic()) > 0:
            await _within(entry.changed.wait(), left)
        return {"job": entry.record.to_dict()}

    async def on_logs(self, job: str, after: int = 0, wait_s: float = 0.0, most: int = 5000) -> dict[str, Any]:
        """Give lines of a log from number ``after`` on; wait until there are some, while the job goes on."""
        entry, end = self._entry(job), time.monotonic() + min(wait_s, MAX_WAIT_S)
        while (
            entry.dropped + len(entry.lines) <= after and entry.record.is_live and (left := end - time.monotonic()) > 0
        ):
            await _within(entry.changed.wait(), left)
        first = max(after, entry.dropped)
        lines = [entry.lines[at] for at in range(first - entry.dropped, len(entry.lines))[:most]]
        following = first + len(lines)
        ended = not entry.record.is_live and following >= entry.dropped + len(entry.lines)
        return {"lines": [list(line) for line in lines], "next": following, "missing": first - after, "ended": ended}

    def on_stop(self, job: str, who: str = "") -> dict[str, Any]:
        """Have a job stop."""
        entry = self._entry(job)
        if entry.record.is_live and not entry.order:
            entry.order = "stop"
            entry.note(f"stopped by {who or 'a client'}")
            if entry.token:
                self._change(entry, state="stopping", why=f"stopped by {who}" if who else "")
            else:
                self._end(entry, "stopped", 143, f"stopped by {who}" if who else "stopped")
        return {"job": entry.record.to_dict()}

    def on_resume(self, job: str, who: str = "") -> dict[str, Any]:
        """Have a job that failed or was stopped go on."""
        entry = self._entry(job)
        record = entry.record
        if record.is_live:
            raise PipelineError(f"job {record.id} is {record.state}; it can be resumed when it has ended")
        if record.state == "done":
            raise PipelineError(f"job {record.id} is done; submit it again to run it on new input")
        if not entry.spec:
            raise PipelineError(f"what job {record.id} runs is not kept any more; submit it again with --resume")
        entry.order, entry.deaths, entry.silences, entry.avoided = "", 0, 0, {}
        entry.note(f"resumed by {who or 'a client'}")
        self._change(entry, state="waiting", why="", ended=None, exit_code=None)
        return {"job": entry.record.to_dict()}

    # What drivers ask for

    def on_begin(self, job: str, token: str, driver: str) -> dict[str, Any]:
        """Give a new driver what it is to run."""
        entry = self.entries.get(job)
        if entry is None or entry.token != token or not entry.record.is_live:
            return {"order": "over"}
        entry.signed = time.monotonic()
        state = "stopping" if entry.order else "running"
        self._change(entry, state=state, why="", driver=driver, started=entry.record.started or time.time())
        entry.note(f"driver {entry.record.attempt} is {driver}")
        return {"order": entry.order, "spec": dict(entry.spec), "begun": entry.begun, "job": entry.record.to_dict()}

    def on_adopt(self, record: dict[str, Any], spec: dict[str, Any], token: str, begun: bool) -> dict[str, Any]:
        """Take a job from its driver, on a scheduler that was started again and does not know it."""
        job = JobRecord.from_dict(record)
        entry = self.entries.get(job.id)
        if entry is not None and (entry.token != token or not entry.record.is_live):
            return {"order": "over"}
        if entry is None:
            entry = self.entries[job.id] = JobEntry(replace(job, state="running", why=""), spec, token)
            entry.note("the scheduler was started again; the driver brought its job back")
        entry.begun, entry.signed = entry.begun or begun, time.monotonic()
        self._save(entry)
        return {"order": entry.order}

    def on_renew(self, job: str, token: str, lines: list[list[Any]], sign: dict[str, Any]) -> dict[str, Any]:
        """Take a sign of life of a driver, with its log and progress; return its orders."""
        client, begun, progress = sign["client"], sign["begun"], sign["progress"]
        entry = self.entries.get(job)
        if entry is None:
            return {"order": "unknown"}
        if entry.token != token or not entry.record.is_live:
            return {"order": "over"}
        entry.signed = time.monotonic()
        entry.client = client or entry.client
        entry.write(LogLine(*line) for line in lines)
        known, values = vars(entry.record), {name: value for name, value in progress.items() if value is not None}
        if any(known[name] != value for name, value in values.items()):
            entry.record = replace(entry.record, **values)
        if entry.record.splits_done > entry.done_before:
            entry.deaths, entry.silences, entry.done_before = 0, 0, entry.record.splits_done
        if begun and not entry.begun:
            entry.begun = True
            self._save(entry)
        return {"order": entry.order}

    def on_end(self, job: str, token: str, state: str, code: int, why: str) -> dict[str, Any]:
        """Take the end of a driver: of the job, or of its turn (``waiting``)."""
        entry = self.entries.get(job)
        if entry is None or entry.token != token or not entry.record.is_live:
            return {"order": "over"}
        if state in ENDED:
            self._end(entry, state, code, why)
        else:  # a host that ends with notice is no fault of the job
            self._over(entry, why, counts=False)
        return {"order": ""}

    def on_lost(self, job: str, token: str, code: int, text: str) -> dict[str, Any]:
        """Take the report of a worker that the process of a driver has ended."""
        entry = self.entries.get(job)
        if entry is not None and entry.token == token and entry.record.is_live:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            self._over(entry, f"its driver ended by {how}{f': {text}' if text else ''}")
        return {}

    # What it does by itself

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            for entry in self._live():
                try:
                    self._check(entry)
                except Exception:  # no job harms another
                    _log.exception("job %s", entry.record.id)

    def _check(self, entry: JobEntry) -> None:
        """Start a driver for a job that waits, and take a job from a driver that is gone."""
        if entry.record.state == "waiting":
            if entry.order:
                self._end(entry, "stopped", 143, "stopped")
            elif entry.starting is None:
                entry.starting = asyncio.create_task(self._start(entry))
            return
        silent_s = time.monotonic() - entry.signed
        limit_s = START_S if entry.record.state == "starting" else LEASE_S
        if silent_s > limit_s * 2 ** min(entry.silences, MAX_DOUBLED):
            entry.silences += 1
            self._over(
                entry,
                f"its driver {entry.record.driver or 'on ' + entry.worker} has given no sign for {silent_s:.0f} s",
            )

    def _over(self, entry: JobEntry, why: str, *, counts: bool = True) -> None:
        """End the turn of a driver, and let another take the job over unless too many have died.

        Args:
            entry: the job.
            why: reason, for the log.
            counts: whether the driver died.
        """
        entry.note(why, "WARNING")
        _log.warning("job %s: %s", entry.record.id, why)
        self._fence(entry)
        entry.deaths += counts
        entry.avoided[entry.worker] = time.monotonic() + AVOID_S
        if entry.order:
            self._end(entry, "stopped", 143, "stopped")
        elif entry.deaths >= MAX_DEATHS:
            self._end(entry, "failed", 1, f"{MAX_DEATHS} drivers in a row ended without progress; the last: {why}")
        else:
            self._change(entry, state="waiting", why=f"{why}; another takes over")

    def _fence(self, entry: JobEntry) -> None:
        """Take from a driver what it holds on the cluster, and end its process if it lives."""
        token, entry.token, client, entry.client = entry.token, "", entry.client, ""
        if client in self.scheduler.clients:
            self.scheduler.remove_client(client)
        _, _, process = entry.record.driver.rpartition(":")
        if entry.worker in self.scheduler.workers and process and token:
            call = compat.run_on_worker(self.scheduler, entry.worker, end_driver, int(process), entry.record.id)
            entry.starting = asyncio.create_task(self._forget_start(entry, call))

    async def _forget_start(self, entry: JobEntry, call: Any) -> None:
        """Wait for a call, and let the next driver start."""
        with suppress(OSError, TimeoutError):
            await asyncio.wait_for(call, LEASE_S)
        entry.starting = None

    async def _start(self, entry: JobEntry) -> None:
        """Start a driver on the host of a worker."""
        try:
            worker = self._host_for(entry)
            if worker is None:
                why = _SILENT_WORKERS if self.scheduler.running else _NO_WORKERS
                if entry.record.why != why:
                    self._change(entry, why=why)
                return
            entry.worker, entry.token, entry.signed = worker, secrets.token_hex(8), time.monotonic()
            self._change(entry, state="starting", attempt=entry.record.attempt + 1, driver="")
            arguments = (entry.record.id, entry.token, entry.record.attempt)
            answers = True
            try:
                starting = compat.run_on_worker(self.scheduler, worker, start_driver, *arguments)
                error = await asyncio.wait_for(starting, LEASE_S)
            except (OSError, TimeoutError) as raised:  # the worker is gone or busy, and the job did nothing wrong
                error, answers = f"{type(raised).__name__} {raised}".strip(), False
            if error and entry.token == arguments[1] and entry.record.state == "starting":
                self._over(entry, f"worker {worker} cannot start a driver: {error}", counts=answers)
        finally:
            if entry.starting is asyncio.current_task():
                entry.starting = None

    def _host_for(self, entry: JobEntry) -> str | None:
        """The worker with the fewest drivers, not one that was tried just now if there are others, or is silent."""
        now = time.monotonic()
        running = [state.address for state in self.scheduler.running if time.time() - state.last_seen < SILENT_S]
        fresh = [worker for worker in running if entry.avoided.get(worker, 0.0) < now]
        drivers = [other.worker for other in self._live() if other.token]
        return min(fresh or running, key=lambda worker: (drivers.count(worker), worker), default=None)

    def _end(self, entry: JobEntry, state: str, code: int, why: str) -> None:
        """End a job."""
        self._change(entry, state=state, exit_code=code, why=why, ended=time.time())
        entry.note(f"{state}{f': {why}' if why else ''}", "INFO" if state == "done" else "ERROR")
        self._fence(entry)
        _log.info("job %s (%s) of %s is %s", entry.record.id, entry.record.name, entry.record.owner, state)
        ended = [other for other in self.entries.values() if not other.record.is_live]
        for other in ended[:-MAX_RESUMABLE]:
            other.spec = {}
            other.keep(1, MAX_LOG)
        room = MAX_LOGS
        for other in reversed(ended):
            other.keep(MAX_LINES, max(0, room))
            room -= other.size
        for other in ended[:-MAX_ENDED]:
            del self.entries[other.record.id]
            self.files.remove(other.record.id)

    def _change(self, entry: JobEntry, **values: Any) -> None:
        entry.record = replace(entry.record, **values)
        self._save(entry)
        entry.wake()

    def _save(self, entry: JobEntry) -> None:
        self.files.save(entry.record.id, entry.to_dict())

    def _live(self) -> list[JobEntry]:
        return [entry for entry in self.entries.values() if entry.record.is_live]

    def _entry(self, job: str) -> JobEntry:
        """The job of an id, or the newest one of a name.

        Raises:
            PipelineError: there is none.
        """
        if job in self.entries:
            return self.entries[job]
        named = [entry for entry in self.entries.values() if entry.record.name == job]
        if not named:
            known = [*self.entries, *(entry.record.name for entry in self.entries.values())]
            raise PipelineError(f"job {job!r} does not exist{nearest(job, known[-20:]) or '; none was submitted here'}")
        return named[-1]


def install_board(scheduler: str) -> None:
    """Install the board of jobs on a scheduler that has none.

    Args:
        scheduler: its address.

    Raises:
        OSError: nothing answers.
    """
    with Client(scheduler, timeout=LEASE_S, set_as_default=False) as client:
        client.register_plugin(JobBoard(), name=PLUGIN)


def _work_of(spec: Mapping[str, Any]) -> str:
    """What a spec runs, without how it begins; lists and tuples count as the same."""
    return json.dumps({**spec, "resume": None}, sort_keys=True, default=bytes.hex)


_NO_WORKERS = "the cluster has no workers that take work"
_SILENT_WORKERS = f"the workers of the cluster have sent nothing for {SILENT_S:g} s; their logs may say why"


async def _within(waiting: Any, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(waiting, seconds)
