"""The driver of a job: a process beside a worker that runs the pipeline, and reports to the board."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import dask
from distributed import Client
from rich.console import Console

import dcurate
from dcurate.cluster.attach import AttachedCluster
from dcurate.cluster.compat import identify_workers
from dcurate.core.owner import RunOwner, act_for
from dcurate.errors import DcurateError, ResourceError, RunError
from dcurate.events import Event, RunStarted
from dcurate.jobs.archive import JobArchive
from dcurate.jobs.board import install_board
from dcurate.jobs.calls import BoardError, ask_board
from dcurate.jobs.load import LoadedJob, load
from dcurate.jobs.log_pump import LogPump
from dcurate.jobs.records import JobRecord, JobSpec, LogLine
from dcurate.redaction import legible
from dcurate.runs.state import RunState
from dcurate.ui.heartbeat import Heartbeat
from dcurate.ui.openlineage import OpenLineage, OpenLineageSettings
from dcurate.ui.pace import Pace
from dcurate.ui.progress import Progress, progress_line

#: Seconds between two signs to the board, and between two lines with progress in the log.
RENEW_S, PROGRESS_S = 0.25, 10.0
#: Lines that one sign takes along.
LINES = 2000
#: Seconds that a driver has to stop before it ends itself.
STOP_S = 30.0
#: Seconds that a driver waits for a scheduler that is gone, and that one call may take.
PATIENCE_S, CALL_S = 1800.0, 5.0
#: Exit codes: the turn is over, as another driver has the job or it waits for one.
OVER, HANDED_BACK = 4, 5

_log = logging.getLogger("dcurate.jobs")


class Driver:
    """One turn of a job.

    Args:
        job: id of the job.
        scheduler: address of the scheduler.
        token: what the driver shows to the board.
    """

    def __init__(self, job: str, scheduler: str, token: str) -> None:
        self.job, self.scheduler, self.token = job, scheduler, token
        self.order = ""
        self.pump = LogPump()
        self.state = RunState()
        self.begun = False
        self.client = ""
        self.boot = ""
        self.record = JobRecord(job, job, "", "")
        self.spec = JobSpec("recipe", "", b"")
        self.archive: JobArchive | None = None
        self.signs = Heartbeat()
        self._sending = threading.Lock()
        self._over = threading.Event()
        self._pace = Pace()

    def main(self) -> int:
        """Run the job to its end; return the exit code of the process."""
        answer = ask_board(
            self.scheduler, "begin", job=self.job, token=self.token, driver=f"{socket.gethostname()}:{os.getpid()}"
        )
        if answer["order"] == "over":
            return OVER
        self.boot, self.begun, self.order = answer["boot"], answer["begun"], answer["order"]
        self.spec, self.record = JobSpec.from_dict(answer["spec"]), JobRecord.from_dict(answer["job"])
        act_for(RunOwner(self.record.owner, self.job, self.pump.put_of))
        self.pump.install()
        signal.signal(signal.SIGTERM, self._hand_back)
        threading.Thread(target=self._renew_often, name="dcurate-job-lease", daemon=True).start()
        code, state, why = 1, "failed", ""
        try:
            with tempfile.TemporaryDirectory(prefix="dcurate-job-") as folder:
                loaded = load(self.spec, Path(folder))
                about = {"job": self.job, "name": self.record.name}
                self.signs = Heartbeat(self.spec.heartbeat, self.spec.webhook, about)
                self.signs.start()
                self.archive = JobArchive(loaded.output, self.job, self.record.attempt)
                self.archive.write_record(self.record)
                self._run_to_end(loaded)
            code, state = 0, "done"
        except KeyboardInterrupt:
            code, state, why = (143, "stopped", "stopped") if self.order == "stop" else (HANDED_BACK, "waiting", "")
            why = why or "its host is about to end, so its driver handed it back"
        except DcurateError as error:
            why = str(error)
            if isinstance(error, (ResourceError, RunError)) and self._workers_are_gone():
                code, state, why = HANDED_BACK, "waiting", "the cluster has lost all its workers"
            else:
                _log.error(why)
        except Exception as error:  # of a script or a library
            why = f"{type(error).__name__}: {legible(str(error))}"
            self.pump.put(legible(traceback.format_exc()).splitlines(), "ERROR")
        self.signs.end(state, why)
        return self._finish(code, state, why)

    def on_event(self, event: Event) -> None:
        """Take an event of the run (called by the run)."""
        self.state.apply(event)
        if isinstance(event, RunStarted) and not self.begun:
            self.begun = True  # the board learns it before a file is written, which another driver would refuse
            end = time.monotonic() + CALL_S
            while not self._renew() and time.monotonic() < end:
                time.sleep(RENEW_S)

    def _run_to_end(self, loaded: LoadedJob) -> None:
        """Run the pipeline, again from where it was when a scheduler that was gone is back."""
        resume = self.spec.resume or self.begun
        events = OpenLineage(settings=OpenLineageSettings(**self.spec.openlineage), run=self.job)
        while True:
            boot = self.boot
            try:
                with AttachedCluster(self.scheduler, CALL_S * 4) as cluster:
                    self.client = cluster.client.id
                    if self.order:
                        raise KeyboardInterrupt
                    with Progress(Console(stderr=True, force_terminal=False), PROGRESS_S) as progress:
                        loaded.pipeline.run(
                            dcurate.DaskExecutor(loaded.executor, cluster),
                            resume=resume,
                            rejected=loaded.rejected,
                            examples=self.spec.examples,
                            proof=loaded.proof,
                            observers=[self, self.signs, events, progress],
                        )
                return
            except (RunError, OSError) as error:
                if not self._scheduler_was_away(boot):
                    raise
                _log.warning("%s; the run goes on from its ledger", error)
            resume = self.spec.resume or self.begun

    def _scheduler_was_away(self, boot: str) -> bool:
        """Whether the scheduler is another process than when the run began; waits for one that is gone.

        Raises:
            RunError: none came back in time.
        """
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and not self._over.is_set():
            if self._renew():
                return self.boot != boot
            with suppress(Exception):  # of any library that connects; the next attempt shows it
                install_board(self.scheduler)
            time.sleep(1.0)
        raise RunError(f"no scheduler came back at {self.scheduler!r} within {PATIENCE_S / 60:.0f} minutes")

    def _workers_are_gone(self) -> bool:
        """Whether there is a scheduler, but no worker."""
        try:
            with Client(self.scheduler, timeout=CALL_S, set_as_default=False) as client:
                return not identify_workers(client)
        except OSError:
            return False

    def _renew_often(self) -> None:
        while not self._over.wait(RENEW_S):
            self._renew()

    def _renew(self) -> bool:
        """Send the board a sign of life with the log, and obey its order. Return whether it answered."""
        with self._sending:
            lines = self.pump.take(LINES)
            try:
                answer = self._ask("renew", lines=[list(line) for line in lines], sign=self._sign())
                if answer["order"] == "unknown":
                    record, spec = self.record.to_dict(), self.spec.to_dict()
                    answer = self._ask("adopt", record=record, spec=spec, begun=self.begun)
                    self.pump.give_back(lines)
                    lines = []
            except BoardError:
                self.pump.give_back(lines)
                return False
            self._archive_lines(lines)
            self.boot = answer["boot"]
            self._obey(answer["order"])
        return True

    def _ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        job = {} if verb == "adopt" else {"job": self.job}
        return ask_board(self.scheduler, verb, call_s=CALL_S, token=self.token, **job, **arguments)

    def _sign(self) -> dict[str, Any]:
        state = self.state
        figures: dict[str, Any] = {}
        if state.run:
            figures = {
                "run": state.run,
                "output": state.output,
                "splits": state.splits,
                "splits_done": state.splits_before + state.splits_done,
                "rows_in": state.rows_in,
                "rows_out": state.rows_out,
            }
            with suppress(RuntimeError):  # the run's thread adds an operator meanwhile
                self._pace.see(state.snapshot(time.time()))
                figures["progress"] = progress_line(state, self._pace, time.time())
        self.record = replace(self.record, **figures)
        return {"progress": figures, "client": self.client, "begun": self.begun}

    def _archive_lines(self, lines: list[LogLine], *, now: bool = False) -> None:
        if self.archive is not None:
            failed_before = bool(self.archive.error)
            self.archive.write_lines(lines, now=now)
            if self.archive.error and not failed_before:
                self.pump.put([f"the log is not kept beside the output: {self.archive.error}"], "WARNING")

    def _obey(self, order: str) -> None:
        if order == "over":
            os._exit(OVER)  # another driver has the job; the cluster releases what this one holds
        if order == "stop" and self.order != "stop":
            self.order = order
            self._interrupt()

    def _hand_back(self, _number: int, _frame: FrameType | None) -> None:
        """End the turn, as the host is about to end (called for SIGTERM)."""
        if self.order != "stop":
            self.order = "hand back"
        self._end_soon()
        raise KeyboardInterrupt

    def _interrupt(self) -> None:
        """Interrupt the run in the main thread, as Ctrl-C does."""
        self._end_soon()
        os.kill(os.getpid(), signal.SIGINT)

    def _end_soon(self) -> None:
        """End the process when the run takes too long to end."""
        timer = threading.Timer(STOP_S, os._exit, (HANDED_BACK,))
        timer.daemon = True
        timer.start()

    def _finish(self, code: int, state: str, why: str) -> int:
        """Report the end to the board and to the records of the output."""
        self._over.set()
        time.sleep(0.05)  # for what was printed last to be read
        with self._sending:
            end = time.monotonic() + STOP_S
            while (lines := self.pump.take(LINES)) and time.monotonic() < end:
                self._archive_lines(lines)
                with suppress(BoardError):
                    self._ask("renew", lines=[list(line) for line in lines], sign=self._sign())
            self._archive_lines([], now=True)
            if self.archive is not None:
                ended = time.time() if state != "waiting" else None
                self.archive.write_record(
                    replace(self.record, state=state, why=why, exit_code=code if ended else None, ended=ended)
                )
            while time.monotonic() < end:
                try:
                    self._ask("end", state=state, code=code, why=why)
                    break
                except BoardError:
                    time.sleep(1.0)
        return code


def main() -> None:
    """Run the process: read the address of the scheduler, and the TLS settings of its worker, from standard input."""
    instructions = json.loads(sys.stdin.readline())
    dask.config.set(instructions["dask"])
    os._exit(Driver(sys.argv[1], instructions["scheduler"], instructions["token"]).main())


if __name__ == "__main__":
    main()
