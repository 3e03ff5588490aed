"""End a process in which a call takes too long, or which cannot use its GPU any more.

Python threads cannot end a call that is in native code and holds the interpreter's lock. A C thread can: that of
``faulthandler``, which dumps the traceback of every Python thread and ends the process. A process has one such timer,
so it is set for the earliest deadline of all running calls.
"""

from __future__ import annotations

import faulthandler
import heapq
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from dcurate.fs.temporary import folder_of_host, held, sweep

#: Prefix of a hang report's name, and the text that it contains from the timeout on.
REPORT_PREFIX, TIMEOUT_MARK = "hung-", "\nTimeout ("
#: The same of a process that ended itself: what it did, then a traceback.
_ENDED_PREFIX = "ended-"
#: Marks of processes that ended as they set an operator up.
_SETUP_PREFIX = "setup-"
_FOLDER = "runs"
#: Seconds for which a report is kept.
_REPORT_AGE_S = 3600
_ACQUIRED: dict[str, int] = {}
_LOCK = threading.Lock()


class Hang(NamedTuple):
    """A call that ended its process: it took too long, or left the GPU unusable.

    Attributes:
        doing: the stage and batch, and why the process was ended.
        trace: the traceback of every thread of the process.
    """

    doing: str
    trace: str


class _Deadline(NamedTuple):
    end: float
    number: int
    run: str
    doing: str


class Watchdog:
    """Ends this process when a running call exceeds its time limit; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heap: list[_Deadline] = []
        self._under_way: set[int] = set()
        self._count = 0
        self._armed: int | None = None
        self._files: dict[str, int] = {}

    @contextmanager
    def limit(self, run: str, seconds: float, doing: str) -> Iterator[None]:
        """Limit the time of the ``with`` block; else end the process and leave a `Hang` on this host.

        Args:
            run: id of the run, in whose `host_folder` the report is written.
            doing: the stage and batch, for the report.
        """
        with self._lock:
            self._count += 1
            deadline = _Deadline(time.monotonic() + seconds, self._count, run, doing)
            heapq.heappush(self._heap, deadline)
            self._under_way.add(deadline.number)
            self._arm()
        try:
            yield
        finally:
            with self._lock:
                self._under_way.discard(deadline.number)
                self._arm()

    def forget(self, run: str) -> None:
        """Close the report of an ended run."""
        with self._lock:
            file = self._files.pop(run, None)
            if file is not None:
                os.close(file)

    def _arm(self) -> None:
        """Set the timer for the earliest deadline of a running call."""
        while self._heap and self._heap[0].number not in self._under_way:
            heapq.heappop(self._heap)
        if not self._heap:
            self._armed = None
            faulthandler.cancel_dump_traceback_later()
            return
        first = self._heap[0]
        if first.number == self._armed:
            return
        file = self._file(first.run)
        os.ftruncate(file, 0)
        os.write(file, f"{first.doing}\n".encode(errors="backslashreplace"))
        faulthandler.dump_traceback_later(max(first.end - time.monotonic(), 0.001), exit=True, file=file)
        self._armed = first.number

    def _file(self, run: str) -> int:
        if run not in self._files:
            name = acquire_host_folder(run) / f"{REPORT_PREFIX}{os.getpid()}.txt"
            self._files[run] = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        return self._files[run]


#: The watchdog of this process: there can be only one.
WATCHDOG = Watchdog()


def end_process(run: str, doing: str, trace: str, code: int) -> NoReturn:
    """End this process at once, and leave a `Hang` on this host; nothing is torn down."""
    path = acquire_host_folder(run) / f"{_ENDED_PREFIX}{os.getpid()}.txt"
    with suppress(OSError):  # a full disk: the process must end nevertheless
        path.write_text(f"{doing}\n{trace}", errors="backslashreplace")
    os._exit(code)


def count_setup_end(run: str, operator: str) -> int:
    """Count this process among those of this host that end while they set an operator up; return how many there are.

    Args:
        operator: its name, as a name of files.
    """
    folder = acquire_host_folder(run)
    (folder / f"{_SETUP_PREFIX}{operator}-{os.getpid()}.txt").touch()
    return sum(path.name.rpartition("-")[0] == f"{_SETUP_PREFIX}{operator}" for path in folder.glob("*.txt"))


def take_hangs(run: str) -> list[Hang]:
    """Return and remove the reports of a run's calls that ended their processes on this host."""
    hangs = []
    for path in sorted(host_folder(run).glob(f"{_ENDED_PREFIX}*.txt")):
        if not _is_alive(int(path.stem.removeprefix(_ENDED_PREFIX))):
            doing, _, trace = path.read_text(errors="replace").partition("\n")
            path.unlink(missing_ok=True)
            hangs.append(Hang(doing, trace))
    for path in sorted(host_folder(run).glob(f"{REPORT_PREFIX}*.txt")):
        if _is_alive(int(path.stem.removeprefix(REPORT_PREFIX))):
            continue
        text = path.read_text(errors="replace")
        path.unlink(missing_ok=True)
        doing, mark, trace = text.partition(TIMEOUT_MARK)
        if mark:
            hangs.append(Hang(doing, mark.lstrip("\n") + trace))
    return hangs


# The folder of a run on one host: reports of calls that hung, and marks of `setup_on_node`


def host_folder(run: str) -> Path:
    """The folder of a run on this host: on a local disk, per user and run. It need not exist."""
    return folder_of_host(_FOLDER) / run


def acquire_host_folder(run: str) -> Path:
    """Make the folder; other runs do not remove it before this process ends or calls `release_host_folder`.

    Folders of runs all of whose processes were killed are removed, except for recent reports of calls that hung: the
    process that will ask for them may still be starting.
    """
    path = host_folder(run)
    with _LOCK:
        if run not in _ACQUIRED or not path.is_dir():
            sweep(path.parent, needed=_has_report)
            _ACQUIRED[run] = held(path)
    return path


def release_host_folder(run: str) -> None:
    """Let the folder be removed by others."""
    with _LOCK:
        folder = _ACQUIRED.pop(run, None)
        if folder is not None:
            os.close(folder)


def _has_report(folder: Path) -> bool:
    """Whether the folder holds a recent report of a call that ended its process."""
    reports = [path for path in folder.glob("*-*.txt") if time.time() - path.stat().st_mtime < _REPORT_AGE_S]
    return any(
        not path.name.startswith(REPORT_PREFIX) or TIMEOUT_MARK in path.read_text(errors="replace") for path in reports
    )


def _is_alive(pid: int) -> bool:
    """Whether a process with this id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
