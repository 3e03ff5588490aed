"""The folder in which the processes of a run on one host tell each other what they have done."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from dcurate.fs.temporary import folder_of_host, held, sweep

#: How the name of a report of a call that hung begins, and what is in it from the moment on at which it did.
REPORT, RANG = "hung-", "\nTimeout ("
_KIND = "runs"
#: Seconds for which somebody may still ask for a report.
_FRESH_S = 3600
_HELD: dict[str, int] = {}
_LOCK = threading.Lock()


def host_folder(run: str) -> Path:
    """Where it is: on a local disk, apart for every user and run. It need not exist."""
    return folder_of_host(_KIND) / run


def hold_host_folder(run: str) -> Path:
    """The folder, made, and not removed by another run before this process ends or says `leave_host_folder`.

    What runs have left of which every process was killed is removed, but reports of calls that hung are not: who asks
    for those may still be starting.
    """
    path = host_folder(run)
    with _LOCK:
        if run not in _HELD or not path.is_dir():
            sweep(path.parent, needed=_has_report)
            _HELD[run] = held(path)
    return path


def leave_host_folder(run: str) -> None:
    """Say that this process needs the folder no more."""
    with _LOCK:
        folder = _HELD.pop(run, None)
        if folder is not None:
            os.close(folder)


def _has_report(folder: Path) -> bool:
    """Whether the folder holds a report of a call that hung not long ago."""
    reports = [path for path in folder.glob(f"{REPORT}*") if time.time() - path.stat().st_mtime < _FRESH_S]
    return any(RANG in path.read_text(errors="replace") for path in reports)
