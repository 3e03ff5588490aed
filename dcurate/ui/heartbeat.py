"""Tell an orchestrator how a run goes: by a file that is renewed while it lives, and by POSTs of a new state."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dcurate.errors import DataError, PipelineError
from dcurate.events import Event, RunStarted
from dcurate.redaction import text_of
from dcurate.runs.state import RunState
from dcurate.ui.pace import Pace
from dcurate.ui.poster import Poster, checked_address
from dcurate.ui.progress import progress_line

#: Seconds between two renewals of the file.
BEAT_S = 5.0
#: Seconds that the end waits for a POST at most.
END_S = 10.0

_log = logging.getLogger("dcurate")


class Heartbeat:
    """Gives signs of a run, as one of its observers and around it in a ``with`` statement. It never fails the run.

    The file and each POST hold JSON: ``state`` (``starting``, ``running``, ``done``, ``failed``, ``stopped``; of a job
    also ``waiting``, when another driver takes over), ``why`` it failed, ``progress`` in one line, ``splits``,
    ``splits_done``, ``rows_in``, ``rows_out``, ``run``, ``output``, ``host``, ``process``, and ``time`` in
    seconds since the epoch. A file that is older than a minute is of a run that is gone.

    Args:
        path: the file; None for none.
        webhook: the address to POST to, which is shown nowhere; None for none. It is not sent elsewhere by redirects.
        about: further values of the JSON, such as the id of a job.

    Raises:
        PipelineError: the path names no file, or the webhook is not an HTTP address.
        DataError: the file cannot be written; when entered.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with Heartbeat(f"{folder.name}/beat"):
        ...     print(json.loads(Path(folder.name, "beat").read_text())["state"])
        starting
        >>> json.loads(Path(folder.name, "beat").read_text())["state"]
        'done'
        >>> folder.cleanup()
    """

    def __init__(
        self, path: str | None = None, webhook: str | None = None, about: dict[str, Any] | None = None
    ) -> None:
        self.path = None if path is None else _file(path)
        self.webhook = None
        if webhook is not None:
            address = checked_address(webhook, "the webhook")
            self.webhook = Poster(address, "the webhook did not receive a new state")
        self.about = dict(about or {})
        self.state, self.why = "starting", ""
        self._run = RunState()
        self._pace = Pace()
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._failed = False
        self._threads: list[threading.Thread] = []

    def on_event(self, event: Event) -> None:
        """Take an event of the run (called by the run)."""
        self._run.apply(event)
        if isinstance(event, RunStarted) and self.state != "running":
            self.say("running")

    def say(self, state: str, why: str = "") -> None:
        """Tell a new state."""
        self.state, self.why = state, why
        if self.webhook is not None:
            self.webhook.put(self._content())
        self._beat()

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Begin to give signs.

        Raises:
            DataError: the file cannot be written.
        """
        if self.path is not None:
            try:
                self._write()
            except OSError as error:
                self._failed = True  # the error says it
                raise DataError(
                    f"the heartbeat file {str(self.path)!r} cannot be written: {error.strerror}; name a file in a "
                    "folder that exists and that you may write to"
                ) from error
            self._start(threading.Thread(target=self._beat_often, name="dcurate-heartbeat", daemon=True))
        if self.webhook is not None:
            self._start(self.webhook)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.end("done")
        elif isinstance(error, KeyboardInterrupt):
            self.end("stopped")
        else:
            self.end("failed", text_of(error) or type(error).__name__)

    def end(self, state: str, why: str = "") -> None:
        """Tell the last state, and give what is on its way a moment to arrive."""
        self.say(state, why)
        self._over.set()
        if self.webhook is not None:
            self.webhook.end()
        end = time.monotonic() + END_S
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _start(self, thread: threading.Thread) -> None:
        self._threads.append(thread)
        thread.start()

    def _beat_often(self) -> None:
        while not self._over.wait(BEAT_S):
            self._beat()

    def _beat(self) -> None:
        if self.path is not None:
            try:
                self._write()
                self._failed = False
            except OSError as error:
                self._warn(f"the heartbeat file {str(self.path)!r} cannot be written: {error.strerror}")

    def _write(self) -> None:
        assert self.path is not None
        with self._writing:
            half = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            half.write_bytes(self._content())
            half.replace(self.path)

    def _content(self) -> bytes:
        run, now = self._run, time.time()
        figures: dict[str, Any] = {"progress": ""}
        if run.run:
            figures |= {"run": run.run, "output": run.output, "splits": run.splits}
            figures |= {"splits_done": run.splits_before + run.splits_done}
            figures |= {"rows_in": run.rows_in, "rows_out": run.rows_out}
            with suppress(RuntimeError):  # the run's thread adds an operator meanwhile
                self._pace.see(run.snapshot(now))
                figures["progress"] = progress_line(run, self._pace, now)
        here = {"host": socket.gethostname(), "process": os.getpid(), "time": now}
        return json.dumps({"state": self.state, "why": self.why, **self.about, **figures, **here}).encode() + b"\n"

    def _warn(self, sentence: str) -> None:
        if not self._failed:
            _log.warning(sentence)
        self._failed = True


def _file(path: str) -> Path:
    """Return the path of a heartbeat file.

    Raises:
        PipelineError: it names a folder, or nothing.
    """
    file = Path(path)
    if not file.name or file.is_dir():
        raise PipelineError(f"the heartbeat file {path!r} is not the name of a file; give one such as run.json")
    return file
